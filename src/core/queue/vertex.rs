//! Vertices: the recipients of one message for one destination.
//!
//! A vertex is the unit of work: an agent is fed one vertex as one job.

use crate::list::{Links, ListKind};
use crate::pool::Id;
use crate::queue::{MessageId, ThreadId};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use zsched_format::time::Timestamp;

/// The number of a vertex in memory.
pub type VertexId = Id<Vertex>;

/// The recipients of one message for one channel and host.
#[derive(Serialize, Deserialize)]
pub struct Vertex {
    /// The message of the recipients.
    pub message: MessageId,
    /// The thread of their destination.
    pub thread: ThreadId,
    /// Neighbours among the vertices of the message.
    pub in_message: Links<Vertex>,
    /// Neighbours in the list of the thread that `state` names.
    pub in_thread: Links<Vertex>,
    /// The recipients, finished ones included.
    pub recipients: Recipients,
    /// Recipients that are not finished.
    pub pending: u32,
    /// Jobs in which an agent has reported about it or has died.
    ///
    /// A report that its host is down counts as one, too.
    pub attempts: u16,
    /// Reports about its recipients, plus agents that died over it.
    ///
    /// The original shows this number as its tries. After a restart or paging it begins at
    /// `attempts`.
    pub reports: u16,
    /// When it was last given to an agent.
    ///
    /// In seconds since the epoch; 0 is never.
    pub last_fed: u32,
    /// Time last planned for its own next try.
    ///
    /// In seconds since the epoch; 0 is none.
    ///
    /// The time may be past.
    pub planned: u32,
    /// Index of the next entry of `retries` for its own next try.
    pub step: u8,
    /// Number of its wave in the thread, while it waits.
    pub wave: u8,
    /// Its state.
    pub state: VertexState,
    /// The agent has reported about a recipient since the vertex was fed.
    pub reported: bool,
    /// Its present or last job is counted in `attempts`.
    pub is_counted: bool,
    /// It was tried by this process.
    pub tried: bool,
    /// [`is_part`](Vertex::is_part), and [`delays_noted`](Vertex::delays_noted) in the other bits.
    ///
    /// There are millions of vertices.
    part_and_delays: u8,
    /// What an operator has ordered for the time after its present job.
    pub after_job: AfterJob,
    /// Last diagnosis of one of its recipients.
    ///
    /// It is shared by many vertices, so a checkpoint stores it once.
    #[serde(skip)]
    pub diagnosis: Option<Rc<Diagnosis>>,
}

/// The state of a vertex: its list in the thread, if any.
///
/// ```text
///          fed            job over, recipients left
///   Due ─────────► Fed ──────────────────────────────► Waiting
///    ▲              │                                    │
///    │              │ last recipient finished            │ its time has come
///    │              ▼                                    │
///    │            Finished ─► freed when the job is over    │
///    └───────────────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VertexState {
    /// To be given to the next agent of the thread.
    Due,
    /// With an agent.
    Fed,
    /// It waits for its next try, or for its destination.
    Waiting,
    /// It waits until an operator releases its message.
    Held,
    /// It is finished, but an agent still has the job.
    ///
    /// Its number must not be used again yet.
    Finished,
}

/// What happens to a vertex whose agent ends the job with recipients left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterJob {
    /// It waits for the next try, or expires.
    #[default]
    Usual,
    /// It was released, and is tried once more, whatever its age.
    OneMoreTry,
    /// It is given up.
    Expire,
    /// It is removed without a report.
    Delete,
    /// It returns to the router.
    Reroute,
}

/// Maximum length of a diagnosis text in memory, in bytes.
const MAX_DIAGNOSIS_LEN: usize = 2048;

/// A diagnosis of a recipient, by an agent or the scheduler.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Notary data of the report, may be empty.
    #[serde(with = "zsched_format::serde_bytes")]
    pub notary: Box<[u8]>,
    /// Text for people.
    #[serde(with = "zsched_format::serde_bytes")]
    pub message: Box<[u8]>,
}

impl Diagnosis {
    /// Creates a diagnosis, with each text cut to [`MAX_DIAGNOSIS_LEN`].
    ///
    /// There may be one for each vertex, and MAILQ shows them all.
    pub fn new(notary: &[u8], message: &[u8]) -> Rc<Diagnosis> {
        let kept = |text: &[u8]| Box::from(&text[..text.len().min(MAX_DIAGNOSIS_LEN)]);
        Rc::new(Diagnosis { notary: kept(notary), message: kept(message) })
    }

    /// A hash that is the same for the same texts.
    pub fn hash(&self) -> u64 {
        let bytes = self.notary.iter().chain(&[0]).chain(&self.message[..]);
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// A diagnosis that the scheduler itself makes.
    pub fn of_scheduler(message: &str) -> Rc<Diagnosis> {
        Diagnosis::new(b"", message.as_bytes())
    }
}

/// The links of the list of a message's vertices.
pub enum MessageChain {}

impl ListKind for MessageChain {
    type Item = Vertex;

    fn links(vertex: &Vertex) -> &Links<Vertex> {
        &vertex.in_message
    }

    fn links_mut(vertex: &mut Vertex) -> &mut Links<Vertex> {
        &mut vertex.in_message
    }
}

/// The links of the lists of a thread's vertices.
pub enum ThreadChain {}

impl ListKind for ThreadChain {
    type Item = Vertex;

    fn links(vertex: &Vertex) -> &Links<Vertex> {
        &vertex.in_thread
    }

    fn links_mut(vertex: &mut Vertex) -> &mut Links<Vertex> {
        &mut vertex.in_thread
    }
}

/// The recipients of a vertex.
///
/// Nearly all vertices have one recipient, which needs no memory of its own. Each further one needs
/// eight bytes.
#[derive(Serialize, Deserialize)]
pub enum Recipients {
    One(Recipient),
    /// In ascending order of their offsets.
    Many(Box<[Recipient]>),
}

/// One recipient of a vertex.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Recipient {
    /// Offset of its line in the control file.
    pub offset: u32,
    /// Its position in lists for people.
    ///
    /// The highest bit marks it as finished.
    rank_and_finished: u32,
}

const FINISHED: u32 = 1 << 31;

impl Recipient {
    fn new(offset: u32, rank: usize) -> Recipient {
        Recipient { offset, rank_and_finished: rank as u32 & !FINISHED }
    }

    fn is_finished(self) -> bool {
        self.rank_and_finished & FINISHED != 0
    }

    fn rank(self) -> u32 {
        self.rank_and_finished & !FINISHED
    }
}

impl Recipients {
    /// Creates recipients for the lines at `offsets`.
    ///
    /// They are given in the order of lists for people.
    pub fn new(offsets: &[u32]) -> Recipients {
        if let [offset] = offsets {
            return Recipients::One(Recipient::new(*offset, 0));
        }
        let mut all: Box<[Recipient]> = offsets
            .iter()
            .enumerate()
            .map(|(rank, offset)| Recipient::new(*offset, rank))
            .collect();
        all.sort_unstable_by_key(|recipient| recipient.offset);
        Recipients::Many(all)
    }

    fn all(&self) -> &[Recipient] {
        match self {
            Recipients::One(recipient) => std::slice::from_ref(recipient),
            Recipients::Many(all) => all,
        }
    }

    /// Returns true if the recipient at `offset` is pending here.
    pub fn is_pending(&self, offset: u32) -> bool {
        self.position(offset).is_some_and(|index| !self.all()[index].is_finished())
    }

    /// Adds the recipients at `offsets` and drops the finished ones.
    ///
    /// Offsets that are there already are left out. Returns the number of added ones.
    pub fn extend(&mut self, offsets: &[u32]) -> u32 {
        let mut all: Vec<Recipient> = self.all().to_vec();
        all.retain(|recipient| !recipient.is_finished());
        let (before, rank) = (all.len(), all.len());
        let new =
            offsets.iter().enumerate().filter(|(_, offset)| self.position(**offset).is_none());
        all.extend(new.map(|(place, offset)| Recipient::new(*offset, rank + place)));
        all.sort_unstable_by_key(|recipient| recipient.offset);
        let added = all.len() - before;
        if added > 0 {
            *self = Recipients::Many(all.into());
        }
        added as u32
    }

    /// Returns true if the recipient at `offset` is here.
    ///
    /// It may be finished.
    pub fn has(&self, offset: u32) -> bool {
        self.position(offset).is_some()
    }

    fn position(&self, offset: u32) -> Option<usize> {
        self.all().binary_search_by_key(&offset, |recipient| recipient.offset).ok()
    }

    /// Marks the recipient at `offset` as finished.
    ///
    /// Returns true if it was pending.
    pub fn finish(&mut self, offset: u32) -> bool {
        let Some(index) = self.position(offset) else {
            return false;
        };
        let recipient = match self {
            Recipients::One(recipient) => recipient,
            Recipients::Many(all) => &mut all[index],
        };
        let was_pending = !recipient.is_finished();
        recipient.rank_and_finished |= FINISHED;
        was_pending
    }

    /// Offsets of the pending recipients, in the order of lists for people.
    pub fn pending(&self) -> Vec<u32> {
        let mut pending: Vec<Recipient> =
            self.all().iter().copied().filter(|recipient| !recipient.is_finished()).collect();
        pending.sort_unstable_by_key(|recipient| recipient.rank());
        pending.iter().map(|recipient| recipient.offset).collect()
    }
}

/// The bit of a vertex that is a part of the recipients for a thread.
const PART: u8 = 1 << 7;

impl Vertex {
    /// Time when an agent last got it, in seconds since the epoch.
    ///
    /// `None` if it is not known.
    pub fn last_attempt(&self) -> Option<i64> {
        Some(self.last_fed.into()).filter(|time| *time > 0)
    }

    /// Returns true if no agent has it.
    pub fn is_free(&self) -> bool {
        !matches!(self.state, VertexState::Fed | VertexState::Finished)
    }

    pub(crate) fn new(message: MessageId, thread: ThreadId, offsets: &[u32]) -> Vertex {
        Vertex {
            message,
            thread,
            in_message: Links::default(),
            in_thread: Links::default(),
            recipients: Recipients::new(offsets),
            pending: offsets.len() as u32,
            attempts: 0,
            reports: 0,
            last_fed: 0,
            planned: 0,
            step: 0,
            wave: 0,
            state: VertexState::Finished,
            reported: false,
            is_counted: false,
            tried: false,
            part_and_delays: 0,
            after_job: AfterJob::Usual,
            diagnosis: None,
        }
    }

    /// Returns true if the message has other vertices for the same thread.
    ///
    /// Agents therefore need a list of its recipients.
    pub fn is_part(&self) -> bool {
        self.part_and_delays & PART != 0
    }

    /// Sets whether the message has other vertices for the same thread.
    pub fn set_part(&mut self, is_part: bool) {
        self.part_and_delays = (self.part_and_delays & !PART) | if is_part { PART } else { 0 };
    }

    /// Number of its delay notices whose time is over.
    pub fn delays_noted(&self) -> u8 {
        self.part_and_delays & !PART
    }

    /// Sets the number of its delay notices whose time is over.
    pub fn set_delays_noted(&mut self, count: u8) {
        self.part_and_delays = (self.part_and_delays & PART) | count.min(!PART);
    }

    /// Sets the time at which it was given to an agent.
    pub fn fed_at(&mut self, now: Timestamp) {
        self.last_fed = u32::try_from(now.seconds()).unwrap_or(u32::MAX);
        self.reported = false;
        self.is_counted = false;
    }

    /// Number of its recipients that were tried and wait for another try.
    pub fn deferred(&self) -> u32 {
        match self.state {
            VertexState::Fed | VertexState::Finished => 0,
            _ if self.attempts == 0 => 0,
            _ => self.pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_finish_reports_first_time_and_keeps_order() {
        let mut recipients = Recipients::new(&[472, 421, 523]);
        assert_eq!(recipients.pending(), [472, 421, 523]);
        assert!(recipients.is_pending(421));
        assert!(recipients.finish(421));
        assert!(!recipients.finish(421));
        assert!(!recipients.finish(422));
        assert!(!recipients.is_pending(421));
        assert_eq!(recipients.pending(), [472, 523]);
    }

    #[test]
    fn vertex_and_recipient_sizes_stay_small() {
        assert!(size_of::<Vertex>() <= 72);
        assert_eq!(size_of::<Recipient>(), 8);
        assert!(size_of::<crate::queue::message::Message>() <= 96);
    }
}
