//! Learned state: what outlives the process.

use super::*;
use crate::learned::{Learned, LearnedExport};

const CF: &str =
    "c/*\n\tmaxring=1 interval=60s retries=\"1 2 3\" skew=1 expiry=1h expiry2=1d\n\tcommand=x\n";

/// The learned state that a world exports.
fn learned_state(world: &World) -> Vec<Learned> {
    let (mut cursor, mut all) = (LearnedExport::default(), Vec::new());
    while !cursor.is_done() {
        cursor.export(&world.core, &(), 1, |learned| all.push(learned));
    }
    all
}

/// A world in which messages 1 and 2 were deferred once.
fn after_deferral() -> World {
    let mut world = World::new(CF);
    world.messages(1..=2, "c/a.test");
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    world.hungry(agent);
    world
}

/// A second scheduler on the same spool, `seconds` later.
fn restart(world: &World, seconds: u64) -> World {
    let mut next = World::new(CF);
    next.now = world.now + Duration::from_secs(seconds);
    for learned in learned_state(world) {
        next.handle(Event::Learned(learned));
    }
    for number in 1..=2 {
        next.message_of_age(number, &["c/a.test"], Duration::from_secs(seconds));
    }
    next.handle(Event::InitialScanDone);
    next
}

#[test]
fn restart_keeps_wait() {
    let mut world = restart(&after_deferral(), 10);
    assert_eq!(world.started, []);
    assert_eq!(world.shows(1), ["c/a.test Retry(50) tries=1 busy"]);
    assert_eq!(world.shows(2), ["c/a.test Retry(50) tries=1 busy"]);
    world.pass_seconds(51);
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.works(agent, jobs, "deferred still busy");
    // The second entry of `retries`.
    let shown = world.shows(1);
    assert!(
        ["Retry(119) tries=2", "Retry(120) tries=2"].iter().any(|all| shown[0].contains(all)),
        "{shown:?}"
    );
}

#[test]
fn restart_keeps_due_times_of_thread() {
    let mut world = after_deferral();
    world.pass_seconds(40);
    world.message(3, &["c/a.test"]);
    let agent = world.started[0];
    world.agent_line(agent, "3/100\tx@y\x01delayed\x014.2.2 (full)\x01\x01\tdeferred full");
    world.hungry(agent);
    let mut next = restart(&world, 10);
    next.message_of_age(3, &["c/a.test"], Duration::from_secs(10));
    next.message_of_age(4, &["c/a.test"], Duration::ZERO);
    assert_eq!(next.shows(3), ["c/a.test Retry(90) tries=1 full"]);
    assert!(!next.shows(4)[0].contains("Retry"), "new mail is tried at once");
}

#[test]
fn restart_keeps_unreachable_destination_and_cause() {
    let mut world = after_deferral();
    let agent = world.started[0];
    world.message(3, &["c/a.test"]);
    world.agent_line(agent, "3/100\t\tdeferall connection refused");
    world.hungry(agent);
    let cause = |world: &World| {
        let waits = world.core.view().why_thread(b"c", b"a.test").expect("a thread");
        match &waits[0].why {
            why::Why::Retry { unreachable: Some(known), .. } => known.clone(),
            other => panic!("{other:?}"),
        }
    };
    let known = cause(&world);
    assert_eq!(known.reason, UnreachableReason::HostDown);
    assert_eq!(known.cause.as_ref().and_then(|cause| cause.pid), Some(1001));
    let mut next = restart(&world, 10);
    assert_eq!(cause(&next), known);
    next.message(4, &["c/a.test"]);
    assert_eq!(next.shows(4), ["c/a.test Retry(50) tries=0 "]);
}

#[test]
fn restart_after_wait_makes_mail_due() {
    let mut world = restart(&after_deferral(), 100);
    assert_eq!(world.hungry_new_agent().1, ["1\ta.test"]);
    assert!(world.shows(1)[0].ends_with("tries=1 busy"));
}

/// Attempts of a former process are shown, but expiry requires one of this process.
#[test]
fn restart_delays_expiry_until_next_attempt() {
    let mut world = restart(&after_deferral(), 4000);
    let notes = |world: &World| {
        world.done.iter().filter(|action| matches!(action, Action::Note(_))).count()
    };
    world.pass_seconds(15);
    assert_eq!(notes(&world), 0);
    let (agent, jobs) = world.hungry_new_agent();
    world.works(agent, jobs, "deferred busy");
    world.pass_seconds(15);
    assert_eq!(notes(&world), 2);
}

#[test]
fn learned_state_without_matching_message_is_dropped() {
    let all = learned_state(&after_deferral());
    let mut world = World::new(CF);
    for learned in all {
        world.handle(Event::Learned(learned));
    }
    // The number was used again for another message.
    world.message_of_age(1, &["c/b.test"], Duration::ZERO);
    world.handle(Event::InitialScanDone);
    assert!(world.shows(1)[0].ends_with("tries=0 "));
    // State without a message is dropped after a while.
    world.pass_seconds(601);
    world.message(2, &["c/a.test"]);
    assert!(world.shows(2)[0].ends_with("tries=0 "));
}

#[test]
fn new_scheduler_exports_no_learned_state() {
    let mut world = World::new(CF);
    world.messages(1..=5, "c/a.test");
    assert_eq!((learned_state(&world), world.core.view().learned_revision()), (vec![], 0));
    assert_eq!(after_deferral().core.view().learned_revision(), 2);
}

/// A scheduler that ends before everything is loaded exports all that it imported.
#[test]
fn unused_learned_state_is_exported_again() {
    let all = learned_state(&after_deferral());
    let mut world = World::new(CF);
    for learned in all.clone() {
        world.handle(Event::Learned(learned));
    }
    assert_eq!(learned_state(&world), all);
    world.handle(Event::InitialScanDone);
    assert_eq!(learned_state(&world), all, "files may be held for a while");
    world.pass_seconds(601);
    assert_eq!(learned_state(&world), []);
}

#[test]
fn imported_wait_is_limited_by_clause() {
    let mut world = after_deferral();
    world.now += Duration::from_secs(1);
    let mut all = learned_state(&world);
    for learned in &mut all {
        if let Learned::Vertex(vertex) = learned {
            vertex.due = Some(world.now + Duration::from_secs(1_000_000_000));
        }
    }
    let mut next = World::new(CF);
    next.now = world.now;
    for learned in all {
        next.handle(Event::Learned(learned));
    }
    next.message_of_age(1, &["c/a.test"], Duration::from_secs(1));
    assert_eq!(next.shows(1), ["c/a.test Retry(86400) tries=1 busy"]);
}
