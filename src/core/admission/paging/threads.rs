//! Retry state of destinations whose mail is all paged out.

use crate::admission::Admission;
use crate::admission::paging::PagingState;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::learned::LearnedThread;
use crate::query::view::View;
use crate::queue::{Destination, Queue, Retry, ThreadId, UnreachableReason, UnreachableReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of threads whose state is kept for paged-out messages.
const MAX_PAGED_THREADS: usize = 100_000;
/// Minimum number of kept threads at which expired ones are dropped.
const MIN_THREADS_TO_PRUNE: usize = 1000;
/// Time that the state of a thread is kept.
///
/// It begins when the last of its messages should have been loaded.
const THREAD_RETENTION: Duration = Duration::from_secs(3600);

/// What is known about a thread that has paged-out messages.
#[derive(Serialize, Deserialize)]
pub struct PagedThread {
    retry: Retry,
    /// Its window, in agents, if that differs from the initial one.
    window: Option<u32>,
    /// When the last of its messages is to be loaded.
    until: Timestamp,
}

impl PagedThread {
    /// Ends the wait, because the host was requested.
    ///
    /// If the host was dead, one agent still tries it first.
    pub(super) fn wake(&mut self) {
        match &mut self.retry.unreachable {
            Some(known) if known.reason == UnreachableReason::Dead => {
                known.until = Timestamp::EPOCH
            }
            unreachable => *unreachable = None,
        }
    }
}

/// A copy of the state without the report's text.
///
/// The text may be long.
fn without_text(retry: &Retry) -> Retry {
    let mut retry = retry.clone();
    if let Some(known) = &mut retry.unreachable
        && let Some(cause) = &known.cause
    {
        known.cause = Some(Rc::new(UnreachableReport { diagnosis: None, ..**cause }));
    }
    retry
}

impl Admission {
    /// Restores the state of a new thread, if it has paged-out messages.
    pub(crate) fn restore_thread(
        &self,
        queue: &mut Queue,
        dispatch: &mut Dispatch,
        now: Timestamp,
        thread: ThreadId,
    ) {
        let Some(kept) = self.paging.threads.get(&queue.thread(thread).destination) else {
            return;
        };
        let (retry, window) = (kept.retry.clone(), kept.window);
        // Other threads in the window have newer knowledge of its size.
        if let Some(size) = window.filter(|_| dispatch.is_alone_in_window(queue, thread)) {
            dispatch.restore_window(queue, thread, size);
        }
        let on_request = queue.clause(thread).is_etrn_only();
        let is_over = retry.unreachable.as_ref().is_none_or(|known| known.until <= now);
        queue.set_retry(thread, retry);
        if is_over || on_request {
            dispatch.probe_dead_window(queue, thread);
            queue.forget_unreachable(thread);
        }
    }

    /// Keeps the state of the thread of a paged-out message.
    pub(crate) fn keep_retry(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        thread: ThreadId,
        until: Option<Timestamp>,
    ) {
        let until = until.unwrap_or(cx.now);
        if let Some(kept) = self.update_paged_thread(queue, dispatch, cx, thread) {
            kept.until = kept.until.max(until);
            return;
        }
        self.paging.prune_threads(cx.now);
        if self.paging.threads.len() < MAX_PAGED_THREADS {
            let new = PagedThread { retry: Retry::default(), window: None, until };
            let destination = queue.thread(thread).destination.clone();
            self.paging.threads.insert(destination, new);
            self.update_paged_thread(queue, dispatch, cx, thread);
        }
    }

    /// Updates the kept state of a thread that is removed.
    pub(crate) fn keep_removed_thread(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        thread: ThreadId,
    ) {
        if !self.paging.threads.is_empty() {
            self.update_paged_thread(queue, dispatch, cx, thread);
        }
    }

    /// Updates the state that is kept of a thread. Returns it, if it is kept.
    fn update_paged_thread(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        thread: ThreadId,
    ) -> Option<&mut PagedThread> {
        queue.apply_clock_step(cx, thread);
        let window = dispatch.learned_window(queue, thread);
        let thread = queue.thread(thread);
        let kept = self.paging.threads.get_mut(&thread.destination)?;
        (kept.retry, kept.window) = (without_text(&thread.retry), window);
        Some(kept)
    }

    /// Moves all times, because the clock was set.
    pub(crate) fn shift_paging(&mut self, step: ClockStep) {
        self.paging.next_step = self.paging.next_step.map(|next| next + step);
        for kept in self.paging.threads.values_mut() {
            kept.until = kept.until + step;
            kept.retry.shift(step);
        }
    }
}

impl<'s> View<'s> {
    /// The kept threads.
    pub(crate) fn paged_threads(self) -> &'s BTreeMap<Destination, PagedThread> {
        &self.core.admission.paging.threads
    }

    /// Returns the learned state of a kept thread.
    ///
    /// Threads in memory are exported elsewhere.
    pub(crate) fn learned_paged_thread(
        self,
        destination: &Destination,
        kept: &PagedThread,
    ) -> Option<LearnedThread> {
        if self.thread_id(destination.channel(), destination.host()).is_some() {
            return None;
        }
        let relay = self.core.dispatch.windows().relays.of(destination);
        LearnedThread::new(destination, &kept.retry, kept.window, relay)
    }
}

impl PagingState {
    /// Ends the wait of the threads of a host.
    ///
    /// The map is ordered by channel, of which there are few, so this takes one look-up for each.
    pub(super) fn wake_host(&mut self, host: &[u8]) {
        let mut from = Vec::new();
        while let Some((first, _)) =
            self.threads.range::<[u8], _>((Bound::Included(&*from), Bound::Unbounded)).next()
        {
            let channel = first.channel().to_vec();
            if let Some(kept) = self.threads.get_mut(&Destination::key(&channel, host)[..]) {
                kept.wake();
            }
            from = Destination::end_of_channel(&channel);
        }
    }

    pub(super) fn check_threads(&self) {
        let kept = self.threads.len();
        assert!(kept <= MAX_PAGED_THREADS, "{kept} kept threads");
    }

    fn prune_threads(&mut self, now: Timestamp) {
        if self.threads.len() >= self.prune_at {
            self.threads.retain(|_, kept| kept.until + THREAD_RETENTION > now);
            self.prune_at = (2 * self.threads.len()).max(MIN_THREADS_TO_PRUNE);
        }
    }
}
