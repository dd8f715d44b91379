//! Paging: messages that leave memory while others wait for room.

use super::*;
use crate::learned::{Learned, LearnedExport, PagedOutSource};
use std::borrow::Cow;
use std::collections::BTreeMap;

const CF: &str = "PARAMmessage-active-limit=2\nc/*\n\tmaxring=1 interval=60s retries=\"1 2 3\" skew=1 \
                  expiry=1h\n\tcommand=x\nq/*\n\tqueueonly\n\tcommand=x\n";

/// Paged-out messages: number, seconds until they are to be loaded again, and record.
fn paged_out(world: &mut World) -> Vec<(u64, Option<i64>, PagedMessage)> {
    let now = world.now;
    let record = world.done.extract_if(.., |action| matches!(action, Action::PageOut { .. }));
    let record = record.map(|action| match action {
        Action::PageOut { name, until, record } => {
            (name.number(), until.map(|until| until.seconds_since(now)), *record)
        }
        other => panic!("{other:?}"),
    });
    record.collect()
}

/// A world where messages 1 and 2 were deferred, and others wait for room.
fn crowded() -> World {
    let mut world = World::new(CF);
    world.messages(1..=2, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    world.hungry(agent);
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    // With room for two, one is paged out in each turn.
    world.handle(Event::Tick);
    world.handle(Event::Tick);
    world
}

fn is_being_restored(
    world: &mut World,
    number: u64,
    record: PagedMessage,
    wanted: Vec<HostFilter>,
) {
    let age = world.now.since(record.modified);
    world.handle(Event::Restored { number, record, wanted });
    world.message_of_age(number, &["c/a.test"], age);
}

#[test]
fn waiting_message_is_paged_out_and_restored() {
    let mut world = crowded();
    let records = paged_out(&mut world);
    assert_eq!(
        records.iter().map(|(n, until, _)| (*n, *until)).collect::<Vec<_>>(),
        [(1, Some(60)), (2, Some(60)),]
    );
    assert_eq!((world.core.view().loaded(), world.core.view().recipients()), (0, 0));
    assert_eq!(world.core.view().paged_recipients(), 2);
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    let [(_, _, first), (_, _, second)] = <[_; 2]>::try_from(records).expect("two");
    // It was loaded early, and continues to wait.
    is_being_restored(&mut world, 1, first, Vec::new());
    assert_eq!(world.shows(1), ["c/a.test Retry(60) tries=1 busy"]);
    world.pass_seconds(61);
    is_being_restored(&mut world, 2, second, Vec::new());
    assert_eq!(world.core.view().paged_recipients(), 0);
    assert!(world.shows(2)[0].ends_with("tries=1 busy"));
    assert_eq!(
        world.hungry_new_agent().1,
        ["1", "2"].map(|n| format!("{n}\ta.test")),
        "all are tried"
    );
}

#[test]
fn paging_keeps_place_in_retries() {
    let mut world = crowded();
    let [(_, _, first), _] = <[_; 2]>::try_from(paged_out(&mut world)).expect("two");
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    world.pass_seconds(70);
    is_being_restored(&mut world, 1, first, Vec::new());
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    // The second entry of `retries`.
    let shown = world.shows(1);
    assert!(
        ["Retry(109) tries=2", "Retry(110) tries=2", "Retry(120) tries=2"]
            .iter()
            .any(|all| shown[0].contains(all)),
        "{shown:?}"
    );
}

#[test]
fn fed_held_and_due_messages_are_not_paged_out() {
    let mut world = World::new(CF);
    world.messages(1..=2, "c/a.test");
    let (_agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    world.pass_seconds(10);
    assert_eq!(paged_out(&mut world), []);
    assert_eq!(world.core.view().loaded(), 2);
}

/// With a step of one, an arrival checks the age of one vertex.
#[test]
fn message_of_which_a_notice_is_due_is_not_paged_out() {
    let settings = Settings { reload_step: 1, ..Settings::default() };
    let late = "p/*\n\tqueueonly reporttimes=10m\n\tcommand=x\n";
    let mut world = World::with(settings, &format!("{CF}{late}"));
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    world.message_of_age(1, &["q/a", "p/a"], Duration::from_secs(601));
    world.handle(Event::Tick);
    let is_note = |action: &Action| matches!(action, Action::Note(_));
    assert_eq!(world.done.iter().filter(|action| is_note(action)).count(), 1);
    assert_eq!(paged_out(&mut world), []);
}

#[test]
fn tried_due_messages_are_paged_out_for_new_ones() {
    let mut world = World::new(
        "PARAMmessage-active-limit=4\nc/*\n\tmaxring=1 interval=1s retries=1 skew=1\n\tcommand=x\n",
    );
    world.messages(1..=4, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    world.hungry(agent);
    // All are due again, and one of them is with an agent that does not finish it.
    world.pass_seconds(2);
    assert_eq!(world.take_lines(agent).len(), 1);
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    world.pass_seconds(5);
    assert_eq!(paged_out(&mut world), [], "files that wait for their retry evict no message");
    world.handle(Event::BacklogChanged { waiting: Backlog::New, reading: 0 });
    world.pass_seconds(2);
    let out = paged_out(&mut world);
    assert_eq!(out.len(), 3, "all but the one that is at work: {out:?}");
    assert!(out.iter().all(|(_, until, _)| until.is_some_and(|until| until <= 0)), "{out:?}");
    // They are due when they are loaded again.
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    let (number, _, known) = out.into_iter().next().expect("three");
    is_being_restored(&mut world, number, known, Vec::new());
    let shown = world.shows(number);
    assert!(shown[0].contains(" tries=1 busy"), "{shown:?}");
}

#[test]
fn etrn_requests_paged_out_mail() {
    let mut world = World::new(CF);
    world.message(1, &["q/a.test"]);
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    world.handle(Event::Tick);
    let [(1, until, first)] = <[_; 1]>::try_from(paged_out(&mut world)).expect("one") else {
        panic!("another one");
    };
    assert_eq!(until, Some(3 * 86_400 + 86_400), "the message is read again when it expires");
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    world.handle(Event::Etrn(b"a.test"));
    let wanted = world.done.iter().find_map(|action| match action {
        Action::RequestPagedHosts(wanted) => Some(wanted.clone()),
        _ => None,
    });
    let age = world.now.since(first.modified);
    let wanted = wanted.expect("it is asked for");
    world.handle(Event::Restored { number: 1, record: first, wanted });
    world.message_of_age(1, &["q/a.test"], age);
    assert_eq!(world.hungry_new_agent().1, ["1\ta.test"]);
}

#[test]
fn removed_paged_out_message_is_not_counted() {
    let mut world = crowded();
    let [(number, _, first), _] = <[_; 2]>::try_from(paged_out(&mut world)).expect("two");
    world.handle(Event::Restored { number, record: first, wanted: Vec::new() });
    assert_eq!(world.core.view().paged_recipients(), 1);
    world.message(9, &["c/b.test"]);
    assert_eq!(world.shows(9).len(), 1);
}

/// Records of paged-out messages, as the shell keeps them.
struct Shelf(BTreeMap<u64, PagedMessage>);

impl PagedOutSource for Shelf {
    fn next_after(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        let (number, record) = self.0.range(number.map_or(0, |n| n + 1)..).next()?;
        Some((*number, record.modified, (&*record.vertices).into()))
    }
}

fn learned_state(world: &World, source: &dyn PagedOutSource) -> Vec<Learned> {
    let (mut cursor, mut all) = (LearnedExport::default(), Vec::new());
    while !cursor.is_done() {
        cursor.export(&world.core, source, 1, |learned| all.push(learned));
    }
    all
}

#[test]
fn restart_keeps_learned_state_of_paged_out_messages() {
    let mut world = crowded();
    let shelf =
        Shelf(paged_out(&mut world).into_iter().map(|(n, _, record)| (n, record)).collect());
    let all = learned_state(&world, &shelf);
    let is_paged_out = |learned: &&Learned| matches!(learned, Learned::PagedOut(_));
    assert_eq!(all.iter().filter(is_paged_out).count(), 2);
    let mut next = World::new(CF);
    next.now = world.now + Duration::from_secs(10);
    // It has other text numbers by then.
    next.core.admission.keep_text(&crate::queue::vertex::Diagnosis::of_scheduler("something else"));
    all.into_iter().for_each(|learned| next.handle(Event::Learned(learned)));
    // It ends before these messages are loaded.
    let all = learned_state(&next, &());
    assert_eq!(all.iter().filter(is_paged_out).count(), 2);
    let mut next = World::new(CF);
    next.now = world.now + Duration::from_secs(20);
    all.into_iter().for_each(|learned| next.handle(Event::Learned(learned)));
    next.message_of_age(1, &["c/a.test", "c/b.test"], Duration::from_secs(20));
    // The number was used again for another message.
    next.message_of_age(2, &["c/a.test"], Duration::from_secs(5));
    assert_eq!(next.shows(1)[0], "c/a.test Retry(40) tries=1 busy");
    assert!(next.shows(1)[1].ends_with("tries=0 "), "{:?}", next.shows(1));
    assert!(!next.shows(2)[0].contains("Retry"), "{:?}", next.shows(2));
    assert_eq!(
        learned_state(&next, &()).iter().filter(is_paged_out).count(),
        0,
        "they are in memory"
    );
}
