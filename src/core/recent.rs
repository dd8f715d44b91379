//! What was counted in the last minutes.

use crate::Counters;
use std::collections::VecDeque;
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Minimum time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Time that is covered.
const MAX_SPAN: Duration = Duration::from_secs(900);

/// Counters as they were at some times of the last 15 minutes.
#[derive(Default)]
pub struct RecentCounters {
    samples: VecDeque<(Timestamp, Counters)>,
}

impl RecentCounters {
    /// Records the counters at the beginning of an event, before it changes them.
    pub(crate) fn record(&mut self, now: Timestamp, counters: &Counters) {
        if self.samples.back().is_some_and(|(last, _)| now < *last + SAMPLE_INTERVAL) {
            return;
        }
        self.samples.push_back((now, *counters));
        // The first one stays as long as it is needed to cover the whole time.
        while self.samples.get(1).is_some_and(|(time, _)| *time + MAX_SPAN < now) {
            self.samples.pop_front();
        }
    }

    /// Moves all times, because the clock was set.
    pub(crate) fn shift(&mut self, step: ClockStep) {
        self.samples.iter_mut().for_each(|(time, _)| *time = *time + step);
    }

    /// What was counted in the last `span`, of which some seconds may be missing.
    ///
    /// Returns the time it was counted in, too: a scheduler that runs for a shorter time has not
    /// counted before its start.
    fn since(&self, now: Timestamp, span: Duration, counters: &Counters) -> (Duration, Counters) {
        let begin = now - span;
        let first = self.samples.iter().find(|(time, _)| *time >= begin);
        let before = first.map_or(*counters, |(_, counters)| *counters);
        let start = self.samples.front().map_or(now, |(time, _)| *time);
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let counted = Counters {
            messages_in: less(counters.messages_in, before.messages_in),
            messages_out: less(counters.messages_out, before.messages_out),
            recipients_in: less(counters.recipients_in, before.recipients_in),
            recipients_out: less(counters.recipients_out, before.recipients_out),
            agents_started: less(counters.agents_started, before.agents_started),
        };
        (now.since(start.max(begin)), counted)
    }
}

impl crate::Scheduler {
    /// What was counted in the last `span`, up to 15 minutes, and in which part of that time.
    pub fn counted_in_last(&self, now: Timestamp, span: Duration) -> (Duration, Counters) {
        self.recent.since(now, span.min(MAX_SPAN), &self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn counters(recipients_out: u64) -> Counters {
        Counters { recipients_out, ..Counters::default() }
    }

    #[test]
    fn span_counts_only_what_is_in_it() {
        let mut recent = RecentCounters::default();
        // One recipient a second for an hour.
        for second in 0..=3600 {
            recent.record(START + Duration::from_secs(second), &counters(second));
        }
        assert!(recent.samples.len() <= 452, "{}", recent.samples.len());
        let now = START + Duration::from_secs(3600);
        for (span, count) in [(MINUTE, 60), (5 * MINUTE, 300), (15 * MINUTE, 900)] {
            let (time, counted) = recent.since(now, span, &counters(3600));
            assert_eq!(time, span);
            assert!((count - 2..=count).contains(&counted.recipients_out), "{counted:?}");
        }
        // Nothing happens for an hour, not even an event.
        let later = now + 60 * MINUTE;
        assert_eq!(recent.since(later, 5 * MINUTE, &counters(3600)), (5 * MINUTE, counters(0)));
    }

    #[test]
    fn time_before_start_and_clock_steps_do_not_count() {
        let mut recent = RecentCounters::default();
        recent.record(START, &counters(0));
        let now = START + Duration::from_secs(20);
        assert_eq!(recent.since(now, MINUTE, &counters(7)), (Duration::from_secs(20), counters(7)));
        recent.shift(ClockStep::Forward(60 * MINUTE));
        assert_eq!(
            recent.since(now + 60 * MINUTE, MINUTE, &counters(7)),
            (Duration::from_secs(20), counters(7))
        );
    }
}
