//! Cost of windows: feedback, a pace, and windows that many threads share. No processes, no files,
//! no clock.
//!
//! ```text
//! cargo bench --bench windows -- [--messages N] [--threads N] [--rounds N]
//! ```
//!
//! It prints the processor time for a delivery, from the arrival of its message to its end, under
//! several configurations. Then it prints the longest step of the core for windows that are shared
//! by 5,000 threads and by `--threads` (100,000): while mail arrives, when the destination is found
//! to be dead, when it is tried again and is still dead, and when it answers.

mod arguments;
mod world;

use arguments::Arguments;
use std::time::Duration;
use world::{DELIVERED, NOT_REACHED, START, World, arrival};

/// Number of messages that arrive together.
const BATCH: u64 = 1000;
/// Number of hosts in the first part.
const HOSTS: u64 = 1000;
const CLASSIC: &str = "maxring=20 maxthr=2 overfeed=0";
const FEEDBACK: &str =
    "positive-feedback=1/concurrency negative-feedback=1/concurrency failed-cohort-limit=1";
const SHARED: &str = "window-key=\"*.example=provider\"";

fn main() {
    let arguments = Arguments::new();
    let messages = arguments.number("--messages", 100_000);
    let rounds: u32 = arguments.number("--rounds", 5);
    println!("{messages} messages to {HOSTS} hosts, µs for a delivery");
    for (name, more) in [
        ("classic", ""),
        ("feedback", FEEDBACK),
        ("feedback, debug", &format!("{FEEDBACK} feedback-debug")),
        ("rate=2/1s for each host", "rate=2/1s"),
        ("feedback, one window for all", &format!("{FEEDBACK} {SHARED}")),
        ("rate=1000/1s for all", &format!("rate=1000/1s {SHARED}")),
    ] {
        let all = (0..rounds).map(|_| deliver(more, messages));
        let best = all.min().expect("there is a round");
        println!("  {name:<29} {:6.2}", best.as_secs_f64() * 1e6 / messages as f64);
    }
    println!("one window for many threads, longest step in ms");
    println!("  threads  arrival    dead  dead again  answers");
    for threads in [5000, arguments.number("--threads", 100_000)] {
        println!("  {}", Steps::of(threads));
    }
}

fn configuration(more: &str) -> String {
    format!("*/*\n\t{CLASSIC} expiry=3d {more}\n\tcommand=\"discard -c $channel\"\n")
}

fn fill(world: &mut World, messages: u64, hosts: u64) -> Duration {
    let mut took = Duration::ZERO;
    for first in (0..messages).step_by(BATCH as usize) {
        let numbers = first..messages.min(first + BATCH);
        let batch = numbers.map(|number| arrival(number, START, vec![number % hosts])).collect();
        took += world.arrive(batch);
    }
    took
}

fn finish(world: &mut World) -> Duration {
    let mut took = Duration::ZERO;
    while world.core.view().totals().messages > 0 {
        if world.pending.is_empty() {
            world.wait();
        }
        took += world.send_events();
    }
    took
}

/// Returns the core's processor time for `messages` deliveries.
fn deliver(more: &str, messages: u64) -> Duration {
    let mut world = World::new(&configuration(more));
    fill(&mut world, messages, HOSTS) + finish(&mut world)
}

/// The longest steps in the life of a shared window.
struct Steps {
    threads: u64,
    arrival: Duration,
    dead: Duration,
    dead_again: Duration,
    answers: Duration,
}

impl Steps {
    fn of(threads: u64) -> Steps {
        let mut world = World::new(&configuration(&format!("{FEEDBACK} {SHARED}")));
        world.answer = NOT_REACHED;
        fill(&mut world, 1, threads);
        let mut arrive = Duration::ZERO;
        for number in 1..threads {
            let took = world.arrive(vec![arrival(number, START, vec![number])]);
            arrive = arrive.max(took);
        }
        let dead = longest(&mut world);
        world.wait();
        let dead_again = longest(&mut world);
        world.answer = DELIVERED;
        world.wait();
        let answers = longest(&mut world);
        Steps { threads, arrival: arrive, dead, dead_again, answers }
    }
}

/// Returns the longest step until there are no events for a while.
fn longest(world: &mut World) -> Duration {
    let mut longest = Duration::ZERO;
    let end = world.now + Duration::from_secs(30);
    while world.now < end && world.core.view().totals().messages > 0 {
        if world.pending.is_empty() {
            if world.core.next_wakeup().is_none_or(|wakeup| wakeup > end) {
                break;
            }
            world.wait();
        }
        longest = longest.max(world.send_events_one_by_one());
    }
    longest
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:>7} {:8.2} {:7.2} {:11.2} {:8.2}",
            self.threads,
            ms(self.arrival),
            ms(self.dead),
            ms(self.dead_again),
            ms(self.answers)
        )
    }
}
