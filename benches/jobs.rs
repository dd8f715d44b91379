//! What it costs to choose work by message, with preemption, at several lengths of the queue: no
//! processes, no files, no clock.
//!
//! ```text
//! cargo bench --bench jobs -- [--least N] [--most N] [--rounds N] [--hosts N] [--preemption]
//! ```
//!
//! One message in a hundred is for fifty hosts, the others for one; agents report at once. Printed is
//! the processor time for each entry, that is for each message and host, from its arrival to its end,
//! under a configuration without preemption (but not with `--preemption`) and under one with it.

use cpu_time::ThreadTime;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched::config::{Config, Context, Zenv};
use zsched::scheduler::{Action, AgentId, Event, Scheduler, Settings};
use zsched::spool::{Arrival, Group, HashFolder, SpoolName};
use zsched::time::Timestamp;

const START: Timestamp = Timestamp::from_seconds(1_795_255_200);
/// Messages that arrive together.
const BATCH: u64 = 1000;
/// Every so many messages one is large.
const ONE_LARGE_IN: u64 = 100;
/// Hosts of a large message.
const LARGE: u64 = 50;
/// Offset of the only recipient for each host.
const OFFSET: u32 = 107;

const CLASSIC: &str = "*/*\n\tmaxring=20 maxthr=2 overfeed=0 command=\"discard -c $channel\"\n";
const PREEMPTION: &str =
    "*/*\n\tmaxring=20 maxthr=2 overfeed=0 slot-cost=5 command=\"discard -c $channel\"\n";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        let value = at.and_then(|at| arguments.get(at + 1));
        value.map_or(default, |value| value.parse().expect("a number"))
    };
    let (least, most) = (number("--least", 0), number("--most", 1_000_000));
    let rounds = number("--rounds", 3);
    let clauses = [("threads take turns", CLASSIC), ("slot-cost=5", PREEMPTION)];
    let left_out = usize::from(arguments.iter().any(|argument| argument == "--preemption"));
    for (what, text) in &clauses[left_out..] {
        println!("{what}: µs for each entry");
        println!("     jobs   hosts   queued  handed out   total   to 1,000");
        let given = number("--hosts", 0);
        let few = |_: u64| if given > 0 { given } else { 1000 };
        let many = |jobs: u64| (jobs / 10).max(LARGE);
        let numbers: [&dyn Fn(u64) -> u64; 2] = [&few, &many];
        for hosts in &numbers[..if given > 0 { 1 } else { 2 }] {
            let mut shortest = None;
            let lengths = [1_000, 10_000, 100_000, 1_000_000].into_iter();
            for jobs in lengths.filter(|jobs| (least..=most).contains(jobs)) {
                let rounds = rounds * (100_000 / jobs).max(1);
                let costs = (0..rounds).map(|_| Cost::of(text, jobs, hosts(jobs)));
                let best = costs.min_by_key(|cost| cost.queued + cost.handed_out);
                let best = best.expect("there is a round");
                let each = |time: Duration| time.as_secs_f64() * 1e6 / best.entries as f64;
                let total = each(best.queued + best.handed_out);
                let ratio = total / *shortest.get_or_insert(total);
                println!(
                    "{jobs:>9} {:>7} {:8.2} {:11.2} {total:7.2} {ratio:10.2}",
                    hosts(jobs),
                    each(best.queued),
                    each(best.handed_out)
                );
            }
        }
        reload(text, most.min(100_000));
    }
}

/// How long the core took, in all.
struct Cost {
    entries: u64,
    /// To queue messages.
    queued: Duration,
    /// To give entries to agents, to take their reports, and to hear that messages are gone.
    handed_out: Duration,
}

impl Cost {
    fn of(text: &str, jobs: u64, hosts: u64) -> Cost {
        let mut world = World::new(text);
        let mut cost = Cost { entries: 0, queued: Duration::ZERO, handed_out: Duration::ZERO };
        for first in (0..jobs).step_by(BATCH as usize) {
            let numbers = first..jobs.min(first + BATCH);
            let batch: Vec<Arrival> = numbers.map(|number| arrival(number, hosts)).collect();
            cost.entries += batch.iter().map(|arrival| arrival.groups.len() as u64).sum::<u64>();
            let started = ThreadTime::now();
            for arrival in batch {
                world.core.handle(world.now, Event::Arrived(arrival));
            }
            let actions = world.actions();
            cost.queued += started.elapsed();
            world.perform(actions);
        }
        while !world.told.is_empty() {
            cost.handed_out += world.tell();
        }
        assert_eq!(world.core.totals().messages, 0, "all messages were delivered");
        cost
    }
}

/// What the core is to be told.
enum Told {
    Line(AgentId, Vec<u8>),
    Removed(u64),
}

struct World {
    core: Scheduler,
    now: Timestamp,
    told: Vec<Told>,
}

fn config(text: &str) -> Rc<Config> {
    let context = Context::without_rights(Zenv::default());
    let config = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    Rc::new(config.expect("a good configuration").config)
}

impl World {
    fn new(text: &str) -> World {
        let settings = Settings { seed: 1, fork_rate: 1000, ..Settings::default() };
        World { core: Scheduler::new(settings, config(text)), now: START, told: Vec::new() }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.core.poll()).collect()
    }

    fn perform(&mut self, actions: Vec<Action>) {
        let hungry = |agent| Told::Line(agent, b"#hungry".to_vec());
        for action in actions {
            match action {
                Action::StartAgent { agent, .. } => {
                    let pid = 1000 + agent.0 as u32;
                    self.core.handle(self.now, Event::AgentStarted { agent, pid });
                    self.told.push(hungry(agent));
                }
                Action::Feed { agent, job } => {
                    let end = job.iter().position(|byte| *byte == b'\t').expect("a host");
                    let number = std::str::from_utf8(&job[..end]).expect("a number");
                    let number: u64 = number.parse().expect("a number");
                    let host = std::str::from_utf8(&job[end + 1..]).expect("a host").trim_end();
                    // The offsets of a large message are those of its hosts.
                    let place = host.strip_prefix("host").and_then(|host| host.split_once('.'));
                    let place: u64 = place.and_then(|(n, _)| n.parse().ok()).expect("a host");
                    let offset = OFFSET + place as u32;
                    let answer =
                        format!("{number}/{offset}\tn\x01relayed\x012.0.0\x01x\tok3 250 OK");
                    self.told.push(Told::Line(agent, answer.into_bytes()));
                    self.told.push(hungry(agent));
                }
                Action::SayIdle(agent) => self.told.push(hungry(agent)),
                Action::Remove { name, .. } => self.told.push(Told::Removed(name.number())),
                _ => {}
            }
        }
    }

    fn tell(&mut self) -> Duration {
        self.now += Duration::from_millis(1);
        let told = std::mem::take(&mut self.told);
        let started = ThreadTime::now();
        for told in &told {
            match told {
                Told::Line(agent, line) => {
                    self.core.handle(self.now, Event::AgentSaid { agent: *agent, line });
                }
                Told::Removed(number) => {
                    let event = Event::Removed { number: *number, outcome: Ok(()) };
                    self.core.handle(self.now, event);
                }
            }
        }
        self.core.handle(self.now, Event::Tick);
        let actions = self.actions();
        let took = started.elapsed();
        self.perform(actions);
        took
    }
}

/// A message, mostly for one host.
fn arrival(number: u64, hosts: u64) -> Arrival {
    let count = if number.is_multiple_of(ONE_LARGE_IN) { LARGE } else { 1 };
    let mut places: Vec<u64> = (0..count).map(|n| (number + n * (hosts / count)) % hosts).collect();
    places.sort_unstable();
    let groups = places.iter().map(|place| Group {
        channel: b"smtp".as_slice().into(),
        host: format!("host{place}.example").into_bytes().into(),
        offsets: vec![OFFSET + *place as u32],
    });
    let at = START + Duration::from_millis(number / 1000);
    Arrival {
        name: SpoolName::new(HashFolder::TOP, (10_000_000 + number).to_string().as_bytes())
            .expect("a number is a name"),
        modified: at,
        created: at,
        priority: 5,
        owes_report: false,
        leftover: None,
        turns: Vec::new(),
        recipients: count as u32,
        failed: 0,
        groups: groups.collect(),
        locked: Vec::new(),
        unread: None,
        unread_at_most: 0,
        is_part: false,
    }
}

/// Reads the same configuration again with so many entries in one thread: how long the core takes for it
/// at a time, at most, and in all.
fn reload(text: &str, entries: u64) {
    let mut world = World::new(text);
    for number in 0..entries {
        let arrival = arrival(number * ONE_LARGE_IN + 1, 1);
        world.core.handle(world.now, Event::Arrived(arrival));
    }
    let actions = world.actions();
    world.perform(actions);
    let (mut longest, mut total) = (Duration::ZERO, Duration::ZERO);
    let mut event = Event::Configured(config(text));
    loop {
        let started = ThreadTime::now();
        world.core.handle(world.now, event);
        let took = started.elapsed();
        (longest, total) = (longest.max(took), total + took);
        if world.core.next_wakeup().is_none_or(|time| time > world.now) {
            break;
        }
        event = Event::Tick;
    }
    println!(
        "a reload with {entries} entries in a thread: {longest:?} at a time, {total:?} in all"
    );
}
