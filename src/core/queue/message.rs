//! Messages: a control file and its message file.

use crate::list::Chain;
use crate::outcome::sender_reports::SenderReportState;
use crate::pool::{Id, Pool};
use crate::queue::MessageChain;
use crate::queue::number_index::NumberIndex;
use crate::queue::schedule::Schedules;
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use zsched_format::priority::KEPT_PRIORITY;
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Deadline, HashFolder, SpoolId, SpoolName};

/// The number of a message in memory.
///
/// It is not the number in its file name.
pub type MessageId = Id<Message>;

/// A message that is not finished yet.
///
/// There may be millions in memory, so its fields are small.
#[derive(Serialize, Deserialize)]
pub struct Message {
    number: u64,
    folder: HashFolder,
    /// What hardly any message has.
    rare: Option<Box<RareFields>>,
    /// When its message file was last modified.
    pub modified: Timestamp,
    /// When it was routed.
    pub created: Timestamp,
    /// Its recipients, by destination.
    pub vertices: Chain<MessageChain>,
    /// Recipients in its control file, finished ones included.
    pub recipients: u32,
    /// Recipients that are not finished.
    pub pending: u32,
    /// Recipients that have failed.
    pub failed: u32,
    /// Notes about it that are not on disk yet.
    pub notes: u32,
    /// Jobs of it that agents have not ended.
    ///
    /// An agent may write to the control file until then, even after its last report.
    pub jobs: u32,
    /// Offset of the last recipient line that was read.
    pub last_recipient: u32,
    /// Priority, 0 (most urgent) to 9, or [`KEPT_PRIORITY`].
    pub priority: u8,
    /// What happens to the report of a `d` line.
    pub report: SenderReportState,
    flags: u16,
}

/// Fields of a message that are in memory only if one of them is set.
#[derive(Serialize, Deserialize)]
struct RareFields {
    /// Its name with its folder, if that is not just the folder and the number.
    name: Option<SpoolName>,
    /// The deadline that its sender has set.
    deadline: Option<Deadline>,
}

/// Reasons for which no agent gets a message.
const KEPT: [MessageFlag; 3] = [MessageFlag::Held, MessageFlag::Scheduled, MessageFlag::KeptByJob];

/// What is true of a message or not: a bit of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFlag {
    /// The times that its sender has set do not allow delivery now ([`crate::queue::schedule`]).
    Scheduled,
    /// Its bulk job keeps it back: it is paused, or has its share of agents ([`crate::bulk`]).
    KeptByJob,
    /// Its control file has a `d` line that is not reported to the sender.
    OwesReport,
    /// It may have failures without a `d` line, which are noted when it is finished.
    HasUnnotedFailures,
    /// Its control file has lines that cannot be delivered.
    HasUndeliverableLines,
    /// A failed recipient may have an alternative that is tried next.
    HasAlternatives,
    /// A recipient has failed: its file is read again for the next alternative.
    ///
    /// That comes when its notes are written and its jobs are over.
    WantsAlternative,
    /// An operator holds it.
    Held,
    /// Its control file is being read again.
    Rereading,
    /// It is being removed from the spool.
    Removing,
    /// Only some of its recipients are in memory: see [`crate::admission::partial`].
    Partial,
    /// It is no longer in the spool.
    ///
    /// Only its jobs keep it in memory.
    Forgotten,
}

impl Message {
    pub(crate) fn new(arrival: &Arrival) -> Message {
        let custom_name = arrival.name.nonnumeric_base().map(|_| arrival.name.clone());
        let deadline = arrival.deliver_by.filter(|deadline| deadline.at > 0);
        let is_rare = custom_name.is_some() || deadline.is_some();
        let rare = RareFields { name: custom_name, deadline };
        let mut message = Message {
            number: arrival.name.number(),
            folder: arrival.name.folder(),
            rare: is_rare.then(|| Box::new(rare)),
            modified: arrival.modified,
            created: arrival.created,
            vertices: Chain::new(),
            recipients: arrival.recipients,
            pending: 0,
            failed: arrival.failed,
            notes: 0,
            jobs: 0,
            last_recipient: arrival.last_recipient,
            priority: arrival.priority,
            report: SenderReportState::None,
            flags: 0,
        };
        message.set(MessageFlag::OwesReport, arrival.report_due);
        message.set(MessageFlag::HasUndeliverableLines, arrival.first_undeliverable.is_some());
        message.set(MessageFlag::HasAlternatives, arrival.has_alternatives);
        message
    }

    /// The number at the beginning of its name.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Name of its files.
    pub fn name(&self) -> SpoolName {
        let custom = self.rare.as_ref().and_then(|rare| rare.name.clone());
        custom.unwrap_or_else(|| SpoolName::plain(self.folder, self.number))
    }

    /// Returns true if a flag is set.
    pub fn is(&self, flag: MessageFlag) -> bool {
        self.flags & (1 << flag as u16) != 0
    }

    /// Sets a flag, or clears it.
    pub fn set(&mut self, flag: MessageFlag, value: bool) {
        let bit = 1 << flag as u16;
        self.flags = if value { self.flags | bit } else { self.flags & !bit };
    }

    /// Sets a flag if the condition is true.
    pub fn set_if(&mut self, flag: MessageFlag, condition: bool) {
        self.set(flag, condition || self.is(flag));
    }

    /// The short text that names it in logs and reports.
    pub fn spool_id(&self) -> SpoolId {
        SpoolId { number: self.number, modified: self.modified }
    }

    /// Returns true if none of it is given to an agent now.
    ///
    /// An operator holds it, it waits for a time that its sender has set or for its bulk job, or
    /// its priority is `z`.
    pub fn is_kept(&self) -> bool {
        let is_of_low_priority = self.priority >= KEPT_PRIORITY;
        is_of_low_priority || KEPT.iter().any(|flag| self.is(*flag))
    }

    /// The deadline that its sender has set.
    pub fn deliver_by(&self) -> Option<Deadline> {
        self.rare.as_ref()?.deadline
    }

    /// When it fails, if its sender has set such a deadline.
    pub fn fails_at(&self) -> Option<Timestamp> {
        let deadline = self.deliver_by().filter(|deadline| deadline.returns)?;
        Some(Timestamp::from_seconds(deadline.at.into()))
    }

    /// Time of the notice to its sender that it is late (RFC 2852, `BY` with `N`).
    pub fn notice_at(&self) -> Option<Timestamp> {
        let deadline = self.deliver_by().filter(|deadline| !deadline.returns)?;
        Some(Timestamp::from_seconds(deadline.at.into()))
    }

    /// Returns true if nothing delays its removal from the spool.
    pub fn is_complete(&self) -> bool {
        self.is_finished()
            && self.report == SenderReportState::None
            && (self.is(MessageFlag::Forgotten)
                || !(self.is(MessageFlag::OwesReport) || self.is(MessageFlag::HasUnnotedFailures)))
    }

    /// Returns true if the alternative of a failed recipient may be read later.
    pub fn may_get_alternative(&self) -> bool {
        let is_to_be_read =
            self.is(MessageFlag::WantsAlternative) || self.is(MessageFlag::Rereading);
        self.is(MessageFlag::HasAlternatives) && is_to_be_read
    }

    /// Returns true if nothing happens to its recipients any more.
    pub fn is_finished(&self) -> bool {
        self.pending == 0
            && self.notes == 0
            && self.jobs == 0
            && !self.is(MessageFlag::Rereading)
            && !self.is(MessageFlag::Partial)
            && !self.is(MessageFlag::WantsAlternative)
    }
}

/// All messages, with an index by number.
///
/// The number is that in their name, and the order is ascending.
#[derive(Default, Serialize, Deserialize)]
pub struct Messages {
    pool: Pool<Message>,
    by_number: NumberIndex,
    /// Number of messages in `by_number` that were modified in each second.
    ///
    /// It gives the oldest message without a look at all of them.
    by_second: BTreeMap<i64, u32>,
    /// Times of delivery that their senders have set.
    pub schedules: Schedules,
    /// Changed messages; some may be there twice.
    // Empty between two events.
    #[serde(skip)]
    changed: VecDeque<MessageId>,
}

impl Messages {
    pub fn insert(&mut self, message: Message) -> MessageId {
        let number = message.number;
        *self.by_second.entry(message.modified.seconds()).or_default() += 1;
        let id = self.pool.insert(message);
        self.changed.push_back(id);
        let former = self.by_number.insert(number, id);
        debug_assert!(former.is_none(), "message {number} is there twice");
        id
    }

    pub fn remove(&mut self, id: MessageId) {
        self.release_number(id);
        self.schedules.forget(id);
        self.pool.remove(id);
    }

    /// The time from which the age of a message counts.
    ///
    /// It is the arrival, or the first time that the sender allows.
    pub fn aged_from(&self, id: MessageId) -> Timestamp {
        let first = self.schedules.first_opening(id);
        first.unwrap_or(self.pool[id].modified).max(self.pool[id].modified)
    }

    /// Makes the number of this message available to another one.
    pub fn release_number(&mut self, id: MessageId) {
        let number = self.pool[id].number;
        if self.by_number.get(number) == Some(id) {
            self.by_number.remove(number);
            self.forget_second(self.pool[id].modified.seconds());
        }
    }

    fn forget_second(&mut self, second: i64) {
        if let Entry::Occupied(mut count) = self.by_second.entry(second) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Time of the oldest message, in seconds since the epoch.
    pub fn oldest(&self) -> Option<i64> {
        self.by_second.keys().next().copied()
    }

    /// Number of messages that were modified in each second.
    pub fn by_second(&self) -> &BTreeMap<i64, u32> {
        &self.by_second
    }

    pub fn find(&self, number: u64) -> Option<MessageId> {
        self.by_number.get(number)
    }

    /// The first message whose number is `number` or higher.
    pub fn at_or_after(&self, number: u64) -> Option<MessageId> {
        self.by_number.at_or_after(number)
    }

    /// Number of messages, without the forgotten ones.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns true if jobs of agents keep forgotten messages in memory.
    pub fn has_forgotten(&self) -> bool {
        self.pool.len() > self.by_number.len()
    }

    /// Counts a job that an agent gets.
    ///
    /// A message does not become complete by it, so it is not marked.
    pub fn add_job(&mut self, id: MessageId) {
        self.pool[id].jobs += 1;
    }

    /// Marks a message: something that it depends on has changed.
    pub fn mark(&mut self, id: MessageId) {
        if self.changed.back() != Some(&id) {
            self.changed.push_back(id);
        }
    }

    /// Removes the mark of the next message that is marked as changed, and returns it.
    pub fn next_changed(&mut self) -> Option<MessageId> {
        // Those that were removed meanwhile are passed over.
        let mut changed = std::iter::from_fn(|| self.changed.pop_front());
        changed.find(|id| self.pool.get(*id).is_some())
    }

    /// The message with this id, if there is one.
    pub fn get(&self, id: MessageId) -> Option<&Message> {
        self.pool.get(id)
    }

    /// Number of slots, free ones included.
    pub fn slots(&self) -> usize {
        self.pool.slots()
    }

    /// The message in a slot; `None` if it is free.
    pub fn at(&self, slot: usize) -> Option<MessageId> {
        self.pool.at(slot)
    }

    pub fn iter(&self) -> impl Iterator<Item = (MessageId, &Message)> {
        self.pool.iter()
    }
}

impl std::ops::Index<MessageId> for Messages {
    type Output = Message;

    fn index(&self, id: MessageId) -> &Message {
        &self.pool[id]
    }
}

impl std::ops::IndexMut<MessageId> for Messages {
    /// Marks the message as changed.
    fn index_mut(&mut self, id: MessageId) -> &mut Message {
        self.mark(id);
        &mut self.pool[id]
    }
}
