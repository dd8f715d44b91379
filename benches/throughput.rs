//! Throughput of the whole system: a spool full of messages, the real scheduler, and an agent that
//! only marks recipients and reports.
//!
//! ```text
//! cargo bench --bench throughput -- [--messages N] [--hosts N] [--folder FOLDER]
//! cargo bench --bench throughput -- --record ROUNDS [--rate N] [...]
//! cargo bench --bench throughput -- --status-log ROUNDS [--rate N] [...]
//! cargo bench --bench throughput -- --log ROUNDS [--rate N] [...]
//! ```
//!
//! Without a folder it measures on tmpfs (`/dev/shm`) and on the disk that holds the target folder.
//! It prints the seconds until the first removal, messages a second from the first removal to the
//! last, the scheduler's processor time for each message, and its memory for each queued message.
//!
//! `--record` measures the cost of a recording. It makes ROUNDS pairs of runs, one without and one
//! with a recorder at the same time, and prints the ratio of their processor times. `--status-log`
//! does the same with a status log, and `--log` with the lines about mail that the log has by
//! default.
//!
//! With `--rate` there are N messages a second, with a notification for each, instead of all at the
//! start. A turn of the scheduler's loop has less to do then, so a message costs more.

mod arguments;
mod site;

use arguments::Arguments;
use site::{Scheduler, Site};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

const CONFIGURATION: &str = "\
PARAMmailqsock = \"UNIX:${POSTOFFICE}/mailq\"
*/*
\tmaxta=20 maxring=20 overfeed=150 expiry=3d
\tcommand=\"discard -c $channel\"
";
/// Time after which the benchmark gives up.
const DEADLINE: Duration = Duration::from_secs(300);

fn main() -> io::Result<()> {
    let arguments = Arguments::new();
    let (messages, hosts) =
        (arguments.number("--messages", 20_000), arguments.number("--hosts", 100));
    let disk = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folders = match arguments.value("--folder") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => vec![PathBuf::from("/dev/shm"), disk],
    };
    for folder in folders {
        let compared = ["--record", "--status-log", "--log"]
            .into_iter()
            .map(|option| (option, arguments.number(option, 0)))
            .find(|(_, rounds)| *rounds > 0);
        match compared {
            None => measure(&folder, messages, hosts)?,
            Some(compared) => {
                compare(&folder, messages, hosts, compared, arguments.number("--rate", 0))?
            }
        }
    }
    Ok(())
}

/// Prints the processor time for each message without and with an option.
///
/// The option makes the scheduler write a file.
fn compare(
    folder: &Path,
    messages: usize,
    hosts: usize,
    (option, rounds): (&str, usize),
    rate: usize,
) -> io::Result<()> {
    println!("{messages} messages to {hosts} hosts in {}, {rate}/s", folder.display());
    let one = |written: bool| {
        let folder = tempfile::Builder::new().prefix("zsched-bench").tempdir_in(folder)?;
        let place = Site::new(folder.path(), CONFIGURATION)?;
        let file = folder.path().join("written");
        let options = [option.as_ref(), file.as_os_str(), "--mail-lines".as_ref(), "none".as_ref()];
        let options = match (option, written) {
            ("--log", false) => &options[..],
            (_, true) => &options[..2],
            (_, false) => &[],
        };
        let run = if rate == 0 {
            place.fill(messages, hosts)?;
            place.run(options)?
        } else {
            place.run_at(rate, messages, hosts, options)?
        };
        let size = fs::metadata(&file).map_or(0, |data| data.len());
        Ok::<_, io::Error>((run.processor_time.as_secs_f64() * 1e6 / messages as f64, size))
    };
    let mut ratios = Vec::new();
    let mut lowest = (f64::INFINITY, f64::INFINITY);
    for round in 0..rounds {
        // Both run at once, so other activity of the machine affects both. The order changes, so
        // that neither has an advantage.
        let first = round % 2 == 1;
        let (a, b) = thread::scope(|scope| {
            let other = scope.spawn(|| one(!first));
            (one(first), other.join().expect("a measurement does not panic"))
        });
        let (a, b) = (a?, b?);
        let ((without, _), (with, size)) = if first { (b, a) } else { (a, b) };
        ratios.push(with / without);
        lowest = (lowest.0.min(without), lowest.1.min(with));
        let bytes = size as f64 / messages as f64;
        println!(
            "  {without:8.2} us/message without, {with:8.2} with: {:6.4} ({bytes:.0} bytes/message)",
            with / without
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("  median ratio {:6.4}", ratios[ratios.len() / 2]);
    // Other activity of the machine can only add time.
    println!("  ratio of the lowest {:6.4}", lowest.1 / lowest.0);
    Ok(())
}

fn measure(folder: &Path, messages: usize, hosts: usize) -> io::Result<()> {
    let folder = tempfile::Builder::new().prefix("zsched-bench").tempdir_in(folder)?;
    println!("{messages} messages to {hosts} hosts in {}", folder.path().display());
    let place = Site::new(folder.path(), CONFIGURATION)?;
    place.fill(messages, hosts)?;
    let memory = place.memory_per_message(messages)?;
    let run = place.run(&[])?;
    let rate = messages as f64 / run.removing.as_secs_f64();
    let all = messages as f64 / (run.until_first + run.removing).as_secs_f64();
    let cpu = run.processor_time.as_secs_f64() * 1e6 / messages as f64;
    println!("  until the first removal          {:8.3} s", run.until_first.as_secs_f64());
    println!("  from the first to the last       {rate:8.0} messages/s");
    println!("  from the start to the last       {all:8.0} messages/s");
    println!("  processor time of the scheduler  {cpu:8.2} us/message");
    println!("  memory                           {:8.3} kB/message", memory / 1024.0);
    Ok(())
}

struct Run {
    until_first: Duration,
    removing: Duration,
    processor_time: Duration,
}

/// The measurements.
trait Measured {
    fn fill(&self, messages: usize, hosts: usize) -> io::Result<()>;
    fn run(&self, options: &[&OsStr]) -> io::Result<Run>;
    fn run_at(
        &self,
        rate: usize,
        messages: usize,
        hosts: usize,
        options: &[&OsStr],
    ) -> io::Result<Run>;
    fn memory_per_message(&self, messages: usize) -> io::Result<f64>;
}

impl Measured for Site {
    fn fill(&self, messages: usize, hosts: usize) -> io::Result<()> {
        (0..messages).try_for_each(|number| self.submit_one(number, hosts).map(|_| ()))
    }

    /// Starts the scheduler on the full spool, and waits until that is empty.
    fn run(&self, options: &[&OsStr]) -> io::Result<Run> {
        let changed = || fs::metadata(self.spool.transport())?.modified();
        let before = changed()?;
        let started = (Instant::now(), SystemTime::now());
        let scheduler = self.start("-i", options)?;
        let mut first = None;
        loop {
            sleep(Duration::from_millis(1));
            let last = changed()?;
            if last != before {
                first.get_or_insert(last);
            }
            let is_quiet = last.elapsed().is_ok_and(|ago| ago > Duration::from_millis(50));
            if let Some(first) = first.filter(|_| is_quiet)
                && fs::read_dir(self.spool.transport())?.next().is_none()
            {
                return Ok(Run {
                    until_first: first.duration_since(started.1).unwrap_or_default(),
                    removing: last.duration_since(first).unwrap_or_default(),
                    processor_time: scheduler.processor_time()?,
                });
            }
            assert!(started.0.elapsed() < DEADLINE, "the scheduler does not get through");
        }
    }

    /// Submits messages to a running scheduler at a rate, until the spool is empty.
    fn run_at(
        &self,
        rate: usize,
        messages: usize,
        hosts: usize,
        options: &[&OsStr],
    ) -> io::Result<Run> {
        let scheduler = self.start("-i", options)?;
        let (started, socket) = (Instant::now(), UnixDatagram::unbound()?);
        let address = self.spool.postoffice().join(".scheduler.notify");
        while socket.connect(&address).is_err() {
            assert!(started.elapsed() < DEADLINE, "the scheduler does not start");
            sleep(Duration::from_millis(1));
        }
        let first = Instant::now();
        self.submit_at(rate, messages, hosts)?;
        while fs::read_dir(self.spool.transport())?.next().is_some() {
            assert!(started.elapsed() < DEADLINE, "the scheduler does not get through");
            sleep(Duration::from_millis(5));
        }
        let processor_time = scheduler.processor_time()?;
        Ok(Run { until_first: first - started, removing: first.elapsed(), processor_time })
    }

    /// Returns the scheduler's memory for each queued message: loaded, but frozen.
    fn memory_per_message(&self, messages: usize) -> io::Result<f64> {
        let scheduler = self.start("-iF", &[])?;
        let deadline = Instant::now() + DEADLINE;
        let mut former = 0;
        let mut unchanged = 0;
        // The queue is loaded when the memory has not grown for a while.
        while unchanged < 10 {
            sleep(Duration::from_millis(100));
            let resident = resident_bytes(&scheduler)?;
            unchanged = if resident == former { unchanged + 1 } else { 0 };
            former = resident;
            assert!(Instant::now() < deadline, "the scheduler does not stop growing");
        }
        drop(scheduler);
        let empty = tempfile::tempdir()?;
        let nothing = Site::new(empty.path(), CONFIGURATION)?;
        let scheduler = nothing.start("-iF", &[])?;
        sleep(Duration::from_secs(1));
        let baseline = resident_bytes(&scheduler)?;
        Ok(former.saturating_sub(baseline) as f64 / messages as f64)
    }
}

/// Returns the resident memory of a scheduler, in bytes.
fn resident_bytes(scheduler: &Scheduler) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", scheduler.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    Ok(kilobytes * 1024)
}
