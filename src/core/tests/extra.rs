//! Room for messages that preempt others.

use super::*;
use zsched_spool::Portion;

/// In turn: a first message fills the ring.
const RING: &str = "maxring=1 maxthr=1 overfeed=0 recipient-limit=12 refill-limit=4 refill-delay=1h \
                    minimum-slots=0 slot-discount=100";

fn world(keywords: &str) -> World {
    World::new(&format!(
        "PARAMmessage-active-limit=4\nPARAMmessage-recipient-limit=16\n\
         PARAMmessage-recipient-minimum=1\nc/*\n\t{RING} {keywords}\n\tcommand=x\n"
    ))
}

/// Recipients `from..to` of a message, each at a host of its own, and how many more there may be.
fn part(world: &World, number: u64, (from, to): (u32, u32), unread: u32) -> Arrival {
    let groups = (from..to).map(|n| Group {
        channel: b"c".as_slice().into(),
        host: format!("h{number}-{n}").into_bytes().into(),
        offsets: vec![100 * (n + 1)],
    });
    let mut arrival = arrival(number, groups.collect(), START, world.now);
    arrival.unread = (unread > 0).then_some(100 * (to + 1));
    arrival.unread_at_most = unread;
    arrival.is_part = true;
    arrival
}

fn comes(world: &mut World, number: u64, range: (u32, u32), unread: u32) {
    world.tell(Event::Arrived(part(world, number, range, unread)));
}

/// Of which messages more is to be read, and how much at the most.
fn asked(world: &mut World) -> Vec<(u64, u32)> {
    world.tell(Event::Tick);
    let asked = world.done.extract_if(.., |action| matches!(action, Action::ReadMore { .. }));
    let portion = |action| match action {
        Action::ReadMore { name, portion: Portion { at_most, .. } } => (name.number(), at_most),
        other => panic!("{other:?}"),
    };
    asked.map(portion).collect()
}

/// Delivers the agent's job. Returns the number of the message of the next.
fn next(world: &mut World, agent: AgentId, job: &str) -> String {
    let (number, host) = job.split_once('\t').expect("a host");
    let place: u32 = host.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
    world.says(agent, &format!("{number}/{}\t\tok3", 100 * (place + 1)));
    world.hungry(agent);
    world.heard_by(agent).remove(0)
}

/// Lets the agent deliver so much. Returns the numbers of the messages.
fn sequence(world: &mut World, agent: AgentId, job: &mut String, count: usize) -> String {
    let mut sequence = String::new();
    for _ in 0..count {
        sequence.push_str(job.split('\t').next().unwrap_or_default());
        *job = next(world, agent, job);
    }
    sequence
}

#[test]
fn who_preempts_gets_half_of_what_is_left() {
    let mut world = world("slot-cost=2 extra-recipient-limit=8");
    comes(&mut world, 1, (0, 12), 1000);
    assert_eq!(asked(&mut world), [], "the ring is full");
    let (agent, mut jobs) = world.newborn();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 2), 3);
    assert_eq!(asked(&mut world), [], "it has the minimum");
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert!(job.starts_with("2\t"), "it preempts: {job}");
    // Half of the extra pool is 4: two for those that are there, and two, and the minimum.
    assert_eq!(asked(&mut world), [(2, 3)]);
    let outcome = Reread::Read(part(&world, 2, (2, 5), 0));
    world.tell(Event::MoreRead { number: 2, outcome });
    assert_eq!(sequence(&mut world, agent, &mut job, 6), "222221", "as a whole");
    world.tell(Event::Tick);
    assert_eq!(world.removed(), ["2"]);
}

#[test]
fn without_it_nobody_gets_more_than_the_minimum() {
    let mut world = world("slot-cost=2 extra-recipient-limit=0");
    comes(&mut world, 1, (0, 12), 1000);
    let (agent, mut jobs) = world.newborn();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 2), 3);
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert_eq!(asked(&mut world), []);
    // It goes on as soon as nothing of it is left in memory, and has to preempt again.
    assert_eq!(sequence(&mut world, agent, &mut job, 2), "22");
    assert_eq!(asked(&mut world), [(2, 1)]);
    assert!(job.starts_with("1\t"), "{job}");
}

#[test]
fn what_is_taken_comes_back_as_recipients_go() {
    let mut world = world("slot-cost=2 extra-recipient-limit=8");
    comes(&mut world, 1, (0, 12), 1000);
    let (agent, mut jobs) = world.newborn();
    let mut job = jobs.remove(0);
    comes(&mut world, 2, (0, 1), 3);
    assert_eq!(sequence(&mut world, agent, &mut job, 1), "1");
    assert_eq!(asked(&mut world), [(2, 4)], "half of 8, less the one that is there, and 1");
    let outcome = Reread::Read(part(&world, 2, (1, 4), 0));
    world.tell(Event::MoreRead { number: 2, outcome });
    assert_eq!(sequence(&mut world, agent, &mut job, 4), "2222");
    comes(&mut world, 3, (0, 1), 1);
    assert_eq!(sequence(&mut world, agent, &mut job, 8), "11111111");
    assert!(job.starts_with("3\t"), "{job}");
    // Both pools are as large as ever, but for 3 recipients of the first message and 1 of this one; and of all
    // that is read at a time there may be 16, as it may go to a new ring.
    assert_eq!(asked(&mut world), [(1, 10), (3, 6)]);
}

#[test]
fn the_bounds_have_the_extra_room_where_there_is_preemption() {
    for (keywords, most) in [("slot-cost=2 extra-recipient-limit=8", 24), ("job-order", 16)] {
        let mut world = world(keywords);
        comes(&mut world, 1, (0, 12), 1000);
        assert_eq!(world.core.most_recipients(), Some(most));
        let ring = world.core.ring_ids()[0];
        assert_eq!(world.core.most_recipients_of(ring), Some(most));
    }
}
