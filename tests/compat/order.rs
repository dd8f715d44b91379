//! The order of the jobs of a thread.

use crate::core_world::arrival;
use crate::support::START;
use crate::world::World;
use std::time::Duration;
use zsched_core::Event;
use zsched_spool::Group;

/// The recorded messages, and their ages in seconds.
const MESSAGES: [(&str, u64); 5] =
    [("600", 50), ("601", 10), ("602", 90), ("603", 30), ("604", 70)];
/// Recorded order of the thread whose clause has `ageorder`, the same after each ETRN.
const OLDEST_FIRST: [&str; 5] = ["602", "604", "600", "603", "601"];
/// Recorded orders of the other thread, a new one after each ETRN.
const SHUFFLED: [[&str; 5]; 3] = [
    ["602", "604", "601", "603", "600"],
    ["600", "602", "604", "601", "603"],
    ["603", "600", "602", "604", "601"],
];

/// Returns the order of an agent's jobs for a thread, in three runs.
///
/// The agent defers all recipients.
fn orders(keyword: &str) -> [Vec<String>; 3] {
    let clause = format!("c/a.test\n\t{keyword}\n\toverfeed=0 maxring=1\n\tcommand=x\n");
    let mut world = World::with_disk(&clause);
    world.cannot_start_agents = true;
    for (name, age) in MESSAGES {
        let modified = START - Duration::from_secs(age);
        let group = Group::new(b"c", b"a.test", &[71]);
        let number = name.parse().expect("a number");
        world.handle(Event::Arrived(Box::new(arrival(number, vec![group], modified, modified))));
    }
    world.cannot_start_agents = false;
    [(); 3].map(|()| {
        world.handle(Event::Etrn(b"a.test"));
        let agent = *world.agents.keys().next().expect("it was started");
        let mut fed = Vec::new();
        let mut job = world.take_input(agent);
        if job.is_empty() {
            world.agent_writes(agent, b"#hungry");
            job = world.take_input(agent);
        }
        while let Some((name, _)) = job.split_once('\t') {
            world.agent_writes(agent, format!("{name}/71\t\tdeferred later").as_bytes());
            world.agent_writes(agent, b"#hungry");
            fed.push(name.to_string());
            job = world.take_input(agent);
        }
        assert_eq!(job, "#idle\n");
        world.agent_writes(agent, b"#hungry");
        fed
    })
}

#[test]
fn ageorder_feeds_oldest_message_first() {
    assert_eq!(orders("ageorder"), [(); 3].map(|()| OLDEST_FIRST.map(str::to_string).to_vec()));
}

/// ZMailer shuffles, which no site can rely on. Ours uses the order of arrival.
#[test]
fn default_order_is_order_of_arrival() {
    let names = MESSAGES.map(|(name, _)| name);
    assert_eq!(orders(""), [(); 3].map(|()| names.map(str::to_string).to_vec()));
    assert!(SHUFFLED.iter().all(|order| *order != names));
}
