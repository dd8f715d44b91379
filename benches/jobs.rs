//! Processor time to choose work by message, with preemption, at several lengths of the queue: no
//! processes, no files, no clock.
//!
//! ```text
//! cargo bench --bench jobs -- [--least N] [--most N] [--rounds N] [--hosts N] [--preemption]
//! ```
//!
//! One message in a hundred is for fifty hosts, the others for one; agents report at once. It
//! prints the processor time for each entry (a message and a host), from its arrival to its end.
//! The first configuration is without preemption, the second with it; with `--preemption` there is
//! only the second.

mod arguments;
mod world;

use arguments::Arguments;
use cpu_time::ThreadTime;
use std::time::Duration;
use world::{START, World, arrival, config};
use zsched_core::Event;
use zsched_spool::Arrival;

/// Number of messages that arrive together.
const BATCH: u64 = 1000;
/// Distance between the numbers of large messages.
const LARGE_MESSAGE_EVERY: u64 = 100;
/// Number of hosts of a large message.
const HOSTS_OF_LARGE_MESSAGE: u64 = 50;

const CLASSIC: &str = "*/*\n\tmaxring=20 maxthr=2 overfeed=0 command=\"discard -c $channel\"\n";
const PREEMPTION: &str =
    "*/*\n\tmaxring=20 maxthr=2 overfeed=0 slot-cost=5 command=\"discard -c $channel\"\n";

fn main() {
    let arguments = Arguments::new();
    let (least, most) = (arguments.number("--least", 0), arguments.number("--most", 1_000_000));
    let (rounds, given) = (arguments.number("--rounds", 3), arguments.number("--hosts", 0));
    let clauses = [("threads take turns", CLASSIC), ("slot-cost=5", PREEMPTION)];
    let left_out = usize::from(arguments.has("--preemption"));
    for (what, text) in &clauses[left_out..] {
        println!("{what}: µs for each entry");
        println!("     jobs   hosts   queued  handed out   total   to 1,000");
        let few = |_: u64| if given > 0 { given } else { 1000 };
        let many = |jobs: u64| (jobs / 10).max(HOSTS_OF_LARGE_MESSAGE);
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

/// Total processor time of the core.
struct Cost {
    entries: u64,
    /// Time to queue messages.
    queued: Duration,
    /// Time to give entries to agents, and to handle their reports and the removals.
    handed_out: Duration,
}

impl Cost {
    fn of(text: &str, jobs: u64, hosts: u64) -> Cost {
        let mut world = World::new(text);
        let mut cost = Cost { entries: 0, queued: Duration::ZERO, handed_out: Duration::ZERO };
        for first in (0..jobs).step_by(BATCH as usize) {
            let numbers = first..jobs.min(first + BATCH);
            let batch: Vec<Arrival> = numbers.map(|number| message(number, hosts)).collect();
            cost.entries += batch.iter().map(|arrival| arrival.groups.len() as u64).sum::<u64>();
            cost.queued += world.arrive(batch);
        }
        while !world.pending.is_empty() {
            cost.handed_out += world.send_events();
        }
        assert_eq!(world.core.view().totals().messages, 0, "all messages were delivered");
        cost
    }
}

/// Returns a message; most are for one host.
fn message(number: u64, hosts: u64) -> Arrival {
    let count = if number.is_multiple_of(LARGE_MESSAGE_EVERY) { HOSTS_OF_LARGE_MESSAGE } else { 1 };
    let places = (0..count).map(|n| (number + n * (hosts / count)) % hosts).collect();
    arrival(number, START + Duration::from_millis(number / 1000), places)
}

/// Reloads the same configuration with `entries` in one thread.
///
/// It prints the longest step and the total time of the core.
fn reload(text: &str, entries: u64) {
    let mut world = World::new(text);
    world.arrive((0..entries).map(|number| message(number * LARGE_MESSAGE_EVERY + 1, 1)).collect());
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
