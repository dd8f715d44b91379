//! How much memory a scheduler takes whose queue is far larger than it may keep (`PARAMmessage-active-limit`
//! and its kin), and how long it takes to get through.
//!
//! ```text
//! cargo bench --bench memory -- [--messages N] [--recipients N] [--hosts N] [--folder FOLDER] [--cf TEXT]
//! ```
//!
//! By default a million messages with ten recipients each, once for hosts that are tried on request only, so
//! that all of them rest, and once for agents that discard them. `--messages 1 --recipients 10000000 --hosts 10`
//! is the other extreme; agents read the whole file for each host. Printed are the peak of resident memory
//! (`VmHWM`) and the time it took. The spool is made in a folder below `--folder` (`/dev/shm`), which takes two
//! files for each message, and is removed.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use zsched::spool::{HashFolder, HashLevel, Spool, SpoolName};

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
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(3600);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number =
        |name: &str, default| value(name).map_or(default, |n| n.parse().expect("a number"));
    let (messages, recipients) = (number("--messages", 1_000_000), number("--recipients", 10));
    let hosts = number("--hosts", 1000);
    let folder = value("--folder").map_or(PathBuf::from("/dev/shm"), PathBuf::from);
    let more = value("--cf").unwrap_or_default();
    for channel in ["q", "d"] {
        let folder = tempfile::Builder::new().prefix("zsched-bench").tempdir_in(&folder)?;
        let place = Place::new(folder.path(), &more)?;
        let started = Instant::now();
        place.fill(messages, recipients, hosts, channel)?;
        let took = started.elapsed().as_secs();
        println!("{messages} messages, {recipients} recipients each, {channel}: made in {took} s");
        let started = Instant::now();
        let scheduler = place.start()?;
        match channel {
            "q" => place.wait_until_all_rest(messages)?,
            _ => place.wait_until_empty()?,
        }
        let took = started.elapsed().as_secs_f64();
        let peak = scheduler.peak()?;
        let each = peak as f64 * 1024.0 / (messages * recipients) as f64;
        println!("  peak {:.1} MB, {each:.1} bytes a recipient, {took:.1} s", peak as f64 / 1024.0);
    }
    Ok(())
}

struct Place {
    spool: Spool,
    zenv: PathBuf,
    config: PathBuf,
}

impl Place {
    fn new(folder: &Path, more: &str) -> io::Result<Place> {
        let spool = Spool::new(folder.join("postoffice"));
        spool.create()?;
        let (zenv, config) = (folder.join("zmailer.conf"), folder.join("scheduler.cf"));
        fs::write(&zenv, format!("POSTOFFICE={}\n", spool.postoffice().display()))?;
        fs::write(&config, format!("{more}\n{CONFIGURATION}"))?;
        Ok(Place { spool, zenv, config })
    }

    /// Writes the messages as a router would, but without its care.
    fn fill(&self, messages: usize, each: usize, hosts: usize, channel: &str) -> io::Result<()> {
        for folder in [self.spool.transport(), self.spool.queue()] {
            for first in b'A'..=b'Z' {
                fs::create_dir_all(folder.join((first as char).to_string()))?;
            }
        }
        for number in 1..=messages as u64 {
            let name = SpoolName::plain(HashFolder::of(number, HashLevel::Once), number);
            fs::write(self.spool.message_file(&name), "\n")?;
            let mut file = io::BufWriter::new(fs::File::create(self.spool.control_file(&name))?);
            write!(file, "@ 7\ni {number}\nl <{number}@x>\ns local - sender 0\n")?;
            for recipient in 0..each {
                let host = (number as usize * each + recipient) % hosts;
                // Ten million of them are to be less than the agents can read.
                writeln!(file, "r           {channel} h{host} u 0")?;
            }
            write!(file, "m\nSubject: bench\n\n")?;
            file.flush()?;
        }
        Ok(())
    }

    fn start(&self) -> io::Result<Scheduler> {
        let child = Command::new(env!("CARGO_BIN_EXE_scheduler"))
            .args(["-i", "-H", "-Z"])
            .arg(&self.zenv)
            .arg("-f")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stderr(fs::File::create(self.zenv.with_file_name("log"))?)
            .spawn()?;
        Ok(Scheduler { child })
    }

    /// The answer to a request, all of its lines.
    fn answer(&self, request: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(self.spool.control_socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{request}\nQUIT\n").as_bytes())?;
        let lines: io::Result<Vec<String>> = BufReader::new(stream).lines().collect();
        Ok(lines?.join("\n"))
    }

    fn wait_until_all_rest(&self, messages: usize) -> io::Result<()> {
        self.wait(|place| {
            let answer = place.answer("SHOW JSON SUMMARY").unwrap_or_default();
            let number = |name: &str| number_in(&answer, &format!("\"{name}\":"));
            let rest = number("resting");
            rest > 0 && number("waiting") == 0 && rest + number("messages") >= messages
        })
    }

    fn wait_until_empty(&self) -> io::Result<()> {
        let is_empty = |path: PathBuf| fs::read_dir(path).is_ok_and(|mut all| all.next().is_none());
        let letters = || (b'A'..=b'Z').map(|letter| (letter as char).to_string());
        self.wait(|place| letters().all(|l| is_empty(place.spool.transport().join(l))))
    }

    fn wait(&self, is_done: impl Fn(&Place) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_done(self) {
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

struct Scheduler {
    child: Child,
}

impl Scheduler {
    /// Peak of resident memory, in kilobytes.
    fn peak(&self) -> io::Result<usize> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        Ok(number_in(&status.replace(['\t', ' '], ""), "VmHWM:"))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to stop.
        drop(Command::new("kill").arg(self.child.id().to_string()).status());
        drop(self.child.wait());
    }
}
