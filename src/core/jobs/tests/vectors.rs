//! The delivery sequences of the document "Postfix Queue Scheduler".

use super::{MessageId, Ring, Rules, rules};

/// "If we have one four-recipient mail followed by four one recipients mail".
#[test]
fn single_recipients_slip_past_a_larger_message() {
    let mut ring = Ring::new(rules(1));
    ring.comes_alone(1, 4);
    (2..=5).for_each(|message| ring.comes_alone(message, 1));
    assert_eq!(ring.sequence(20), "12131415");
}

/// "One four-recipient mail followed by two two-recipient mails": the second entry of the small ones goes
/// to the same host, which takes one at a time, and two agents are at work.
#[test]
fn one_slot_on_loan_and_a_blocker() {
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
fn slots_are_piled_up_first() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 10);
    [2, 3].into_iter().for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "11112211113311");
}

/// The same, "if we would wait only for 50% of the necessary slots".
#[test]
fn with_half_of_the_slots_on_credit() {
    let mut ring = Ring::new(Rules { discount: 50, ..rules(2) });
    ring.comes_alone(1, 10);
    [2, 3].into_iter().for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "11221111331111");
}

#[test]
fn without_a_cost_it_is_first_in_first_out() {
    let mut ring = Ring::new(rules(0));
    ring.comes_alone(1, 4);
    (2..=4).for_each(|message| ring.comes_alone(message, 2));
    assert_eq!(ring.sequence(20), "1111223344");
}

#[test]
fn a_job_that_can_never_earn_the_minimum_is_left_alone() {
    let mut ring = Ring::new(Rules { minimum: 3, ..rules(2) });
    ring.comes_alone(1, 5);
    ring.comes_alone(2, 1);
    assert_eq!(ring.sequence(20), "111112");
    ring.comes_alone(1, 6);
    ring.comes_alone(2, 1);
    assert_eq!(ring.sequence(20), "1121111");
}

/// "The one with maximum enqueue_time/recipient_entry_count": five entries of a message that has waited
/// long come before the one of a message that has just come, though not at once. That one then preempts
/// the five.
#[test]
fn the_candidate_is_the_oldest_for_its_size() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 30);
    ring.comes_alone(2, 5);
    ring.now += std::time::Duration::from_secs(100);
    assert_eq!(ring.sequence(2), "11");
    ring.comes_alone(3, 1);
    assert_eq!(ring.sequence(34), format!("{}223222{}", "1".repeat(8), "1".repeat(20)));
}

/// Three messages of which each is a tenth of the one before: the small one preempts the middle one,
/// "and the hundred recipient job can accumulate ten free delivery slots".
#[test]
fn preemption_is_recursive() {
    let mut ring = Ring::new(rules(5));
    ring.comes_alone(1, 100);
    ring.comes_alone(2, 10);
    assert_eq!(ring.sequence(55), "1".repeat(50) + "22222");
    ring.comes_alone(3, 1);
    let rest = "3".to_string() + "22222" + &"1".repeat(50);
    assert_eq!(ring.sequence(100), rest);
}

/// What was paid for and not used is given back to the one that has paid.
#[test]
fn unused_slots_are_given_back() {
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

/// What is unread counts for one that wants to preempt, and not for one that is to be preempted; what turns
/// out not to be there is not paid for.
#[test]
fn what_is_unread_counts_against_its_message() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 20);
    ring.comes_in_part(2, &[2000, 2001], 2);
    assert_eq!(ring.sequence(9), "111111112");
    assert_eq!(ring.jobs.take_preempting().map(|message| message.index()), Some(2));
    assert_eq!(ring.sequence(1), "2");
    let first = ring.jobs.in_order()[0];
    assert_eq!((first.message.index(), first.available()), (1, 4), "two entries did not come");
    // The first cannot earn enough for so many as may come, until it is known how many they are.
    ring.comes_in_part(3, &[3000, 3001, 3002], 20);
    assert_eq!(ring.sequence(2), "11");
    ring.jobs.expect(MessageId::from_index(3), 0);
    ring.jobs.check();
    assert_eq!(ring.sequence(13), "3331111111111");
    // Nothing more comes of the current one that is in memory: it cannot pay.
    ring.comes_in_part(4, &[4000, 4001], 1000);
    ring.comes_alone(5, 2);
    assert_eq!(ring.sequence(4), "4455");
}

/// A job that has preempted another keeps its place while more of its message is read.
#[test]
fn who_preempts_keeps_its_place_while_more_is_read() {
    let mut ring = Ring::new(rules(2));
    ring.comes_alone(1, 20);
    ring.comes_in_part(2, &[2000], 3);
    assert_eq!(ring.sequence(8), "11111111");
    assert_eq!(ring.sequence(1), "2");
    let message = MessageId::from_index(2);
    // Nobody has said that more would come: the rest of what was paid is given back.
    assert_eq!((ring.order(), ring.jobs.in_order()[0].available()), ("1".to_string(), 6));
    ring.comes_in_part(2, &[2001], 2);
    assert!(ring.jobs.choose(ring.now, None).is_some(), "it preempts");
    ring.jobs.await_more(message);
    assert_eq!(ring.sequence(2), "21");
    assert_eq!(ring.order(), "2--1");
    ring.comes_in_part(2, &[2002, 2003], 0);
    ring.jobs.expect(message, 0);
    assert_eq!(ring.sequence(3), "221");
    assert_eq!(ring.jobs.in_order()[0].children, 0);
}
