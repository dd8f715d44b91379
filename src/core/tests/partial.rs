//! Partial messages: only some of their recipients are in memory.

use super::*;
use crate::operator::overrides::OverrideChange;
use zsched_spool::note::OutcomeKind;
use zsched_spool::{Portion, SpoolId};

const CF: &str = "PARAMmessage-active-limit=3\nPARAMmessage-recipient-limit=4\n\
                  PARAMmessage-recipient-minimum=1\n\
                  c/*\n\tmaxring=1 interval=60s retries=\"1 2 3\" skew=1 expiry=1h recipient-limit=3 \
                  refill-limit=2 refill-delay=5s\n\tcommand=x\n";

/// A chunk of message 1 with recipients at these offsets.
fn part(world: &World, recipients: &[(&str, &[u32])], unread: Option<u32>) -> Arrival {
    let groups =
        recipients.iter().map(|(host, offsets)| Group::new(b"c", host.as_bytes(), offsets));
    let arrival = arrival(1, groups.collect(), START, world.now);
    let max_unread = if unread.is_some() { 9 } else { 0 };
    Arrival { next_offset: unread, max_unread, recipients: 9, ..arrival }
}

fn asked(world: &mut World) -> Vec<Portion> {
    let asked = world.done.extract_if(.., |action| matches!(action, Action::ReadMore { .. }));
    let portion = |action| match action {
        Action::ReadMore { portion, .. } => portion,
        other => panic!("{other:?}"),
    };
    asked.map(portion).collect()
}

fn more(world: &mut World, recipients: &[(&str, &[u32])], unread: Option<u32>) {
    let outcome = RereadResult::Read(Box::new(part(world, recipients, unread)));
    world.handle(Event::MoreRead { number: 1, outcome });
}

fn count(world: &World, is_it: impl Fn(&Action) -> bool) -> usize {
    world.done.iter().filter(|action| is_it(action)).count()
}

#[test]
fn finished_recipients_make_room_for_next_chunk_and_unloaded_reports_count() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    world.handle(Event::Arrived(Box::new(first)));
    world.handle(Event::Tick);
    assert_eq!(
        asked(&mut world),
        [],
        "there is room for one: less than refill-limit, and too early"
    );
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.agent_line(agent, "1/100\t\tok3 x");
    world.agent_line(agent, "1/500\t\tok3 not in memory");
    world.handle(Event::Tick);
    assert_eq!(asked(&mut world), [Portion { from: 400, max_recipients: 2 }]);
    // The agent still has the job, and they become part of it.
    world.agent_line(agent, "1/400\t\tok3 while the file is read");
    more(&mut world, &[("a.test", &[400, 600])], None);
    assert_eq!(world.core.view().recipients(), 3);
    for offset in [200, 300, 600] {
        world.agent_line(agent, &format!("1/{offset}\t\tok3 x"));
    }
    assert_eq!(count(&world, |action| matches!(action, Action::Remove { .. })), 0);
    world.hungry(agent);
    world.handle(Event::Tick);
    assert_eq!(count(&world, |action| matches!(action, Action::Remove { .. })), 1);
    assert_eq!(count(&world, |action| matches!(action, Action::Statistics(_))), 6);
}

/// The agent has delivered, so its jobs are not to blame for its end.
#[test]
fn agent_that_delivered_unloaded_recipient_may_stop() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/500\t\tok3 not in memory");
    world.dies(agent, AgentEnd::Exited(0));
    assert_eq!(world.shows(1), ["c/a.test AgentStarting tries=1 "]);
}

#[test]
fn deferall_for_unloaded_recipient_counts_against_window() {
    let flow = "failed-cohort-limit=2 initial-concurrency=2 positive-feedback=1/concurrency \
 negative-feedback=1/concurrency";
    let mut world = World::new(&CF.replace("maxring=1", flow));
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/500\tsmtp; x\x01delayed\x014.4.1\tdeferall not in memory");
    world.hungry(agent);
    let thread = world.core.queue.threads().find(b"c", b"a.test").expect("a thread");
    assert_eq!(
        world.core.dispatch.window_size(&world.core.queue, world.core.queue.thread(thread)),
        1
    );
}

#[test]
fn report_about_unloaded_recipient_names_relay() {
    let mut world = World::new(&CF.replace("maxring=1", "maxring=1 rate=10/1m window-key=mx"));
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(
        agent,
        "1/500\tx\x01ok\x012.0.0\x01smtp; 250\x01dns; mx.test\tok3 not in memory",
    );
    let thread = world.core.queue.threads().find(b"c", b"a.test").expect("a thread");
    let relay = world.core.dispatch.learned_relay(&world.core.queue, thread);
    assert_eq!(relay, Some(&b"mx.test"[..]));
}

/// A packet lists all its recipients.
///
/// So a report about others is no report about unloaded ones.
#[test]
fn packet_job_ignores_reports_about_other_recipients() {
    let mut world = World::new(&CF.replace("c/*\n\t", "c/*\n\tpacket=1 "));
    let first = part(&world, &[("a.test", &[100, 200])], Some(300));
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test\t100"]);
    let counted = |action: &Action| matches!(action, Action::Statistics(_));
    world.agent_line(agent, "1/500\t\tok3 not in memory");
    assert_eq!(count(&world, counted), 0);
    world.agent_line(agent, "1/200\t\tok3 in another packet");
    assert_eq!((count(&world, counted), world.core.view().recipients()), (1, 1));
}

#[test]
fn deferred_recipients_of_partial_message_are_paged_out_and_reloaded() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200])], Some(300));
    world.handle(Event::Arrived(Box::new(first)));
    let (agent, jobs) = world.hungry_new_agent();
    assert_eq!(jobs, ["1\ta.test"]);
    world.agent_line(agent, "1/100\t\tdeferred busy");
    world.agent_line(agent, "1/200\t\tok3 x");
    world.hungry(agent);
    world.handle(Event::Tick);
    assert_eq!(world.core.view().recipients(), 0);
    let portions = asked(&mut world);
    assert_eq!(portions, [Portion { from: 300, max_recipients: 4 }]);
    // Recipients for the same host were tried by the same job.
    more(&mut world, &[("a.test", &[300]), ("b.test", &[400])], None);
    world.handle(Event::Tick);
    assert_eq!(world.core.view().recipients(), 1);
    assert_eq!(world.take_lines(agent), ["#idle"]);
    world.hungry(agent);
    assert_eq!(world.take_lines(agent), ["1\tb.test"]);
    world.agent_line(agent, "1/400\t\tok3 x");
    world.hungry(agent);
    world.handle(Event::Tick);
    let record = world.done.iter().find_map(|action| match action {
        Action::PageOut { until, record, .. } => Some((*until, record.vertices.len())),
        _ => None,
    });
    let (until, known) = record.expect("it rests");
    assert_eq!(until.map(|until| until.seconds_since(world.now)), Some(60));
    assert_eq!(known, 1);
    assert_eq!(count(&world, |action| matches!(action, Action::Remove { .. })), 0);
}

#[test]
fn delete_of_partial_message_removes_all_of_it() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    world.handle(Event::Arrived(Box::new(first)));
    let order = Order::Delete(vec![Target::whole(1)]);
    world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order });
    let notes = |world: &World| {
        let noted = world.done.iter().filter_map(|action| match action {
            Action::Note(note) => Some((note.ticket, note.offsets.clone())),
            _ => None,
        });
        noted.collect::<Vec<_>>()
    };
    assert_eq!(notes(&world).len(), 1);
    world.handle(Event::Noted { ticket: notes(&world)[0].0, outcome: Ok(false) });
    world.handle(Event::Tick);
    assert_eq!(asked(&mut world).len(), 1);
    more(&mut world, &[("a.test", &[400])], None);
    assert_eq!(notes(&world)[1].1[..], [400]);
    world.handle(Event::Noted { ticket: notes(&world)[1].0, outcome: Ok(false) });
    world.handle(Event::Tick);
    assert_eq!(count(&world, |action| matches!(action, Action::Remove { .. })), 1);
}

/// This holds with and without recipients in memory, and after a restart.
#[test]
fn removal_of_partial_message_survives_restart() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200])], Some(300));
    world.handle(Event::Arrived(Box::new(first.clone())));
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tdeferred busy");
    world.agent_line(agent, "1/200\t\tok3 x");
    world.hungry(agent);
    world.handle(Event::Tick);
    assert_eq!((world.core.view().recipients(), asked(&mut world).len()), (0, 1));
    let order = Order::Delete(vec![Target::whole(1)]);
    world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order });
    let obeyed = |action: &Action| matches!(action, Action::OrderDone { .. });
    assert_eq!(count(&world, obeyed), 0, "it is not stored yet");
    let orders: Vec<OverrideChange> = world.core.view().overrides().iter().collect();
    assert_eq!(orders.len(), 1);
    let mut next = World::new(CF);
    orders.into_iter().for_each(|order| next.handle(Event::Override(order)));
    next.handle(Event::Arrived(Box::new(first)));
    next.handle(Event::InitialScanDone);
    next.handle(Event::Tick);
    more(&mut next, &[("a.test", &[300]), ("b.test", &[400])], None);
    next.handle(Event::Tick);
    assert_eq!(next.started.len(), 0, "no recipient is delivered");
    let deletions = next.done.iter().filter_map(|action| match action {
        Action::Note(note) if note.occasion == OutcomeKind::Deletion => Some(note.offsets.len()),
        _ => None,
    });
    assert_eq!(deletions.sum::<usize>(), 4);
}

/// No more of a held message is read, unless it is to be deleted.
#[test]
fn held_partial_message_can_be_deleted() {
    let mut world = World::new(CF);
    let first = part(&world, &[("a.test", &[100, 200, 300])], Some(400));
    let id = SpoolId { number: 1, modified: first.modified };
    world.handle(Event::Arrived(Box::new(first)));
    let order = |world: &mut World, order| {
        world.handle(Event::Ordered { ticket: 1, by: "root".to_string(), order });
        world.handle(Event::Tick);
    };
    order(&mut world, Order::HoldMessages { messages: vec![id], reason: String::new() });
    assert_eq!(asked(&mut world), []);
    order(&mut world, Order::Delete(vec![Target::whole(1)]));
    let deleted = |world: &World| {
        let notes = world.done.iter().filter_map(|action| match action {
            Action::Note(note) => Some((note.ticket, note.offsets.clone())),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    world.handle(Event::Noted { ticket: deleted(&world)[0].0, outcome: Ok(false) });
    world.handle(Event::Tick);
    assert_eq!(asked(&mut world).len(), 1);
    more(&mut world, &[("a.test", &[400]), ("b.test", &[500, 600])], None);
    assert_eq!(deleted(&world)[1].1[..], [400, 500, 600], "in one note");
    assert_eq!(world.core.view().recipients(), 0);
}

#[test]
fn chunk_is_read_only_if_it_fits() {
    let mut world = World::new(CF);
    let capacity =
        |world: &World| world.core.view().recipient_room().expect("limits").first_chunk(0);
    assert_eq!(capacity(&world), 2, "half of the limit, as others may come");
    // The maximum is 1 * 3 + 3, for the only ring.
    world.messages(1..=5, "c/a.test");
    assert_eq!(capacity(&world), 1);
    world.message(6, &["c/a.test"]);
    assert_eq!(capacity(&world), 0);
}
