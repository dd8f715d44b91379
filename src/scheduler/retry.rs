//! When a thread is tried again.
//!
//! Each run of a thread that leaves something to do plans one wake-up, `retries[i] * interval` after
//! the previous one, and steps `i`. Behind the end of the list it goes on at a random entry (ZMailer
//! `scheduler(8)`, `retries`). `skew` pulls wake-ups towards whole multiples of the interval, so that
//! threads of one clause come to be tried together.

use super::Scheduler;
use super::thread::{Block, Retry, ThreadId};
use super::vertex::{Place, VertexId};
use crate::config::Clause;
use crate::time::Timestamp;
use std::time::Duration;

/// The shortest time between two tries, whatever `retries` and `interval` say.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// How long a host is left alone after `deferall`, at least (ZMailer `retryat` with 60 seconds).
pub const HOST_DOWN_WAIT: Duration = Duration::from_secs(60);

impl Scheduler {
    /// Plans the next wake-up of a thread, unless there is one already.
    pub(super) fn plan_retry(&mut self, now: Timestamp, thread: ThreadId) {
        let thread_ref = &mut self.threads[thread];
        let clause = &self.rings[thread_ref.ring].clause;
        if thread_ref.retry.wakeup.is_some() || clause.waits_for_request() {
            return;
        }
        advance(&mut thread_ref.retry, now, clause, &mut self.random);
        self.set_thread_timer(thread);
    }

    /// Lets a whole thread wait until at least the given time: those of its due vertices that are
    /// given, and what arrives.
    pub(super) fn block_thread(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        until: Timestamp,
        block: Block,
        due: Vec<VertexId>,
    ) {
        self.lessons += 1;
        self.plan_retry(now, thread);
        for vertex in due {
            self.put(vertex, Place::Waiting);
        }
        let thread_ref = &mut self.threads[thread];
        if self.rings[thread_ref.ring].clause.waits_for_request() {
            return self.update_readiness(thread);
        }
        thread_ref.retry.block = Some(block);
        thread_ref.retry.wakeup = thread_ref.retry.wakeup.max(Some(until));
        thread_ref.retry.planned = thread_ref.retry.wakeup;
        self.set_thread_timer(thread);
        self.update_readiness(thread);
    }

    /// Ends the wait of a thread: everything that waits becomes due.
    pub(super) fn wake_thread(&mut self, now: Timestamp, thread: ThreadId) {
        self.lessons += 1;
        self.settle(now, thread);
        self.resume_window(thread);
        self.threads[thread].retry.wake();
        self.make_waiting_due(now, thread);
        self.set_thread_timer(thread);
        self.update_readiness_at_wakeup(thread);
    }
}

/// Plans the next wake-up of `retry`.
fn advance(retry: &mut Retry, now: Timestamp, clause: &Clause, random: &mut fastrand::Rng) {
    let list = &clause.retries;
    if retry.index >= list.len() {
        retry.index = if list.len() > 1 { random.usize(0..list.len()) } else { 0 };
    }
    let factor = list.get(retry.index).copied().unwrap_or(1);
    let step = clause.interval * factor;
    // Counting from the last wake-up keeps the rhythm; one long past has none.
    let recent = retry.planned.filter(|planned| *planned <= now && now.since(*planned) < step);
    let base = recent.unwrap_or(now);
    let wakeup = skewed(base, clause) + step;
    retry.index += 1;
    retry.wakeup = Some(wakeup.max(now + SHORTEST_WAIT));
    retry.planned = retry.wakeup;
}

/// Moves a time by a part of its distance to the next whole multiple of the interval.
fn skewed(time: Timestamp, clause: &Clause) -> Timestamp {
    let interval = clause.interval.as_secs().max(1) as i64;
    let skew = i64::from(clause.skew.max(1));
    let past_boundary = time.seconds().rem_euclid(interval);
    let shift = (past_boundary + skew - 1) / skew;
    let by = Duration::from_secs(shift.unsigned_abs());
    if past_boundary <= interval / 2 { time - by } else { time + by }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::tests::clause;

    /// Wake-ups relative to the first feed, each try made at the wake-up before.
    fn wakeups(config: &str, feed_past_boundary: i64, tries: usize) -> Vec<i64> {
        let clause = clause(config);
        let mut random = fastrand::Rng::with_seed(1);
        let mut retry = Retry::default();
        let first = Timestamp::from_seconds(1_795_255_200 + feed_past_boundary);
        let mut now = first;
        let mut all = Vec::new();
        for _ in 0..tries {
            advance(&mut retry, now, &clause, &mut random);
            now = retry.wakeup.take().expect("advance plans a wake-up");
            all.push(now.seconds_since(first));
        }
        all
    }

    #[test]
    fn the_spacing_is_that_of_the_list() {
        let on_boundary = wakeups("interval=5s retries=\"1 2 3 4\" skew=5", 0, 4);
        assert_eq!(on_boundary, [5, 15, 30, 50]);
        assert_eq!(wakeups("interval=5s retries=3 skew=5", 1, 4), [14, 29, 44, 59]);
        assert_eq!(wakeups("interval=10s retries=\"1 2 3 5 8\"", 1, 5), [9, 29, 59, 109, 189]);
    }

    #[test]
    fn skew_pulls_towards_whole_intervals() {
        // 10 s past a boundary of 60 s, skew 5: 2 s earlier, as recorded.
        assert_eq!(wakeups("interval=60s retries=3 skew=5", 10, 1), [178]);
        assert_eq!(wakeups("interval=60s retries=3 skew=5", 40, 1), [188]);
        assert_eq!(wakeups("interval=60s retries=3 skew=1", 0, 1), [180]);
    }

    #[test]
    fn behind_the_end_it_goes_on_anywhere_in_the_list() {
        let all = wakeups("interval=5s retries=\"1 2 3 4\" skew=5", 0, 400);
        let steps: Vec<i64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for step in [5, 10, 15, 20] {
            assert!(steps[4..].contains(&step), "{step}");
        }
        assert!(steps.iter().all(|step| [5, 10, 15, 20].contains(step)));
        // It continues from the entry it jumped to.
        assert!(steps.windows(2).all(|pair| pair[0] == 20 || pair[1] == pair[0] + 5));
    }

    #[test]
    fn a_list_of_zeros_does_not_spin() {
        assert_eq!(wakeups("interval=5s retries=0", 0, 3), [1, 2, 3]);
    }

    #[test]
    fn a_wakeup_long_past_starts_a_new_rhythm() {
        let clause = clause("interval=10s retries=1 skew=1");
        let long_ago = Timestamp::from_seconds(1_000_000_000);
        let now = Timestamp::from_seconds(1_795_255_200);
        let mut retry = Retry { planned: Some(long_ago), ..Retry::default() };
        advance(&mut retry, now, &clause, &mut fastrand::Rng::with_seed(1));
        assert_eq!(retry.wakeup, Some(now + Duration::from_secs(10)));
    }
}
