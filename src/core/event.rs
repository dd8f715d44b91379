//! Events: all facts that the shell reports to the core.
//!
//! Each variant names its source.

use crate::action::{NoteTicket, SenderReportTicket};
use crate::admission::paged_message::{HostFilter, PagedMessage};
use crate::bulk::BulkEvent;
use crate::dispatch::AgentId;
use crate::learned::Learned;
use crate::operator::order::{Order, OrderTicket};
use crate::operator::overrides::OverrideChange;
use serde::{Deserialize, Serialize};
use std::io;
use std::rc::Rc;
use zsched_config::Config;
use zsched_format::control_file::ControlFileError;
use zsched_format::time::ClockStep;
use zsched_spool::Arrival;
use zsched_spool::report::UnreportedRest;

/// One fact, reported to the core by the cx.
#[derive(Debug, Serialize, Deserialize)]
pub enum Event<'a> {
    /// The reader has found and read a control file.
    Arrived(Box<Arrival>),
    /// State that the former scheduler has learned. Precedes all arrivals.
    Learned(Learned),
    /// An override that the former scheduler had in force. Precedes all arrivals.
    Override(OverrideChange),
    /// The initial scan is over (`-S` waits for this).
    ///
    /// Everything that it found has been reported.
    InitialScanDone,
    /// An agent of an earlier scheduler has changed a control file.
    ChangedOnDisk {
        /// Number of the message.
        number: u64,
    },
    /// A control file was read again, as [`crate::Action::ReadAgain`] asked.
    ReadAgain {
        /// Number of the message.
        number: u64,
        /// What it found.
        outcome: RereadResult,
    },
    /// The writer has executed [`crate::Action::Note`], or has failed.
    Noted {
        /// Ticket of the note.
        ticket: NoteTicket,
        /// True if a `d` line was written: a report is owed.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<bool, io::ErrorKind>,
    },
    /// The shell has executed [`crate::Action::Report`], or has failed.
    Reported {
        /// Ticket of the report.
        ticket: SenderReportTicket,
        /// What is still to be reported.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<UnreportedRest, io::ErrorKind>,
    },
    /// The writer has executed [`crate::Action::Remove`], or has failed.
    Removed {
        /// Number of the message.
        number: u64,
        /// Success if the files are gone.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(), io::ErrorKind>,
    },
    /// An agent was started as [`crate::Action::StartAgent`] asked.
    AgentStarted {
        /// The agent.
        agent: AgentId,
        /// Its process.
        pid: u32,
    },
    /// An agent wrote a line; its line end is stripped.
    AgentSaid {
        /// The agent.
        agent: AgentId,
        /// The line. Untrusted: any bytes but LF.
        #[serde(borrow, with = "zsched_format::serde_bytes")]
        line: &'a [u8],
    },
    /// An agent wrote a line that is too long.
    LineSkipped {
        /// The agent.
        agent: AgentId,
        /// Number of bytes of the line that were skipped.
        bytes: usize,
    },
    /// An agent's process has ended, but its children may finish its jobs.
    ///
    /// `AgentEnded` follows when these have ended as well.
    AgentExitedMidJob {
        /// The agent.
        agent: AgentId,
    },
    /// An agent's process is gone, or could not be started.
    ///
    /// Everything that it wrote has been reported.
    AgentEnded {
        /// The agent.
        agent: AgentId,
        /// How it ended.
        end: AgentEnd,
    },
    /// A new configuration is in force from now on.
    ///
    /// It has been checked as a whole.
    Configured(#[serde(with = "crate::serde_config")] Rc<Config>),
    /// ETRN: everything queued for this host is to be tried now.
    ///
    /// The host is in lower case.
    Etrn(#[serde(borrow, with = "zsched_format::serde_bytes")] &'a [u8]),
    /// An operator gives an order. Answered by [`crate::Action::OrderDone`].
    Ordered {
        /// Identifies the order in the answer.
        ticket: OrderTicket,
        /// Who gives it.
        by: String,
        /// The order.
        order: Order,
    },
    /// The shell has executed [`crate::Action::StoreOverrides`], or has failed.
    OverridesStored {
        /// The order that waits for this, if any.
        ticket: Option<OrderTicket>,
        /// Success if the overrides are on disk.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(), io::ErrorKind>,
    },
    /// The scheduler is to stop (SIGQUIT).
    ///
    /// Its agents may finish what they are doing.
    Drain,
    /// The clock was set since the last event.
    ///
    /// An administrator has set it, or the machine has slept.
    ClockSet(ClockStep),
    /// Time has passed; nothing else has happened.
    Tick,
    /// The first subscriber has come, or the last one has left.
    ///
    /// A subscriber receives the outcome of each attempt: see [`crate::Action::Status`].
    Subscribed(bool),
    /// A paged-out message was read again, or its control file is gone.
    ///
    /// If it was read, `Arrived` follows.
    Restored {
        /// Number of the message.
        number: u64,
        /// Its retry state, as [`crate::Action::PageOut`] had it.
        record: PagedMessage,
        /// Requests for it that have come since.
        wanted: Vec<HostFilter>,
    },
    /// The backlog has changed: messages on disk that are not loaded.
    BacklogChanged {
        /// Control files that wait for room in memory (`PARAMmessage-active-limit`).
        waiting: Backlog,
        /// Maximum number of recipients in the control files being read.
        reading: u32,
    },
    /// Something has happened to a bulk job.
    Bulk(BulkEvent),
    /// More of a message was read, as [`crate::Action::ReadMore`] asked.
    MoreRead {
        /// Number of the message.
        number: u64,
        /// What was found.
        outcome: RereadResult,
    },
}

/// Control files that wait for room in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backlog {
    /// None.
    #[default]
    None,
    /// Only those of paged-out messages that are due again.
    PagedOut,
    /// Those of new messages, and perhaps others.
    New,
}

/// Result of reading a control file again.
#[derive(Debug, Serialize, Deserialize)]
pub enum RereadResult {
    /// Its present content.
    Read(Box<Arrival>),
    /// The file is gone.
    Gone,
    /// It is malformed; the shell has moved it aside.
    Malformed(ControlFileError),
    /// It could not be read this time.
    Failed(#[serde(with = "zsched_format::serde_error_kind")] io::ErrorKind),
}

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentEnd {
    /// It exited with this status.
    Exited(i32),
    /// A signal of this number ended it.
    Signalled(i32),
    /// It was never started, for this reason.
    NotStarted(String),
}

impl std::fmt::Display for AgentEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AgentEnd::Exited(status) => write!(f, "ended with status {status}"),
            AgentEnd::Signalled(signal) => write!(f, "was ended by signal {signal}"),
            AgentEnd::NotStarted(reason) => write!(f, "could not be started: {reason}"),
        }
    }
}
