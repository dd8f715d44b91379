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
//! `minimum * messages + limits of the rings`, or the limit of the first batches, whichever is more; of each
//! ring with its own limit only. Nothing is read that might not fit.

use super::Scheduler;
use super::action::{Action, Statistics};
use super::agent::AgentId;
use super::event::Reread;
use super::message::MessageId;
use super::outcome::Final;
use super::rest::Recalled;
use super::rested::{Rested, RestedVertex, Wanted};
use super::ring::{Ring, RingId};
use super::thread::ThreadId;
use super::timers::Timer;
use super::vertex::{Diagnosis, Fate, Place, VertexId};
use crate::agent::protocol::{Report, Status};
use crate::config::MemoryLimits;
use crate::spool::note::Occasion;
use crate::spool::{Arrival, Portion};
use crate::time::{ClockStep, Timestamp};
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Messages are looked at again after this time, if more of them might be read.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// At the end of this turn.
const AT_ONCE: Timestamp = Timestamp::EPOCH;
/// So many are looked at in one turn.
const LOOKED_AT: usize = 256;
/// Recipients that an agent held which is not ours are looked at again after this time.
const LOCKED_WAIT: Duration = Duration::from_secs(32);
/// Of so many destinations of a message it is kept that they were tried.
const MOST_LEARNED: usize = 200_000;
/// So many reports about recipients that are being read are kept.
const MOST_FINALS: usize = 10_000;

/// Messages that are not in memory as a whole.
#[derive(Default, Serialize, Deserialize)]
pub struct Batches {
    partial: BTreeMap<MessageId, Partial>,
    /// Those with something unread, by the rings that their last batch went to, in order of arrival.
    jobs: BTreeSet<(RingId, u64, MessageId)>,
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
    /// So many recipients may come: they are being read.
    reading: Option<u32>,
    /// When something was read last.
    read_at: Timestamp,
    rings: Vec<RingId>,
    /// Somebody was left behind: the file is to be read once more, from then on.
    left: Option<Timestamp>,
    /// What was learned of those who were left behind: in this pass, or in an earlier one.
    learned: BTreeMap<u32, (RestedVertex, bool)>,
    /// What somebody has asked for.
    wanted: Vec<Wanted>,
    /// Who was finished without being in memory, as far as it matters: while the file was read, or if a note
    /// was written.
    finals: BTreeSet<u32>,
    /// It is to be read from the beginning.
    begins_anew: bool,
    /// What an operator has ordered for all of it.
    fate: Fate,
    is_queued: bool,
}

impl Partial {
    /// An agent has finished a recipient that is not in memory.
    fn finish(&mut self, report: &Report<'_>) {
        if self.finals.len() >= MOST_FINALS {
            self.begins_anew |= self.reading.is_some();
            self.finals.clear();
        }
        if self.reading.is_some() || matches!(report.status, Status::Ok | Status::Error) {
            self.finals.insert(report.offset);
        }
    }
}

/// How much room there is for recipients.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    limits: MemoryLimits,
    /// Recipients in memory, and those that the core has asked for.
    present: usize,
    /// How many more there may be, whoever they are.
    room: usize,
}

impl Capacity {
    /// How many recipients the first batch of a message may have, if the shell has so many others under way.
    /// Zero is that there is no room.
    pub fn first_batch(&self, under_way: usize) -> u32 {
        let Capacity { limits, present, room } = *self;
        let room = room.saturating_sub(under_way);
        let left = limits.recipients.saturating_sub(present + under_way);
        // Others may come at the same time.
        let wanted = limits.minimum.max(left.div_ceil(2));
        if room >= limits.minimum { wanted.min(room) as u32 } else { 0 }
    }
}

impl Batches {
    /// Whether everything is in memory as a whole.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }
}

impl Scheduler {
    /// A recipient has left memory.
    pub(super) fn recipient_goes(&mut self, message: MessageId, thread: ThreadId) {
        self.look_at_batch(message);
        self.look_at_first_of_ring(thread);
    }

    /// Whether a message is not in memory as a whole.
    fn is_partial(&self, message: MessageId) -> bool {
        self.messages[message].partial
    }

    fn limits(&self) -> Option<MemoryLimits> {
        self.config.parameters.memory()
    }

    /// How many recipients may be in memory at the most; `None` is any number.
    pub fn most_recipients(&self) -> Option<usize> {
        let limits = self.limits()?;
        let of_rings = self.rings.iter().map(|(_, ring)| ring.clause.recipient_limit as usize);
        let pools = limits.minimum.saturating_mul(limits.messages).saturating_add(of_rings.sum());
        Some(pools.max(limits.recipients))
    }

    /// The same of a ring.
    pub fn most_recipients_of(&self, ring: RingId) -> Option<usize> {
        let limits = self.limits()?;
        let pool = self.rings.get(ring)?.clause.recipient_limit as usize;
        let pools = limits.minimum.saturating_mul(limits.messages).saturating_add(pool);
        Some(pools.max(limits.recipients))
    }

    /// Recipients of a ring that are in memory.
    pub fn recipients_of(&self, ring: RingId) -> Option<usize> {
        Some(self.rings.get(ring)?.recipients as usize)
    }

    /// How much room there is for recipients; `None` is any. It takes a look at all rings.
    pub fn capacity(&self) -> Option<Capacity> {
        let limits = self.limits()?;
        let present = self.recipients() as usize + self.batches.reserved;
        let of_all = self.most_recipients()?.saturating_sub(present);
        let of_ring = |(id, ring): (RingId, &Ring)| {
            let taken = ring.recipients as usize + self.batches.reserved;
            self.most_recipients_of(id).map(|most| most.saturating_sub(taken))
        };
        let of_rings = self.rings.iter().filter_map(of_ring).min().unwrap_or(usize::MAX);
        // All of them may go to a ring that is not there yet.
        let of_new = limits.recipients.max(limits.minimum.saturating_mul(limits.messages));
        let of_new = of_new.saturating_sub(self.batches.reserved);
        Some(Capacity { limits, present, room: of_all.min(of_rings).min(of_new) })
    }

    /// How many recipients may come with first batches, as the shell has said.
    pub(super) fn reserved(&self) -> u32 {
        self.batches.reserved_by_shell as u32
    }

    /// The shell has first batches under way with at most so many recipients.
    pub(super) fn reserve(&mut self, recipients: u32) {
        self.batches.reserved_by_shell = recipients as usize;
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
            reading: None,
            read_at: now,
            rings: Vec::new(),
            left: (!arrival.locked.is_empty()).then_some(now + LOCKED_WAIT),
            learned,
            wanted: recalled.map(Recalled::wanted).unwrap_or_default(),
            finals: BTreeSet::new(),
            begins_anew: false,
            fate: recalled.map_or(Fate::Usual, Recalled::fate),
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
        self.carry_out_fate(now, message);
        self.look_at_batch(message);
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
        }
    }

    /// Something of a message has changed: perhaps more of it can be read.
    pub(super) fn look_at_batch(&mut self, message: MessageId) {
        if self.is_partial(message) {
            self.queue_look(message);
            self.look_at_batches_at(AT_ONCE);
        }
    }

    fn queue_look(&mut self, message: MessageId) {
        if let Some(partial) = self.batches.partial.get_mut(&message)
            && !std::mem::replace(&mut partial.is_queued, true)
        {
            self.batches.queue.push_back(message);
        }
    }

    fn look_at_batches_at(&mut self, time: Timestamp) {
        if self.batches.timer.is_none_or(|timer| time < timer) {
            if let Some(timer) = self.batches.timer.replace(time) {
                self.timers.cancel(timer, Timer::Batches);
            }
            self.timers.add(time, Timer::Batches);
        }
    }

    /// A recipient has left memory: the first large message of its ring has room for another.
    fn look_at_first_of_ring(&mut self, thread: ThreadId) {
        if self.batches.jobs.is_empty() {
            return;
        }
        let ring = self.threads[thread].ring;
        let mut jobs = self.batches.jobs.range((ring, 0, MessageId::first())..);
        if let Some((of, _, message)) = jobs.next().copied().filter(|(of, ..)| *of == ring) {
            debug_assert_eq!(of, ring);
            self.look_at_batch(message);
        }
    }

    /// Looks at what has changed.
    pub(super) fn batches_on(&mut self, now: Timestamp) {
        self.batches.timer = None;
        let mut again = Vec::new();
        for _ in 0..self.batches.queue.len().min(LOOKED_AT) {
            let Some(message) = self.batches.queue.pop_front() else {
                break;
            };
            // Its number may be that of another one, which is as good.
            let Some(partial) = self.batches.partial.get_mut(&message) else {
                continue;
            };
            partial.is_queued = false;
            if self.go_on_with(now, message) {
                again.push(message);
            }
        }
        let has_more = !self.batches.queue.is_empty();
        let is_waiting = !again.is_empty();
        again.into_iter().for_each(|message| self.queue_look(message));
        if has_more || is_waiting {
            self.look_at_batches_at(if has_more { AT_ONCE } else { now + LOOK_AGAIN });
        }
    }

    /// Goes on with a message. Tells whether it is to be looked at again although nothing changes.
    fn go_on_with(&mut self, now: Timestamp, message: MessageId) -> bool {
        let message_ref = &self.messages[message];
        let partial = &self.batches.partial[&message];
        if partial.reading.is_some() || message_ref.held || message_ref.removing {
            return false;
        }
        let (unread, begins_anew) = (partial.unread, partial.begins_anew);
        self.leave_behind(now, message);
        let is_idle = self.messages[message].vertices.is_empty()
            && self.messages[message].jobs == 0
            && self.messages[message].notes == 0;
        match unread.filter(|_| !begins_anew) {
            None if is_idle => {
                self.end_pass(now, message);
                false
            }
            None => false,
            Some(from) => self.read_on(now, message, from),
        }
    }

    /// Those of a message who wait leave memory.
    fn leave_behind(&mut self, now: Timestamp, message: MessageId) {
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            let vertex_ref = &self.vertices[vertex];
            if vertex_ref.place == Place::Waiting && vertex_ref.fate == Fate::Usual {
                self.leave_vertex_behind(now, vertex);
            }
        }
    }

    fn leave_vertex_behind(&mut self, now: Timestamp, vertex: VertexId) {
        let until = self.end_of_rest(vertex);
        let (rested, message) = (self.rested(vertex), self.vertices[vertex].message);
        // It is counted again when it is read again.
        self.counters.recipients_in -= u64::from(self.vertices[vertex].pending);
        self.unload_vertex(now, vertex, until);
        self.learn_of_left(message, rested, until);
    }

    fn learn_of_left(&mut self, message: MessageId, of: RestedVertex, until: Option<Timestamp>) {
        let Some(partial) = self.batches.partial.get_mut(&message) else {
            return;
        };
        let until = until.unwrap_or(Timestamp::from_nanoseconds(i64::MAX));
        partial.left = Some(partial.left.map_or(until, |left| left.min(until)));
        if partial.learned.len() < MOST_LEARNED || partial.learned.contains_key(&of.key()) {
            partial.learned.insert(of.key(), (of, true));
        }
    }

    /// The end of the file is reached, and nothing of the message is under way.
    fn end_pass(&mut self, now: Timestamp, message: MessageId) {
        let partial = &self.batches.partial[&message];
        let until = match (partial.begins_anew, partial.left) {
            (true, _) => Some(now),
            (false, None) => {
                self.end_partial(message);
                return self.remove_if_complete(message);
            }
            (false, Some(left)) => Some(left).filter(|left| left.nanoseconds() < i64::MAX),
        };
        let rested = Rested {
            modified: self.messages[message].modified,
            recipients: 0,
            fate: partial.fate,
            vertices: partial.learned.values().map(|(vertex, _)| *vertex).collect(),
        };
        self.end_partial(message);
        let name = self.messages[message].name.clone();
        self.messages.remove(message);
        self.act(Action::Rest { name, until, rested: Box::new(rested) });
    }

    /// Reads more of a message, if there is room for it. Tells whether there may be some later.
    fn read_on(&mut self, now: Timestamp, message: MessageId, from: u32) -> bool {
        let partial = &self.batches.partial[&message];
        let (mut allowed, mut limit, mut delay) = (usize::MAX, 1, Duration::ZERO);
        if let Some(limits) = self.limits() {
            let mut slots = limits.minimum as i64;
            (limit, delay) = (u32::MAX, Duration::MAX);
            let mut is_first = false;
            for ring in &partial.rings {
                let Some(ring_ref) = self.rings.get(*ring) else {
                    continue;
                };
                limit = limit.min(ring_ref.clause.refill_limit);
                delay = delay.min(ring_ref.clause.refill_delay);
                let mut jobs = self.batches.jobs.range((*ring, 0, MessageId::first())..);
                // The first of them has all that is left, what it has itself included.
                if jobs.next().is_some_and(|(of, _, first)| of == ring && *first == message) {
                    let pool = i64::from(ring_ref.clause.recipient_limit);
                    slots += (pool - ring_ref.recipients as i64).max(0);
                    is_first = true;
                }
            }
            if !is_first {
                slots -= i64::from(self.messages[message].pending);
            }
            let room = self.capacity().map_or(usize::MAX, |capacity| capacity.room);
            let room = room.saturating_sub(self.batches.reserved_by_shell);
            allowed = usize::try_from(slots).unwrap_or_default().min(room);
        }
        let has_nothing = self.messages[message].vertices.is_empty();
        let is_late = now.since(partial.read_at) >= delay;
        if allowed == 0 || !(has_nothing || is_late || allowed >= limit as usize) {
            return true;
        }
        let at_most = u32::try_from(allowed).unwrap_or(u32::MAX);
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            partial.reading = Some(at_most);
            self.batches.reserved += at_most as usize;
        }
        let name = self.messages[message].name.clone();
        self.act(Action::ReadMore { name, portion: Portion { from, at_most } });
        false
    }

    /// The shell has read more of a message.
    pub(super) fn more_read(&mut self, now: Timestamp, number: u64, outcome: Reread) {
        let Some(message) = self.messages.find(number).filter(|m| self.is_partial(*m)) else {
            return;
        };
        let Some(partial) = self.batches.partial.get_mut(&message) else {
            return;
        };
        let Some(reserved) = partial.reading.take() else {
            return;
        };
        partial.read_at = now;
        self.batches.reserved -= reserved as usize;
        let id = self.messages[message].spool_id();
        match outcome {
            Reread::Read(arrival) if arrival.modified != self.messages[message].modified => {
                self.log(Level::Warn, format!("{id}: another message has its number now"));
                self.forget(message);
            }
            Reread::Read(arrival) => self.take_batch(now, message, arrival),
            Reread::Gone => {
                self.log(Level::Warn, format!("{id}: the control file is gone; forgotten"));
                self.forget(message);
            }
            Reread::Malformed(error) => {
                self.log(Level::Error, format!("{id}: the control file is spoilt: {error}"));
                self.forget(message);
            }
            Reread::Failed(error) => {
                self.log(Level::Error, format!("{id}: cannot read more of it: {error}"));
                self.queue_look(message);
                self.look_at_batches_at(now + Duration::from_secs(1));
            }
        }
    }

    fn take_batch(&mut self, now: Timestamp, message: MessageId, mut arrival: Arrival) {
        let message_ref = &mut self.messages[message];
        message_ref.owes_report |= arrival.owes_report;
        message_ref.leftovers |= arrival.leftover.is_some();
        if arrival.is_part {
            message_ref.recipients += arrival.recipients;
            message_ref.failed += arrival.failed;
        }
        let Some(partial) = self.batches.partial.get_mut(&message) else {
            return;
        };
        partial.unread = arrival.unread;
        if !arrival.locked.is_empty() {
            let until = now + LOCKED_WAIT;
            partial.left = Some(partial.left.map_or(until, |left| left.min(until)));
        }
        let finals = partial.finals.clone();
        if partial.begins_anew {
            return self.look_at_batch(message);
        }
        for group in &mut arrival.groups {
            group.offsets.retain(|offset| !finals.contains(offset));
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
        let before = self.messages[message].vertices.to_vec(&self.vertices);
        let before: BTreeSet<VertexId> = before.into_iter().collect();
        self.queue_batch(now, message, &arrival);
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            if !before.contains(&vertex) {
                self.join_job(vertex);
            }
        }
        self.end_batch(now, message);
    }

    /// The recipients of a batch join their threads: a vertex that is there, or a new one.
    pub(super) fn queue_batch(&mut self, now: Timestamp, message: MessageId, arrival: &Arrival) {
        let mut vertices: BTreeMap<ThreadId, VertexId> = BTreeMap::new();
        for agent in self.agents.values() {
            let of_message = |job: &VertexId| self.vertices[*job].message == message;
            for job in agent.jobs().filter(of_message) {
                vertices.insert(self.vertices[job].thread, job);
            }
        }
        for vertex in self.messages[message].vertices.iter(&self.vertices) {
            vertices.insert(self.vertices[vertex].thread, vertex);
        }
        for group in &arrival.groups {
            let thread = self.thread_for(now, &group.channel, &group.host);
            // Packets are vertices of their own, of which agents are told the recipients.
            let has_packets = self.rings[self.threads[thread].ring].clause.packet > 0;
            let whole = vertices.get(&thread).filter(|vertex| !self.vertices[**vertex].is_part);
            let whole = whole.filter(|vertex| {
                // A new configuration may have brought the packets: what an agent has got as a whole stays so.
                !has_packets || self.vertices[**vertex].place == Place::Fed
            });
            match whole {
                Some(vertex) => self.extend_vertex(*vertex, &group.offsets),
                None => {
                    let vertex = self.queue_group(now, message, group, None);
                    // Where there are two, each is a part, whatever the clause says now.
                    if let Some(former) = vertices.insert(thread, vertex) {
                        self.vertices[former].is_part = true;
                        self.vertices[vertex].is_part = true;
                    }
                }
            }
        }
    }

    fn extend_vertex(&mut self, vertex: VertexId, offsets: &[u32]) {
        let vertex_ref = &mut self.vertices[vertex];
        let (message, thread) = (vertex_ref.message, vertex_ref.thread);
        let count = vertex_ref.recipients.extend(offsets);
        vertex_ref.pending += count;
        self.counters.recipients_in += u64::from(count);
        self.messages[message].pending += count;
        self.count_recipients(thread, i64::from(count));
        if self.vertices[vertex].place == Place::Spent && count > 0 {
            // Everybody was finished who was in memory, but its agent is still at it.
            self.messages[message].vertices.push_back(&mut self.vertices, vertex);
            self.put(vertex, Place::Fed);
            self.update_readiness(thread);
        }
    }

    /// What is known of recipients of a large message that were left behind earlier, and in which pass.
    pub(super) fn learned_of(&self, message: MessageId, vertex: VertexId) -> Option<Left> {
        let partial = self.batches.partial.get(&message).filter(|_| self.is_partial(message))?;
        let to = &self.threads[self.vertices[vertex].thread].destination;
        let (learned, in_this_pass) = *partial.learned.get(&RestedVertex::key_of(to))?;
        let is_wanted = partial.wanted.iter().any(|wanted| wanted.means(learned));
        Some(Left { learned, in_this_pass, is_wanted })
    }

    /// An operator wants something done with a whole message, of which only some is in memory.
    pub(super) fn decide_fate(&mut self, message: MessageId, fate: Fate) {
        if !self.is_partial(message) {
            return;
        }
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            partial.fate = fate;
            // What was left behind in this pass is not forgotten.
            partial.begins_anew |= partial.left.is_some();
        }
        self.look_at_batch(message);
    }

    fn carry_out_fate(&mut self, now: Timestamp, message: MessageId) {
        let Some(fate) = self.batches.partial.get(&message).map(|partial| partial.fate) else {
            return;
        };
        if matches!(fate, Fate::Usual | Fate::OneMoreTry) {
            return;
        }
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            self.vertices[vertex].fate = fate;
            if self.vertices[vertex].place != Place::Fed {
                self.meet_fate(now, vertex);
            }
        }
    }

    /// An agent reports about a recipient of its present job that is not in memory. Tells whether it can be so.
    pub(super) fn report_of_absent(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        message: MessageId,
        report: &Report<'_>,
    ) -> bool {
        let present = self.agents[&agent].jobs().next();
        let is_it = |vertex: &VertexId| self.vertices[*vertex].message == message;
        let Some(vertex) = present.filter(is_it).filter(|_| self.is_partial(message)) else {
            return false;
        };
        let partial = &self.batches.partial[&message];
        if partial.finals.contains(&report.offset)
            || self.vertices[vertex].recipients.has(report.offset)
        {
            // It says so once more.
            return false;
        }
        let agent_ref = self.agents.get_mut(&agent).expect("agent_said has found it");
        agent_ref.progress_at = now;
        let thread = self.vertices[vertex].thread;
        self.threads[thread].deaths = 0;
        self.threads[thread].attempts = self.threads[thread].attempts.saturating_add(1);
        self.status_of_report(now, agent, vertex, report);
        match report.status {
            Status::Ok | Status::Ok2 | Status::Ok3 | Status::Error | Status::Error2 => {
                self.absent_is_final(now, message, vertex, report);
            }
            status => {
                self.absent_is_deferred(now, vertex, report);
                match status {
                    Status::RetryAt => self.retry_at(now, vertex, report),
                    Status::DeferAll => self.defer_all(now, vertex, report),
                    _ => {}
                }
            }
        }
        true
    }

    fn absent_is_final(
        &mut self,
        now: Timestamp,
        message: MessageId,
        vertex: VertexId,
        report: &Report<'_>,
    ) {
        match report.status {
            Status::Ok => self.note_report(now, message, report, Occasion::Success),
            Status::Error => self.note_report(now, message, report, Occasion::Failure),
            Status::Ok2 | Status::Error2 => self.messages[message].owes_report = true,
            _ => {}
        }
        self.contact_made(self.vertices[vertex].thread);
        let failed = matches!(report.status, Status::Error | Status::Error2);
        let outcome = Final { state: report.status.word(), failed };
        let message_ref = &mut self.messages[message];
        message_ref.failed += u32::from(outcome.failed);
        self.counters.recipients_in += 1;
        self.counters.recipients_out += 1;
        let (spool_id, created) = (message_ref.spool_id(), message_ref.created);
        let destination = self.threads[self.vertices[vertex].thread].destination.clone();
        let state = outcome.state;
        self.act(Action::Statistics(Statistics { spool_id, created, state, destination }));
        if let Some(partial) = self.batches.partial.get_mut(&message) {
            partial.finish(report);
        }
    }

    fn absent_is_deferred(&mut self, now: Timestamp, vertex: VertexId, report: &Report<'_>) {
        let (message, thread) = (self.vertices[vertex].message, self.vertices[vertex].thread);
        self.contact_failed(thread, report.notary);
        self.plan_retry(now, thread);
        let until = self.threads[thread].retry.wakeup;
        self.keep_retry(now, thread, until);
        let text = Diagnosis::new(report.notary, report.text());
        let text = self.keep_text(&text);
        let to = &self.threads[thread].destination;
        let attempts = self.vertices[vertex].attempts.max(1);
        let learned = RestedVertex::new(to, attempts, true, text);
        self.learn_of_left(message, learned, until);
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

/// What is known of recipients that were left behind.
pub(super) struct Left {
    pub learned: RestedVertex,
    /// They were tried since the file was read from the beginning: their time has not come.
    pub in_this_pass: bool,
    /// Somebody has asked for them.
    pub is_wanted: bool,
}
