//! Counts what clients bring, for `mailq summary`. Pure: the time is given.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zsched_mailq_protocol::schema::{RecentSmtpCounts, SmtpAlarm, SmtpReason, SmtpTraffic};

/// Spans of the recent counts, in minutes.
const SPANS: [u64; 3] = [1, 5, 15];
/// The longest of them.
const MAX_SPAN: Duration = Duration::from_secs(SPANS[SPANS.len() - 1] * 60);
/// Interval of the samples for recent counts.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of replies that are counted one by one.
const MAX_REASONS: usize = 200;
/// Maximum number of replies that are shown.
const MAX_SHOWN_REASONS: usize = 10;
/// Maximum length of a reply that is counted, in characters.
const MAX_REASON_LEN: usize = 100;
/// The name of all further replies.
const OTHER_REASONS: &str = "other replies";
/// Maximum number of alarms in memory.
const MAX_ALARMS: usize = 10;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    messages: u64,
    recipients: u64,
    bytes: u64,
    refused: u64,
    deferred: u64,
    failed_logins: u64,
}

/// The counters of a server.
#[derive(Debug)]
pub(crate) struct Traffic {
    start: Instant,
    start_time: SystemTime,
    counts: Counts,
    /// Counters at former times, the oldest first, for the longest span.
    samples: VecDeque<(Instant, Counts)>,
    reasons: HashMap<String, u64>,
    alarms: VecDeque<SmtpAlarm>,
}

impl Traffic {
    pub(crate) fn new(start: Instant, start_time: SystemTime) -> Traffic {
        Traffic {
            start,
            start_time,
            counts: Counts::default(),
            samples: VecDeque::from([(start, Counts::default())]),
            reasons: HashMap::new(),
            alarms: VecDeque::new(),
        }
    }

    /// Counts a message that was accepted.
    pub(crate) fn accept(&mut self, recipients: u64, bytes: u64) {
        self.counts.messages += 1;
        self.counts.recipients += recipients;
        self.counts.bytes += bytes;
    }

    /// Counts something that was not accepted, by its reply.
    pub(crate) fn refuse(&mut self, is_permanent: bool, reply: &str) {
        match is_permanent {
            true => self.counts.refused += 1,
            false => self.counts.deferred += 1,
        }
        let reason: String = reply.chars().take(MAX_REASON_LEN).collect();
        let has_room = self.reasons.len() < MAX_REASONS || self.reasons.contains_key(&reason);
        let reason = if has_room { reason } else { OTHER_REASONS.into() };
        *self.reasons.entry(reason).or_default() += 1;
    }

    /// Counts a failed login.
    pub(crate) fn fail_login(&mut self) {
        self.counts.failed_logins += 1;
    }

    /// Keeps an alarm.
    pub(crate) fn add_alarm(&mut self, now: SystemTime, text: String) {
        while self.alarms.len() >= MAX_ALARMS {
            self.alarms.pop_front();
        }
        self.alarms.push_back(SmtpAlarm { time: seconds(now), text });
    }

    /// Takes a sample if it is time for one.
    pub(crate) fn sample(&mut self, now: Instant) {
        let is_due = |(last, _): &(Instant, Counts)| now.duration_since(*last) >= SAMPLE_INTERVAL;
        if !self.samples.back().is_none_or(is_due) {
            return;
        }
        self.samples.push_back((now, self.counts));
        // One sample is at least as old as the longest span.
        while self.samples.get(1).is_some_and(|(time, _)| is_over(now, *time, MAX_SPAN)) {
            self.samples.pop_front();
        }
    }

    /// All counters.
    pub(crate) fn shown(&self, now: Instant, time: SystemTime, connections: u64) -> SmtpTraffic {
        let Counts { messages, recipients, bytes, refused, deferred, failed_logins } = self.counts;
        let reason =
            |(reply, count): (&String, &u64)| SmtpReason { reply: reply.clone(), count: *count };
        let mut reasons: Vec<SmtpReason> = self.reasons.iter().map(reason).collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reply.cmp(&b.reply)));
        reasons.truncate(MAX_SHOWN_REASONS);
        SmtpTraffic {
            time: seconds(time),
            started: seconds(self.start_time),
            ended: false,
            pid: std::process::id(),
            connections,
            messages,
            recipients,
            bytes,
            refused,
            deferred,
            failed_logins,
            recent: SPANS.iter().map(|minutes| self.recent(now, *minutes)).collect(),
            reasons,
            alarms: self.alarms.iter().cloned().collect(),
        }
    }

    fn recent(&self, now: Instant, minutes: u64) -> RecentSmtpCounts {
        let span = Duration::from_secs(minutes * 60);
        let mut before = self.samples.iter().rev();
        let before = before.find(|(time, _)| is_over(now, *time, span));
        let (time, then) = before.copied().unwrap_or((self.start, Counts::default()));
        RecentSmtpCounts {
            minutes,
            seconds: now.duration_since(time).as_secs_f64(),
            messages: self.counts.messages - then.messages,
            recipients: self.counts.recipients - then.recipients,
            refused: self.counts.refused - then.refused,
            deferred: self.counts.deferred - then.deferred,
        }
    }
}

fn is_over(now: Instant, then: Instant, span: Duration) -> bool {
    now.duration_since(then) >= span
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_counts_are_those_of_their_span() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut traffic = Traffic::new(start, UNIX_EPOCH);
        // A message each second for 20 minutes.
        for second in 0..1200 {
            traffic.sample(at(second));
            traffic.accept(2, 10);
        }
        let shown = traffic.shown(at(1200), UNIX_EPOCH, 3);
        assert_eq!((shown.messages, shown.recipients, shown.bytes), (1200, 2400, 12_000));
        let recent: Vec<_> = shown.recent.iter().map(|one| (one.minutes, one.messages)).collect();
        assert_eq!(recent, [(1, 60), (5, 300), (15, 900)]);
        assert!(traffic.samples.len() < 200);
        let later = traffic.shown(at(1233), UNIX_EPOCH, 3).recent[0].clone();
        assert_eq!((later.messages, later.seconds), (30, 63.0), "a sample that is old enough");
        let early = Traffic::new(start, UNIX_EPOCH).shown(at(10), UNIX_EPOCH, 0).recent[2].clone();
        assert_eq!(early.seconds, 10.0, "the time since the start");
    }

    #[test]
    fn replies_and_alarms_are_bounded() {
        let mut traffic = Traffic::new(Instant::now(), UNIX_EPOCH);
        for number in 0..1000 {
            traffic.refuse(number % 2 == 0, &format!("550 {number}"));
            traffic.refuse(true, "550 5.1.1 no such user");
            traffic.add_alarm(UNIX_EPOCH, format!("alarm {number}"));
        }
        let shown = traffic.shown(Instant::now(), UNIX_EPOCH, 0);
        assert_eq!((shown.refused, shown.deferred), (1500, 500));
        assert_eq!(shown.reasons[0].reply, "550 5.1.1 no such user");
        assert_eq!(shown.reasons[0].count, 1000);
        assert_eq!(shown.reasons[1].reply, OTHER_REASONS);
        assert_eq!(shown.reasons.len(), MAX_SHOWN_REASONS);
        assert_eq!(shown.alarms.len(), MAX_ALARMS);
        assert_eq!(shown.alarms[MAX_ALARMS - 1].text, "alarm 999");
    }
}
