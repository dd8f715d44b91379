//! Messages that leave memory because they only wait, so that there is room for others
//! (`PARAMmessage-active-limit`).
//!
//! The shell reads no more control files than there is room for. While some wait for that, it says so
//! ([`Event::Outside`](super::Event::Outside)); then messages all of whose recipients wait for a retry are
//! unloaded, some with each turn. They are read again when the first of them is due or expires, or when
//! somebody asks for a host. Until then the shell keeps what was learned of them, and the core the retry
//! times of the threads that they go to.

use super::Scheduler;
use super::action::Action;
use super::batch::Left;
use super::destination::Destination;
use super::message::{Message, MessageId};
use super::rested::{LAST_TEXT, Rested, RestedVertex, TextNumber, Wanted};
use super::thread::{Retry, ThreadId};
use super::timers::Timer;
use super::vertex::{Diagnosis, Fate, Place, VertexId};
use crate::spool::Arrival;
use crate::time::{ClockStep, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// So many messages are looked at in one turn...
const LOOKED_AT: usize = 2000;
/// ...and so many are unloaded.
const UNLOADED: usize = 250;
/// If none can be unloaded, this is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// So many texts are kept for messages that rest: the latest.
const MOST_TEXTS: usize = 1000;
/// Of so many threads to which nothing but resting messages go the retry times are kept.
const MOST_THREADS: usize = 100_000;
/// So many of them are kept without a look at which are needed no more.
const FEW_THREADS: usize = 1000;
/// A thread's retry times are kept for so long after the last of its messages should have come back.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What is known of messages that rest.
#[derive(Default, Serialize, Deserialize)]
pub struct Rests {
    /// Control files wait for room.
    is_crowded: bool,
    /// Where to go on looking for messages that can be unloaded.
    cursor: usize,
    /// Something was unloaded since the whole queue was looked at last.
    has_unloaded: bool,
    /// The look is planned.
    has_timer: bool,
    /// Recipients of messages that rest.
    recipients: u64,
    threads: BTreeMap<Destination, RestingThread>,
    /// When there are so many, it is looked at which are needed no more.
    look_at_threads: usize,
    texts: Texts,
    /// What is known of the message that comes back next.
    recalled: Option<(u64, Rested)>,
    wanted: Vec<Wanted>,
}

/// Retry state of a thread that messages which rest go to.
#[derive(Serialize, Deserialize)]
struct RestingThread {
    retry: Retry,
    /// When the last of its messages is to come back.
    until: Timestamp,
}

/// The latest texts of deferrals.
#[derive(Default, Serialize, Deserialize)]
struct Texts {
    texts: VecDeque<Rc<Diagnosis>>,
    /// Number of the first of them, less one.
    before: TextNumber,
    numbers: BTreeMap<u64, TextNumber>,
}

impl Scheduler {
    /// Recipients of messages that rest on disk, as far as they are known.
    pub fn resting_recipients(&self) -> u64 {
        self.rests.recipients
    }

    /// How many messages are in memory.
    pub fn loaded(&self) -> usize {
        self.messages.len()
    }

    /// Whether a message is about to come back that has rested.
    pub fn comes_back(&self, number: u64) -> bool {
        self.rests.recalled.as_ref().is_some_and(|(recalled, _)| *recalled == number)
    }

    /// Whether nothing is known of a message that arrives.
    pub fn is_new(&self, number: u64) -> bool {
        self.messages.find(number).is_none() && !self.comes_back(number)
    }

    /// Whether control files wait for room, and how many recipients may come with those that are being read,
    /// as it was told last.
    pub fn outside(&self) -> (bool, u32) {
        (self.rests.is_crowded, self.reserved())
    }

    /// Control files wait for room, or do not any more.
    pub(super) fn crowded(&mut self, now: Timestamp, is_crowded: bool) {
        self.rests.is_crowded = is_crowded;
        if is_crowded {
            self.look_for_rest(now);
        }
    }

    fn look_for_rest(&mut self, time: Timestamp) {
        if !std::mem::replace(&mut self.rests.has_timer, true) {
            self.timers.add(time, Timer::Rest);
        }
    }

    /// Unloads some of what only waits.
    pub(super) fn rest_on(&mut self, now: Timestamp) {
        self.rests.has_timer = false;
        if !self.rests.is_crowded {
            return;
        }
        let slots = self.messages.slots();
        let end = slots.min(self.rests.cursor + LOOKED_AT);
        // Not more at a time than others need soon.
        let limit = self.config.parameters.memory().map_or(0, |limits| limits.messages);
        let most = UNLOADED.min(limit.div_ceil(8));
        let mut unloaded = 0;
        while self.rests.cursor < end && unloaded < most {
            if let Some(message) = self.messages.at(self.rests.cursor)
                && self.can_rest(message)
            {
                self.unload(now, message);
                unloaded += 1;
            }
            self.rests.cursor += 1;
        }
        self.rests.has_unloaded |= unloaded > 0;
        let mut next = now;
        if self.rests.cursor >= slots {
            self.rests.cursor = 0;
            if !std::mem::take(&mut self.rests.has_unloaded) {
                next = now + LOOK_AGAIN;
            }
        }
        self.look_for_rest(next);
    }

    /// Whether a message only waits for a retry.
    fn can_rest(&self, message: MessageId) -> bool {
        let Message { held, rereading, removing, forgotten, notes, jobs, pending, partial, .. } =
            self.messages[message];
        let is_free = !held && !rereading && !removing && !forgotten && !partial;
        let only_waits = |vertex: VertexId| {
            let vertex = &self.vertices[vertex];
            vertex.place == Place::Waiting && vertex.fate == Fate::Usual
        };
        let mut vertices = self.messages[message].vertices.iter(&self.vertices);
        is_free && notes == 0 && jobs == 0 && pending > 0 && vertices.all(only_waits)
    }

    /// Forgets a message but for what was learned of it, which goes to the shell.
    fn unload(&mut self, now: Timestamp, message: MessageId) {
        let vertices = self.messages[message].vertices.to_vec(&self.vertices);
        let mut known: Vec<RestedVertex> = vertices.iter().map(|v| self.rested(*v)).collect();
        known.sort_unstable_by_key(|vertex| vertex.key());
        let ends = vertices.iter().filter_map(|vertex| self.end_of_rest(*vertex));
        let until = ends.min();
        let rested = Rested {
            modified: self.messages[message].modified,
            recipients: self.messages[message].pending,
            fate: Fate::Usual,
            vertices: known.into(),
        };
        self.rests.recipients += u64::from(rested.recipients);
        for vertex in vertices {
            self.unload_vertex(now, vertex, until);
        }
        let name = self.messages[message].name.clone();
        self.messages.remove(message);
        self.act(Action::Rest { name, until, rested: Box::new(rested) });
    }

    /// Takes a vertex out of memory that waits until a certain time.
    pub(super) fn unload_vertex(
        &mut self,
        now: Timestamp,
        vertex: VertexId,
        until: Option<Timestamp>,
    ) {
        let (message, thread) = (self.vertices[vertex].message, self.vertices[vertex].thread);
        self.keep_retry(now, thread, until);
        let pending = self.vertices[vertex].pending;
        self.messages[message].pending -= pending;
        self.count_recipients(thread, -i64::from(pending));
        self.messages[message].vertices.remove(&mut self.vertices, vertex);
        self.put(vertex, Place::Spent);
        self.vertices.remove(vertex);
        self.update_readiness(thread);
        self.drop_thread_if_unused(thread);
    }

    /// When something is to be done about a vertex that waits. `None` is when somebody asks.
    pub(super) fn end_of_rest(&self, vertex: VertexId) -> Option<Timestamp> {
        let wakeup = self.threads[self.vertices[vertex].thread].retry.wakeup;
        let deadline = self.deadline(vertex);
        wakeup.into_iter().chain(deadline).min()
    }

    pub(super) fn rested(&mut self, vertex: VertexId) -> RestedVertex {
        let vertex = &self.vertices[vertex];
        let text = vertex.diagnosis.as_ref().map_or(0, |text| self.rests.texts.keep(text));
        let to = &self.threads[vertex.thread].destination;
        RestedVertex::new(to, vertex.attempts, vertex.tried, text)
    }

    /// Keeps the retry times of a thread that a message goes to which leaves memory until a certain time.
    pub(super) fn keep_retry(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        until: Option<Timestamp>,
    ) {
        let thread = &self.threads[thread];
        let until = until.unwrap_or(now);
        if let Some(kept) = self.rests.threads.get_mut(&thread.destination) {
            kept.retry = thread.retry;
            kept.until = kept.until.max(until);
            return;
        }
        self.rests.forget_old_threads(now);
        if self.rests.threads.len() < MOST_THREADS {
            let kept = RestingThread { retry: thread.retry, until };
            self.rests.threads.insert(thread.destination.clone(), kept);
        }
    }

    /// A thread is about to be forgotten; messages that rest may go to it.
    pub(super) fn thread_goes(&mut self, thread: ThreadId) {
        let thread = &self.threads[thread];
        if let Some(kept) = self.rests.threads.get_mut(&thread.destination) {
            kept.retry = thread.retry;
        }
    }

    /// Lets a new thread go on where it was, if messages rest that go to it.
    pub(super) fn recall_resting_thread(&mut self, now: Timestamp, thread: ThreadId) {
        let thread_ref = &mut self.threads[thread];
        let Some(kept) = self.rests.threads.get(&thread_ref.destination) else {
            return;
        };
        thread_ref.retry = kept.retry;
        let queue_only = self.rings[thread_ref.ring].clause.queue_only;
        if kept.retry.wakeup.is_none_or(|wakeup| wakeup <= now) || queue_only {
            thread_ref.retry.wake();
        }
        self.set_thread_timer(thread);
    }

    /// The shell is about to tell of a message that has rested, or whose files are gone.
    pub(super) fn recalled(&mut self, number: u64, rested: Rested, wanted: Vec<Wanted>) {
        let recipients = u64::from(rested.recipients);
        self.rests.recipients -= recipients.min(self.rests.recipients);
        // They are counted again when it arrives.
        self.counters.recipients_in -= recipients.min(self.counters.recipients_in);
        self.counters.messages_in = self.counters.messages_in.saturating_sub(1);
        self.rests.recalled = Some((number, rested));
        self.rests.wanted = wanted;
    }

    /// What is known of a message that arrives from before.
    pub(super) fn take_recalled(&mut self, arrival: &Arrival) -> Option<Recalled> {
        let (number, rested) = self.rests.recalled.take()?;
        let wanted = std::mem::take(&mut self.rests.wanted);
        let is_it = number == arrival.name.number() && rested.modified == arrival.modified;
        is_it.then_some(Recalled { rested, wanted })
    }

    /// Gives a vertex back what was learned of it. Tells how it is to be dealt with.
    pub(super) fn recall_rested(&mut self, recalled: &Recalled, vertex: VertexId) -> Recall {
        let to = &self.threads[self.vertices[vertex].thread].destination;
        let (vertices, key) = (&recalled.rested.vertices, RestedVertex::key_of(to));
        let Ok(place) = vertices.binary_search_by_key(&key, |rested| rested.key()) else {
            return Recall::Unknown;
        };
        let rested = &vertices[place];
        let vertex = &mut self.vertices[vertex];
        (vertex.attempts, vertex.tried) = (rested.attempts(), rested.tried());
        vertex.diagnosis = self.rests.texts.find(rested.text());
        match recalled.wanted.iter().any(|wanted| wanted.means(*rested)) {
            true => Recall::Wanted,
            false if vertex.attempts > 0 => Recall::Tried,
            false => Recall::Unknown,
        }
    }

    /// Gives a vertex of a large message back what was learned of those who were left behind.
    pub(super) fn recall_left(&mut self, left: Option<Left>, vertex: VertexId) -> Recall {
        let Some(Left { learned, in_this_pass, is_wanted }) = left else {
            return Recall::Unknown;
        };
        let vertex = &mut self.vertices[vertex];
        (vertex.attempts, vertex.tried) = (learned.attempts(), learned.tried());
        vertex.diagnosis = self.rests.texts.find(learned.text());
        match vertex.attempts {
            _ if in_this_pass => Recall::Left,
            _ if is_wanted => Recall::Wanted,
            0 => Recall::Unknown,
            _ => Recall::Tried,
        }
    }

    /// Keeps a text for what rests. Returns its number.
    pub(super) fn keep_text(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        self.rests.texts.keep(text)
    }

    /// What an operator has ordered for all of a message while it was in memory in part is carried out.
    pub(super) fn recall_fate(
        &mut self,
        now: Timestamp,
        message: MessageId,
        recalled: Option<&Recalled>,
    ) {
        let fate = recalled.map_or(Fate::Usual, Recalled::fate);
        if matches!(fate, Fate::Usual | Fate::OneMoreTry) {
            return;
        }
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            self.vertices[vertex].fate = fate;
            self.meet_fate(now, vertex);
        }
    }

    /// Somebody asks for hosts: what rests on disk is meant, too.
    pub(super) fn want_resting<'h>(&mut self, hosts: impl Iterator<Item = &'h [u8]>) {
        if self.rests.threads.is_empty() && self.rests.recipients == 0 {
            return;
        }
        let hosts: Vec<&[u8]> = hosts.collect();
        for (to, kept) in &mut self.rests.threads {
            if hosts.contains(&to.host()) {
                kept.retry.wake();
            }
        }
        let wanted = hosts.into_iter().map(Wanted::of_host).collect();
        self.act(Action::Awaken(wanted));
    }

    /// The clock was set.
    pub(super) fn shift_rests(&mut self, step: ClockStep) {
        for kept in self.rests.threads.values_mut() {
            kept.until = kept.until + step;
            kept.retry.wakeup = kept.retry.wakeup.map(|time| time + step);
            kept.retry.planned = kept.retry.planned.map(|time| time + step);
        }
    }
}

/// What is known of a message that comes back.
pub(super) struct Recalled {
    rested: Rested,
    wanted: Vec<Wanted>,
}

impl Recall {
    /// As one that was tried, or was not.
    pub fn of(was_tried: bool) -> Recall {
        if was_tried { Recall::Tried } else { Recall::Unknown }
    }
}

impl Recalled {
    /// What is known of its recipients.
    pub fn learned(&self) -> Vec<RestedVertex> {
        self.rested.vertices.to_vec()
    }

    /// What somebody has asked for.
    pub fn wanted(&self) -> Vec<Wanted> {
        self.wanted.clone()
    }

    /// What an operator has ordered for all of it.
    pub fn fate(&self) -> Fate {
        self.rested.fate
    }
}

/// How recipients that come back are to be dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recall {
    /// As if they were new.
    Unknown,
    /// They were tried.
    Tried,
    /// They were tried just now, and are to wait in any case.
    Left,
    /// Somebody has asked for them: they are tried now.
    Wanted,
}

impl Rests {
    fn forget_old_threads(&mut self, now: Timestamp) {
        if self.threads.len() >= self.look_at_threads {
            self.threads.retain(|_, kept| kept.until + KEPT_FOR > now);
            self.look_at_threads = (2 * self.threads.len()).max(FEW_THREADS);
        }
    }
}

impl Texts {
    /// Keeps a text. Returns its number.
    fn keep(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        let hash = text.hash();
        if let Some(number) = self.numbers.get(&hash)
            && self.find(*number).is_some_and(|kept| kept == *text)
        {
            return *number;
        }
        if self.texts.len() >= MOST_TEXTS
            && let Some(oldest) = self.texts.pop_front()
        {
            self.before = following(self.before);
            let oldest = oldest.hash();
            if self.numbers.get(&oldest) == Some(&self.before) {
                self.numbers.remove(&oldest);
            }
        }
        self.texts.push_back(text.clone());
        let number = (self.before + self.texts.len() as u32 - 1) % LAST_TEXT + 1;
        self.numbers.insert(hash, number);
        number
    }

    fn find(&self, number: TextNumber) -> Option<Rc<Diagnosis>> {
        // Behind the last number comes 1.
        let index = match number > self.before {
            true => number - self.before - 1,
            false => (number + LAST_TEXT).checked_sub(self.before + 1)?,
        };
        self.texts.get(index as usize).filter(|_| number > 0).cloned()
    }
}

fn following(number: TextNumber) -> TextNumber {
    if number == LAST_TEXT { 1 } else { number + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_texts_are_kept() {
        for before in [0, LAST_TEXT - 1500, LAST_TEXT] {
            let mut texts = Texts { before, ..Texts::default() };
            let text = |n: usize| Diagnosis::of_scheduler(&format!("text {n}"));
            let numbers: Vec<TextNumber> = (0..3000).map(|n| texts.keep(&text(n))).collect();
            assert_eq!(texts.keep(&text(2990)), numbers[2990], "one that is known");
            for (n, number) in numbers.into_iter().enumerate() {
                let kept = (n >= 2000).then(|| text(n));
                assert_eq!(texts.find(number), kept, "{n}");
            }
            assert_eq!(texts.find(0), None);
            assert_eq!(texts.numbers.len(), MOST_TEXTS);
        }
    }
}
