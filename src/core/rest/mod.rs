//! Paging: removal of waiting messages from memory (`PARAMmessage-active-limit`).
//!
//! The shell reads no more control files than there is room for. While some wait for room, it
//! reports that ([`Event::Outside`](super::Event::Outside)). Then messages all of whose recipients
//! wait for a retry are paged out, some with each turn. While new messages wait, messages that were
//! tried before and wait for an agent are paged out as well. Otherwise the retries of a few
//! messages could fill the memory indefinitely. A message is loaded again when the first of its
//! recipients is due or expires, or when its host is requested. Until then the shell keeps the
//! record of the message, and the core keeps the retry times of its threads.

mod recall;
mod texts;
mod threads;

pub(super) use recall::{Recall, Recalled};

use super::Scheduler;
use super::action::Action;
use super::destination::Destination;
use super::event::Crowd;
use super::learned::{LearnedText, text_of};
use super::message::{Message, MessageId};
use super::rested::{Rested, RestedVertex, TextNumber, Wanted};
use super::timers::Timer;
use super::vertex::{Diagnosis, Fate, Place, VertexId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use texts::Texts;
use threads::RestingThread;
use zsched_format::time::Timestamp;

/// Maximum number of messages examined in one turn.
const LOOKED_AT: usize = 2000;
/// Maximum number of messages paged out in one turn.
const UNLOADED: usize = 250;
/// Wait after a pass that paged out nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// State of paging.
#[derive(Default, Serialize, Deserialize)]
pub struct Rests {
    /// Kinds of control files that wait for room.
    crowd: Crowd,
    /// Slot of the next message to examine.
    cursor: usize,
    /// A message was paged out in the present pass over the queue.
    has_unloaded: bool,
    /// The next step is planned.
    has_timer: bool,
    /// Recipients of paged-out messages.
    recipients: u64,
    threads: BTreeMap<Destination, RestingThread>,
    /// Number of kept threads at which expired ones are dropped.
    look_at_threads: usize,
    texts: Texts,
    /// Record of the message that is loaded next.
    recalled: Option<(u64, Rested)>,
    wanted: Vec<Wanted>,
}

impl Rests {
    /// Stores a text for records. Returns its number.
    pub(super) fn keep_text(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        self.texts.keep(text)
    }
}

impl Scheduler {
    /// Recipients of paged-out messages, as far as they are known.
    pub fn resting_recipients(&self) -> u64 {
        self.rests.recipients
    }

    /// Number of messages in memory.
    pub fn loaded(&self) -> usize {
        self.messages.len()
    }

    /// Returns true if a paged-out message is about to be loaded.
    pub fn comes_back(&self, number: u64) -> bool {
        self.rests.recalled.as_ref().is_some_and(|(recalled, _)| *recalled == number)
    }

    /// Returns true if nothing is known about a message that arrives.
    pub fn is_new(&self, number: u64) -> bool {
        self.messages.find(number).is_none() && !self.comes_back(number)
    }

    /// The last report of the shell.
    ///
    /// It has the kinds of control files that wait for room, and the number of recipients that may
    /// come with those being read.
    pub fn outside(&self) -> (Crowd, u32) {
        (self.rests.crowd, self.reserved())
    }

    /// Processes a change in the control files that wait for room.
    pub(super) fn crowded(&mut self, now: Timestamp, crowd: Crowd) {
        self.rests.crowd = crowd;
        if crowd != Crowd::None {
            self.look_for_rest(now);
        }
    }

    fn look_for_rest(&mut self, time: Timestamp) {
        if !std::mem::replace(&mut self.rests.has_timer, true) {
            self.timers.add(time, Timer::Rest);
        }
    }

    /// Pages out some messages that only wait.
    pub(super) fn rest_on(&mut self, now: Timestamp) {
        self.rests.has_timer = false;
        if self.rests.crowd == Crowd::None {
            return;
        }
        let slots = self.messages.slots();
        let end = slots.min(self.rests.cursor + LOOKED_AT);
        // No more at a time than others need soon.
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

    /// Returns true if a message may be paged out.
    ///
    /// It only waits for a retry; or it was tried before and waits for an agent, while new messages
    /// wait for room. With many frequent retries there would otherwise be no room for these.
    fn can_rest(&self, message: MessageId) -> bool {
        let Message { held, rereading, removing, forgotten, notes, jobs, pending, partial, .. } =
            self.messages[message];
        let is_free = !held && !rereading && !removing && !forgotten && !partial;
        let only_waits = |vertex: VertexId| {
            let vertex = &self.vertices[vertex];
            let gives_way =
                vertex.place == Place::Due && vertex.attempts > 0 && self.rests.crowd == Crowd::New;
            (vertex.place == Place::Waiting || gives_way) && vertex.fate == Fate::Usual
        };
        let mut vertices = self.messages[message].vertices.iter(&self.vertices);
        is_free && notes == 0 && jobs == 0 && pending > 0 && vertices.all(only_waits)
    }

    /// Pages out a message: its record goes to the shell.
    fn unload(&mut self, now: Timestamp, message: MessageId) {
        let vertices = self.messages[message].vertices.to_vec(&self.vertices);
        let mut known: Vec<RestedVertex> = vertices.iter().map(|v| self.rested(*v)).collect();
        known.sort_unstable_by_key(|vertex| vertex.key());
        let ends = vertices.iter().filter_map(|vertex| match self.vertices[*vertex].place {
            Place::Due => Some(now),
            _ => self.end_of_rest(*vertex),
        });
        let until = ends.min();
        let rested = Rested {
            modified: self.messages[message].modified,
            recipients: self.messages[message].pending,
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

    /// Removes a vertex that waits until a time from memory.
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

    /// The next time at which a waiting vertex needs work.
    ///
    /// `None` is only on request.
    pub(super) fn end_of_rest(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &self.vertices[vertex];
        let thread = &self.threads[vertex_ref.thread];
        let wakeup = thread.waiting.wakeup(vertex_ref.wave).map(|time| self.by_clock(thread, time));
        let deadline = self.deadline(vertex);
        wakeup.into_iter().chain(deadline).min()
    }

    /// Own due time of a waiting vertex.
    ///
    /// `None` if it waits only for the destination.
    pub(super) fn own_due(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex = &self.vertices[vertex];
        let waiting = &self.threads[vertex.thread].waiting;
        let is_own = vertex.place == Place::Waiting && !waiting.is_for_destination(vertex.wave);
        let due = waiting.wakeup(vertex.wave).filter(|_| is_own);
        due.map(|due| self.by_clock(&self.threads[vertex.thread], due))
    }

    pub(super) fn rested(&mut self, vertex: VertexId) -> RestedVertex {
        let due = self.own_due(vertex);
        let vertex = &self.vertices[vertex];
        let text = vertex.diagnosis.as_ref().map_or(0, |text| self.rests.texts.keep(text));
        let to = &self.threads[vertex.thread].destination;
        RestedVertex::new(to, vertex.attempts, vertex.tried, text).due_at(due, vertex.step)
    }

    /// Stores a text for records. Returns its number.
    pub(super) fn keep_text(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        self.rests.keep_text(text)
    }

    /// Stored texts for export: up to `count`, after the first `skip`.
    pub(super) fn resting_texts(
        &self,
        skip: usize,
        count: usize,
    ) -> impl Iterator<Item = LearnedText> {
        let texts = self.rests.texts.iter().skip(skip).take(count);
        texts.map(|(number, text)| LearnedText { number, text: text_of(Some(text)) })
    }

    /// Requests hosts whose paged-out mail is to be loaded.
    pub(super) fn want_resting<'h>(&mut self, hosts: impl Iterator<Item = &'h [u8]>) {
        if self.rests.threads.is_empty() && self.rests.recipients == 0 {
            return;
        }
        let hosts: Vec<&[u8]> = hosts.collect();
        hosts.iter().for_each(|host| self.rests.wake_host(host));
        let wanted = hosts.into_iter().map(Wanted::of_host).collect();
        self.act(Action::Awaken(wanted));
    }
}
