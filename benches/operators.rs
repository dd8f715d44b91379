//! Cost and latency of queries: a large queue that is paged out, mail that is delivered at the same
//! time, and clients.
//!
//! ```text
//! cargo bench --bench operators -- [--messages N] [--threads N] [--mail N] [--rate N] \
//!     [--rounds N] [--folder FOLDER]
//! ```
//!
//! By default a million recipients are paged out: those of 100,000 messages in 100,000 threads.
//! Then there are three runs, in which 50,000 messages come at 5,000 a second and are delivered.
//! The first is without clients. In the second, a client reads `SHOW QUEUE THREADS` over and over.
//! In the third, 200 clients have asked for it and read nothing (for a minute with `--mail
//! 300000`).
//!
//! It prints deliveries a second, the scheduler's processor time for each, and the time that
//! `mailq`, `mailq check` and single requests take.

mod arguments;
mod site;

use arguments::Arguments;
use site::{Scheduler, Site};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const CONFIGURATION: &str = "\
PARAMmailqsock = \"UNIX:${POSTOFFICE}/mailq\"
later/*
\tqueueonly expiry=3d
\tcommand=\"discard -c $channel\"
*/*
\tmaxta=20 maxring=20 overfeed=150 expiry=3d
\tcommand=\"discard -c $channel\"
";
/// Number of recipients of each paged-out message.
const RECIPIENTS_PER_MESSAGE: usize = 10;
/// Time after which the benchmark gives up.
const DEADLINE: Duration = Duration::from_secs(120);
/// Number of stalled clients.
const STALLED_CLIENTS: usize = 200;
/// Requests that are measured.
const REQUESTS: [&str; 9] = [
    "SHOW SNMP",
    "SHOW QUEUE SHORT",
    "SHOW JSON SUMMARY",
    "SHOW JSON THREADS sort=backlog limit=10",
    "SHOW JSON THREADS sort=undelivered limit=10",
    "SHOW JSON THREADS sort=oldest limit=10",
    "SHOW JSON THREADS later/host7.*",
    "SHOW JSON AGES limit=20",
    "SHOW JSON RINGS",
];
/// Number of runs of each command.
const RUNS: usize = 15;

fn main() -> io::Result<()> {
    let arguments = Arguments::new();
    let (messages, threads) =
        (arguments.number("--messages", 100_000), arguments.number("--threads", 100_000));
    let (mail, rate) = (arguments.number("--mail", 50_000), arguments.number("--rate", 5_000));
    let folder = tempfile::Builder::new().prefix("zsched-bench").tempdir_in(arguments.folder())?;
    let queue = Queue { place: Site::new(folder.path(), CONFIGURATION)? };
    println!(
        "{} recipients of {messages} messages in {threads} threads rest",
        messages * RECIPIENTS_PER_MESSAGE
    );
    queue.fill(messages, threads)?;
    let scheduler = queue.place.start("-i", &[])?;
    queue.wait_until_loaded(messages)?;
    queue.time_requests()?;
    for round in 0..arguments.number("--rounds", 3) {
        println!("{mail} messages are delivered meanwhile, {rate} a second");
        // The order changes, so that other activity of the machine does not always affect the same
        // case.
        for case in 0..3 {
            match (case + round) % 3 {
                0 => {
                    let run = queue.deliver(&scheduler, mail, rate)?;
                    println!("  no clients                    {run}");
                }
                1 => {
                    let (read, run) =
                        queue.while_reading(|| queue.deliver(&scheduler, mail, rate))?;
                    let megabytes = read as f64 / 1e6 / run.time.as_secs_f64();
                    println!("  one reads SHOW QUEUE THREADS  {run}, {megabytes:.1} MB/s read");
                }
                _ => {
                    let stalled = queue.stall()?;
                    let run = queue.deliver(&scheduler, mail, rate)?;
                    println!("  {STALLED_CLIENTS} have stalled             {run}");
                    drop(stalled);
                }
            }
        }
    }
    Ok(())
}

struct Run {
    messages: usize,
    time: Duration,
    processor_time: Duration,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.messages as f64 / self.time.as_secs_f64();
        let each = self.processor_time.as_secs_f64() * 1e6 / self.messages as f64;
        write!(f, "{rate:7.0} messages/s, {each:6.1} us each")
    }
}

/// A large queue, and its clients.
struct Queue {
    place: Site,
}

impl Queue {
    fn fill(&self, messages: usize, threads: usize) -> io::Result<()> {
        for message in 0..messages {
            let user = |n: usize| {
                let host =
                    format!("host{}.example", (message * RECIPIENTS_PER_MESSAGE + n) % threads);
                (format!("user@{host}"), host)
            };
            let users: Vec<_> = (0..RECIPIENTS_PER_MESSAGE).map(user).collect();
            self.place.submit("later", message, &users)?;
        }
        Ok(())
    }

    fn wait_until_loaded(&self, messages: usize) -> io::Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let wanted = format!("Msgs: {messages:3} ");
        loop {
            let lines = self.place.answer("SHOW SNMP", DEADLINE).unwrap_or_default();
            if lines.iter().any(|line| line.contains(&wanted)) {
                return Ok(());
            }
            assert!(Instant::now() < deadline, "the queue is not loaded");
            sleep(Duration::from_millis(200));
        }
    }

    fn time_requests(&self) -> io::Result<()> {
        for request in REQUESTS {
            let time = median(|| self.place.answer(request, DEADLINE).map(|_| ()))?;
            println!("  {request:<39} {:8.1} ms", time.as_secs_f64() * 1e3);
        }
        for arguments in [&["summary"][..], &["check"], &["-Q"]] {
            let time = median(|| self.mailq(arguments))?;
            let command = ["mailq"].iter().chain(arguments).copied().collect::<Vec<_>>().join(" ");
            println!("  {command:<39} {:8.1} ms", time.as_secs_f64() * 1e3);
        }
        Ok(())
    }

    fn mailq(&self, arguments: &[&str]) -> io::Result<()> {
        Command::new(zsched_tests::program("mailq"))
            .arg("-Z")
            .arg(&self.place.zenv)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map(|_| ())
    }

    /// Returns the number of messages.
    fn waiting(&self) -> io::Result<usize> {
        Ok(fs::read_dir(self.place.spool.transport())?.count())
    }

    /// Submits messages at a rate, and waits until they are delivered.
    fn deliver(&self, scheduler: &Scheduler, mail: usize, rate: usize) -> io::Result<Run> {
        let before = (scheduler.processor_time()?, self.waiting()?);
        let started = Instant::now();
        self.place.submit_at(rate, mail, 100)?;
        while self.waiting()? > before.1 {
            assert!(started.elapsed() < DEADLINE, "the mail does not get through");
            sleep(Duration::from_millis(20));
        }
        let processor_time = scheduler.processor_time()? - before.0;
        Ok(Run { messages: mail, time: started.elapsed(), processor_time })
    }

    /// Runs `work` while a client reads the queue over and over. Returns the number of bytes read.
    fn while_reading(&self, work: impl FnOnce() -> io::Result<Run>) -> io::Result<(u64, Run)> {
        let (is_over, read) = (&AtomicBool::new(false), &AtomicU64::new(0));
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let mut stream = self.place.connect(DEADLINE)?;
                    stream.write_all(b"SHOW QUEUE THREADS\nQUIT\n")?;
                    let mut buffer = [0; 65536];
                    while let count @ 1.. = stream.read(&mut buffer)? {
                        read.fetch_add(count as u64, Ordering::Relaxed);
                    }
                }
                Ok::<_, io::Error>(())
            });
            let run = work();
            is_over.store(true, Ordering::Relaxed);
            reader.join().expect("a reader does not panic")?;
            Ok((read.load(Ordering::Relaxed), run?))
        })
    }

    /// Returns clients that have asked for the queue and read nothing.
    fn stall(&self) -> io::Result<Vec<UnixStream>> {
        let client = |_| {
            let mut stream = UnixStream::connect(self.place.spool.control_socket())?;
            stream.write_all(b"SHOW QUEUE THREADS\n")?;
            Ok(stream)
        };
        (0..STALLED_CLIENTS).map(client).collect()
    }
}

fn median(mut work: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        work()?;
        times.push(started.elapsed());
    }
    times.sort();
    Ok(times[RUNS / 2])
}
