//! Retry times of threads that nothing goes to but messages which rest.

use super::super::Scheduler;
use super::super::thread::{Retry, ThreadId};
use super::Rests;
use crate::time::{ClockStep, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Of so many threads to which nothing but resting messages go the retry times are kept.
const MOST_THREADS: usize = 100_000;
/// So many of them are kept without a look at which are needed no more.
const FEW_THREADS: usize = 1000;
/// A thread's retry times are kept for so long after the last of its messages should have come back.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Retry state of a thread that messages which rest go to.
#[derive(Serialize, Deserialize)]
pub struct RestingThread {
    pub(super) retry: Retry,
    /// When the last of its messages is to come back.
    until: Timestamp,
}

impl Scheduler {
    /// Keeps the retry times of a thread that a message goes to which leaves memory until a certain time.
    pub(in super::super) fn keep_retry(
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
    pub(in super::super) fn thread_goes(&mut self, thread: ThreadId) {
        let thread = &self.threads[thread];
        if let Some(kept) = self.rests.threads.get_mut(&thread.destination) {
            kept.retry = thread.retry;
        }
    }

    /// Lets a new thread go on where it was, if messages rest that go to it.
    pub(in super::super) fn recall_resting_thread(&mut self, now: Timestamp, thread: ThreadId) {
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

    /// The clock was set.
    pub(in super::super) fn shift_rests(&mut self, step: ClockStep) {
        for kept in self.rests.threads.values_mut() {
            kept.until = kept.until + step;
            kept.retry.wakeup = kept.retry.wakeup.map(|time| time + step);
            kept.retry.planned = kept.retry.planned.map(|time| time + step);
        }
    }
}

impl Rests {
    fn forget_old_threads(&mut self, now: Timestamp) {
        if self.threads.len() >= self.look_at_threads {
            self.threads.retain(|_, kept| kept.until + KEPT_FOR > now);
            self.look_at_threads = (2 * self.threads.len()).max(FEW_THREADS);
        }
    }
}
