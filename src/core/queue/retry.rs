//! The times of the next tries.
//!
//! A recipient that is deferred waits `retries[i] * interval`, and increments its own `i`. A
//! destination that is known to be unreachable has an `i` of its own, which returns to the first
//! entry when the host answers. At the end of the list both continue at a random entry (ZMailer
//! `scheduler(8)`, `retries`). `skew` moves the times towards whole multiples of the interval, so
//! that threads of one clause are tried together.

use crate::context::Context;
use crate::queue::deferall::MAX_BLOCK;
use crate::queue::{FailureScope, Queue, Retry, ThreadId, VertexId, VertexState};
use std::time::Duration;
use zsched_config::Clause;
use zsched_format::time::{ClockStep, Timestamp};

/// Minimum time between two tries, whatever `retries` and `interval` say.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Minimum time without a try after `deferall`.
///
/// ZMailer has the same: `retryat` with 60 seconds.
pub const MIN_HOST_DOWN_WAIT: Duration = Duration::from_secs(60);
/// Divisor of a wait, for the tolerance of a common retry.
const TOLERANCE_DIVISOR: u32 = 8;

/// Target of a random jump at the end of `retries`.
///
/// Vertices that were tried together jump to the same entry, and so stay together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RetryJump {
    /// Planned time of the vertices that jumped.
    ///
    /// In seconds since the epoch.
    from: u32,
    to: u8,
}

impl Queue {
    /// Makes all waiting vertices of a thread due at the next wake-up.
    pub(crate) fn wake_waiting(&mut self, now: Timestamp, thread: ThreadId) {
        self.threads[thread].waiting.wake(now);
    }

    /// Makes a vertex wait after a try.
    ///
    /// It waits for its own next try, or for its destination if that is unreachable.
    pub(crate) fn wait_after_try(&mut self, cx: &mut Context, vertex: VertexId) {
        let thread = self.vertices[vertex].thread;
        self.apply_clock_step(cx, thread);
        let (due, tolerance) = self.next_due(cx, vertex, self.vertices[vertex].failure_scope());
        self.wait_until(cx.now, vertex, due, tolerance);
        if tolerance > Duration::ZERO {
            // Vertices of one wave also have the same planned time.
            let wakeup = self.threads[thread].waiting.wakeup(self.vertices[vertex].wave);
            self.vertices[vertex].planned = wakeup.map_or(0, seconds_of);
        }
    }

    /// Makes a vertex wait that was not tried.
    ///
    /// Its destination is unreachable, or is tried only on request.
    pub(crate) fn wait_for_destination(&mut self, cx: &mut Context, vertex: VertexId) {
        let thread = self.vertices[vertex].thread;
        self.apply_clock_step(cx, thread);
        let clause = self.clause(thread);
        let (queue_only, on_request) = (clause.queue_only, clause.is_etrn_only());
        let known = self.threads[thread].retry.unreachable.as_ref().map(|known| known.until);
        let until = match known {
            None if on_request => None,
            None if queue_only => Some(self.next_try_of_host(cx, thread)),
            known => Some(known.unwrap_or(cx.now)),
        };
        let waiting = &mut self.threads[thread].waiting;
        self.vertices[vertex].wave = waiting.place(until, Duration::ZERO, known.is_some());
        self.set_state(cx.now, vertex, VertexState::Waiting);
    }

    /// Makes a vertex wait until a time from before.
    pub(crate) fn resume_wait(&mut self, cx: &mut Context, vertex: VertexId, due: Timestamp) {
        let thread = self.vertices[vertex].thread;
        self.apply_clock_step(cx, thread);
        let clause = self.clause(thread);
        // The clock may have been wrong when the time was stored, or the clause different.
        let due = due.min(cx.now + max_wait(clause));
        let known = self.threads[thread].retry.unreachable.as_deref();
        let until = known.filter(|known| known.reason.is_firm()).map(|known| known.until);
        let due = (!clause.is_etrn_only()).then(|| until.map_or(due, |until| until.max(due)));
        self.vertices[vertex].planned = due.map_or(0, seconds_of);
        self.wait_until(cx.now, vertex, due, Duration::from_secs(1));
    }

    /// Makes a vertex wait until a time, or up to `tolerance` less.
    ///
    /// `None` is until a request.
    pub(crate) fn wait_until(
        &mut self,
        now: Timestamp,
        vertex: VertexId,
        until: Option<Timestamp>,
        tolerance: Duration,
    ) {
        debug_assert_ne!(self.vertices[vertex].state, VertexState::Waiting, "it is in a wave");
        let thread = self.vertices[vertex].thread;
        self.vertices[vertex].wave = self.threads[thread].waiting.place(until, tolerance, false);
        self.set_state(now, vertex, VertexState::Waiting);
    }

    /// Makes waiting vertices due, as far as one turn allows.
    ///
    /// The thread's timer continues.
    pub(crate) fn make_some_due(&mut self, cx: &Context, thread: ThreadId) {
        let thread_ref = &self.threads[thread];
        // `ageorder` sorts the complete due list. Jobs have an order of their own.
        let ring = &self.rings[thread_ref.ring];
        let is_ordered = ring.clause.age_order && ring.jobs.is_none();
        let count = if is_ordered { usize::MAX } else { cx.settings.step() };
        for vertex in thread_ref.waiting.due(cx.now, count, &self.vertices) {
            self.set_state(cx.now, vertex, VertexState::Due);
        }
    }

    /// Due time of a deferred vertex, and the tolerance.
    ///
    /// It may be tried earlier with others, within the tolerance.
    ///
    /// Advances the vertex's own place in `retries`, if that decides.
    pub(crate) fn next_due(
        &mut self,
        cx: &mut Context,
        vertex: VertexId,
        fault: FailureScope,
    ) -> (Option<Timestamp>, Duration) {
        let thread = &self.threads[self.vertices[vertex].thread];
        let known = thread.retry.unreachable.as_deref();
        let known = known.map(|known| (known.until, known.reason.is_firm()));
        let known = known.filter(|(until, _)| *until > cx.now);
        if let Some((until, _)) = known.filter(|_| fault != FailureScope::Recipient) {
            return (Some(until), Duration::ZERO);
        }
        let Some(own) = self.next_try_of(cx, vertex) else {
            return (None, Duration::ZERO);
        };
        let not_before = known.filter(|(_, is_firm)| *is_firm).map_or(own, |(until, _)| until);
        (Some(own.max(not_before)), own.since(cx.now) / TOLERANCE_DIVISOR)
    }

    /// Time of a vertex's own next try, whose place in `retries` advances.
    ///
    /// `None` is only on request.
    fn next_try_of(&mut self, cx: &mut Context, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &mut self.vertices[vertex];
        let thread_ref = &mut self.threads[vertex_ref.thread];
        let clause = &self.rings[thread_ref.ring].clause;
        if clause.is_etrn_only() {
            return None;
        }
        let mut steps = RetryPosition { index: vertex_ref.step, planned: vertex_ref.planned };
        let time = steps.advance(cx.now, clause, &mut thread_ref.retry.jump, &mut cx.random);
        (vertex_ref.step, vertex_ref.planned) = (steps.index, steps.planned);
        Some(time)
    }

    /// Time of the next try of an unreachable destination.
    ///
    /// Its place in `retries` advances once, and not again before that time.
    pub(crate) fn next_try_of_host(&mut self, cx: &mut Context, thread: ThreadId) -> Timestamp {
        let thread_ref = &mut self.threads[thread];
        let clause = &self.rings[thread_ref.ring].clause;
        let Retry { steps, jump, .. } = &mut thread_ref.retry;
        match Timestamp::from_seconds(steps.planned.into()) {
            planned if planned > cx.now => planned,
            _ => steps.advance(cx.now, clause, jump, &mut cx.random),
        }
    }
}

/// A place in `retries`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RetryPosition {
    /// Index of the next entry.
    pub index: u8,
    /// Time last planned, past or future, in seconds since the epoch.
    ///
    /// 0 is none.
    pub planned: u32,
}

impl RetryPosition {
    /// Moves the time, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        if self.planned > 0 {
            self.planned = seconds_of(Timestamp::from_seconds(self.planned.into()) + step);
        }
    }

    /// Plans the next try and returns its time.
    fn advance(
        &mut self,
        now: Timestamp,
        clause: &Clause,
        jump: &mut RetryJump,
        random: &mut fastrand::Rng,
    ) -> Timestamp {
        let list = &clause.retries[..clause.retries.len().min(usize::from(u8::MAX))];
        if usize::from(self.index) >= list.len() {
            let is_known = jump.from == self.planned && usize::from(jump.to) < list.len();
            if list.len() > 1 && !is_known {
                *jump = RetryJump { from: self.planned, to: random.usize(0..list.len()) as u8 };
            }
            self.index = if list.len() > 1 { jump.to } else { 0 };
        }
        let factor = list.get(usize::from(self.index)).copied().unwrap_or(1);
        let step = clause.interval * factor;
        // Tries are spaced from the last planned time, unless that is longer ago than one wait.
        let planned = (self.planned > 0).then(|| Timestamp::from_seconds(self.planned.into()));
        let recent = planned.filter(|planned| *planned <= now && now.since(*planned) < step);
        let wakeup = skewed(recent.unwrap_or(now), clause) + step;
        let wakeup = wakeup.max(now + MIN_WAIT);
        self.index += 1;
        self.planned = seconds_of(wakeup);
        wakeup
    }
}

/// Maximum time that a vertex may have to wait under a clause.
pub(crate) fn max_wait(clause: &Clause) -> Duration {
    let factor = clause.retries.iter().max().copied().unwrap_or(1);
    // The skew moves the time by one interval at most.
    let step = clause.interval.saturating_mul(factor.saturating_add(1));
    step.max(MAX_BLOCK)
}

/// Converts a time to the seconds since the epoch that are stored.
pub(crate) fn seconds_of(time: Timestamp) -> u32 {
    u32::try_from(time.seconds().max(0)).unwrap_or(u32::MAX)
}

/// Moves a time by the skew.
///
/// It is `1/skew` of the time since the last whole multiple of the interval.
///
/// It moves back in the first half of an interval and forward in the second.
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
    use crate::tests::clause;

    /// Wake-ups in seconds after the first feed, with each try at the wake-up before.
    fn wakeups(config: &str, feed_past_boundary: i64, tries: usize) -> Vec<i64> {
        let clause = clause(config);
        let mut random = fastrand::Rng::with_seed(1);
        let (mut steps, mut jump) = (RetryPosition::default(), RetryJump::default());
        let first = Timestamp::from_seconds(1_795_255_200 + feed_past_boundary);
        let mut now = first;
        let mut all = Vec::new();
        for _ in 0..tries {
            now = steps.advance(now, &clause, &mut jump, &mut random);
            all.push(now.seconds_since(first));
        }
        all
    }

    #[test]
    fn retries_list_sets_spacing_of_tries() {
        let on_boundary = wakeups("interval=5s retries=\"1 2 3 4\" skew=5", 0, 4);
        assert_eq!(on_boundary, [5, 15, 30, 50]);
        assert_eq!(wakeups("interval=5s retries=3 skew=5", 1, 4), [14, 29, 44, 59]);
        assert_eq!(wakeups("interval=10s retries=\"1 2 3 5 8\"", 1, 5), [9, 29, 59, 109, 189]);
    }

    #[test]
    fn skew_moves_wakeup_towards_whole_interval() {
        // 10 s past a boundary of 60 s, skew 5: 2 s earlier, as recorded.
        assert_eq!(wakeups("interval=60s retries=3 skew=5", 10, 1), [178]);
        assert_eq!(wakeups("interval=60s retries=3 skew=5", 40, 1), [188]);
        assert_eq!(wakeups("interval=60s retries=3 skew=1", 0, 1), [180]);
    }

    #[test]
    fn end_of_retries_continues_at_random_entry() {
        let all = wakeups("interval=5s retries=\"1 2 3 4\" skew=5", 0, 400);
        let steps: Vec<i64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for step in [5, 10, 15, 20] {
            assert!(steps[4..].contains(&step), "{step}");
        }
        assert!(steps.iter().all(|step| [5, 10, 15, 20].contains(step)));
        // After the jump it continues with the following entries.
        assert!(steps.windows(2).all(|pair| pair[0] == 20 || pair[1] == pair[0] + 5));
    }

    #[test]
    fn zero_retries_wait_minimum_time() {
        assert_eq!(wakeups("interval=5s retries=0", 0, 3), [1, 2, 3]);
    }

    #[test]
    fn old_wakeup_spaces_next_try_from_now() {
        let clause = clause("interval=10s retries=1 skew=1");
        let (planned, mut random) = (1_000_000_000, fastrand::Rng::with_seed(1));
        let now = Timestamp::from_seconds(1_795_255_200);
        let mut steps = RetryPosition { planned, ..RetryPosition::default() };
        let wakeup = steps.advance(now, &clause, &mut RetryJump::default(), &mut random);
        assert_eq!(wakeup, now + Duration::from_secs(10));
    }
}
