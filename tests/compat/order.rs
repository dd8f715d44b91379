//! The order of the jobs of a thread.

use crate::support::{START, spool_name};
use crate::world::World;
use std::time::Duration;
use zsched_core::Event;
use zsched_spool::{Arrival, Group};

/// The messages of the recording, and how old each was, in seconds.
const MESSAGES: [(&str, u64); 5] =
    [("600", 50), ("601", 10), ("602", 90), ("603", 30), ("604", 70)];
/// What was fed of the thread whose clause has `ageorder`, each time that somebody asked for it.
const OLDEST_FIRST: [&str; 5] = ["602", "604", "600", "603", "601"];
/// What was fed of the other one: a new order each time.
const SHUFFLED: [[&str; 5]; 3] = [
    ["602", "604", "601", "603", "600"],
    ["600", "602", "604", "601", "603"],
    ["603", "600", "602", "604", "601"],
];

/// What an agent gets of a thread in each of three runs, if it defers everything.
fn orders(keyword: &str) -> [Vec<String>; 3] {
    let clause = format!("c/a.test\n\t{keyword}\n\toverfeed=0 maxring=1\n\tcommand=x\n");
    let mut world = World::new(&clause);
    world.is_barren = true;
    for (name, age) in MESSAGES {
        let modified = START - Duration::from_secs(age);
        let group =
            Group { channel: b"c"[..].into(), host: b"a.test"[..].into(), offsets: vec![71] };
        world.tell(Event::Arrived(Arrival {
            name: spool_name(name),
            modified,
            created: modified,
            priority: 5,
            owes_report: false,
            leftover: None,
            turns: Vec::new(),
            recipients: 1,
            failed: 0,
            groups: vec![group],
            locked: Vec::new(),
            unread: None,
            unread_at_most: 0,
            is_part: false,
        }));
    }
    world.is_barren = false;
    [(); 3].map(|()| {
        world.tell(Event::Turn(b"a.test"));
        let agent = *world.agents.keys().next().expect("it was started");
        let mut fed = Vec::new();
        let mut job = world.told(agent);
        if job.is_empty() {
            world.says(agent, b"#hungry");
            job = world.told(agent);
        }
        while let Some((name, _)) = job.split_once('\t') {
            world.says(agent, format!("{name}/71\t\tdeferred later").as_bytes());
            world.says(agent, b"#hungry");
            fed.push(name.to_string());
            job = world.told(agent);
        }
        assert_eq!(job, "#idle\n");
        world.says(agent, b"#hungry");
        fed
    })
}

#[test]
fn the_oldest_message_goes_first_where_that_is_asked_for() {
    assert_eq!(orders("ageorder"), [(); 3].map(|()| OLDEST_FIRST.map(str::to_string).to_vec()));
}

/// The original shuffles; that is no order anybody could rely on, and mail goes as it came.
#[test]
fn otherwise_the_first_to_come_goes_first() {
    let names = MESSAGES.map(|(name, _)| name);
    assert_eq!(orders(""), [(); 3].map(|()| names.map(str::to_string).to_vec()));
    assert!(SHUFFLED.iter().all(|order| *order != names));
}
