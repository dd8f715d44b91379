//! Answers to requests, and the steps that lead to them.

use super::arguments::SyntaxError;
use super::events::{SubscriberQueue, Subscribers};
use super::request_counters::RequestCounters;
use super::selection::Addresses;
use crate::acl::Peer;
use crate::auth_file::AuthFile;
use serde::Serialize;
use std::rc::Rc;
use zsched_core::intake::backlog_view::BacklogView;
use zsched_core::{Effect, Order, Scheduler};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::scram::Secret;
use zsched_spool::SpoolName;

/// What a session has access to while it continues.
pub struct SessionContext<'s> {
    /// The queue.
    pub scheduler: &'s Scheduler,
    /// The time.
    pub now: Timestamp,
    /// The scheduler's process.
    pub process: Process,
    /// Returns the current accounts.
    pub accounts: &'s mut dyn FnMut() -> Rc<AuthFile>,
    /// Messages that are not in memory.
    pub backlog: &'s dyn BacklogView,
    /// The secret of the running scheduler, for SCRAM.
    pub secret: &'s Secret,
    /// The subscribers of the event feed.
    pub watch: &'s Subscribers,
    /// Request counters of all clients.
    pub request_counters: &'s mut RequestCounters,
    /// Collects log lines about clients.
    pub log_lines: &'s mut Vec<ClientLog>,
}

/// The process that the scheduler runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// When it was started.
    pub started: Timestamp,
    /// Its process id.
    pub pid: u32,
    /// Mail that was in the spool at the start is still being loaded.
    pub is_loading: bool,
}

/// A log line about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientLog {
    /// A request for a change.
    Change(String),
    /// A refusal. A client can cause any number of them.
    Refused(String),
    /// A failed or refused login.
    ///
    /// A client can cause any number of them.
    LoginFailed(Peer, String),
}

/// The answer to a request.
pub enum Reply {
    /// A line or several, with line ends.
    Line(String),
    /// A text of any number of lines.
    Text(Box<dyn Text>),
    /// The request is unknown or not permitted.
    Unknown,
    /// A syntax error.
    ///
    /// The offset is relative to the end of the request's words.
    SyntaxError(SyntaxError),
    /// Events from now on, until the client sends something.
    Stream(Rc<SubscriberQueue>),
    /// A task to carry out before the answer.
    Task(Box<dyn Task>),
}

/// A task of several steps, most of them orders to the core.
pub trait Task {
    /// Returns the next step.
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next;

    /// Accepts the effect of the last order.
    fn order_done(&mut self, effect: &Effect);

    /// Accepts the result of a lookup requested by [`Next::Needs`].
    fn lookup_done(&mut self, _findings: LookupResult) {}

    /// Accepts the outcome of the last admin command.
    ///
    /// `Err` is the reason of a failure.
    fn done(&mut self, _outcome: Result<(), String>) {}

    /// Returns the answer when all steps are done, with line ends.
    fn tell(&self) -> String;

    /// Describes the progress, for the log, if the client disconnects before the end.
    fn progress(&self) -> String {
        "the result of the order is unknown".to_string()
    }
}

/// The next step of a task.
pub enum Next {
    /// Give this order to the core.
    Order(Order),
    /// Look this up.
    Needs(Lookup),
    /// Have the shell carry this out.
    AdminCommand(AdminCommand),
    /// Continue after other clients had their turn.
    More,
    /// All steps are done.
    Over,
}

/// An admin command: a step that the shell carries out without the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Read the configuration again.
    Reload,
    /// Set this log level.
    Log(log::LevelFilter),
    /// Load the message of this number, which is not in memory.
    ///
    /// Done when the message is loaded, or when the wait for it is given up.
    Load(u64),
}

/// A text that is written step by step, as fast as the client reads it.
pub trait Text {
    /// Writes the next lines: whole ones, and a limited number.
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step;

    /// Accepts the result of a lookup requested by [`Step::Needs`].
    fn lookup_done(&mut self, result: LookupResult);

    /// Returns true if its length or memory grows with the queue.
    ///
    /// Only a limited number of these are written at the same time.
    fn is_long(&self) -> bool {
        false
    }
}

/// Progress of a text.
pub enum Step {
    /// There is more.
    More,
    /// There is more, but other clients come first: this step took long.
    Pause,
    /// This must be looked up before there is more.
    Needs(Lookup),
    /// The text is complete.
    Over,
}

/// A request of a session to the shell, needed before it can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A lookup on a disk. Answered by [`lookup_done`](super::Session::lookup_done).
    Lookup(Lookup),
    /// An order to the core. Answered by [`order_done`](super::Session::order_done).
    Order {
        /// The author of the order.
        by: String,
        /// The order.
        order: Order,
    },
    /// An admin command. Answered by [`done`](super::Session::done).
    Admin(AdminCommand),
}

/// A lookup of information that is not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The addresses to which errors of these messages are reported.
    ErrorAddresses(Vec<SpoolName>),
    /// The state of the host.
    Host,
    /// Which of these candidates match the addresses.
    MatchAddresses(Addresses, Vec<Candidate>),
}

/// Recipients of one message for one destination, to be checked in the control file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The message.
    pub name: SpoolName,
    /// Channel, LF and host, in lower case.
    pub destination: Box<[u8]>,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum LookupResult {
    /// The error address of each message.
    ///
    /// `None` if the message has none or its control file cannot be read.
    ErrorAddresses(Vec<Option<Box<[u8]>>>),
    /// The state of the host.
    Host(HostFacts),
    /// For each candidate, true if it matches.
    ///
    /// One whose control file cannot be read does not.
    MatchAddresses(Vec<bool>),
}

/// The state of the host, as shown by `SHOW COUNTERS`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The scheduler's process.
    pub pid: u32,
    /// Load averages over one and over five minutes.
    pub load: Option<(f64, f64)>,
    /// File systems of the message files, of the control files and of the log.
    pub disks: [DiskSpace; 3],
}

/// Usage of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    /// Free space, in kilobytes.
    pub free_kb: u64,
    /// Used space, in kilobytes.
    pub used_kb: u64,
    /// Number of files that can still be created.
    pub free_files: u64,
    /// Number of files that exist.
    pub used_files: u64,
}
