//! Paging: removal of waiting messages from memory (`PARAMmessage-active-limit`).
//!
//! The shell reads no more control files than there is room for. While some wait for room, it
//! reports that ([`Event::BacklogChanged`](crate::Event::BacklogChanged)). Then messages all of
//! whose recipients wait for a retry are paged out, some with each turn. While new messages wait,
//! messages that were tried before and wait for an agent are paged out as well. Otherwise the
//! retries of a few messages could fill the memory indefinitely. A message is loaded again when the
//! first of its recipients is due or expires, or when its host is requested. Until then the shell
//! keeps the record of the message, and the core keeps the retry times of its threads.

mod restore;
mod texts;
mod threads;

pub(crate) use restore::{RestoreAction, RestoredMessage};

use crate::Scheduler;
use crate::action::Action;
use crate::admission::paged_message::{HostFilter, PagedMessage, PagedVertex, TextNumber};
use crate::event::Backlog;
use crate::learned::{LearnedText, text_of};
use crate::outcome::sender_reports::SenderReportState;
use crate::queue::{
    AfterJob, Destination, Diagnosis, Message, MessageId, Queue, VertexId, VertexState,
};
use crate::timers::{Timer, Timers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use texts::DiagnosisStore;
use threads::PagedThread;
use zsched_format::time::Timestamp;

/// Maximum number of messages examined in one turn.
const MAX_EXAMINED_PER_TURN: usize = 2000;
/// Maximum number of messages paged out in one turn.
const MAX_EVICTIONS_PER_TURN: usize = 250;
/// Wait after a pass that paged out nothing.
const EMPTY_PASS_WAIT: Duration = Duration::from_secs(1);

/// State of paging.
#[derive(Default, Serialize, Deserialize)]
pub struct PagingState {
    /// Kinds of control files that wait for room.
    waiting: Backlog,
    /// Slot of the next message to examine.
    cursor: usize,
    /// A message was paged out in the present pass over the queue.
    evicted_in_pass: bool,
    /// The next step is planned.
    has_timer: bool,
    /// Recipients of paged-out messages.
    recipients: u64,
    threads: BTreeMap<Destination, PagedThread>,
    /// Number of kept threads at which expired ones are dropped.
    prune_at: usize,
    texts: DiagnosisStore,
    /// Record of the message that is loaded next.
    restored: Option<(u64, PagedMessage)>,
    wanted: Vec<HostFilter>,
}

impl PagingState {
    /// Stores a text for records. Returns its number.
    pub(crate) fn keep_text(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        self.texts.store(text)
    }

    /// Panics if a limit is exceeded, or paging waits without a timer.
    pub fn check(&self, timers: &Timers) {
        assert_eq!(timers.has(Timer::PageOut), self.has_timer, "timer of paging");
        let may_wait = self.waiting == Backlog::None || self.has_timer;
        assert!(may_wait, "files wait for room, and no page-out is planned");
        self.check_threads();
        self.texts.check();
    }
}

impl Scheduler {
    /// Recipients of paged-out messages, as far as they are known.
    pub fn paged_recipients(&self) -> u64 {
        self.admission.paging.recipients
    }

    /// Number of messages in memory.
    pub fn loaded(&self) -> usize {
        self.queue.messages.len()
    }

    /// Returns true if a paged-out message is about to be loaded.
    pub fn is_being_restored(&self, number: u64) -> bool {
        self.admission.paging.restored.as_ref().is_some_and(|(restored, _)| *restored == number)
    }

    /// Returns true if nothing is known about a message that arrives.
    pub fn is_new(&self, number: u64) -> bool {
        self.queue.messages.find(number).is_none() && !self.is_being_restored(number)
    }

    /// The last report of the shell.
    ///
    /// It has the kinds of control files that wait for room, and the number of recipients that may
    /// come with those being read.
    pub fn backlog(&self) -> (Backlog, u32) {
        (self.admission.paging.waiting, self.admission.first_chunks_being_read())
    }

    /// Processes a change in the control files that wait for room.
    pub(crate) fn backlog_changed(&mut self, waiting: Backlog) {
        self.admission.paging.waiting = waiting;
        if waiting != Backlog::None {
            self.schedule_eviction(self.now);
        }
    }

    fn schedule_eviction(&mut self, time: Timestamp) {
        if !std::mem::replace(&mut self.admission.paging.has_timer, true) {
            self.timers.add(time, Timer::PageOut);
        }
    }

    /// Pages out some messages that only wait.
    pub(crate) fn evict_some(&mut self) {
        self.admission.paging.has_timer = false;
        if self.admission.paging.waiting == Backlog::None {
            return;
        }
        let slots = self.queue.messages.slots();
        let end = slots.min(self.admission.paging.cursor + MAX_EXAMINED_PER_TURN);
        // No more at a time than others need soon.
        let limit = self.config.parameters.memory().map_or(0, |limits| limits.messages);
        let most = MAX_EVICTIONS_PER_TURN.min(limit.div_ceil(8));
        let mut unloaded = 0;
        while self.admission.paging.cursor < end && unloaded < most {
            if let Some(message) = self.queue.messages.at(self.admission.paging.cursor)
                && self.can_evict(message)
            {
                self.evict(message);
                unloaded += 1;
            }
            self.admission.paging.cursor += 1;
        }
        self.admission.paging.evicted_in_pass |= unloaded > 0;
        let mut next = self.now;
        if self.admission.paging.cursor >= slots {
            self.admission.paging.cursor = 0;
            if !std::mem::take(&mut self.admission.paging.evicted_in_pass) {
                next = self.now + EMPTY_PASS_WAIT;
            }
        }
        self.schedule_eviction(next);
    }

    /// Returns true if a message may be paged out.
    ///
    /// It only waits for a retry; or it was tried before and waits for an agent, while new messages
    /// wait for room. With many frequent retries there would otherwise be no room for these.
    fn can_evict(&self, message: MessageId) -> bool {
        let Message {
            held,
            is_rereading,
            wants_alternative,
            is_removing,
            is_forgotten,
            notes,
            jobs,
            pending,
            is_partial,
            owes_report,
            report,
            ..
        } = self.queue.messages[message];
        let is_read = !is_rereading && !wants_alternative && !is_partial;
        let is_free = !held && is_read && !is_removing && !is_forgotten;
        let only_waits = |vertex: VertexId| {
            let vertex = &self.queue.vertices[vertex];
            let yields_place = vertex.state == VertexState::Due
                && vertex.attempts > 0
                && self.admission.paging.waiting == Backlog::New;
            (vertex.state == VertexState::Waiting || yields_place)
                && vertex.after_job == AfterJob::Usual
        };
        let mut vertices = self.queue.messages[message].vertices.iter(&self.queue.vertices);
        let is_reported = !owes_report && report == SenderReportState::None;
        is_free && is_reported && notes == 0 && jobs == 0 && pending > 0 && vertices.all(only_waits)
    }

    /// Pages out a message: its record goes to the shell.
    fn evict(&mut self, message: MessageId) {
        let vertices = self.queue.messages[message].vertices.to_vec(&self.queue.vertices);
        let mut known: Vec<PagedVertex> = vertices.iter().map(|v| self.paged_record(*v)).collect();
        known.sort_unstable_by_key(|vertex| vertex.key());
        let ends = vertices.iter().filter_map(|vertex| match self.queue.vertices[*vertex].state {
            VertexState::Due => Some(self.now),
            _ => self.next_work_time(*vertex),
        });
        let until = ends.min();
        let record = PagedMessage {
            modified: self.queue.messages[message].modified,
            recipients: self.queue.messages[message].pending,
            vertices: known.into(),
        };
        self.admission.paging.recipients += u64::from(record.recipients);
        for vertex in vertices {
            self.evict_vertex(vertex, until);
        }
        let name = self.queue.messages[message].name.clone();
        self.queue.messages.remove(message);
        self.act(Action::PageOut { name, until, record: Box::new(record) });
    }

    /// Removes a vertex that waits until a time from memory.
    pub(crate) fn evict_vertex(&mut self, vertex: VertexId, until: Option<Timestamp>) {
        let (message, thread) =
            (self.queue.vertices[vertex].message, self.queue.vertices[vertex].thread);
        self.keep_retry(thread, until);
        let pending = self.queue.vertices[vertex].pending;
        self.queue.messages[message].pending -= pending;
        self.dispatch.adjust_recipients(&mut self.queue, thread, -i64::from(pending));
        self.queue.messages[message].vertices.remove(&mut self.queue.vertices, vertex);
        self.set_state(vertex, VertexState::Finished);
        self.queue.vertices.remove(vertex);
    }

    /// The next time at which a waiting vertex needs work.
    ///
    /// `None` is only on request.
    pub(crate) fn next_work_time(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &self.queue.vertices[vertex];
        let thread = &self.queue.threads[vertex_ref.thread];
        let wakeup = thread
            .waiting
            .wakeup(vertex_ref.wave)
            .map(|time| self.queue.to_present_clock(thread, time));
        let deadline = self.next_age_event(vertex);
        wakeup.into_iter().chain(deadline).min()
    }

    pub(crate) fn paged_record(&mut self, vertex: VertexId) -> PagedVertex {
        let due = self.queue.own_due(vertex);
        let vertex = &self.queue.vertices[vertex];
        let text =
            vertex.diagnosis.as_ref().map_or(0, |text| self.admission.paging.keep_text(text));
        let to = &self.queue.threads[vertex.thread].destination;
        PagedVertex::new(to, vertex.attempts, vertex.tried, text).due_at(due, vertex.step)
    }

    /// Stored texts for export: up to `count`, after the first `skip`.
    pub(crate) fn paged_texts(
        &self,
        skip: usize,
        count: usize,
    ) -> impl Iterator<Item = LearnedText> {
        let texts = self.admission.paging.texts.iter().skip(skip).take(count);
        texts.map(|(number, text)| LearnedText { number, text: text_of(Some(text)) })
    }

    /// Requests hosts whose paged-out mail is to be loaded.
    pub(crate) fn request_paged_hosts<'h>(&mut self, hosts: impl Iterator<Item = &'h [u8]>) {
        if self.admission.paging.threads.is_empty() && self.admission.paging.recipients == 0 {
            return;
        }
        let hosts: Vec<&[u8]> = hosts.collect();
        hosts.iter().for_each(|host| self.admission.paging.wake_host(host));
        let wanted = hosts.into_iter().map(HostFilter::of_host).collect();
        self.act(Action::RequestPagedHosts(wanted));
    }
}

impl Queue {
    /// Own due time of a waiting vertex.
    ///
    /// `None` if it waits only for the destination.
    pub(crate) fn own_due(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex = &self.vertices[vertex];
        let waiting = &self.threads[vertex.thread].waiting;
        let is_own =
            vertex.state == VertexState::Waiting && !waiting.is_for_destination(vertex.wave);
        let due = waiting.wakeup(vertex.wave).filter(|_| is_own);
        due.map(|due| self.to_present_clock(&self.threads[vertex.thread], due))
    }
}
