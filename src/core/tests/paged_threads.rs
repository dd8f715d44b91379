//! State of destinations whose mail is all paged out.

use super::*;
use crate::learned::{Learned, LearnedExport};
use std::collections::BTreeMap;

const CF: &str = "PARAMmessage-active-limit=8\nc/*\n\tmaxthr=20 overfeed=0 interval=10m retries=1 skew=1 \
                  initial-concurrency=3 positive-feedback=1/concurrency failed-cohort-limit=1 expiry=3d\n\
                  \tcommand=x\n";

/// Ends all jobs for messages to one host with this answer, until no agent has one.
fn work(world: &mut World, answer: &str) {
    let mut asked = 0;
    while asked < world.started.len() {
        let agent = world.started[asked];
        world.hungry(agent);
        let jobs = world.take_lines(agent);
        world.works(agent, jobs, answer);
        asked += 1;
    }
}

/// A world where these messages were tried and paged out, with their records.
fn paged_out(messages: u64, answer: &str) -> (World, BTreeMap<u64, PagedMessage>) {
    let mut world = World::new(CF);
    world.messages(1..=messages, "c/h.test");
    work(&mut world, answer);
    world.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    for _ in 0..messages {
        world.handle(Event::Tick);
    }
    world.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    let mut records = BTreeMap::new();
    for action in world.done.extract_if(.., |action| matches!(action, Action::PageOut { .. })) {
        if let Action::PageOut { name, record: known, .. } = action {
            records.insert(name.number(), *known);
        }
    }
    assert_eq!(records.len() as u64, messages);
    assert_eq!(world.core.queue.threads().len(), 0, "the thread is gone");
    (world, records)
}

fn load_again(world: &mut World, records: BTreeMap<u64, PagedMessage>) {
    for (number, record) in records {
        let age = world.now.since(record.modified);
        world.handle(Event::Restored { number, record, wanted: Vec::new() });
        world.message_of_age(number, &["c/h.test"], age);
    }
}

fn window(world: &World) -> usize {
    let thread = world.core.queue.threads().find(b"c", b"h.test").expect("a thread");
    world.core.dispatch.window_size(&world.core.queue, world.core.queue.thread(thread))
}

/// A second scheduler on the same spool.
fn restart(world: &World) -> World {
    let mut next = World::new(CF);
    next.now = world.now;
    let mut cursor = LearnedExport::default();
    let mut all: Vec<Learned> = Vec::new();
    while !cursor.is_done() {
        cursor.export(&world.core, &(), 1, |learned| all.push(learned));
    }
    all.into_iter().for_each(|learned| next.handle(Event::Learned(learned)));
    next
}

#[test]
fn paging_keeps_window() {
    let (mut world, records) = paged_out(8, "deferred busy");
    world.pass_seconds(601);
    load_again(&mut world, records);
    assert_eq!(window(&world), 5, "eight answers are two rounds: 3, and 4");
    let (world, _) = paged_out(8, "deferred busy");
    let mut next = restart(&world);
    next.message(9, &["c/h.test"]);
    assert_eq!(window(&next), 5);
}

#[test]
fn dead_host_is_probed_after_paging() {
    let (mut world, records) = paged_out(6, "deferall down");
    assert_eq!(world.started.len(), 3);
    world.pass_seconds(601);
    world.started.clear();
    load_again(&mut world, records);
    assert_eq!(window(&world), 1, "one agent tries the host first");
    let at_work = world.core.dispatch.agents().values().filter(|agent| agent.thread.is_some());
    assert_eq!(at_work.count(), 1);
}

#[test]
fn etrn_probes_dead_paged_out_host() {
    let (mut world, records) = paged_out(6, "deferall down");
    world.handle(Event::Etrn(b"h.test"));
    load_again(&mut world, records);
    assert_eq!(window(&world), 1, "one agent tries the host first");
}

#[test]
fn restart_keeps_state_of_paged_out_destinations() {
    let (world, _) = paged_out(6, "deferall down");
    let mut soon = restart(&world);
    soon.message(9, &["c/h.test"]);
    assert!(soon.shows(9)[0].starts_with("c/h.test Retry("), "{:?}", soon.shows(9));
    let mut late = restart(&world);
    late.pass_seconds(601);
    late.messages(9..=12, "c/h.test");
    assert_eq!((window(&late), late.started.len()), (1, 1), "one agent tries the host first");
}

#[test]
fn learned_state_is_kept_while_files_wait_for_room() {
    let (world, _) = paged_out(6, "deferall down");
    let mut next = restart(&world);
    next.handle(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    next.handle(Event::InitialScanDone);
    next.pass_seconds(599);
    assert!(next.core.learned.has_unclaimed());
    next.pass_seconds(600);
    assert!(next.core.learned.has_unclaimed());
    next.handle(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    next.pass_seconds(600);
    assert!(!next.core.learned.has_unclaimed());
}
