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

use crate::action::Action;
use crate::admission::Admission;
use crate::admission::paged_message::{HostFilter, PagedMessage, PagedVertex, TextNumber};
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::event::Backlog;
use crate::learned::{LearnedText, text_of};
use crate::outcome::sender_reports::SenderReportState;
use crate::query::view::View;
use crate::queue::{
    AfterJob, Destination, Diagnosis, MessageFlag, MessageId, Queue, VertexId, VertexState,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use texts::DiagnosisStore;
use threads::PagedThread;
use zsched_format::priority::KEPT_PRIORITY;
use zsched_format::time::Timestamp;

/// Maximum number of messages examined in one turn.
const MAX_EXAMINED_PER_TURN: usize = 2000;
/// Maximum number of messages paged out in one turn.
const MAX_EVICTIONS_PER_TURN: usize = 250;
/// Wait after a pass that paged out nothing.
const EMPTY_PASS_WAIT: Duration = Duration::from_secs(1);

/// What keeps a message in memory.
const KEPT_IN_MEMORY: [MessageFlag; 7] = [
    MessageFlag::Held,
    MessageFlag::Rereading,
    MessageFlag::WantsAlternative,
    MessageFlag::Removing,
    MessageFlag::Forgotten,
    MessageFlag::Partial,
    MessageFlag::OwesReport,
];

/// State of paging.
#[derive(Default, Serialize, Deserialize)]
pub struct PagingState {
    /// Kinds of control files that wait for room.
    waiting: Backlog,
    /// Slot of the next message to examine.
    cursor: usize,
    /// A message was paged out in the present pass over the queue.
    evicted_in_pass: bool,
    /// When the next messages are examined.
    next_step: Option<Timestamp>,
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
    /// Panics if a limit is exceeded, or paging waits for nothing.
    pub fn check(&self) {
        let may_wait = self.waiting == Backlog::None || self.next_step.is_some();
        assert!(may_wait, "files wait for room, and no page-out is planned");
        self.check_threads();
        self.texts.check();
    }
}

impl Admission {
    /// Pages out some messages that only wait.
    pub(crate) fn evict_some(
        &mut self,
        queue: &mut Queue,
        dispatch: &mut Dispatch,
        cx: &mut Context,
    ) {
        self.paging.next_step = None;
        if self.paging.waiting == Backlog::None {
            return;
        }
        let slots = queue.messages().slots();
        let end = slots.min(self.paging.cursor + MAX_EXAMINED_PER_TURN);
        // No more at a time than others need soon.
        let limit = cx.config.parameters.memory().map_or(0, |limits| limits.messages);
        let most = MAX_EVICTIONS_PER_TURN.min(limit.div_ceil(8));
        let mut unloaded = 0;
        while self.paging.cursor < end && unloaded < most {
            if let Some(message) = queue.messages().at(self.paging.cursor)
                && self.can_evict(queue, cx.now, message)
            {
                self.evict(queue, dispatch, cx, message);
                unloaded += 1;
            }
            self.paging.cursor += 1;
        }
        self.paging.evicted_in_pass |= unloaded > 0;
        let mut next = cx.now;
        if self.paging.cursor >= slots {
            self.paging.cursor = 0;
            if !std::mem::take(&mut self.paging.evicted_in_pass) {
                next = cx.now + EMPTY_PASS_WAIT;
            }
        }
        self.paging.next_step = Some(next);
    }

    /// Returns when [`evict_some`](Admission::evict_some) is to be called next.
    pub(crate) fn next_eviction(&self) -> Option<Timestamp> {
        self.paging.next_step
    }

    /// Stores a text for records. Returns its number.
    pub(crate) fn keep_text(&mut self, text: &Rc<Diagnosis>) -> TextNumber {
        self.paging.texts.store(text)
    }

    /// Processes a change in the control files that wait for room.
    pub(crate) fn backlog_changed(&mut self, now: Timestamp, waiting: Backlog) {
        self.paging.waiting = waiting;
        if waiting != Backlog::None {
            self.paging.next_step.get_or_insert(now);
        }
    }

    /// Returns true if a message may be paged out.
    ///
    /// It only waits for a retry; or it was tried before and waits for an agent, while new messages
    /// wait for room. With many frequent retries there would otherwise be no room for these.
    fn can_evict(&self, queue: &Queue, now: Timestamp, message: MessageId) -> bool {
        let message = queue.message(message);
        let is_busy = KEPT_IN_MEMORY.iter().any(|flag| message.is(*flag));
        let is_free = !is_busy && message.priority < KEPT_PRIORITY;
        let is_scheduled = message.is(MessageFlag::Scheduled);
        let only_waits = |id: VertexId| {
            let vertex = queue.vertex(id);
            let yields_place = vertex.state == VertexState::Due
                && vertex.attempts > 0
                && self.paging.waiting == Backlog::New;
            // What its age demands now would have it loaded again at once.
            let is_of_age = || queue.next_age_event(id).is_some_and(|time| time <= now);
            let waits = vertex.state == VertexState::Waiting && !is_of_age()
                || is_scheduled && vertex.state == VertexState::Held;
            (waits || yields_place) && vertex.after_job == AfterJob::Usual
        };
        let is_reported = message.report == SenderReportState::None;
        let is_idle = message.notes == 0 && message.jobs == 0 && message.pending > 0;
        let mut vertices = message.vertices.iter(queue.vertices());
        is_free && is_reported && is_idle && vertices.all(only_waits)
    }

    /// Pages out a message: its record goes to the cx.
    fn evict(
        &mut self,
        queue: &mut Queue,
        dispatch: &mut Dispatch,
        cx: &mut Context,
        message: MessageId,
    ) {
        let vertices = queue.vertices_of(message);
        let mut known: Vec<PagedVertex> =
            vertices.iter().map(|v| self.paged_record(queue, *v)).collect();
        known.sort_unstable_by_key(|vertex| vertex.key());
        let ends = vertices.iter().filter_map(|vertex| match queue.vertex(*vertex).state {
            VertexState::Due => Some(cx.now),
            _ => queue.next_work_time(*vertex),
        });
        let until = ends.min();
        let record = PagedMessage {
            modified: queue.message(message).modified,
            recipients: queue.message(message).pending,
            is_scheduled: queue.message(message).is(MessageFlag::Scheduled),
            vertices: known.into(),
        };
        self.paging.recipients += u64::from(record.recipients);
        for vertex in vertices {
            self.evict_vertex(queue, dispatch, cx, vertex, until);
        }
        let name = queue.message(message).name();
        queue.remove_message(message);
        cx.act(Action::PageOut { name, until, record: Box::new(record) });
    }

    /// Removes a vertex that waits until a time from memory.
    pub(crate) fn evict_vertex(
        &mut self,
        queue: &mut Queue,
        dispatch: &mut Dispatch,
        cx: &mut Context,
        vertex: VertexId,
        until: Option<Timestamp>,
    ) {
        let thread = queue.vertex(vertex).thread;
        self.keep_retry(queue, dispatch, cx, thread, until);
        queue.evict_vertex(cx.now, vertex);
    }

    pub(crate) fn paged_record(&mut self, queue: &Queue, vertex: VertexId) -> PagedVertex {
        let due = queue.own_due(vertex);
        let vertex = queue.vertex(vertex);
        let text = vertex.diagnosis.as_ref().map_or(0, |text| self.keep_text(text));
        let to = &queue.thread(vertex.thread).destination;
        PagedVertex::new(to, vertex.attempts, vertex.tried, text).due_at(due, vertex.step)
    }

    /// Requests hosts whose paged-out mail is to be loaded.
    pub(crate) fn request_paged_hosts<'h>(
        &mut self,
        cx: &mut Context,
        hosts: impl Iterator<Item = &'h [u8]>,
    ) {
        if self.paging.threads.is_empty() && self.paging.recipients == 0 {
            return;
        }
        let hosts: Vec<&[u8]> = hosts.collect();
        hosts.iter().for_each(|host| self.paging.wake_host(host));
        let wanted = hosts.into_iter().map(HostFilter::of_host).collect();
        cx.act(Action::RequestPagedHosts(wanted));
    }
}

impl<'s> View<'s> {
    /// Recipients of paged-out messages, as far as they are known.
    pub fn paged_recipients(self) -> u64 {
        self.core.admission.paging.recipients
    }

    /// Number of messages in memory.
    pub fn loaded(self) -> usize {
        self.core.queue.messages().len()
    }

    /// Returns true if a paged-out message is about to be loaded.
    pub fn is_being_restored(self, number: u64) -> bool {
        self.core
            .admission
            .paging
            .restored
            .as_ref()
            .is_some_and(|(restored, _)| *restored == number)
    }

    /// Returns true if nothing is known about a message that arrives.
    pub fn is_new(self, number: u64) -> bool {
        self.core.queue.messages().find(number).is_none() && !self.is_being_restored(number)
    }

    /// The last report of the cx.
    ///
    /// It has the kinds of control files that wait for room, and the number of recipients that may
    /// come with those being read.
    pub fn backlog(self) -> (Backlog, u32) {
        (self.core.admission.paging.waiting, self.core.admission.first_chunks_being_read())
    }

    /// Stored texts for export: up to `count`, after the first `skip`.
    pub(crate) fn paged_texts(
        self,
        skip: usize,
        count: usize,
    ) -> impl Iterator<Item = LearnedText> {
        let texts = self.core.admission.paging.texts.iter().skip(skip).take(count);
        texts.map(|(number, text)| LearnedText { number, text: text_of(Some(text)) })
    }
}
