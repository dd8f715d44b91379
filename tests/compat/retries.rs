//! Retry times: recorded wake-ups of ZMailer's scheduler, seen through MAILQ, and ours.
//!
//! A line of a recording has the seconds since the first look, the message and an index. Then come
//! the planned wake-up and the last feed, relative to that look, and the number of tries.
//!
//! ```text
//! 39.6 1 0 wake=+53 fed=+38 tries=4 f8='retry in 15s' | #c/a.test/0  N=1   R=1   A=4  W=15s QA=42s
//! ```

use crate::core_world::arrival;
use crate::support::{START, data};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::Duration;
use zsched_core::why::Reason;
use zsched_core::{AgentId, Event};
use zsched_format::time::Timestamp;
use zsched_spool::Group;

/// A recording.
struct Recording {
    /// Keywords of the clause.
    keywords: String,
    /// Tries and planned wake-ups of each message, in seconds since the first feed.
    planned: BTreeMap<u64, Vec<Planned>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    tries: u32,
    wakeup: i64,
}

fn recording(name: &str) -> Recording {
    let text = String::from_utf8(data(&format!("retries/{name}.txt"))).expect("text");
    let mut keywords = "interval=5s".to_string();
    let mut planned: BTreeMap<u64, Vec<Planned>> = BTreeMap::new();
    let mut first_fed: BTreeMap<u64, i64> = BTreeMap::new();
    for line in text.lines().take_while(|line| *line != "TALOG") {
        if !line.contains(" wake=") {
            keywords = format!("{keywords} {}", line.trim_start_matches("0 ").trim());
            continue;
        }
        let value = |key: &str| -> i64 {
            let (_, rest) = line.split_once(key).expect("all lines have it");
            let number = rest.split(' ').next().expect("a value");
            number.parse().expect("a number")
        };
        let message = line.split(' ').nth(1).expect("a number").parse().expect("a number");
        let first_fed = *first_fed.entry(message).or_insert_with(|| value(" fed="));
        let tries = value(" tries=") as u32;
        let of_message = planned.entry(message).or_default();
        if of_message.last().is_none_or(|last| last.tries < tries) {
            of_message.push(Planned { tries, wakeup: value(" wake=") - first_fed });
        }
    }
    Recording { keywords, planned }
}

/// A world in which one agent always gives the same answer.
struct DeferringWorld {
    world: World,
    recipients: u32,
    answer: String,
    agent: Option<AgentId>,
}

impl DeferringWorld {
    fn new(keywords: &str, past_boundary: u64, recipients: u32, answer: &str) -> DeferringWorld {
        let mut world = World::with_disk(&format!("c/*\n\t{keywords} idlemax=1h\n\tcommand=x\n"));
        world.now = START + Duration::from_secs(past_boundary);
        let offsets = (0..recipients).map(|index| 67 + 30 * index).collect();
        let group = Group { channel: b"c".as_slice().into(), host: b"a.test"[..].into(), offsets };
        let arrival = arrival(1, vec![group], world.now, world.now);
        world.handle(Event::Arrived(Box::new(arrival)));
        DeferringWorld { world, recipients, answer: answer.to_string(), agent: None }
    }

    /// Makes the agent work until it is idle. Returns the plan, in seconds since the first feed.
    fn work(&mut self, first_fed: Timestamp) -> Planned {
        let agent = *self.world.agents.keys().next().expect("it was started");
        if self.agent.replace(agent).is_none() {
            self.world.agent_writes(agent, b"#hungry");
        }
        assert_eq!(self.world.take_input(agent), "1\ta.test\n");
        for index in 0..self.recipients {
            let line = format!("1/{}\t\t{}", 67 + 30 * index, self.answer);
            self.world.agent_writes(agent, line.as_bytes());
        }
        self.world.agent_writes(agent, b"#hungry");
        assert_eq!(self.world.take_input(agent), "#idle\n");
        self.world.agent_writes(agent, b"#hungry");
        let core = &self.world.core;
        let message = core.view().message(1).expect("it is not finished");
        let queued = core.view().vertices_of(message).next().expect("it has a recipient left");
        let Reason::Retry(at) = core.view().reason_of(queued.id) else {
            panic!("it waits for nothing")
        };
        Planned { tries: queued.vertex.reports.into(), wakeup: at.seconds_since(first_fed) }
    }

    /// Returns successive wake-ups, with a try at each.
    fn wakeups(&mut self, count: usize) -> Vec<Planned> {
        let first_fed = self.world.now;
        let mut all = Vec::new();
        for _ in 0..count {
            let planned = self.work(first_fed);
            let since_start = first_fed.since(START);
            self.world.pass_to(since_start + Duration::from_secs(planned.wakeup.unsigned_abs()));
            all.push(planned);
        }
        all
    }
}

/// Returns the times between wake-ups.
fn spacing(planned: &[Planned]) -> Vec<i64> {
    let wakeups = std::iter::once(0).chain(planned.iter().map(|planned| planned.wakeup));
    let wakeups: Vec<i64> = wakeups.collect();
    wakeups.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// While the list of factors lasts, the distance between tries is as recorded, plus or minus one
/// interval. After its end both go on at a random place in the list.
#[test]
fn retry_distances_equal_recorded_ones() {
    for (name, interval, past_boundary, factors, exception) in [
        ("1-2-3-4", 5, 0, &[1, 2, 3, 4][..], None),
        ("1-2-3-4-skew1", 5, 0, &[1, 2, 3, 4], None),
        ("3-only", 5, 1, &[3], None),
        ("10s-1-2-3-5-8", 10, 1, &[1, 2, 3, 5, 8], None),
        ("two-recipients", 5, 1, &[1, 2, 3, 4], None),
        ("two-threads", 5, 1, &[1, 2, 3, 4], None),
        // In the first run ZMailer advances twice in the list, and leaves out 1 and 2.
        ("1m-1-1-2-3", 60, 31, &[1, 1, 2, 3], Some((1, 178, 68))),
    ] {
        let Recording { keywords, planned } = recording(name);
        for (message, recorded) in planned {
            let recipients = recorded[0].tries;
            let mut deferring =
                DeferringWorld::new(&keywords, past_boundary, recipients, "deferred later");
            let ours = deferring.wakeups(recorded.len());
            let tries = |planned: &[Planned]| -> Vec<u32> {
                planned.iter().map(|planned| planned.tries).collect()
            };
            assert_eq!(tries(&ours), tries(&recorded), "{name}, message {message}");
            let (ours, recorded) = (spacing(&ours), spacing(&recorded));
            for (index, (ours, recorded)) in ours.iter().zip(&recorded).enumerate() {
                let place = format!("{name}, message {message}, {index}: {ours}, not {recorded}");
                // Both follow the list, apart from the skew and the first run's alignment.
                let factor = factors.get(index).copied();
                let is_in_list = |seconds: i64| {
                    factors.iter().any(|factor| (seconds - factor * interval).abs() <= interval)
                };
                assert!(is_in_list(*ours) && is_in_list(*recorded), "{place}");
                if exception == Some((index, *recorded, *ours)) {
                    continue;
                }
                if factor.is_some() {
                    assert!((ours - recorded).abs() <= interval, "{place}");
                }
            }
        }
    }
}

/// ZMailer parses these times but does not use them; ours does.
///
/// Its next tries were at the next multiple of 5 s, and then every 20 s.
#[test]
fn retryat_and_deferall_times_are_used() {
    let Recording { keywords, planned } = recording("retryat-deferall");
    for (messages, answer, expected) in [
        (&[1, 2][..], "retryat +20 come back", [20, 40, 60]),
        (&[1, 2], "retryat 45 come back", [45, 90, 135]),
        // An absolute time, 25 s after the first feed. At the second try it is past, so the list
        // applies.
        (&[1, 2], "retryat 1795255226 come back", [25, 44, 64]),
        (&[3, 4], "deferall all later", [60, 120, 180]),
    ] {
        let mut deferring = DeferringWorld::new(&keywords, 1, 1, answer);
        let ours: Vec<i64> = deferring.wakeups(3).iter().map(|planned| planned.wakeup).collect();
        assert_eq!(ours, expected, "{answer}");
        for message in messages {
            let recorded = spacing(&planned[message]);
            // The first look was up to 2 s after the feed.
            assert!((2..=4).contains(&recorded[0]), "{recorded:?}");
            assert!(recorded[1..].iter().all(|seconds| *seconds == 20), "{recorded:?}");
        }
    }
}
