//! Messages with more recipients than there is room for: they are read in batches
//! (`PARAMmessage-recipient-limit` and its kin).
//!
//! The shell reads the first batch of a message and says where the rest begins. More is read as recipients are
//! dealt with: finished, or left behind. Whoever is deferred leaves memory at once; when the end of the file is
//! reached, and somebody was left behind, the whole message [rests](super::rest) until the first of them is to
//! be tried again, and is then read from the beginning. The tags in the file tell who is finished.
//!
//! An agent that is given a job delivers to everybody in the file who goes to its host, in memory or not.
//! What it says of the others counts as well. So there is one vertex of a message for a destination at a time:
//! a batch adds to it, even while an agent has it.
//!
//! How many recipients are in memory never exceeds the bounds that Postfix's document on its scheduler gives:
//! `minimum * messages + limits of the rings` with what is [`extra`], or the limit of the first batches,
//! whichever is more; of each ring with its own limits only. Nothing is read that might not fit.
//!
//! | file | what |
//! |---|---|
//! | [`capacity`] | these bounds, and the room there is |
//! | [`extra`] | room for messages that preempt others |
//! | [`look`] | which messages are looked at, and when |
//! | [`reading`], [`joining`] | more of a message is asked for; its recipients join their threads |
//! | [`behind`] | who waits is left behind; what becomes of a message at the end of its file |
//! | [`absent`] | reports about recipients that are not in memory |

mod absent;
mod behind;
mod capacity;
mod extra;
mod joining;
mod look;
mod reading;

pub use capacity::Capacity;

pub(super) use behind::Left;

use super::Scheduler;
use super::message::MessageId;
use super::rest::Recalled;
use super::rested::{RestedVertex, Wanted};
use super::ring::RingId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::Arrival;

/// Recipients that an agent held which is not ours are looked at again after this time.
const LOCKED_WAIT: Duration = Duration::from_secs(32);

/// Messages that are not in memory as a whole.
#[derive(Default, Serialize, Deserialize)]
pub struct Batches {
    partial: BTreeMap<MessageId, Partial>,
    /// Those with something unread, by the rings that their last batch went to, in order of arrival.
    jobs: BTreeSet<(RingId, u64, MessageId)>,
    /// Who has room for preempting others, and in which ring.
    with_extra: BTreeSet<(RingId, MessageId)>,
    /// Recipients that may come with what is being read.
    reserved: usize,
    /// Recipients that may come with the first batches that the shell has read.
    reserved_by_shell: usize,
    /// Those that are to be looked at.
    queue: VecDeque<MessageId>,
    /// When they are.
    timer: Option<Timestamp>,
    next: u64,
}

/// How far a message is.
#[derive(Serialize, Deserialize)]
struct Partial {
    /// The order of arrival.
    serial: u64,
    /// Where the rest begins; `None` at the end of the file.
    unread: Option<u32>,
    /// How many recipients may be there, at the most.
    unread_at_most: u32,
    /// So many recipients may come: they are being read.
    reading: Option<u32>,
    /// When something was read last.
    read_at: Timestamp,
    rings: Vec<RingId>,
    /// Room that it has got for preempting others there.
    extra: Vec<(RingId, u32)>,
    /// Somebody was left behind: the file is to be read once more, from then on.
    left: Option<Timestamp>,
    /// What was learned of those who were left behind: in this pass, or in an earlier one.
    learned: BTreeMap<u32, (RestedVertex, bool)>,
    /// What somebody has asked for.
    wanted: Vec<Wanted>,
    /// Who was finished without being in memory, as far as it matters: while the file was read, or if a note
    /// was written; and who was in memory, and was given up or put away there.
    finals: BTreeSet<u32>,
    /// It is to be read from the beginning.
    begins_anew: bool,
    is_queued: bool,
}

impl Batches {
    /// The first message of a ring of which something is unread.
    fn first_of(&self, ring: RingId) -> Option<MessageId> {
        let (of, _, message) = self.jobs.range((ring, 0, MessageId::first())..).next()?;
        (*of == ring).then_some(*message)
    }

    /// Whether everything is in memory as a whole.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }
}

impl Scheduler {
    /// Whether a message is not in memory as a whole.
    fn is_partial(&self, message: MessageId) -> bool {
        self.messages[message].partial
    }

    /// Some of a message has arrived: keeps in mind that there is more.
    pub(super) fn begin_partial(
        &mut self,
        now: Timestamp,
        message: MessageId,
        arrival: &Arrival,
        recalled: Option<&Recalled>,
    ) {
        self.batches.next += 1;
        let learned = recalled.map(|recalled| recalled.learned()).unwrap_or_default();
        let learned = learned.into_iter().map(|vertex| (vertex.key(), (vertex, false))).collect();
        let partial = Partial {
            serial: self.batches.next,
            unread: arrival.unread,
            unread_at_most: arrival.unread_at_most,
            reading: None,
            read_at: now,
            rings: Vec::new(),
            extra: Vec::new(),
            left: (!arrival.locked.is_empty()).then_some(now + LOCKED_WAIT),
            learned,
            wanted: recalled.map(Recalled::wanted).unwrap_or_default(),
            finals: BTreeSet::new(),
            begins_anew: false,
            is_queued: false,
        };
        self.batches.partial.insert(message, partial);
        self.messages[message].partial = true;
    }

    /// A batch has come: which rings it concerns.
    pub(super) fn end_batch(&mut self, now: Timestamp, message: MessageId) {
        let vertices = self.messages[message].vertices.iter(&self.vertices);
        let rings: BTreeSet<RingId> =
            vertices.map(|vertex| self.threads[self.vertices[vertex].thread].ring).collect();
        self.leave_readers(message);
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            partial.rings = rings.into_iter().collect();
            if partial.unread.is_some() {
                let jobs = partial.rings.iter().map(|ring| (*ring, partial.serial, message));
                self.batches.jobs.extend(jobs);
            }
        }
        self.expect_entries(message);
        self.carry_out_ending(now, message);
        self.look_at_batch(message);
    }

    /// Says in the rings of a message how many entries of it may come.
    fn expect_entries(&mut self, message: MessageId) {
        let unread = self.unread_of(message);
        let Some(partial) = self.batches.partial.get(&message) else {
            return;
        };
        let rings = partial.rings.iter().chain(partial.extra.iter().map(|(ring, _)| ring));
        for ring in rings {
            if let Some(jobs) = &mut self.rings[*ring].jobs {
                jobs.expect(message, unread);
            }
        }
    }

    fn leave_readers(&mut self, message: MessageId) {
        if let Some(partial) = self.batches.partial.get(&message) {
            for ring in &partial.rings {
                self.batches.jobs.remove(&(*ring, partial.serial, message));
            }
        }
    }

    /// A message is not partial any more, or not there.
    pub(super) fn end_partial(&mut self, message: MessageId) {
        self.leave_readers(message);
        self.messages[message].partial = false;
        if let Some(partial) = self.batches.partial.remove(&message) {
            self.batches.reserved -= partial.reading.unwrap_or_default() as usize;
            self.give_extra_back(message, &partial.extra);
        }
    }

    /// An operator wants a whole message to end: nothing of it is to be left behind.
    pub(super) fn read_to_the_end(&mut self, message: MessageId) {
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            // What was left behind in this pass is not forgotten.
            partial.begins_anew |= partial.left.is_some();
        }
        self.look_at_batch(message);
    }

    /// A large message is to be read from the beginning: its file is not as we thought.
    pub(super) fn read_anew(&mut self, message: MessageId) -> bool {
        if !self.is_partial(message) {
            return false;
        }
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            partial.begins_anew = true;
        }
        self.look_at_batch(message);
        true
    }

    /// The clock was set.
    pub(super) fn shift_batches(&mut self, step: ClockStep) {
        for partial in self.batches.partial.values_mut() {
            partial.learned.values_mut().for_each(|(vertex, _)| vertex.shift(step));
            partial.read_at = partial.read_at + step;
            partial.left = partial.left.map(|left| match left.nanoseconds() {
                i64::MAX => left,
                _ => left + step,
            });
        }
    }

    /// What must hold of messages that are not in memory as a whole.
    pub(super) fn check_batches(&self) {
        let reserved: usize =
            self.batches.partial.values().filter_map(|p| p.reading).map(|n| n as usize).sum();
        assert_eq!(self.batches.reserved, reserved, "recipients that are being read");
        self.batches.check_extra();
        for (id, message) in self.messages.iter() {
            assert_eq!(message.partial, self.batches.partial.contains_key(&id), "partial or not");
        }
        let queued = self.batches.queue.len() + usize::from(self.batches.timer.is_some());
        for (id, partial) in &self.batches.partial {
            let message = &self.messages[*id];
            let is_at_work = message.pending > 0 || message.jobs > 0 || message.notes > 0;
            let waits = partial.reading.is_some() || message.held || is_at_work;
            assert!(waits || partial.is_queued && queued > 1, "{}: nobody reads on", message.name);
        }
    }
}
