//! A spool with a configuration, and a scheduler for it. Benchmarks with the real programs share
//! this.

// Not every benchmark uses all of it.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use zsched_format::control_file::compose::{Address, Group, Recipient};
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool, SpoolName};

/// A spool, and the files that a scheduler for it reads.
pub struct Site {
    pub spool: Spool,
    pub zenv: PathBuf,
    pub config: PathBuf,
}

impl Site {
    pub fn new(folder: &Path, configuration: &str) -> io::Result<Site> {
        let spool = Spool::new(folder.join("postoffice"));
        spool.create()?;
        let (zenv, config) = (folder.join("zmailer.conf"), folder.join("scheduler.cf"));
        fs::write(&zenv, format!("POSTOFFICE={}\n", spool.postoffice().display()))?;
        fs::write(&config, configuration)?;
        Ok(Site { spool, zenv, config })
    }

    /// Puts a message for some users into the spool, each with a host.
    pub fn submit(
        &self,
        channel: &str,
        number: usize,
        users: &[(String, String)],
    ) -> io::Result<SpoolName> {
        let submitter =
            Submitter { spool: self.spool.clone(), level: HashLevel::Flat, sync: false };
        let to = users.first().map_or("", |(user, _)| user);
        let headers = format!("From: sender@example.org\nTo: {to}\nSubject: {number}\n");
        let recipient = |(user, host): &(String, String)| Recipient {
            address: Address::new(channel, host, user, 65534),
            ..Recipient::default()
        };
        let group = Group {
            sender: Address::new("local", "", "sender@example.org", 0),
            recipients: users.iter().map(recipient).collect(),
            headers: headers.clone().into_bytes(),
            ..Group::default()
        };
        let message = format!("{headers}\nA short body.\n");
        let id = format!("<{number}@example.org>");
        submitter.submit(message.as_bytes(), &id, vec![group], None)
    }

    /// Puts a message into the spool for one user of one of `hosts` hosts.
    pub fn submit_one(&self, number: usize, hosts: usize) -> io::Result<SpoolName> {
        let host = format!("host{}.example", number % hosts);
        self.submit("smtp", number, &[(format!("user{number}@{host}"), host)])
    }

    /// Puts such messages into the spool at a steady rate, with a notification for each.
    pub fn submit_at(&self, rate: usize, messages: usize, hosts: usize) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(self.spool.postoffice().join(".scheduler.notify"))?;
        let first = Instant::now();
        for index in 0..messages {
            let name = self.submit_one(index, hosts)?;
            socket.send(format!("NEW {name}").as_bytes())?;
            let due = Duration::from_secs_f64((index + 1) as f64 / rate as f64);
            // It sleeps once for ten messages, since each sleep takes longer than requested.
            if index % 10 == 9 {
                sleep(due.saturating_sub(first.elapsed()));
            }
        }
        Ok(())
    }

    /// Connects to the control socket. A read fails after the timeout.
    pub fn connect(&self, timeout: Duration) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(self.spool.control_socket())?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(stream)
    }

    /// Returns all lines of the answer to a request.
    pub fn answer(&self, request: &str, timeout: Duration) -> io::Result<Vec<String>> {
        let mut stream = self.connect(timeout)?;
        stream.write_all(format!("{request}\nQUIT\n").as_bytes())?;
        BufReader::new(stream).lines().collect()
    }

    pub fn start(&self, option: &str, others: &[&OsStr]) -> io::Result<Scheduler> {
        let child = Command::new(env!("CARGO_BIN_EXE_scheduler"))
            .args([option, "-Z"])
            .arg(&self.zenv)
            .arg("-f")
            .arg(&self.config)
            .args(others)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Scheduler { child })
    }
}

/// A scheduler that runs until this value is dropped.
pub struct Scheduler {
    child: Child,
}

impl Scheduler {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time of all its workers.
    pub fn processor_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let statistics = fs::read_to_string(thread?.path().join("schedstat"))?;
            let running = statistics.split_ascii_whitespace().next().unwrap_or_default();
            nanoseconds += running.parse::<u64>().unwrap_or_default();
        }
        Ok(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // The scheduler may have exited; then there is nothing to stop.
        drop(Command::new("kill").arg(self.child.id().to_string()).status());
        drop(self.child.wait());
    }
}
