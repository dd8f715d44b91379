//! Memory of a scheduler with a queue far larger than its limit (`PARAMmessage-active-limit` and
//! related parameters), and the time that it takes.
//!
//! ```text
//! cargo bench --bench memory -- [--messages N] [--recipients N] [--hosts N] \
//!     [--folder FOLDER] [--cf TEXT]
//! ```
//!
//! By default there are a million messages with ten recipients each. The first run has hosts that
//! are tried on request only, so all messages are paged out; the second has agents that discard the
//! mail. `--messages 1 --recipients 10000000 --hosts 10` is the other extreme; agents read the
//! whole file for each host.
//!
//! It prints the peak of resident memory (`VmHWM`) and the time. The spool is in a folder below
//! `--folder` (`/dev/shm`), has two files for each message, and is removed.

mod arguments;
mod site;

use arguments::Arguments;
use site::{Scheduler, Site};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use zsched_spool::{HashFolder, HashLevel, SpoolName};

const CONFIGURATION: &str = "\
PARAMmailqsock = \"UNIX:${POSTOFFICE}/mailq\"
PARAMmessage-active-limit = 20000
q/*
\tqueueonly expiry=3d
\tcommand=\"discard -c $channel\"
*/*
\tmaxta=20 maxring=2 overfeed=150 expiry=3d
\tcommand=\"discard -c $channel\"
";
/// Time after which the benchmark gives up.
const DEADLINE: Duration = Duration::from_secs(3600);

fn main() -> io::Result<()> {
    let arguments = Arguments::new();
    let (messages, recipients) =
        (arguments.number("--messages", 1_000_000), arguments.number("--recipients", 10));
    let hosts = arguments.number("--hosts", 1000);
    let configuration = format!("{}\n{CONFIGURATION}", arguments.value("--cf").unwrap_or_default());
    for channel in ["q", "d"] {
        let folder =
            tempfile::Builder::new().prefix("zsched-bench").tempdir_in(arguments.folder())?;
        let queue = Queue { place: Site::new(folder.path(), &configuration)? };
        let started = Instant::now();
        queue.fill(messages, recipients, hosts, channel)?;
        let took = started.elapsed().as_secs();
        println!("{messages} messages, {recipients} recipients each, {channel}: made in {took} s");
        let started = Instant::now();
        let scheduler = queue.place.start("-i", &[OsStr::new("-H")])?;
        match channel {
            "q" => queue.wait_until_all_rest(messages)?,
            _ => queue.wait_until_empty()?,
        }
        let took = started.elapsed().as_secs_f64();
        let peak = peak_of(&scheduler)?;
        let each = peak as f64 * 1024.0 / (messages * recipients) as f64;
        println!("  peak {:.1} MB, {each:.1} bytes a recipient, {took:.1} s", peak as f64 / 1024.0);
    }
    Ok(())
}

/// A spool with very many recipients.
struct Queue {
    place: Site,
}

impl Queue {
    /// Writes the messages as a router does, but without syncing them.
    fn fill(&self, messages: usize, each: usize, hosts: usize, channel: &str) -> io::Result<()> {
        let spool = &self.place.spool;
        for folder in [spool.transport(), spool.queue()] {
            for first in b'A'..=b'Z' {
                fs::create_dir_all(folder.join((first as char).to_string()))?;
            }
        }
        for number in 1..=messages as u64 {
            let name = SpoolName::plain(HashFolder::of(number, HashLevel::Once), number);
            fs::write(spool.message_file(&name), "\n")?;
            let mut file = io::BufWriter::new(fs::File::create(spool.control_file(&name))?);
            write!(file, "@ 7\ni {number}\nl <{number}@x>\ns local - sender 0\n")?;
            for recipient in 0..each {
                let host = (number as usize * each + recipient) % hosts;
                // The lines are short: ten million of them must be less than agents can read.
                writeln!(file, "r           {channel} h{host} u 0")?;
            }
            write!(file, "m\nSubject: bench\n\n")?;
            file.flush()?;
        }
        Ok(())
    }

    fn wait_until_all_rest(&self, messages: usize) -> io::Result<()> {
        self.wait(|| {
            let answer =
                self.place.answer("SHOW JSON SUMMARY", DEADLINE).unwrap_or_default().join("\n");
            let number = |name: &str| number_in(&answer, &format!("\"{name}\":"));
            let rest = number("resting");
            rest > 0 && number("waiting") == 0 && rest + number("messages") >= messages
        })
    }

    fn wait_until_empty(&self) -> io::Result<()> {
        let spool = &self.place.spool;
        let is_empty = |path: PathBuf| fs::read_dir(path).is_ok_and(|mut all| all.next().is_none());
        let letters = || (b'A'..=b'Z').map(|letter| (letter as char).to_string());
        self.wait(|| letters().all(|l| is_empty(spool.transport().join(l))))
    }

    fn wait(&self, is_done: impl Fn() -> bool) -> io::Result<()> {
        let deadline = Instant::now() + DEADLINE;
        while !is_done() {
            assert!(Instant::now() < deadline, "it does not come to an end");
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

fn number_in(answer: &str, key: &str) -> usize {
    let behind = answer.split(key).nth(1).unwrap_or_default();
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    behind[..digits].parse().unwrap_or_default()
}

/// Returns the peak of resident memory, in kilobytes.
fn peak_of(scheduler: &Scheduler) -> io::Result<usize> {
    let status = fs::read_to_string(format!("/proc/{}/status", scheduler.pid()))?;
    Ok(number_in(&status.replace(['\t', ' '], ""), "VmHWM:"))
}
