//! Cost of the flight recorder: the core and a recorder, without files of mail and without agents.
//!
//! ```text
//! cargo bench --bench recorder -- [--messages N] [--folder FOLDER]
//! ```
//!
//! It prints the core's processor time for each message (arrival, job, report, removal) without and
//! with a recorder, and that of the recorder's worker. It also prints the speed of a replay, and
//! for how long a checkpoint stops the event loop with a million recipients queued.

mod arguments;
mod world;

use arguments::Arguments;
use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use world::{EventSink, START, World, arrival, config};
use zsched_config::{ConfigContext, Zenv};
use zsched_core::{Action, Event, Scheduler, Settings};
use zsched_format::time::Timestamp;
use zsched_recorder::{RecordedCore, Recorder, Recording, Replay, RotationLimits};

const CONFIGURATION: &str =
    "*/*\n\tmaxta=20 overfeed=150 expiry=3d command=\"discard -c $channel\"\n";
const ROUNDS: usize = 7;

fn main() -> io::Result<()> {
    let arguments = Arguments::new();
    let messages = arguments.number("--messages", 200_000);
    let folder = tempfile::Builder::new().prefix("zsched-bench").tempdir_in(arguments.folder())?;
    cost(folder.path(), messages)?;
    checkpoint(20_000);
    checkpoint(1_000_000);
    Ok(())
}

fn core(folder: Option<&Path>, limits: RotationLimits) -> io::Result<RecordedCore> {
    let context = ConfigContext::unprivileged(Zenv::default());
    let path = folder.map(|folder| folder.join("recording"));
    let recorder = path.map(|path| Recorder::create(&path, limits, context)).transpose()?;
    let settings = Settings { seed: 1, ..Settings::default() };
    Ok(RecordedCore::new(settings, config(CONFIGURATION), START, recorder))
}

fn cost(folder: &Path, messages: u64) -> io::Result<()> {
    println!("{messages} messages in {}", folder.display());
    let limits = RotationLimits { size: 256 << 20, keep_files: 0 };
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let without = deliver(core(None, limits)?, messages)?;
        let with = deliver(core(Some(folder), limits)?, messages)?;
        all.push((with.0.saturating_sub(without.0), with.1, without.0));
    }
    let median = |of: fn(&(Duration, Duration, Duration)) -> Duration| {
        let mut times: Vec<Duration> = all.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e9 / messages as f64
    };
    println!("  the core alone                  {:8.0} ns/message", median(|times| times.2));
    println!("  recording, on the loop          {:8.0} ns/message", median(|times| times.0));
    println!("  recording, on its own thread    {:8.0} ns/message", median(|times| times.1));
    replay(&folder.join("recording"))
}

/// Prints the speed at which a recording is verified.
fn replay(path: &Path) -> io::Result<()> {
    let started = Instant::now();
    let recording = Recording::open(path).map_err(io::Error::other)?;
    let mut replay = Replay::new(recording).map_err(io::Error::other)?;
    let played = replay.run(&mut ()).map_err(|failure| io::Error::other(failure.to_string()))?;
    let rate = played.events as f64 / started.elapsed().as_secs_f64();
    let (events, length) = (played.events, fs::metadata(path)?.len());
    println!("  replay of {events} events, {length} bytes: {rate:.0} events/s");
    Ok(())
}

/// Delivers twenty messages a turn, from arrival to removal.
///
/// Returns the processor time of the core with its recorder, and that of the recorder's worker.
fn deliver(core: RecordedCore, messages: u64) -> io::Result<(Duration, Duration)> {
    let mut world = World::of(core);
    let mut on_loop = Duration::ZERO;
    let mut next = 0;
    while next < messages || !world.pending.is_empty() {
        let numbers = next..messages.min(next + 20);
        next = numbers.end;
        let batch = numbers.map(|number| arrival(number, world.now, vec![number % 100]));
        let batch = batch.collect();
        on_loop += world.arrive(batch);
        on_loop += world.send_events();
    }
    let mut on_thread = recorder_time()?;
    loop {
        sleep(Duration::from_millis(20));
        let later = recorder_time()?;
        if later == on_thread {
            break;
        }
        on_thread = later;
    }
    let World { mut core, now, .. } = world;
    assert_eq!(core.query().view().totals().messages, 0, "all messages were delivered");
    assert!(!core.is_paused(), "the disk is too slow");
    core.finish(now);
    Ok((on_loop, on_thread))
}

impl EventSink for RecordedCore {
    fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        RecordedCore::handle(self, now, event);
    }

    fn poll(&mut self) -> Option<Action> {
        RecordedCore::poll(self)
    }

    fn end_turn(&mut self, now: Timestamp) {
        RecordedCore::end_turn(self, now);
    }
}

/// Returns the processor time of the recorder's worker; zero if there is none.
fn recorder_time() -> io::Result<Duration> {
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm"))?.trim() == "recorder" {
            return processor_time(&thread);
        }
    }
    Ok(Duration::ZERO)
}

fn processor_time(thread: &Path) -> io::Result<Duration> {
    let statistics = fs::read_to_string(thread.join("schedstat"))?;
    let running = statistics.split_ascii_whitespace().next().unwrap_or_default();
    Ok(Duration::from_nanos(running.parse().unwrap_or_default()))
}

/// Prints for how long a checkpoint stops the event loop.
fn checkpoint(messages: u64) {
    let settings = Settings { frozen: true, ..Settings::default() };
    let mut core = Scheduler::new(settings, config(CONFIGURATION));
    for number in 0..messages {
        core.handle(START, Event::Arrived(Box::new(arrival(number, START, vec![number % 100]))));
    }
    while core.poll().is_some() {}
    for round in 0..3 {
        let started = Instant::now();
        let bytes = postcard::to_stdvec(&core.checkpoint()).expect("it can be written").len();
        let took = started.elapsed().as_secs_f64() * 1e3;
        println!("  checkpoint {round} of {messages} messages: {took:.0} ms, {bytes} bytes");
    }
}
