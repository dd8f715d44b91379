//! Threads that nothing goes to but messages which rest: when they are tried again, and what is known of
//! their hosts.

use super::super::Scheduler;
use super::super::destination::Destination;
use super::super::learned::{Learned, LearnedThread};
use super::super::thread::{Retry, ThreadId};
use super::super::unreachable::{Block, Cause};
use super::Rests;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Of so many threads to which nothing but resting messages go it is kept what is known.
const MOST_THREADS: usize = 100_000;
/// So many of them are kept without a look at which are needed no more.
const FEW_THREADS: usize = 1000;
/// It is kept for so long after the last of its messages should have come back.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What is known of a thread that messages which rest go to.
#[derive(Serialize, Deserialize)]
pub struct RestingThread {
    retry: Retry,
    /// Its window, in agents, if it is not the first one any more.
    window: Option<u32>,
    /// When the last of its messages is to come back.
    until: Timestamp,
}

impl RestingThread {
    /// Somebody asks for its host. If that was dead, one agent is to look first all the same.
    pub(super) fn wake(&mut self) {
        match &mut self.retry.unreachable {
            Some(known) if known.block == Block::Dead => known.until = Timestamp::EPOCH,
            unreachable => *unreachable = None,
        }
    }
}

/// What is kept of a destination to which nothing goes in memory: without the text of a report, which may be long.
fn without_text(retry: &Retry) -> Retry {
    let mut retry = retry.clone();
    if let Some(known) = &mut retry.unreachable
        && let Some(cause) = &known.cause
    {
        known.cause = Some(Rc::new(Cause { diagnosis: None, ..**cause }));
    }
    retry
}

impl Scheduler {
    /// Keeps the state of a thread that a message goes to which leaves memory until a certain time.
    pub(in super::super) fn keep_retry(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        until: Option<Timestamp>,
    ) {
        self.settle_clock(thread);
        let (retry, window) =
            (without_text(&self.threads[thread].retry), self.learned_window(thread));
        let (until, destination) = (until.unwrap_or(now), &self.threads[thread].destination);
        if let Some(kept) = self.rests.threads.get_mut(destination) {
            let until = kept.until.max(until);
            *kept = RestingThread { retry, window, until };
            return;
        }
        self.rests.forget_old_threads(now);
        if self.rests.threads.len() < MOST_THREADS {
            let kept = RestingThread { retry, window, until };
            self.rests.threads.insert(destination.clone(), kept);
        }
    }

    /// A thread is about to be forgotten; messages that rest may go to it.
    pub(in super::super) fn thread_goes(&mut self, thread: ThreadId) {
        if self.rests.threads.is_empty() {
            return;
        }
        self.settle_clock(thread);
        let (retry, window) =
            (without_text(&self.threads[thread].retry), self.learned_window(thread));
        if let Some(kept) = self.rests.threads.get_mut(&self.threads[thread].destination) {
            (kept.retry, kept.window) = (retry, window);
        }
    }

    /// Lets a new thread go on where it was, if messages rest that go to it.
    pub(in super::super) fn recall_resting_thread(&mut self, now: Timestamp, thread: ThreadId) {
        let Some(kept) = self.rests.threads.get(&self.threads[thread].destination) else {
            return;
        };
        let (retry, window) = (kept.retry.clone(), kept.window);
        // Others that share it know better.
        if let Some(size) = window.filter(|_| self.is_alone_in_window(thread)) {
            self.recall_window(thread, size);
        }
        let on_request = self.rings[self.threads[thread].ring].clause.waits_for_request();
        let is_over = retry.unreachable.as_ref().is_none_or(|known| known.until <= now);
        self.threads[thread].retry = retry;
        if is_over || on_request {
            self.probe_if_dead(thread);
            self.threads[thread].retry.unreachable = None;
        }
        self.set_thread_timer(thread);
    }

    /// Some of what was learned of threads that nothing goes to but messages which rest: of those behind one,
    /// `count` at most. Returns the last of them, if there were any.
    pub(in super::super) fn tell_of_resting_threads(
        &self,
        after: Option<&Destination>,
        count: usize,
        tell: &mut impl FnMut(Learned),
    ) -> Option<Destination> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let some = self.rests.threads.range::<Destination, _>((from, Bound::Unbounded)).take(count);
        let mut last = None;
        for (destination, RestingThread { retry, window, .. }) in some {
            last = Some(destination.clone());
            // Of those that are in memory it is told anyway.
            let (channel, host) = (destination.channel(), destination.host());
            if self.threads.find_existing(channel, host).is_none() {
                let relay = self.windows.relays.of(destination);
                LearnedThread::new(destination, retry, *window, relay)
                    .map(Learned::Thread)
                    .into_iter()
                    .for_each(&mut *tell);
            }
        }
        last
    }

    /// The clock was set.
    pub(in super::super) fn shift_rests(&mut self, step: ClockStep) {
        for kept in self.rests.threads.values_mut() {
            kept.until = kept.until + step;
            kept.retry.shift(step);
        }
    }
}

impl Rests {
    /// Wakes the threads of a host. The map is ordered by channel, of which there are few: one look-up for each.
    pub(super) fn wake_host(&mut self, host: &[u8]) {
        let mut key = Vec::new();
        let mut from = Vec::new();
        while let Some((first, _)) =
            self.threads.range::<[u8], _>((Bound::Included(&*from), Bound::Unbounded)).next()
        {
            let channel = first.channel().to_vec();
            if let Some(kept) = self.threads.get_mut(Destination::key(&channel, host, &mut key)) {
                kept.wake();
            }
            from = Destination::end_of_channel(&channel);
        }
    }

    fn forget_old_threads(&mut self, now: Timestamp) {
        if self.threads.len() >= self.look_at_threads {
            self.threads.retain(|_, kept| kept.until + KEPT_FOR > now);
            self.look_at_threads = (2 * self.threads.len()).max(FEW_THREADS);
        }
    }
}
