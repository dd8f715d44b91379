//! Diagrams of the document's chapter on blocked jobs, step by step.

use crate::queue::jobs::tests::{Ring, rules};

/// Jobs of falling sizes.
///
/// Job 4 may preempt 1, 7 may preempt 4, 6 may preempt 3, and 8 may preempt 4.
fn ring() -> Ring {
    let mut ring = Ring::new(rules(2));
    for (message, entries) in [(1, 60), (2, 59), (3, 58), (4, 20), (5, 57), (6, 9)] {
        ring.comes_alone(message, entries);
    }
    ring
}

fn blocks(ring: &mut Ring, messages: &[usize]) {
    messages.iter().for_each(|message| ring.set_windows(*message, 0));
}

fn frees(ring: &mut Ring, messages: &[usize]) {
    messages.iter().for_each(|message| ring.set_windows(*message, usize::MAX));
}

#[test]
fn preemption_among_blockers_follows_the_diagrams() {
    let mut ring = ring();
    // "Job 1 was preempted by job 4": the others that could do so are busy.
    blocks(&mut ring, &[6]);
    assert_eq!(ring.sequence(41), "1".repeat(40) + "4");
    assert_eq!(ring.order(), "4--1--2--3--5--6");
    // "And then job 4 was preempted by job 7."
    ring.comes_alone(7, 2);
    ring.comes_alone(8, 2);
    blocks(&mut ring, &[8]);
    assert_eq!(ring.sequence(4), "4447");
    assert_eq!(ring.order(), "7--4--1--2--3--5--6--8");

    // "If the jobs 7, 4, 1 and 2 become all blocked, job 3 becomes the current job."
    blocks(&mut ring, &[1, 2, 4, 5, 7]);
    frees(&mut ring, &[6]);
    // "And if job 3 might be preempted by job 6, the implementation shall make it possible."
    assert_eq!(ring.sequence(19), "3".repeat(18) + "6");
    assert_eq!(ring.order(), "7--4--1--2--6--3--5--8");

    // "Now job 7 is blocked, and job 4 is being delivered. It is natural that it might be preempted
    // for example by job 8."
    blocks(&mut ring, &[6, 3]);
    frees(&mut ring, &[4, 8]);
    assert_eq!(ring.sequence(5), "44448");
    assert_eq!(ring.order(), "7--8--4--1--2--6--3--5");

    // "Now job 8 becomes blocked, too, then job 4 completes."
    blocks(&mut ring, &[8]);
    assert_eq!(ring.sequence(12), "4".repeat(12));
    assert_eq!(ring.order(), "7--8--1--2--6--3--5");

    // All threads are free again: "the original rule still applies".
    frees(&mut ring, &[1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(ring.sequence(3), "781");
    assert_eq!(ring.order(), "1--2--6--3--5");
}

/// "If both 7 and 4 are blocked, then 1 is completed ..."
///
/// "... then 7 becomes unblocked and is completed, then 2 is completed and only after that 4
/// becomes unblocked and is completed."
#[test]
fn blocked_jobs_complete_in_any_order() {
    let mut ring = ring();
    blocks(&mut ring, &[6]);
    ring.sequence(41);
    ring.comes_alone(7, 2);
    assert_eq!(ring.sequence(4), "4447");
    blocks(&mut ring, &[3, 4, 5, 7]);
    assert_eq!(ring.sequence(20), "1".repeat(20));
    assert_eq!(ring.order(), "7--4--2--3--5--6");
    frees(&mut ring, &[7]);
    assert_eq!(ring.sequence(60), "7".to_string() + &"2".repeat(59));
    frees(&mut ring, &[4]);
    assert_eq!(ring.sequence(100), "4".repeat(16));
    assert_eq!(ring.order(), "3--5--6");
}
