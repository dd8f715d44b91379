//! Everything that can happen to the scheduler. Each variant says who sends it.

use super::action::NoteTicket;
use super::agent::AgentId;
use super::learned::Learned;
use super::order::{Order, OrderTicket};
use super::rested::{Rested, Wanted};
use super::standing::Standing;
use serde::{Deserialize, Serialize};
use std::io;
use std::rc::Rc;
use zsched_config::Config;
use zsched_format::control_file::ControlFileError;
use zsched_format::time::ClockStep;
use zsched_spool::Arrival;

/// One fact, told to the core by the shell.
#[derive(Debug, Serialize, Deserialize)]
pub enum Event<'a> {
    /// The reader has found and read a control file.
    Arrived(Arrival),
    /// The former scheduler has learned this. It is told before anything arrives.
    Learned(Learned),
    /// The former scheduler was given this order, and it is in force. It is told before anything arrives.
    Standing(Standing),
    /// The initial scan is over and everything it found has been told (`-S` waits for this).
    InitialScanDone,
    /// The reader has read the control file of a message again, as [`super::Action::ReadAgain`] asked.
    ReadAgain {
        /// Number of the message.
        number: u64,
        /// What it found.
        outcome: Reread,
    },
    /// The writer has done what [`super::Action::Note`] asked, or failed to.
    Noted {
        /// Which of the notes.
        ticket: NoteTicket,
        /// Whether a `d` line was written, so that a report is owed.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<bool, io::ErrorKind>,
    },
    /// The writer has done what [`super::Action::Remove`] asked, or failed to.
    Removed {
        /// Number of the message.
        number: u64,
        /// Whether the files are gone.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(), io::ErrorKind>,
    },
    /// An agent was started as [`super::Action::StartAgent`] asked.
    AgentStarted {
        /// Which.
        agent: AgentId,
        /// Its process.
        pid: u32,
    },
    /// An agent wrote a line; given without its line end.
    AgentSaid {
        /// Which.
        agent: AgentId,
        /// The line. Hostile: any bytes but LF.
        #[serde(borrow, with = "zsched_format::serde_bytes")]
        line: &'a [u8],
    },
    /// An agent wrote a line that was too long to be taken in.
    LinePassedOver {
        /// Which.
        agent: AgentId,
        /// How much of the line was passed over, in bytes.
        bytes: usize,
    },
    /// An agent's process has ended, but programs that it has started may end its jobs. Its end is told when
    /// they have ended as well.
    AgentLingers {
        /// Which.
        agent: AgentId,
    },
    /// An agent's process is gone, or could not be started. Everything it wrote has been told.
    AgentEnded {
        /// Which.
        agent: AgentId,
        /// How.
        end: AgentEnd,
    },
    /// A new configuration is to be used from now on. It has been checked as a whole.
    Configured(#[serde(with = "crate::serde_config")] Rc<Config>),
    /// Somebody asks for everything queued for a host to be tried now (ETRN); in lower case.
    Turn(#[serde(borrow, with = "zsched_format::serde_bytes")] &'a [u8]),
    /// An operator wants something. Answered by [`super::Action::Obeyed`].
    Ordered {
        /// Names it in the answer.
        ticket: OrderTicket,
        /// Who wants it.
        by: String,
        /// What.
        order: Order,
    },
    /// The shell has stored the orders in force as [`super::Action::KeepStanding`] asked, or could not.
    StandingKept {
        /// The order for which it was to be done, if it was for one.
        ticket: Option<OrderTicket>,
        /// Whether they are on disk.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(), io::ErrorKind>,
    },
    /// The scheduler is to stop, but its agents may finish what they are doing (SIGQUIT).
    Drain,
    /// The clock was set since the last event: by an administrator, or because the machine has slept.
    ClockSet(ClockStep),
    /// Time has passed, nothing else.
    Tick,
    /// Somebody wants to know how each attempt ends, or nobody any more: see [`super::Action::Status`].
    Watched(bool),
    /// The control file of a message that has rested was read again, and is told next; or it is gone.
    Recalled {
        /// Number of the message.
        number: u64,
        /// What was known of it.
        rested: Rested,
        /// What somebody has asked for meanwhile.
        wanted: Vec<Wanted>,
    },
    /// What is going on outside has changed.
    Outside {
        /// Control files that wait until there is room for them in memory (`PARAMmessage-active-limit`).
        crowd: Crowd,
        /// Recipients that may come with the control files that are being read.
        reading: u32,
    },
    /// More of a message was read, as [`super::Action::ReadMore`] asked.
    MoreRead {
        /// Number of the message.
        number: u64,
        /// What was found.
        outcome: Reread,
    },
}

/// Control files that wait for room in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Crowd {
    /// None do.
    #[default]
    None,
    /// Only those of messages that have rested, and are to be tried again.
    Rested,
    /// Those of new messages, and perhaps others.
    New,
}

/// What reading a control file again brought.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reread {
    /// This is in it now.
    Read(Arrival),
    /// The file is gone.
    Gone,
    /// It cannot be used; the shell has moved it aside.
    Malformed(ControlFileError),
    /// It could not be read for now.
    Failed(#[serde(with = "zsched_format::serde_error_kind")] io::ErrorKind),
}

/// How an agent came to its end.
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
