//! The delivery sequences of the document "Postfix Queue Scheduler".

use crate::queue::jobs::tests::{MessageId, Ring, Rules, rules};

/// "If we have one four-recipient mail followed by four one recipients mail".
#[test]
fn single_recipients_preempt_a_larger_message() {
    let mut ring = Ring::new(rules(1));
    ring.comes_alone(1, 4);
    (2..=5).for_each(|message| ring.comes_alone(message, 1));
    assert_eq!(ring.sequence(20), "12131415");
}

/// "One four-recipient mail followed by two two-recipient mails".
///
/// Both entries of a small mail go to the same host, which takes one at a time. Two agents are at
/// work.
#[test]
fn slot_loan_with_blockers_alternates_jobs() {
    let mut ring = Ring::new(Rules { loan: 1, minimum: 3, ..rules(1) });
    ring.comes_alone(1, 4);
    for message in [2, 3] {
        ring.set_window(1000 * message, 1);
        ring.comes(message, &[1000 * message, 1000 * message]);
    }
    let mut sequence = String::new();
    let mut under_way = Vec::new();
    while let Some((message, thread)) = ring.next() {
        sequence.push_str(&message.to_string());
        under_way.push(thread);
        if under_way.len() == 2 {
            ring.done(under_way.remove(0));
        }
    }
    assert_eq!(sequence, "12121313");
}

/// "Ten-recipient mail followed by two two-recipient mails", slot cost 2.
#[test]
fn slot_cost_must_be_earned_before_preemption() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 10);
    [2, 3].into_iter().for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "11112211113311");
}

/// The same, "if we would wait only for 50% of the necessary slots".
#[test]
fn slot_discount_advances_preemption() {
    let mut ring = Ring::new(Rules { discount: 50, ..rules(2) });
    ring.comes_alone(1, 10);
    [2, 3].into_iter().for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "11221111331111");
}

#[test]
fn zero_slot_cost_is_first_in_first_out() {
    let mut ring = Ring::new(rules(0));
    ring.comes_alone(1, 4);
    (2..=4).for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "1111223344");
}

#[test]
fn job_below_minimum_slots_is_not_preempted() {
    let mut ring = Ring::new(Rules { minimum: 3, ..rules(2) });
    ring.comes_alone(1, 5);
    ring.comes_alone(2, 1);
    assert_eq!(ring.sequence(20), "111112");
    ring.comes_alone(1, 6);
    ring.comes_alone(2, 1);
    assert_eq!(ring.sequence(20), "1121111");
}

/// "The one with maximum enqueue_time/recipient_entry_count".
///
/// Five entries of a message that has waited long come before the single entry of a new message,
/// though not at once. That one then preempts the five.
#[test]
fn candidate_is_oldest_for_its_size() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 30);
    ring.comes_alone(2, 5);
    ring.now += std::time::Duration::from_secs(100);
    assert_eq!(ring.sequence(2), "11");
    ring.comes_alone(3, 1);
    assert_eq!(ring.sequence(34), format!("{}223222{}", "1".repeat(8), "1".repeat(20)));
}

/// Three messages, each a tenth of the one before.
///
/// The small one preempts the middle one, "and the hundred recipient job can accumulate ten free
/// delivery slots".
#[test]
fn preemption_of_a_preempting_job_works() {
    let mut ring = Ring::new(rules(5));
    ring.comes_alone(1, 100);
    ring.comes_alone(2, 10);
    assert_eq!(ring.sequence(55), "1".repeat(50) + "22222");
    ring.comes_alone(3, 1);
    let rest = "3".to_string() + "22222" + &"1".repeat(50);
    assert_eq!(ring.sequence(100), rest);
}

/// Unused payment is returned to the job that has paid.
#[test]
fn unused_slots_are_refunded() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 10);
    ring.comes_alone(2, 2);
    ring.comes_alone(3, 1);
    assert_eq!(ring.sequence(2), "11");
    // The single entry of message 3 is cheaper, but message 2 is older for its size only later.
    ring.now += std::time::Duration::from_secs(1000);
    assert_eq!(ring.sequence(2), "31");
    assert_eq!(ring.sequence(4), "1112");
    // The second entry of message 2 is deleted.
    let entry = *ring
        .jobs
        .entries
        .iter()
        .find(|(job, _, _)| ring.jobs.jobs[*job].message.index() == 2)
        .expect("one is left");
    ring.jobs.leave(ring.jobs.jobs[entry.0].message, entry.1, entry.2);
    ring.jobs.check();
    let parent = ring.jobs.in_order()[0];
    assert_eq!((parent.message.index(), parent.available()), (1, 2));
    assert_eq!(parent.children, 0);
}

/// Unread recipients count for the preempting job, not for the preempted.
///
/// Those that turn out not to exist are not paid for.
#[test]
fn unread_recipients_raise_the_cost_of_preemption() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 20);
    ring.comes_in_part(2, &[2000, 2001], 2);
    assert_eq!(ring.sequence(9), "111111112");
    assert_eq!(ring.jobs.take_preempting().map(|message| message.index()), Some(2));
    assert_eq!(ring.sequence(1), "2");
    let first = ring.jobs.in_order()[0];
    assert_eq!((first.message.index(), first.available()), (1, 4), "two entries did not come");
    // The first job cannot earn enough for all that may come, until their number is known.
    ring.comes_in_part(3, &[3000, 3001, 3002], 20);
    assert_eq!(ring.sequence(2), "11");
    ring.jobs.expect(MessageId::from_index(3), 0);
    ring.jobs.check();
    assert_eq!(ring.sequence(13), "3331111111111");
    // Nothing more of the current job is in memory: it cannot pay.
    ring.comes_in_part(4, &[4000, 4001], 1000);
    ring.comes_alone(5, 2);
    assert_eq!(ring.sequence(4), "4455");
}

/// A preempting job keeps its place while its message is read.
#[test]
fn preempting_job_keeps_its_place_while_read() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 20);
    ring.comes_in_part(2, &[2000], 3);
    assert_eq!(ring.sequence(8), "11111111");
    assert_eq!(ring.sequence(1), "2");
    let message = MessageId::from_index(2);
    // No more entries were announced: the rest of what was paid is returned.
    assert_eq!((ring.order(), ring.jobs.in_order()[0].available()), ("1".to_string(), 6));
    ring.comes_in_part(2, &[2001], 2);
    assert!(ring.jobs.choose(ring.now, None).is_some(), "it preempts");
    ring.jobs.keep_place_while_read(message);
    assert_eq!(ring.sequence(2), "21");
    assert_eq!(ring.order(), "2--1");
    ring.comes_in_part(2, &[2002, 2003], 0);
    ring.jobs.expect(message, 0);
    assert_eq!(ring.sequence(3), "221");
    assert_eq!(ring.jobs.in_order()[0].children, 0);
}
