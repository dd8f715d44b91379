//! Learned state: what is known, and in no control file.
//!
//! It includes numbers of attempts, last texts, times of next tries, and unreachable destinations.
//! It is written to a file beside the spool, and reported to the next scheduler before its first
//! message. So a restart does not try everything at once.
//!
//! None of it is needed: what is missing or does not match counts as never tried.

mod export;
mod paged_out;

pub use export::LearnedExport;
pub use paged_out::{LearnedMessage, LearnedText, PagedOutSource};

use crate::Scheduler;
use crate::admission::Admission;
use crate::admission::paging::RestoreAction;
use crate::context::Context;
use crate::event::Backlog;
use crate::query::view::View;
use crate::queue::{
    Destination, Diagnosis, MessageId, Queue, Retry, ThreadId, UnreachableReason,
    UnreachableReport, VertexId,
};
use crate::timers::Timer;
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// Time after the start for which unclaimed learned state is kept.
///
/// Files may be held back for a while, because an agent of the former scheduler works on them, or
/// because `queue/` is not mounted yet.
const UNCLAIMED_LIFETIME: Duration = Duration::from_secs(600);

/// One item of learned state.
///
/// Names that are not UTF-8 cannot be written, and are not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learned {
    /// State of a thread.
    Thread(LearnedThread),
    /// State of the recipients of one message in a thread.
    Vertex(LearnedVertex),
    /// A text about paged-out messages.
    Text(LearnedText),
    /// State of a paged-out message.
    #[serde(rename = "rest")]
    PagedOut(LearnedMessage),
}

/// State of a destination as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedThread {
    /// Its channel.
    pub channel: String,
    /// Its host.
    pub host: String,
    /// Index of the next entry of `retries`, for the destination as a whole.
    pub index: usize,
    /// Until when it is unreachable, in nanoseconds since the epoch.
    pub wakeup: Option<Timestamp>,
    /// Why it is unreachable.
    #[serde(rename = "block")]
    pub reason: Option<UnreachableReason>,
    /// The report that has shown it.
    #[serde(default)]
    pub cause: Option<LearnedCause>,
    /// Its window in agents, if it is not the initial one.
    ///
    /// A field is always written: recordings are in a format without names of fields.
    #[serde(default)]
    pub window: Option<u32>,
    /// The relay that answers for it, where windows depend on that.
    #[serde(default)]
    pub relay: Option<String>,
}

/// The report that has shown that a destination is unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedCause {
    /// The process of the agent.
    pub pid: Option<u32>,
    /// The message of its job.
    pub id: Option<SpoolId>,
    /// When it reported.
    pub at: Timestamp,
    /// What it reported.
    pub text: String,
}

/// State of the recipients of one message in one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedVertex {
    /// Number of the message.
    pub number: u64,
    /// Modification time of its message file: the number may be reused.
    pub modified: Timestamp,
    /// Channel of the thread.
    pub channel: String,
    /// Host of the thread.
    pub host: String,
    /// Tries so far.
    pub attempts: u32,
    /// The last text about it.
    pub text: String,
    /// When its next try is due; `None` means with its destination.
    #[serde(default)]
    pub due: Option<Timestamp>,
    /// Index of the next entry of `retries`.
    #[serde(default)]
    pub step: u8,
}

/// What is learned, and what the former process had learned.
#[derive(Default, Serialize, Deserialize)]
pub struct LearnedState {
    /// State that the former process left, until the initial scan is loaded.
    unclaimed: Option<Unclaimed>,
}

impl LearnedState {
    /// Takes what the former process knew of a destination.
    pub(crate) fn take_thread(&mut self, destination: &Destination) -> Option<LearnedThread> {
        self.unclaimed.as_mut()?.threads.remove(destination)
    }

    /// Returns true if state of the former process is not claimed yet.
    #[cfg(test)]
    pub(crate) fn has_unclaimed(&self) -> bool {
        self.unclaimed.is_some()
    }

    /// Panics if what is unclaimed is counted wrong.
    pub fn check(&self) {
        if let Some(unclaimed) = &self.unclaimed {
            unclaimed.messages.check();
        }
    }

    pub(super) fn import(&mut self, admission: &mut Admission, learned: Learned) {
        let unclaimed = self.unclaimed.get_or_insert_default();
        match learned {
            Learned::Text(text) => unclaimed.messages.import_text(text, admission),
            Learned::PagedOut(message) => unclaimed.messages.import_learned(message),
            Learned::Thread(thread) => {
                let key = Destination::new(thread.channel.as_bytes(), thread.host.as_bytes());
                unclaimed.threads.insert(key, thread);
            }
            Learned::Vertex(learned) => {
                let LearnedVertex { number, modified, channel, host, .. } = learned;
                let LearnedVertex { attempts, text, due, step, .. } = learned;
                let key = (number, Destination::new(channel.as_bytes(), host.as_bytes()));
                let diagnosis = (!text.is_empty()).then(|| {
                    let new = || Diagnosis::new(b"", text.as_bytes());
                    unclaimed.texts.entry(text.clone()).or_insert_with(new).clone()
                });
                let remembered = UnclaimedVertex { modified, attempts, diagnosis, due, step };
                unclaimed.vertices.insert(key, remembered);
            }
        }
    }

    /// Starts the time after which unclaimed state is dropped.
    ///
    /// The mail that was there at the start is loaded, but files that were held back may still
    /// come.
    pub(super) fn schedule_drop_of_unclaimed(&self, cx: &mut Context) {
        if self.unclaimed.is_some() {
            cx.timers.add(cx.now + UNCLAIMED_LIFETIME, Timer::Unclaimed);
        }
    }

    /// Restores a vertex from before this scheduler's start.
    ///
    /// Its attempts are counted on.
    pub(super) fn restore_vertex(
        &mut self,
        queue: &mut Queue,
        message: MessageId,
        vertex: VertexId,
    ) -> RestoreAction {
        let Some(unclaimed) = &mut self.unclaimed else {
            return RestoreAction::Unknown;
        };
        let (number, modified) = (queue.message(message).number(), queue.message(message).modified);
        let destination = queue.thread(queue.vertex(vertex).thread).destination.clone();
        let learned = unclaimed.vertices.remove(&(number, destination));
        let Some(learned) = learned.filter(|learned| learned.modified == modified) else {
            return RestoreAction::Unknown;
        };
        let attempts = u16::try_from(learned.attempts).unwrap_or(u16::MAX);
        queue.restore_attempts(vertex, attempts, learned.step, learned.diagnosis);
        RestoreAction::of(learned.attempts, learned.due)
    }
}

/// State reported at the start and not claimed yet.
#[derive(Default, Serialize, Deserialize)]
pub struct Unclaimed {
    threads: BTreeMap<Destination, LearnedThread>,
    vertices: BTreeMap<(u64, Destination), UnclaimedVertex>,
    /// A text that many vertices share is kept once.
    texts: HashMap<String, Rc<Diagnosis>>,
    messages: paged_out::UnclaimedMessages,
}

#[derive(Clone, Serialize, Deserialize)]
struct UnclaimedVertex {
    modified: Timestamp,
    attempts: u32,
    diagnosis: Option<Rc<Diagnosis>>,
    due: Option<Timestamp>,
    step: u8,
}

impl Scheduler {
    /// Drops unclaimed state.
    ///
    /// The state stays while the backlog has files that may claim it.
    pub(super) fn drop_unclaimed(&mut self) {
        match self.view().backlog().0 {
            Backlog::New | Backlog::PagedOut => {
                self.learned.schedule_drop_of_unclaimed(&mut self.cx)
            }
            Backlog::None => self.learned.unclaimed = None,
        }
    }
}

impl<'s> View<'s> {
    /// Revision of the learned state: it grows with each change.
    pub fn learned_revision(self) -> u64 {
        self.core.cx.learned_revision
    }

    fn learned_thread(self, id: ThreadId) -> Option<LearnedThread> {
        let thread = self.core.queue.threads().get(id)?;
        let (window, relay) = (
            self.core.dispatch.learned_window(&self.core.queue, id),
            self.core.dispatch.learned_relay(&self.core.queue, id),
        );
        let mut learned = LearnedThread::new(&thread.destination, &thread.retry, window, relay)?;
        learned.wakeup =
            learned.wakeup.map(|wakeup| self.core.queue.to_present_clock(thread, wakeup));
        Some(learned)
    }

    fn learned_vertex(self, vertex: VertexId) -> Option<LearnedVertex> {
        let due = self.core.queue.own_due(vertex);
        let vertex = self.core.queue.vertex(vertex);
        let message = self.core.queue.message(vertex.message);
        let (channel, host) = names(&self.core.queue.thread(vertex.thread).destination)?;
        let text = text_of(vertex.diagnosis.as_ref());
        let (number, modified) = (message.number(), message.modified);
        let (attempts, step) = (vertex.attempts.into(), vertex.step);
        let learned = LearnedVertex { number, modified, channel, host, attempts, text, due, step };
        (attempts > 0).then_some(learned)
    }
}

impl LearnedThread {
    /// Returns the learned state of a thread, if there is any.
    pub(super) fn new(
        destination: &Destination,
        retry: &Retry,
        window: Option<u32>,
        relay: Option<&[u8]>,
    ) -> Option<LearnedThread> {
        let (channel, host) = names(destination)?;
        let known = retry.unreachable.as_deref();
        let (wakeup, reason) = (known.map(|known| known.until), known.map(|known| known.reason));
        let cause = known.and_then(|known| known.cause.as_deref()).map(LearnedCause::of);
        let index = usize::from(retry.steps.index);
        let relay = relay.and_then(|relay| String::from_utf8(relay.to_vec()).ok());
        let is_new = wakeup.is_none() && index == 0 && window.is_none() && relay.is_none();
        let learned = LearnedThread { channel, host, index, wakeup, reason, cause, window, relay };
        (!is_new).then_some(learned)
    }
}

impl LearnedCause {
    fn of(cause: &UnreachableReport) -> LearnedCause {
        let UnreachableReport { pid, id, at, .. } = *cause;
        LearnedCause { pid, id, at, text: text_of(cause.diagnosis.as_ref()) }
    }

    pub(crate) fn to_report(&self) -> UnreachableReport {
        let LearnedCause { pid, id, at, ref text } = *self;
        let diagnosis = (!text.is_empty()).then(|| Diagnosis::new(b"", text.as_bytes()));
        UnreachableReport { pid, id, at, diagnosis }
    }
}

impl UnclaimedVertex {
    fn learned(&self, (number, destination): &(u64, Destination)) -> Option<LearnedVertex> {
        let (channel, host) = names(destination)?;
        let text = text_of(self.diagnosis.as_ref());
        let UnclaimedVertex { modified, attempts, due, step, .. } = *self;
        let number = *number;
        Some(LearnedVertex { number, modified, channel, host, attempts, text, due, step })
    }
}

pub(super) fn text_of(diagnosis: Option<&Rc<Diagnosis>>) -> String {
    let text = diagnosis.map(|diagnosis| String::from_utf8_lossy(&diagnosis.message).into_owned());
    text.unwrap_or_default()
}

fn names(destination: &Destination) -> Option<(String, String)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_string);
    Some((text(destination.channel())?, text(destination.host())?))
}
