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
        let jobs = world.heard_by(agent);
        world.works(agent, jobs, answer);
        asked += 1;
    }
}

/// A world where these messages were tried and paged out, with their records.
fn resting(messages: u64, answer: &str) -> (World, BTreeMap<u64, PagedMessage>) {
    let mut world = World::new(CF);
    world.messages(1..=messages, "c/h.test");
    work(&mut world, answer);
    world.tell(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    for _ in 0..messages {
        world.tell(Event::Tick);
    }
    world.tell(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    let mut records = BTreeMap::new();
    for action in world.done.extract_if(.., |action| matches!(action, Action::PageOut { .. })) {
        if let Action::PageOut { name, record: known, .. } = action {
            records.insert(name.number(), *known);
        }
    }
    assert_eq!(records.len() as u64, messages);
    assert_eq!(world.core.queue.threads.len(), 0, "the thread is gone");
    (world, records)
}

fn come_back(world: &mut World, records: BTreeMap<u64, PagedMessage>) {
    for (number, record) in records {
        let age = world.now.since(record.modified);
        world.tell(Event::Restored { number, record, wanted: Vec::new() });
        world.message_of_age(number, &["c/h.test"], age);
    }
}

fn window(world: &World) -> usize {
    let thread = world.core.queue.threads.find(b"c", b"h.test").expect("a thread");
    world.core.dispatch.window_size(&world.core.queue.threads[thread])
}

/// A second scheduler on the same spool.
fn heir(world: &World) -> World {
    let mut heir = World::new(CF);
    heir.now = world.now;
    let mut lessons = LearnedExport::default();
    let mut all: Vec<Learned> = Vec::new();
    while !lessons.is_done() {
        lessons.tell(&world.core, &(), 1, |learned| all.push(learned));
    }
    all.into_iter().for_each(|learned| heir.tell(Event::Learned(learned)));
    heir
}

#[test]
fn paging_keeps_window() {
    let (mut world, records) = resting(8, "deferred busy");
    world.pass_seconds(601);
    come_back(&mut world, records);
    assert_eq!(window(&world), 5, "eight answers are two rounds: 3, and 4");
    let (world, _) = resting(8, "deferred busy");
    let mut heir = heir(&world);
    heir.message(9, &["c/h.test"]);
    assert_eq!(window(&heir), 5);
}

#[test]
fn dead_host_is_probed_after_paging() {
    let (mut world, records) = resting(6, "deferall down");
    assert_eq!(world.started.len(), 3);
    world.pass_seconds(601);
    world.started.clear();
    come_back(&mut world, records);
    assert_eq!(window(&world), 1, "one agent looks");
    let at_work = world.core.dispatch.agents.values().filter(|agent| agent.thread.is_some());
    assert_eq!(at_work.count(), 1);
}

#[test]
fn etrn_probes_dead_paged_out_host() {
    let (mut world, records) = resting(6, "deferall down");
    world.tell(Event::Etrn(b"h.test"));
    come_back(&mut world, records);
    assert_eq!(window(&world), 1, "one agent looks");
}

#[test]
fn restart_keeps_state_of_paged_out_destinations() {
    let (world, _) = resting(6, "deferall down");
    let mut soon = heir(&world);
    soon.message(9, &["c/h.test"]);
    assert!(soon.shows(9)[0].starts_with("c/h.test Retry("), "{:?}", soon.shows(9));
    let mut late = heir(&world);
    late.pass_seconds(601);
    late.messages(9..=12, "c/h.test");
    assert_eq!((window(&late), late.started.len()), (1, 1), "one agent looks");
}

#[test]
fn learned_state_is_kept_while_files_wait_for_room() {
    let (world, _) = resting(6, "deferall down");
    let mut heir = heir(&world);
    heir.tell(Event::BacklogChanged { waiting: Backlog::PagedOut, reading: 0 });
    heir.tell(Event::InitialScanDone);
    heir.pass_seconds(599);
    assert!(heir.core.learned.unclaimed.is_some());
    heir.pass_seconds(600);
    assert!(heir.core.learned.unclaimed.is_some());
    heir.tell(Event::BacklogChanged { waiting: Backlog::None, reading: 0 });
    heir.pass_seconds(600);
    assert!(heir.core.learned.unclaimed.is_none());
}
