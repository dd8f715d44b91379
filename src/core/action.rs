//! Everything the scheduler can decide to do. Each variant says who performs it, and which event
//! tells the outcome.

use super::agent::AgentId;
use super::change::Change;
use super::destination::Destination;
use super::order::{Effect, OrderTicket};
use super::rested::{Rested, Wanted};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use zsched_config::Clause;
use zsched_format::agent_protocol::Status;
use zsched_format::time::Timestamp;
use zsched_spool::note::Occasion;
use zsched_spool::{Portion, SpoolId, SpoolName};

/// One decision, for the shell to carry out. They are to be carried out in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Start a process for a channel (and host, if the command asks for one).
    /// Answered by `AgentStarted`, or by `AgentEnded` with the reason.
    StartAgent {
        /// What the agent is to be known by.
        agent: AgentId,
        /// Command, user and so on.
        clause: Rc<Clause>,
        /// Stands for `$channel`.
        channel: Rc<[u8]>,
        /// Stands for `$host`: host of the first thread it serves.
        host: Rc<[u8]>,
    },
    /// Send an agent a job line.
    Feed {
        /// Which agent.
        agent: AgentId,
        /// The line, with its line end.
        job: Box<[u8]>,
    },
    /// Tell an agent that it is about to be parked (`#idle`).
    SayIdle(AgentId),
    /// Tell an agent to end. Answered, once it has, by `AgentEnded`.
    StopAgent {
        /// Which agent.
        agent: AgentId,
        /// How insistently.
        manner: Manner,
    },
    /// Clear the locks in a message's control file that a process held which is now dead.
    ClearLocks {
        /// The message.
        name: SpoolName,
        /// The process.
        pid: u32,
    },
    /// Read a message's control file again. Answered by `ReadAgain`.
    ReadAgain(SpoolName),
    /// Append `d` lines to a message's control file. Answered by `Noted`.
    Note(Note),
    /// Take a message out of the spool. Answered by `Removed`.
    Remove {
        /// The message.
        name: SpoolName,
        /// Somebody is still owed a report: move it to `postman/` instead.
        aside: bool,
    },
    /// A message has left memory, and rests on disk: it is to be read again at a certain time, or when it is
    /// wanted. Answered by `Recalled`, and then `Arrived`.
    Rest {
        /// The message.
        name: SpoolName,
        /// When; `None` is when somebody asks for it.
        until: Option<Timestamp>,
        /// What is known of it.
        rested: Box<Rested>,
    },
    /// Read more of a message that is in memory in part. Answered by `MoreRead`.
    ReadMore {
        /// The message.
        name: SpoolName,
        /// How much.
        portion: Portion,
    },
    /// Read messages again that rest on disk: somebody wants them now.
    Awaken(Vec<Wanted>),
    /// Store changes of the orders in force, and those that could not be stored before. Answered by
    /// `StandingKept`.
    KeepStanding {
        /// The order that waits for it.
        ticket: Option<OrderTicket>,
        /// What has changed, in this order.
        changes: Vec<Change>,
    },
    /// Tell whoever gave an order what it has changed.
    Obeyed {
        /// Which order.
        ticket: OrderTicket,
        /// What it has changed. All of it is on disk, unless it says otherwise.
        effect: Effect,
    },
    /// Write a line of the statistics log.
    Statistics(Statistics),
    /// Write lines of the status log. Decided only if there is one ([`super::Settings::status_log`]) or
    /// somebody watches ([`super::Event::Watched`]), and before the message may leave the spool: its control file has the addresses.
    Status(Box<StatusRecord>),
    /// Write a line of the log.
    Log(log::Level, String),
}

/// How an agent is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// An empty line, and no more input: end when there is nothing left to do.
    Retire,
    /// Two empty lines, no more input, SIGQUIT: end after the current job.
    Quit,
    /// SIGKILL: it has not answered for too long.
    Kill,
}

/// Names one [`Note`] until it is written.
pub type NoteTicket = u64;

/// Diagnostics to be kept in a control file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Names it in the answer.
    pub ticket: NoteTicket,
    /// The message.
    pub name: SpoolName,
    /// Offsets of the recipients' lines.
    pub offsets: Vec<u32>,
    /// What it is about.
    pub occasion: Occasion,
    /// When it happened.
    pub time: Timestamp,
    /// Notary data.
    pub notary: Rc<[u8]>,
    /// Text for people.
    pub message: Rc<[u8]>,
}

/// What became of one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The message.
    pub spool_id: SpoolId,
    /// When it was routed.
    pub created: Timestamp,
    /// `ok`, `ok2`, `ok3`, `error`, `error2` or `expire`.
    pub state: &'static str,
    /// Where it was to go, `channel/host`.
    pub destination: Destination,
}

/// How an attempt at some recipients of a vertex ended, or how they ended without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRecord {
    /// When.
    pub time: Timestamp,
    /// The message.
    pub name: SpoolName,
    /// When its message file was last modified: with its number, that is the spool id.
    pub modified: Timestamp,
    /// When it was routed.
    pub created: Timestamp,
    /// Where the recipients were to go.
    pub destination: Destination,
    /// Offsets of their lines in the control file. Each gets a line of its own.
    pub offsets: Vec<u32>,
    /// What became of them.
    pub verdict: Verdict,
    /// The attempt, if there was one.
    pub attempt: Option<Attempt>,
    /// Vertices of the same thread that have to wait as well because of it, without an attempt.
    pub others: u32,
    /// Notary data, may be empty. Cut after 2048 bytes, as is the text.
    pub notary: Box<[u8]>,
    /// Text for people.
    pub text: Box<[u8]>,
}

/// What became of recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What an agent said.
    Report(Status),
    /// Nobody knows: the agent did not say. They wait.
    Silence,
    /// They were too old.
    Expired,
    /// An operator has ordered so: they are forgotten.
    Deleted,
    /// An operator has ordered so: they go back to the router.
    Rerouted,
    /// Somebody else has finished them: the control file says how.
    Found,
}

/// An agent's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The agent's process.
    pub pid: Option<u32>,
    /// When it came to this job.
    pub began: Timestamp,
}
