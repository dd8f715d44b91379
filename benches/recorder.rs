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

use arguments::Arguments;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::{Action, AgentId, Event, Scheduler, Settings};
use zsched_format::time::Timestamp;
use zsched_recorder::{RecordedCore, Recorder, Recording, Replay, RotationLimits};
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

const CONFIGURATION: &str =
    "*/*\n\tmaxta=20 overfeed=150 expiry=3d command=\"discard -c $channel\"\n";
const START: Timestamp = Timestamp::from_seconds(1_795_255_200);
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

fn config(context: &ConfigContext) -> Rc<Config> {
    let loaded = Config::parse(Path::new("scheduler.cf"), CONFIGURATION.as_bytes(), context);
    Rc::new(loaded.expect("a good configuration").config)
}

fn core(folder: Option<&Path>, limits: RotationLimits) -> io::Result<RecordedCore> {
    let context = ConfigContext::unprivileged(Zenv::default());
    let config = config(&context);
    let path = folder.map(|folder| folder.join("recording"));
    let recorder = path.map(|path| Recorder::create(&path, limits, context)).transpose()?;
    Ok(RecordedCore::new(Settings { seed: 1, ..Settings::default() }, config, START, recorder))
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
/// Returns the processor time of this worker and that of the recorder's.
fn deliver(mut core: RecordedCore, messages: u64) -> io::Result<(Duration, Duration)> {
    let before = processor_time(Path::new("/proc/thread-self"))?;
    let mut lines: Vec<(AgentId, Vec<u8>)> = Vec::new();
    let mut next = 0;
    let mut removed = 0;
    let mut now = START;
    while removed < messages {
        now += Duration::from_millis(4);
        for _ in 0..20.min(messages - next) {
            next += 1;
            core.handle(now, Event::Arrived(arrival(next, now)));
        }
        for (agent, line) in std::mem::take(&mut lines) {
            core.handle(now, Event::AgentSaid { agent, line: &line });
        }
        core.handle(now, Event::Tick);
        while let Some(action) = core.poll() {
            match action {
                Action::StartAgent { agent, .. } => {
                    core.handle(now, Event::AgentStarted { agent, pid: 1000 + agent.0 as u32 });
                    lines.push((agent, b"#hungry".to_vec()));
                }
                Action::Feed { agent, job } => {
                    let number = job.split(|byte| *byte == b'\t').next().unwrap_or_default();
                    let line = [
                        number,
                        b"/107\tuser@host.example\x01relayed\x012.0.0\x01smtp; 250\tok3 250 OK",
                    ];
                    lines.push((agent, line.concat()));
                    lines.push((agent, b"#hungry".to_vec()));
                }
                Action::SendIdle(agent) => lines.push((agent, b"#hungry".to_vec())),
                Action::Remove { name, .. } => {
                    core.handle(now, Event::Removed { number: name.number(), outcome: Ok(()) });
                    removed += 1;
                }
                _ => {}
            }
        }
        core.end_turn(now);
    }
    let on_loop = processor_time(Path::new("/proc/thread-self"))? - before;
    let mut on_thread = recorder_time()?;
    loop {
        sleep(Duration::from_millis(20));
        let later = recorder_time()?;
        if later == on_thread {
            break;
        }
        on_thread = later;
    }
    assert!(!core.is_paused(), "the disk is too slow");
    core.finish(now);
    Ok((on_loop, on_thread))
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
    let context = ConfigContext::unprivileged(Zenv::default());
    let settings = Settings { frozen: true, ..Settings::default() };
    let mut core = Scheduler::new(settings, config(&context));
    for number in 0..messages {
        core.handle(START, Event::Arrived(arrival(number, START)));
    }
    while core.poll().is_some() {}
    for round in 0..3 {
        let started = Instant::now();
        let bytes = postcard::to_stdvec(&core.checkpoint()).expect("it can be written").len();
        let took = started.elapsed().as_secs_f64() * 1e3;
        println!("  checkpoint {round} of {messages} messages: {took:.0} ms, {bytes} bytes");
    }
}

fn arrival(number: u64, now: Timestamp) -> Arrival {
    let host = format!("host{}.example", number % 100).into_bytes().into();
    Arrival {
        name: SpoolName::new(HashFolder::TOP, (10_000_000 + number).to_string().as_bytes())
            .expect("a name"),
        modified: now - Duration::from_millis(3),
        created: now - Duration::from_millis(1),
        priority: 5,
        report_due: false,
        first_undeliverable: None,
        etrn_hosts: Vec::new(),
        recipients: 1,
        failed: 0,
        groups: vec![Group { channel: b"smtp".as_slice().into(), host, offsets: vec![107] }],
        locked: Vec::new(),
        next_offset: None,
        max_unread: 0,
        is_chunk: false,
    }
}
