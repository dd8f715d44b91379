//! Vertices: the recipients of one message for one destination.
//!
//! A vertex is the unit of work: an agent is fed one vertex as one job.

use crate::list::{Links, ListKind};
use crate::pool::Id;
use crate::queue::{MessageId, ThreadId};
use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use std::rc::Rc;
use zsched_format::time::Timestamp;
use zsched_spool::Offsets;

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
    /// Its recipients, if it was given several, finished ones included.
    several: Option<Box<SeveralRecipients>>,
    /// Offset of the line of its only recipient; 0 if it was given several.
    only: u32,
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
    /// Two flags, and [`delays_noted`](Vertex::delays_noted) in the other bits.
    ///
    /// There are millions of vertices.
    flags_and_delays: u8,
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

/// The recipients of a vertex that was given several.
///
/// Nearly all vertices have one, which needs no memory of its own. Each further one needs eight
/// bytes.
#[derive(Serialize, Deserialize)]
struct SeveralRecipients {
    /// Number of those that are not finished.
    pending: u32,
    /// In ascending order of their offsets.
    all: Box<[Recipient]>,
}

/// One of several recipients of a vertex.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Recipient {
    /// Offset of its line in the control file.
    offset: u32,
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

impl SeveralRecipients {
    fn new(mut all: Vec<Recipient>) -> SeveralRecipients {
        all.sort_unstable_by_key(|recipient| recipient.offset);
        let pending = all.iter().filter(|recipient| !recipient.is_finished()).count() as u32;
        SeveralRecipients { pending, all: all.into() }
    }

    fn position(&self, offset: u32) -> Option<usize> {
        self.all.binary_search_by_key(&offset, |recipient| recipient.offset).ok()
    }

    /// Marks the recipient at `offset` as finished.
    ///
    /// Returns true if it was pending.
    fn finish(&mut self, offset: u32) -> bool {
        let place = self.position(offset);
        let recipient = place.map(|place| &mut self.all[place]);
        let Some(recipient) = recipient.filter(|recipient| !recipient.is_finished()) else {
            return false;
        };
        recipient.rank_and_finished |= FINISHED;
        self.pending -= 1;
        true
    }

    /// The pending ones, in the order of lists for people.
    fn pending(&self) -> Vec<Recipient> {
        let all = self.all.iter().copied();
        let mut pending: Vec<Recipient> =
            all.filter(|recipient| !recipient.is_finished()).collect();
        pending.sort_unstable_by_key(|recipient| recipient.rank());
        pending
    }
}

/// The recipients of a vertex.
impl Vertex {
    /// Number of its recipients that are not finished.
    pub fn pending(&self) -> u32 {
        match &self.several {
            Some(several) => several.pending,
            None => u32::from(!self.has_flag(ONLY_FINISHED)),
        }
    }

    /// Offsets of the pending recipients, in the order of lists for people.
    pub fn pending_offsets(&self) -> Offsets {
        match &self.several {
            Some(several) => several.pending().iter().map(|recipient| recipient.offset).collect(),
            None if self.has_flag(ONLY_FINISHED) => Offsets::new(),
            None => smallvec![self.only],
        }
    }

    /// Returns true if the recipient at `offset` is here.
    ///
    /// It may be finished.
    pub fn has_recipient(&self, offset: u32) -> bool {
        match &self.several {
            Some(several) => several.position(offset).is_some(),
            None => self.only == offset,
        }
    }

    /// Returns true if the recipient at `offset` is pending here.
    pub fn is_pending(&self, offset: u32) -> bool {
        match &self.several {
            Some(several) => {
                several.position(offset).is_some_and(|place| !several.all[place].is_finished())
            }
            None => self.only == offset && !self.has_flag(ONLY_FINISHED),
        }
    }

    /// Marks the recipient at `offset` as finished.
    ///
    /// Returns true if it was pending.
    pub(crate) fn finish_recipient(&mut self, offset: u32) -> bool {
        if let Some(several) = &mut self.several {
            return several.finish(offset);
        }
        let was_pending = self.is_pending(offset);
        self.set_flag(ONLY_FINISHED, self.has_flag(ONLY_FINISHED) || was_pending);
        was_pending
    }

    /// Adds the recipients at `offsets` and drops the finished ones.
    ///
    /// Offsets that are there already are left out. Returns the number of added ones.
    pub(crate) fn add_recipients(&mut self, offsets: &[u32]) -> u32 {
        let is_new = |offset: &&u32| !self.has_recipient(**offset);
        let new: Vec<u32> = offsets.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return 0;
        }
        let all = self.pending_offsets().into_iter().chain(new.iter().copied());
        let all = all.enumerate().map(|(rank, offset)| Recipient::new(offset, rank)).collect();
        (self.several, self.only) = (Some(Box::new(SeveralRecipients::new(all))), 0);
        new.len() as u32
    }
}

/// The flag of a vertex that is a part of the recipients for a thread.
const PART: u8 = 1 << 7;
/// The flag of a vertex whose only recipient is finished.
const ONLY_FINISHED: u8 = 1 << 6;
/// The other bits of the flags of a vertex.
const DELAYS: u8 = ONLY_FINISHED - 1;

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

    /// Creates a vertex for the recipients whose lines are at `offsets`.
    ///
    /// They are given in the order of lists for people.
    pub(crate) fn new(message: MessageId, thread: ThreadId, offsets: &[u32]) -> Vertex {
        let all = offsets.iter().enumerate();
        let several = || all.map(|(rank, offset)| Recipient::new(*offset, rank)).collect();
        let (several, only) = match offsets {
            [only] => (None, *only),
            _ => (Some(Box::new(SeveralRecipients::new(several()))), 0),
        };
        Vertex {
            message,
            thread,
            in_message: Links::default(),
            in_thread: Links::default(),
            several,
            only,
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
            flags_and_delays: 0,
            after_job: AfterJob::Usual,
            diagnosis: None,
        }
    }

    fn has_flag(&self, flag: u8) -> bool {
        self.flags_and_delays & flag != 0
    }

    fn set_flag(&mut self, flag: u8, value: bool) {
        self.flags_and_delays = (self.flags_and_delays & !flag) | if value { flag } else { 0 };
    }

    /// Returns true if the message has other vertices for the same thread.
    ///
    /// Agents therefore need a list of its recipients.
    pub fn is_part(&self) -> bool {
        self.has_flag(PART)
    }

    /// Sets whether the message has other vertices for the same thread.
    pub fn set_part(&mut self, is_part: bool) {
        self.set_flag(PART, is_part);
    }

    /// Number of its delay notices whose time is over.
    pub fn delays_noted(&self) -> u8 {
        self.flags_and_delays & DELAYS
    }

    /// Sets the number of its delay notices whose time is over.
    pub fn set_delays_noted(&mut self, count: u8) {
        self.flags_and_delays = (self.flags_and_delays & !DELAYS) | count.min(DELAYS);
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
            _ => self.pending(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_finish_reports_first_time_and_keeps_order() {
        let mut vertex = vertex(&[472, 421, 523]);
        assert_eq!(vertex.pending_offsets()[..], [472, 421, 523]);
        assert!(vertex.is_pending(421));
        assert!(vertex.finish_recipient(421));
        assert!(!vertex.finish_recipient(421));
        assert!(!vertex.finish_recipient(422));
        assert!(!vertex.is_pending(421) && vertex.has_recipient(421));
        assert_eq!(vertex.pending_offsets()[..], [472, 523]);
        assert_eq!(vertex.pending(), 2);
    }

    #[test]
    fn only_recipient_finishes_once() {
        let mut vertex = vertex(&[100]);
        vertex.set_part(true);
        vertex.set_delays_noted(5);
        assert_eq!((vertex.pending(), &vertex.pending_offsets()[..]), (1, &[100][..]));
        assert!(!vertex.finish_recipient(0) && vertex.finish_recipient(100));
        assert!(!vertex.finish_recipient(100));
        assert!(!vertex.is_pending(100) && vertex.has_recipient(100));
        assert_eq!((vertex.pending(), &vertex.pending_offsets()[..]), (0, &[][..]));
        assert!(vertex.is_part() && vertex.delays_noted() == 5);
    }

    #[test]
    fn added_recipients_come_after_pending_ones() {
        let mut vertex = vertex(&[500]);
        assert_eq!(vertex.add_recipients(&[500]), 0);
        assert_eq!(vertex.add_recipients(&[500, 300, 100]), 2);
        assert_eq!(vertex.pending_offsets()[..], [500, 300, 100]);
        vertex.finish_recipient(300);
        assert_eq!(vertex.add_recipients(&[50]), 1);
        assert_eq!(vertex.pending_offsets()[..], [500, 100, 50]);
        assert_eq!(vertex.pending(), 3);
    }

    #[test]
    fn vertex_and_message_sizes_stay_small() {
        assert_eq!(size_of::<Vertex>(), 64);
        assert_eq!(size_of::<Recipient>(), 8);
        assert_eq!(size_of::<crate::queue::message::Message>(), 72);
    }

    fn vertex(offsets: &[u32]) -> Vertex {
        Vertex::new(MessageId::FIRST, ThreadId::FIRST, offsets)
    }
}
