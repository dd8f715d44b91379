//! Answers to requests, and the tasks that produce them step by step.

use super::arguments::SyntaxError;
use super::counters::RequestCounters;
use super::events::{SubscriberQueue, Subscribers};
use super::outcome::refusal_line;
use super::selection::FileCriteria;
use crate::acl::Peer;
use crate::auth_file::AuthFile;
use serde::Serialize;
use std::rc::Rc;
use std::time::Duration;
use zsched_core::intake::backlog_view::BacklogView;
use zsched_core::{Effect, Order, Scheduler};
use zsched_format::time::{ClockStep, Timestamp};
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
    pub subscribers: &'s Subscribers,
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
    /// A recent step of the clock.
    pub clock_step: Option<NoticedStep>,
    /// The longest turn of the event loop so far.
    pub longest_loop_turn: Duration,
    /// The log level, if `LOG` has set another than that of the command line.
    pub set_log_level: Option<log::LevelFilter>,
}

/// A large step of the clock, and whether the scheduler follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticedStep {
    /// The step.
    pub step: ClockStep,
    /// The scheduler follows it.
    pub is_believed: bool,
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
pub(crate) enum Reply {
    /// A line or several, with line ends.
    Line(String),
    /// The output of a task.
    Task(TaskKind, Box<dyn Task>),
    /// Events from now on, until the client sends something.
    Stream(Rc<SubscriberQueue>),
    /// The request is unknown or not permitted.
    Unknown,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A text.
    Text,
    /// A text whose length or memory grows with the queue.
    ///
    /// Only a limited number of these are written at the same time.
    LongText,
    /// A change: the output is the answer, written with the last step.
    Change,
}

/// A reply, or a syntax error in the request.
///
/// The offset of the error is relative to the text after the words of the request.
pub(crate) type ReplyResult = Result<Reply, SyntaxError>;

impl Reply {
    /// A refusal, with its reason on one line.
    pub(crate) fn refusal(why: impl AsRef<[u8]>) -> Reply {
        Reply::Line(refusal_line(why))
    }

    /// A text that is complete.
    pub(crate) fn whole_text(text: impl Into<Vec<u8>>) -> Reply {
        let text = text.into();
        Reply::text(move |_: &mut SessionContext<'_>, out: &mut Vec<u8>| {
            out.extend_from_slice(&text);
            Step::Done
        })
    }

    /// A text.
    pub(crate) fn text(task: impl Task + 'static) -> Reply {
        Reply::Task(TaskKind::Text, Box::new(task))
    }

    /// A text whose length or memory grows with the queue.
    pub(crate) fn long_text(task: impl Task + 'static) -> Reply {
        Reply::Task(TaskKind::LongText, Box::new(task))
    }

    /// A change.
    pub(crate) fn change(task: impl Task + 'static) -> Reply {
        Reply::Task(TaskKind::Change, Box::new(task))
    }
}

/// An answer that takes several steps.
///
/// A closure is a task that demands nothing.
pub(crate) trait Task {
    /// Takes the next step, which does a limited amount of work.
    ///
    /// What it writes to `out` are whole lines.
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step;

    /// Takes the answer to the demand of the last step.
    fn take_answer(&mut self, _answer: Answer) {}

    /// Describes the progress, for the log, if the client disconnects before the end.
    fn progress(&self) -> String {
        "the result of the order is unknown".to_string()
    }
}

impl<F: FnMut(&mut SessionContext<'_>, &mut Vec<u8>) -> Step> Task for F {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        self(context, out)
    }
}

/// The result of a step of a task.
pub enum Step {
    /// There is more to do.
    More,
    /// There is more to do, but other clients come first: this step took long.
    Pause,
    /// Look this up first.
    Lookup(Lookup),
    /// Give this order to the core first.
    Order(Order),
    /// Have the shell carry this out first.
    Admin(AdminCommand),
    /// The task is complete.
    Done,
}

impl SessionContext<'_> {
    /// Returns the step that loads a message which is on disk only.
    ///
    /// `None` if it is in memory or cannot be loaded.
    pub(super) fn step_to_load(&self, number: u64) -> Option<Step> {
        let is_there = self.scheduler.view().message(number).is_some();
        let can_come = !is_there && self.backlog.location(number).is_some();
        can_come.then_some(Step::Admin(AdminCommand::Load(number)))
    }
}

/// An admin command: a step that the shell carries out without the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Read the configuration again.
    Reload,
    /// Check the configuration on disk, and if it is the one in force.
    CheckConfig,
    /// Set this log level.
    Log(log::LevelFilter),
    /// Load the message of this number, which is not in memory.
    ///
    /// Done when the message is loaded, or when the wait for it is given up.
    Load(u64),
}

/// A request of a session to the shell, needed before it can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A lookup on a disk.
    Lookup(Lookup),
    /// An order to the core.
    Order {
        /// The author of the order.
        by: String,
        /// The order.
        order: Order,
    },
    /// An admin command.
    Admin {
        /// Its author.
        by: String,
        /// The command.
        command: AdminCommand,
    },
}

/// The answer to a [`Demand`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What was found.
    Lookup(LookupResult),
    /// The effect of the order.
    Order(Effect),
    /// The outcome: a remark, which may be empty; `Err` is the reason of a failure.
    Admin(Result<String, String>),
}

/// A lookup of information that is not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The addresses to which errors of these messages are reported.
    ErrorAddresses(Vec<SpoolName>),
    /// The state of the host.
    Host,
    /// Which of these candidates match the criteria.
    MatchFiles(FileCriteria, Vec<Candidate>),
}

/// Recipients of one message for one destination, to be checked in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The message.
    pub name: SpoolName,
    /// Channel, LF and host, in lower case.
    ///
    /// It is empty for a message whose recipients are not in memory, and then only the size counts.
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
    /// One whose files cannot be read does not.
    MatchFiles(Vec<bool>),
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
