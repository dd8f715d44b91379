//! What was counted in the last minutes.

use crate::Counters;
use std::collections::VecDeque;
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Minimum time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Time that is covered.
const MAX_SPAN: Duration = Duration::from_secs(900);

/// Counters at some times of the last 15 minutes.
///
/// They leave out mail from before the start.
#[derive(Default)]
pub struct RecentCounters {
    samples: VecDeque<(Timestamp, Counters)>,
    /// Time of the first event.
    started: Option<Timestamp>,
    /// Time before which there is no other sample.
    next: Option<Timestamp>,
    /// Messages and recipients that came before the start. They are loaded, not received.
    loaded: Counters,
}

impl RecentCounters {
    /// Records the counters at the beginning of an event, before it changes them.
    pub(crate) fn record(&mut self, now: Timestamp, counters: &Counters) {
        if self.next.is_none_or(|next| next <= now) {
            self.add_sample(now, counters);
        }
    }

    fn add_sample(&mut self, now: Timestamp, counters: &Counters) {
        self.started.get_or_insert(now);
        self.next = Some(now + SAMPLE_INTERVAL);
        self.samples.push_back((now, self.received(counters)));
        // The first one stays as long as it is needed to cover the whole time.
        while self.samples.get(1).is_some_and(|(time, _)| *time + MAX_SPAN < now) {
            self.samples.pop_front();
        }
    }

    /// Records that a message has changed the counters since `before`.
    ///
    /// It does not count if it came, by the time of its routing, before the start.
    pub(crate) fn record_arrival(
        &mut self,
        routed: Timestamp,
        before: &Counters,
        counters: &Counters,
    ) {
        if self.started.is_some_and(|started| routed < started) {
            self.loaded.messages_in += counters.messages_in - before.messages_in;
            self.loaded.recipients_in += counters.recipients_in - before.recipients_in;
        }
    }

    /// The counters without mail from before the start.
    fn received(&self, counters: &Counters) -> Counters {
        Counters {
            messages_in: counters.messages_in.saturating_sub(self.loaded.messages_in),
            recipients_in: counters.recipients_in.saturating_sub(self.loaded.recipients_in),
            ..*counters
        }
    }

    /// Moves all times, because the clock was set.
    pub(crate) fn shift(&mut self, step: ClockStep) {
        self.started = self.started.map(|time| time + step);
        self.next = self.next.map(|time| time + step);
        self.samples.iter_mut().for_each(|(time, _)| *time = *time + step);
    }

    /// What was counted in the last `span`, of which some seconds may be missing.
    ///
    /// Returns the time it was counted in, too: a scheduler that runs for a shorter time has not
    /// counted before its start.
    fn since(&self, now: Timestamp, span: Duration, counters: &Counters) -> (Duration, Counters) {
        let (begin, counters) = (now - span, &self.received(counters));
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
    /// What was counted in the last `span`, up to 15 minutes.
    ///
    /// Also returns the part of that time that is known.
    pub fn counted_in_last(&self, now: Timestamp, span: Duration) -> (Duration, Counters) {
        self.cx.recent.since(now, span.min(MAX_SPAN), &self.cx.counters)
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
    fn mail_from_before_start_does_not_count() {
        let mut recent = RecentCounters::default();
        let with = |messages_in, recipients_in| Counters {
            messages_in,
            recipients_in,
            ..Counters::default()
        };
        recent.record(START, &with(0, 0));
        recent.record_arrival(START - MINUTE, &with(0, 0), &with(1, 5));
        recent.record_arrival(START + SAMPLE_INTERVAL, &with(1, 5), &with(2, 7));
        let (_, counted) = recent.since(START + 2 * SAMPLE_INTERVAL, MINUTE, &with(2, 7));
        assert_eq!(counted, with(1, 2));
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
