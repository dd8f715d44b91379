//! Partial messages, which are loaded in chunks of recipients.
//!
//! A message is read in chunks if it has more recipients than there is room for
//! (`PARAMmessage-recipient-limit` and related parameters).
//!
//! The shell reads the first chunk of a message and reports where the unread part begins. More is
//! read when recipients leave memory: they are finished, or they are deferred and unloaded at once.
//! If any recipient was unloaded, the whole message is [paged out](crate::admission::paging) at the
//! end of the file, until the first of them is to be tried again. It is then read from the
//! beginning. The tags in the file mark the finished recipients.
//!
//! An agent with a job delivers to all recipients in the file for its host, loaded or not. Its
//! reports on unloaded recipients count as well. So, except with `packet=`, a message has one
//! vertex for a destination at a time. A chunk adds to it, even while an agent has it.
//!
//! The number of recipients in memory never exceeds the bound in Postfix's document on its
//! scheduler: `minimum * messages + limits of the rings`, or the limit of the first chunks,
//! whichever is more. The limits of the rings include [`preemption_reserve`] room. The bound of one
//! ring counts the limits of that ring only. A chunk is read only if it fits.
//!
//! | file | what |
//! |---|---|
//! | [`recipient_room`] | these bounds, and the room that is left |
//! | [`preemption_reserve`] | room for messages that preempt others |
//! | [`schedule`] | which messages are checked for more to read, and when |
//! | [`read_chunk`] | more of a message is requested |
//! | [`unload`] | deferred recipients are unloaded; the end of the file |
//! | [`unloaded_reports`] | reports on unloaded recipients |

mod recipient_room;
mod preemption_reserve;
mod read_chunk;
mod schedule;
mod unload;
mod unloaded_reports;

pub use recipient_room::RecipientRoom;

use crate::admission::Admission;
use crate::admission::paged_message::{HostFilter, PagedVertex};
use crate::admission::paging::RestoredMessage;
use crate::outcome::sender_reports::SenderReportState;
use crate::queue::{MessageFlag, MessageId, Queue, RingId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::Arrival;

/// Time until recipients that a foreign agent has locked are read again.
const LOCKED_RETRY_INTERVAL: Duration = Duration::from_secs(32);

/// All partial messages.
#[derive(Default, Serialize, Deserialize)]
pub struct PartialMessages {
    partial: BTreeMap<MessageId, PartialMessage>,
    /// Messages with an unread part, by ring of the last chunk, then arrival.
    jobs: BTreeSet<(RingId, u64, MessageId)>,
    /// Messages with extra room for preemption, by ring.
    with_reserve: BTreeSet<(RingId, MessageId)>,
    /// Maximum number of recipients in the chunks that the core has requested.
    #[serde(rename = "reserved")]
    chunks_being_read: usize,
    /// Maximum number of recipients in the first chunks that the shell is reading.
    #[serde(rename = "inflight_first_chunks")]
    first_chunks_being_read: usize,
    /// Messages to be checked.
    queue: VecDeque<MessageId>,
    /// When they are checked.
    next_check: Option<Timestamp>,
    next: u64,
}

/// How far a message has been read.
#[derive(Serialize, Deserialize)]
pub(super) struct PartialMessage {
    /// Order of arrival.
    serial: u64,
    /// Offset of the unread part; `None` at the end of the file.
    unread: Option<u32>,
    /// Maximum number of recipients in the chunk that is being read.
    reading: Option<u32>,
    /// When the last chunk was read.
    read_at: Timestamp,
    rings: Vec<RingId>,
    /// Extra room for preemption, by ring.
    extra: Vec<(RingId, u32)>,
    /// When the file must be read again, because recipients were unloaded.
    left: Option<Timestamp>,
    /// Retry state of unloaded recipients, by destination key.
    ///
    /// The flag is true if they were unloaded in this pass over the file.
    pub learned: BTreeMap<u32, (PagedVertex, bool)>,
    /// Requests for recipients of this message.
    pub wanted: Vec<HostFilter>,
    /// Offsets of recipients that a later chunk must not queue again.
    ///
    /// They were finished while unloaded, or expired or removed while loaded. Those finished while
    /// unloaded are kept only if a chunk was being read or a note was written.
    finals: BTreeSet<u32>,
    /// The file must be read again from the beginning.
    restarts: bool,
    is_queued: bool,
}

impl PartialMessages {
    /// Returns the first message of a ring that has an unread part.
    fn first_of(&self, ring: RingId) -> Option<MessageId> {
        let (of, _, message) = self.jobs.range((ring, 0, MessageId::FIRST)..).next()?;
        (*of == ring).then_some(*message)
    }

    /// Panics if partial messages are inconsistent, or nothing reads more of one.
    pub fn check(&self, mail: &Queue) {
        let recipients: usize =
            self.partial.values().filter_map(|p| p.reading).map(|n| n as usize).sum();
        assert_eq!(self.chunks_being_read, recipients, "recipients that are being read");
        self.check_extra();
        for (id, message) in mail.messages().iter() {
            assert_eq!(
                message.is(MessageFlag::Partial),
                self.partial.contains_key(&id),
                "partial or not"
            );
        }
        let queued = self.queue.len() + usize::from(self.next_check.is_some());
        for (id, partial) in &self.partial {
            let message = mail.message(*id);
            let is_at_work = message.pending > 0 || message.jobs > 0 || message.notes > 0;
            let is_reported = message.report != SenderReportState::None;
            let waits = partial.reading.is_some() || message.is_kept() || is_at_work || is_reported;
            assert!(
                waits || partial.is_queued && queued > 1,
                "{}: no more is read",
                message.name()
            );
        }
    }

    /// A message, if it is partial.
    pub(super) fn get(&self, message: MessageId) -> Option<&PartialMessage> {
        self.partial.get(&message)
    }
}

impl Admission {
    /// Registers a message with the rings of its loaded recipients, of which it may get more.
    pub(crate) fn register_with_rings(&mut self, queue: &mut Queue, message: MessageId) {
        let vertices = queue.vertices_of(message).into_iter();
        let rings: BTreeSet<RingId> =
            vertices.map(|vertex| queue.thread(queue.vertex(vertex).thread).ring).collect();
        self.remove_from_readers(message);
        if let Some(partial) = self.partials.partial.get_mut(&message) {
            partial.rings = rings.into_iter().collect();
            if partial.unread.is_some() {
                let jobs = partial.rings.iter().map(|ring| (*ring, partial.serial, message));
                self.partials.jobs.extend(jobs);
            }
        }
        self.expect_entries(queue, message);
    }

    /// Registers another chunk of a message, and drops recipients that are final from it.
    ///
    /// Returns false if its recipients are not to be queued.
    pub(crate) fn chunk_arrived(
        &mut self,
        queue: &mut Queue,
        now: Timestamp,
        message: MessageId,
        arrival: &mut Arrival,
    ) -> bool {
        let Some(partial) = self.partials.partial.get_mut(&message) else {
            return false;
        };
        partial.unread = arrival.next_offset;
        queue.set_max_unread(message, arrival.max_unread);
        if !arrival.locked.is_empty() {
            let until = now + LOCKED_RETRY_INTERVAL;
            partial.left = Some(partial.left.map_or(until, |left| left.min(until)));
        }
        if partial.restarts {
            return false;
        }
        for group in &mut arrival.groups {
            group.offsets.retain(|offset| !partial.finals.contains(offset));
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
        true
    }

    /// Sets the number of unread recipients in a message's jobs.
    fn expect_entries(&self, queue: &mut Queue, message: MessageId) {
        let unread = queue.max_unread(message);
        let Some(partial) = self.partials.partial.get(&message) else {
            return;
        };
        let rings = partial.rings.iter().chain(partial.extra.iter().map(|(ring, _)| ring));
        rings.for_each(|ring| queue.expect_entries(*ring, message, unread));
    }

    /// Registers a partial message when its first chunk arrives.
    pub(crate) fn begin_partial(
        &mut self,
        queue: &mut Queue,
        now: Timestamp,
        message: MessageId,
        arrival: &Arrival,
        restored: Option<&RestoredMessage>,
    ) {
        self.partials.next += 1;
        let learned = restored.into_iter().flat_map(|restored| &restored.record.vertices);
        let learned = learned.map(|vertex| (vertex.key(), (*vertex, false))).collect();
        let partial = PartialMessage {
            serial: self.partials.next,
            unread: arrival.next_offset,
            reading: None,
            read_at: now,
            rings: Vec::new(),
            extra: Vec::new(),
            left: (!arrival.locked.is_empty()).then_some(now + LOCKED_RETRY_INTERVAL),
            learned,
            wanted: restored.map(|restored| restored.wanted.clone()).unwrap_or_default(),
            finals: BTreeSet::new(),
            restarts: false,
            is_queued: false,
        };
        self.partials.partial.insert(message, partial);
        queue.set_partial(message, true);
        queue.set_max_unread(message, arrival.max_unread);
    }

    /// Ends partial loading: the message is whole, or gone.
    pub(crate) fn end_partial(&mut self, queue: &mut Queue, message: MessageId) {
        self.remove_from_readers(message);
        queue.set_partial(message, false);
        if let Some(partial) = self.partials.partial.remove(&message) {
            self.partials.chunks_being_read -= partial.reading.unwrap_or_default() as usize;
            self.return_reserve(queue, message, &partial.extra);
        }
    }

    /// Causes the rest of a message to be read for its removal.
    ///
    /// No recipient may stay unloaded.
    pub(crate) fn read_rest_for_removal(&mut self, queue: &mut Queue, message: MessageId) {
        if let Some(partial) = self.partials.partial.get_mut(&message) {
            // Recipients that were unloaded in this pass must be read again, too.
            partial.restarts |= partial.left.is_some();
        }
        queue.mark_message(message);
    }

    /// Causes a partial message to be read again from the beginning.
    ///
    /// Called when its file is not as expected. Returns false if the message is not partial.
    pub(crate) fn restart_reading(&mut self, queue: &mut Queue, message: MessageId) -> bool {
        let Some(partial) = self.partials.partial.get_mut(&message) else {
            return false;
        };
        partial.restarts = true;
        queue.mark_message(message);
        true
    }

    fn remove_from_readers(&mut self, message: MessageId) {
        if let Some(partial) = self.partials.partial.get(&message) {
            for ring in &partial.rings {
                self.partials.jobs.remove(&(*ring, partial.serial, message));
            }
        }
    }

    /// Shifts all times by a step of the clock.
    pub(crate) fn shift_partials(&mut self, step: ClockStep) {
        self.partials.next_check = self.partials.next_check.map(|next| next + step);
        for partial in self.partials.partial.values_mut() {
            partial.learned.values_mut().for_each(|(vertex, _)| vertex.shift(step));
            partial.read_at = partial.read_at + step;
            partial.left = partial.left.map(|left| match left.nanoseconds() {
                i64::MAX => left,
                _ => left + step,
            });
        }
    }
}
