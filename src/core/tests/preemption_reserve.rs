//! Extra room for messages that preempt others (`extra-recipient-limit`).

use super::*;
use zsched_spool::Portion;

/// Recipients are spread over hosts; a first message fills the ring.
const RING: &str = "maxring=1 maxthr=1 overfeed=0 recipient-limit=12 refill-limit=4 refill-delay=1h \
                    minimum-slots=0 slot-discount=100";

fn world(keywords: &str) -> World {
    World::new(&format!(
        "PARAMmessage-active-limit=4\nPARAMmessage-recipient-limit=16\n\
         PARAMmessage-recipient-minimum=1\nc/*\n\t{RING} {keywords}\n\tcommand=x\n"
    ))
}

/// Recipients `from..to` of a message, each at its own host. The file has at most
/// `unread` more.
fn part(world: &World, number: u64, (from, to): (u32, u32), unread: u32) -> Arrival {
    let groups = (from..to).map(|n| {
        let host = format!("h{number}-{n}");
        Group::new(b"c", host.as_bytes(), &[100 * (n + 1)])
    });
    let mut arrival = arrival(number, groups.collect(), START, world.now);
    arrival.next_offset = (unread > 0).then_some(100 * (to + 1));
    arrival.max_unread = unread;
    arrival.is_chunk = true;
    arrival
}

fn comes(world: &mut World, number: u64, range: (u32, u32), unread: u32) {
    world.handle(Event::Arrived(Box::new(part(world, number, range, unread))));
}

/// Requests for more of a message: its number and the maximum number of recipients.
fn asked(world: &mut World) -> Vec<(u64, u32)> {
    world.handle(Event::Tick);
    let asked = world.done.extract_if(.., |action| matches!(action, Action::ReadMore { .. }));
    let portion = |action| match action {
        Action::ReadMore { name, portion: Portion { max_recipients: at_most, .. } } => {
            (name.number(), at_most)
        }
        other => panic!("{other:?}"),
    };
    asked.map(portion).collect()
}

/// Delivers the agent's job. Returns its next job.
fn next(world: &mut World, agent: AgentId, job: &str) -> String {
    let (number, host) = job.split_once('\t').expect("a host");
    let place: u32 = host.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
    world.agent_line(agent, &format!("{number}/{}\t\tok3", 100 * (place + 1)));
    world.hungry(agent);
    world.take_lines(agent).remove(0)
}

/// Delivers `count` jobs. Returns the numbers of their messages.
fn sequence(world: &mut World, agent: AgentId, job: &mut String, count: usize) -> String {
    let mut sequence = String::new();
    for _ in 0..count {
        sequence.push_str(job.split('\t').next().unwrap_or_default());
        *job = next(world, agent, job);
    }
    sequence
}

#[test]
fn preempting_message_gets_half_of_extra_pool() {
    let mut world = world("slot-cost=2 extra-recipient-limit=8");
    comes(&mut world, 1, (0, 12), 1000);
    assert_eq!(asked(&mut world), [], "the ring is full");
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 2), 3);
    assert_eq!(asked(&mut world), [], "it has the minimum");
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert!(job.starts_with("2\t"), "it preempts: {job}");
    // Half of the extra pool is 4: two for recipients in memory and two more. The minimum is 1.
    assert_eq!(asked(&mut world), [(2, 3)]);
    let outcome = RereadResult::Read(Box::new(part(&world, 2, (2, 5), 0)));
    world.handle(Event::MoreRead { number: 2, outcome });
    assert_eq!(
        sequence(&mut world, agent, &mut job, 6),
        "222221",
        "the message is delivered without interruption"
    );
    world.handle(Event::Tick);
    assert_eq!(world.removed(), ["2"]);
}

#[test]
fn zero_extra_limit_gives_minimum_only() {
    let mut world = world("slot-cost=2 extra-recipient-limit=0");
    comes(&mut world, 1, (0, 12), 1000);
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 2), 3);
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert_eq!(asked(&mut world), []);
    // More is read once nothing of it is left in memory, and it has to preempt again.
    assert_eq!(sequence(&mut world, agent, &mut job, 2), "22");
    assert_eq!(asked(&mut world), [(2, 1)]);
    assert!(job.starts_with("1\t"), "{job}");
}

#[test]
fn extra_room_is_returned_as_recipients_finish() {
    let mut world = world("slot-cost=2 extra-recipient-limit=8");
    comes(&mut world, 1, (0, 12), 1000);
    let (agent, mut jobs) = world.hungry_new_agent();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 1), 3);
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert_eq!(asked(&mut world), [(2, 4)], "half of 8, less the one that is there, and 1");
    let outcome = RereadResult::Read(Box::new(part(&world, 2, (1, 4), 0)));
    world.handle(Event::MoreRead { number: 2, outcome });
    assert_eq!(sequence(&mut world, agent, &mut job, 4), "2222");
    comes(&mut world, 3, (0, 1), 1);
    assert_eq!(sequence(&mut world, agent, &mut job, 8), "11111111");
    assert!(job.starts_with("3\t"), "{job}");
    // Both pools have their full size, less 3 recipients of the first message and 1 of this one. At
    // most 16 recipients are read at a time, because they may go to a new ring.
    assert_eq!(asked(&mut world), [(1, 10), (3, 6)]);
}

#[test]
fn maximum_recipients_include_extra_room_with_slot_cost() {
    for (keywords, most) in [("slot-cost=2 extra-recipient-limit=8", 24), ("job-order", 16)] {
        let mut world = world(keywords);
        comes(&mut world, 1, (0, 12), 1000);
        assert_eq!(world.core.view().max_recipients(), Some(most));
        let ring = world.core.view().ring(world.core.view().ring_ids()[0]).expect("it is listed");
        assert_eq!(world.core.view().max_recipients_of(ring), Some(most));
    }
}
