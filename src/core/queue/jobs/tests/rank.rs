//! Tests of the rank of jobs.

use crate::queue::jobs::MAX_COUNTED_JOBS;
use crate::queue::jobs::tests::{Ring, Rules, rules};
use crate::queue::message::MessageId;

impl Ring {
    fn rank(&self, message: usize) -> crate::queue::jobs::Rank<MessageId> {
        self.jobs
            .rank(self.now, MessageId::from_index(message), |message| message)
            .expect("it has a job")
    }
}

#[test]
fn rank_of_waiting_job_shows_slots_of_current_job() {
    let mut ring = Ring::new(Rules { discount: 50, loan: 1, ..rules(4) });
    ring.comes_alone(1, 40);
    ring.comes_alone(2, 8);
    ring.comes_alone(3, 30);
    assert_eq!(ring.sequence(6), "111111");
    let rank = ring.rank(2);
    assert_eq!((rank.before, rank.due, rank.slots), (1, 8, Some(0.0)));
    assert_eq!((rank.preempted_by, rank.has_preempted, rank.is_blocked), (0, None, false));
    let current = rank.current.expect("a message has its turn");
    assert_eq!((current.message.index(), current.due, current.slots), (1, 34, Some(1.5)));
    // Eight slots, half of them on credit, and one more.
    assert_eq!(current.needed, Some(3.0));
    assert_eq!(current.candidate.map(|message| message.index()), Some(2));
    // This one costs more than is left to earn.
    assert_eq!(ring.rank(3).before, 2);
    assert_eq!(ring.rank(3).current.and_then(|current| current.needed), None);

    // It happens as soon as that is earned.
    assert_eq!(ring.sequence(7), "1111112");
    let rank = ring.rank(1);
    assert_eq!((rank.before, rank.preempted_by, rank.slots), (1, 1, Some(-5.0)));
    let rank = ring.rank(2);
    assert_eq!((rank.before, rank.current.map(|current| current.message.index())), (0, Some(2)));
    assert_eq!(rank.has_preempted, Some(Some(MessageId::from_index(1))));
}

#[test]
fn rank_of_job_without_window_is_blocked() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 3);
    ring.comes_alone(2, 3);
    ring.comes_alone(3, 3);
    ring.set_windows(1, 0);
    ring.set_windows(3, 0);
    let blocked = [1, 2, 3].map(|message| ring.rank(message).is_blocked);
    assert_eq!(blocked, [true, false, true]);
    ring.set_windows(2, 0);
    assert!([1, 2, 3].into_iter().all(|message| ring.rank(message).is_blocked));
    assert_eq!(ring.rank(2).current, None);
}

#[test]
fn rank_of_distant_job_is_capped() {
    let mut ring = Ring::new(rules(0));
    (1..=MAX_COUNTED_JOBS + 10).for_each(|message| ring.comes(message, &[message]));
    assert_eq!(ring.rank(MAX_COUNTED_JOBS).before, MAX_COUNTED_JOBS - 1);
    assert_eq!(ring.rank(MAX_COUNTED_JOBS + 1).before, MAX_COUNTED_JOBS);
    assert_eq!(ring.rank(MAX_COUNTED_JOBS + 9).before, MAX_COUNTED_JOBS + 1);
    assert_eq!(ring.rank(1).slots, None);
}
