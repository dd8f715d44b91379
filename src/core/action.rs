//! Actions: the decisions of the core, which the shell carries out.
//!
//! Each variant names the event that reports its outcome, if there is one.

use crate::admission::paged_message::{HostFilter, PagedMessage};
use crate::bulk::BulkAction;
use crate::dispatch::AgentId;
use crate::operator::order::{Effect, OrderTicket};
use crate::operator::overrides::OverrideChange;
use crate::queue::Destination;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::Arc;
use zsched_config::Clause;
use zsched_format::agent_protocol::ReportStatus;
use zsched_format::time::Timestamp;
use zsched_spool::note::{OutcomeKind, OutcomeNote};
use zsched_spool::{Offsets, Portion, SpoolId, SpoolName};

/// One decision. The shell carries decisions out in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Starts an agent process for a channel.
    ///
    /// Answered by `AgentStarted`, or by `AgentEnded` with the reason.
    StartAgent {
        /// Id of the agent.
        agent: AgentId,
        /// Effective clause: command, user and so on.
        clause: Rc<Clause>,
        /// Value of `$channel`.
        channel: Rc<[u8]>,
        /// Value of `$host`: the host of the first thread it serves.
        host: Rc<[u8]>,
    },
    /// Sends an agent a job line.
    Feed {
        /// The agent.
        agent: AgentId,
        /// The line, with its line end.
        job: Vec<u8>,
    },
    /// Sends an agent `#idle`: it is about to be parked.
    SendIdle(AgentId),
    /// Sends an agent the order to end. Answered by `AgentEnded` when it has.
    StopAgent {
        /// The agent.
        agent: AgentId,
        /// How it is stopped.
        manner: StopMode,
    },
    /// Clears the locks of a dead process in a message's control file.
    ClearLocks {
        /// The message.
        name: SpoolName,
        /// The dead process.
        pid: u32,
    },
    /// Reads a message's control file again. Answered by `ReadAgain`.
    ReadAgain(SpoolName),
    /// Appends `d` lines to a message's control file. Answered by `Noted`.
    Note(Note),
    /// Removes a message from the spool. Answered by `Removed`.
    Remove {
        /// The message.
        name: SpoolName,
        /// Modification time of its message file, by which that is told from a later one.
        modified: Timestamp,
        /// Move the message to `postman/` instead, because a line cannot be delivered.
        aside: bool,
    },
    /// Sends the reports that a message owes to its senders. Answered by `Reported`.
    Report {
        /// Identifies the report in the answer.
        ticket: SenderReportTicket,
        /// The message.
        name: SpoolName,
        /// All of its recipients are final.
        is_finished: bool,
    },
    /// Pages a message out: its files stay on disk.
    ///
    /// The shell reads it again at a certain time, or when a request asks for it. Answered by
    /// `Restored`, and then `Arrived`.
    PageOut {
        /// The message.
        name: SpoolName,
        /// When it is read again; `None` means on request.
        until: Option<Timestamp>,
        /// Its retry state, which comes back with `Restored`.
        record: Box<PagedMessage>,
    },
    /// Reads more of a partial message. Answered by `MoreRead`.
    ReadMore {
        /// The message.
        name: SpoolName,
        /// Where to begin, and how many recipients to read.
        portion: Portion,
    },
    /// Reads or writes the files of a bulk job.
    Bulk(BulkAction),
    /// Reads paged-out messages now, because a request asks for them.
    RequestPagedHosts(Vec<HostFilter>),
    /// Reads those of these messages that are paged out now, because an order ends them.
    RequestPagedMessages(Vec<u64>),
    /// Stores changes of the overrides. Answered by `OverridesStored`.
    ///
    /// Includes the changes that could not be stored before.
    StoreOverrides {
        /// The order that waits for the answer, if any.
        ticket: Option<OrderTicket>,
        /// The changes, in this order.
        changes: Vec<OverrideChange>,
    },
    /// Reports to the author of an order what it has changed.
    OrderDone {
        /// The order.
        ticket: OrderTicket,
        /// What it has changed.
        ///
        /// All of it is on disk, unless the effect says otherwise.
        effect: Effect,
    },
    /// Writes a line of the statistics log.
    Statistics(Statistics),
    /// Writes lines of the status log.
    ///
    /// Decided only if there is a status log ([`crate::Settings::record_attempts`]) or a subscriber
    /// ([`crate::Event::Subscribed`]). It precedes the removal of the message, because the
    /// addresses are in the control file.
    Status(Box<StatusRecord>),
    /// Writes a line of the log.
    Log(log::Level, String),
}

/// How an agent is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// An empty line, end of input: end when all jobs are done.
    Retire,
    /// Two empty lines, end of input, SIGQUIT: end after the current job.
    Quit,
    /// SIGKILL: the agent has made no progress for too long.
    Kill,
}

/// Identifies a [`Note`] until it is written.
pub type NoteTicket = u64;

/// Identifies an [`Action::Report`] until it is sent.
pub type SenderReportTicket = u64;

/// Diagnostics to be written into a control file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Identifies the note in the answer.
    pub ticket: NoteTicket,
    /// The message.
    pub name: SpoolName,
    /// Offsets of the recipients' lines.
    pub offsets: Offsets,
    /// What the note is about.
    pub occasion: OutcomeKind,
    /// When it happened.
    pub time: Timestamp,
    /// Notary data.
    pub notary: Arc<[u8]>,
    /// Text for people.
    pub message: Arc<[u8]>,
}

impl<'n> From<&'n Note> for OutcomeNote<'n> {
    fn from(note: &'n Note) -> OutcomeNote<'n> {
        OutcomeNote {
            offsets: &note.offsets,
            occasion: note.occasion,
            time: note.time,
            notary: &note.notary,
            message: &note.message,
        }
    }
}

/// The final state of one recipient, for the statistics log.
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

/// Outcome of some recipients of a vertex, with or without an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRecord {
    /// When it happened.
    pub time: Timestamp,
    /// The message.
    pub name: SpoolName,
    /// Modification time of the message file: part of the spool id.
    pub modified: Timestamp,
    /// When it was routed.
    pub created: Timestamp,
    /// Where the recipients were to go.
    pub destination: Destination,
    /// Offsets of their lines in the control file. Each gets a line.
    pub offsets: Offsets,
    /// What became of them.
    pub verdict: StatusVerdict,
    /// The attempt, if there was one.
    pub attempt: Option<Attempt>,
    /// Vertices of the same thread that must wait too, without an attempt.
    pub others: u32,
    /// Notary data, possibly empty.
    ///
    /// Cut after 2048 bytes, as is the text.
    pub notary: Box<[u8]>,
    /// Text for people.
    pub text: Box<[u8]>,
}

/// What became of recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusVerdict {
    /// The status that an agent has reported.
    Report(ReportStatus),
    /// Unknown, since the agent has not reported it. The recipients wait.
    Unreported,
    /// They were too old, or an operator has given them up.
    Expired,
    /// An operator has deleted them.
    Deleted,
    /// An operator has given them back to the router.
    Rerouted,
    /// Another process has finished them: the control file says how.
    FinishedElsewhere,
}

/// An agent's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The agent's process.
    pub pid: Option<u32>,
    /// When it began this job.
    pub began: Timestamp,
}
