//! Tests of agent functions, on control files given as text.
//!
//! The control file and the message file are written to a temporary folder, and removed with it.
//! All the rest is as in a real agent: the protocol, locks, tags and `d` lines.
//!
//! ```
//! use zsched_agent::testing::TestJob;
//! use zsched_agent::{Outcome, Scope, Verdict};
//!
//! let control_file = "\
//! @ 0x00000007
//! i 4711
//! o 0
//! s local - alice@example.org 1001
//! r           smtp mx.example.net bob@example.net 1001
//! m
//! From: alice@example.org
//!
//! ";
//! let run = TestJob::new(control_file).run(&Scope::channel("smtp"), |job| {
//!     job.deliver_each(|_| Outcome::new(Verdict::Failed, "5.1.1", 550, "no such user"))
//! });
//! assert_eq!(run.report("bob@example.net").status, "error2");
//! assert_eq!(run.tag("bob@example.net"), '-');
//! assert_eq!(run.notes[0].text, "no such user");
//! assert!(run.log.is_empty() && !run.requested_resync);
//! ```

use crate::{Agent, Halt, Job, Scope, StopFlag};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_format::agent_protocol::AgentLine;
use zsched_format::control_file::diagnostic::{DiagnosticRecord, NOTARY_SEPARATOR};
use zsched_format::control_file::{self, ControlFile};

/// A job for an agent function, made of a control file.
#[derive(Clone, Debug)]
pub struct TestJob {
    control_file: Vec<u8>,
    body: Option<Vec<u8>>,
    host: Option<String>,
    stop: StopFlag,
}

impl TestJob {
    /// Creates a job for all recipients in the agent's scope.
    ///
    /// The message has an empty body. `control-file(5)` describes the format. The name of the file
    /// is that of its `i` line.
    pub fn new(control_file: impl Into<Vec<u8>>) -> TestJob {
        let (control_file, stop) = (control_file.into(), StopFlag::default());
        TestJob { control_file, body: Some(Vec::new()), host: None, stop }
    }

    /// Sets the body of the message.
    ///
    /// In the message file it begins at the offset that the `o` line names.
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> TestJob {
        TestJob { body: Some(body.into()), ..self }
    }

    /// Leaves out the message file, so that [`Job::message`] fails.
    pub fn without_message_file(self) -> TestJob {
        TestJob { body: None, ..self }
    }

    /// Restricts the job to a host, as the scheduler does.
    pub fn with_host(self, host: impl Into<String>) -> TestJob {
        TestJob { host: Some(host.into()), ..self }
    }

    /// Sets the flag that stops the agent. A test sets it in the middle of a delivery.
    pub fn with_stop_flag(self, stop: StopFlag) -> TestJob {
        TestJob { stop, ..self }
    }

    /// Gives the job to an agent that does `work`.
    ///
    /// # Panics
    ///
    /// The control file cannot be parsed or has no `i` line, or the temporary folder cannot be
    /// used. A panic of `work` is passed on.
    pub fn run(
        &self,
        scope: &Scope,
        work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) -> TestRun {
        let spool = TestSpool::create();
        let name = self.write_to(&spool.0);
        let host = self.host.iter().map(|host| format!("\t{host}")).collect::<String>();
        let command = format!("{name}{host}\n");
        let mut replies = Vec::new();
        Agent::new("test", scope.clone())
            .with_postoffice(&spool.0)
            .with_stop_flag(self.stop.clone())
            .run(command.as_bytes(), &mut replies, work);
        TestRun::read(&spool.0, &name, &replies)
    }

    /// Writes the files of the message, and returns their name.
    fn write_to(&self, postoffice: &Path) -> String {
        let parsed = control_file::parse(self.control_file.clone())
            .unwrap_or_else(|error| panic!("the control file cannot be parsed: {error}"));
        let name = parsed.name().expect("the control file has an i line");
        let name = String::from_utf8_lossy(name).into_owned();
        let write = |folder: &str, bytes: &[u8]| {
            let path = postoffice.join(folder).join(&name);
            fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        };
        write("transport", &self.control_file);
        if let Some(body) = &self.body {
            let offset = usize::try_from(parsed.body_offset.unwrap_or_default());
            let mut message = vec![b'\n'; offset.expect("the body is within the address space")];
            message.extend_from_slice(body);
            write("queue", &message);
        }
        name
    }
}

/// What an agent function has done with a job.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// The reports to the scheduler, in the order in which they were sent.
    pub reports: Vec<TestReport>,
    /// The notes for the sender (`d` lines of the control file), in file order.
    pub notes: Vec<TestNote>,
    /// All recipients of the control file with their tags, in file order.
    ///
    /// A tag is a blank for a pending recipient, `~` for a locked one, `+` for one that is
    /// delivered, `-` for one that has failed.
    pub tags: Vec<(String, char)>,
    /// The messages of the library for the scheduler's log.
    pub log: Vec<String>,
    /// True if the agent has requested that the scheduler reads the file again (`#resync`).
    ///
    /// That is also so if its scope has selected no recipient.
    pub requested_resync: bool,
    /// What was handed back to the router, in no order.
    pub submissions: Vec<String>,
    /// The text of the control file afterwards.
    pub control_file: Vec<u8>,
}

/// A report about one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestReport {
    /// The address of the recipient, as in the control file.
    pub user: String,
    /// The offset of its line, in bytes.
    pub offset: u32,
    /// The status word: `ok3`, `deferred` and so on, see `transport-agent(7)`.
    pub status: String,
    /// The fields of the notary data: final address, action, status, diagnostic code, remote host.
    ///
    /// Empty if they have been noted in the control file, or are not needed.
    pub notary: Vec<String>,
    /// The text for people.
    pub text: String,
}

/// A note for the sender about one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestNote {
    /// The address of the recipient, as in the control file.
    pub user: String,
    /// The offset of its line, in bytes.
    pub offset: u32,
    /// The fields of the notary data: final address, action, status, diagnostic code, remote host.
    pub notary: Vec<String>,
    /// The text for people.
    pub text: String,
}

impl TestRun {
    /// The report about the recipient with this address.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn report(&self, user: &str) -> &TestReport {
        let found = self.reports.iter().find(|report| report.user == user);
        found.unwrap_or_else(|| panic!("no report about {user} in {:?}", self.reports))
    }

    /// The tag of the recipient with this address.
    ///
    /// # Panics
    ///
    /// There is no such recipient.
    pub fn tag(&self, user: &str) -> char {
        let found = self.tags.iter().find(|(other, _)| other == user);
        found.unwrap_or_else(|| panic!("no recipient {user} in {:?}", self.tags)).1
    }

    fn read(postoffice: &Path, name: &str, replies: &[u8]) -> TestRun {
        let text = fs::read(postoffice.join("transport").join(name)).expect("the control file");
        let file = control_file::parse(text).expect("an agent changes only tags");
        let mut run = TestRun {
            reports: Vec::new(),
            notes: file.diagnostics.iter().map(|line| note(&file, file.get(line.value))).collect(),
            tags: file
                .recipients
                .iter()
                .map(|r| (user_at(&file, r.offset), r.tag.byte().into()))
                .collect(),
            log: Vec::new(),
            requested_resync: false,
            submissions: files_in(&postoffice.join("router")),
            control_file: file.text.clone(),
        };
        for line in replies.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match AgentLine::parse(line) {
                AgentLine::Hungry => {}
                AgentLine::Resync(_) => run.requested_resync = true,
                AgentLine::Report(report) => run.reports.push(TestReport {
                    user: user_at(&file, report.offset),
                    offset: report.offset,
                    status: report.status.word().to_string(),
                    notary: fields(report.notary),
                    text: lossy(report.message),
                }),
                AgentLine::Comment(text) | AgentLine::Malformed(_, text) => {
                    let prefix = format!("# test:{}: ", std::process::id());
                    let text = lossy(text);
                    run.log.push(text.strip_prefix(&prefix).unwrap_or(&text).to_string());
                }
            }
        }
        run
    }
}

fn note(file: &ControlFile, line: &[u8]) -> TestNote {
    let diagnostic = DiagnosticRecord::parse(line).expect("an agent writes whole lines");
    TestNote {
        user: user_at(file, diagnostic.recipient),
        offset: diagnostic.recipient,
        notary: fields(diagnostic.notary),
        text: lossy(diagnostic.message),
    }
}

fn user_at(file: &ControlFile, offset: u32) -> String {
    let recipient = file.recipient_at(offset).expect("a recipient is at this offset");
    lossy(file.get(recipient.quad.user))
}

fn fields(notary: &[u8]) -> Vec<String> {
    let fields = notary.split(|byte| *byte == NOTARY_SEPARATOR);
    if notary.is_empty() { Vec::new() } else { fields.map(lossy).collect() }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let text = |entry: std::io::Result<fs::DirEntry>| {
        lossy(&fs::read(entry.expect("an entry").path()).expect("the file can be read"))
    };
    entries.map(text).collect()
}

/// A temporary POSTOFFICE, which is removed when it is dropped.
struct TestSpool(PathBuf);

impl TestSpool {
    fn create() -> TestSpool {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("zsched-agent-test.{}.{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        };
        for folder in ["transport", "queue", "public", "router"] {
            fs::create_dir(path.join(folder)).expect("a folder can be created");
        }
        TestSpool(path)
    }
}

impl Drop for TestSpool {
    fn drop(&mut self) {
        // A test can go on without it.
        fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests;
