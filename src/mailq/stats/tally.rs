//! Counts the lines of a status log.

use crate::format::{cut, last_line};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use zsched_format::status_log::{DeliveryStatus, SmtpLine, SmtpStatus, StatusLine};

/// Maximum number of names of each kind that are counted one by one. Memory is bounded by it.
const MAX_NAMES: usize = 100_000;
/// Maximum length of a name, in columns. Texts of other hosts can be long.
const MAX_NAME_COLUMNS: usize = 200;
/// The row of all names beyond that.
const OTHERS: &str = "(others)";
/// Ratio of a class of delays to the one before it.
const DELAY_CLASS_RATIO: f64 = 1.05;
/// The end of the first class of delays, in seconds.
const FIRST_CLASS_END: f64 = 0.001;
/// Number of classes of delays. The last one begins after a year.
const DELAY_CLASSES: usize = 500;

/// Numbers of lines by outcome. A line is an attempt at a recipient, or its end without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Outcomes {
    pub(super) delivered: u64,
    pub(super) deferred: u64,
    pub(super) failed: u64,
    pub(super) expired: u64,
    pub(super) deleted: u64,
    pub(super) rerouted: u64,
}

impl Outcomes {
    fn add(&mut self, status: DeliveryStatus) {
        *match status {
            DeliveryStatus::Delivered => &mut self.delivered,
            DeliveryStatus::Deferred => &mut self.deferred,
            DeliveryStatus::Failed => &mut self.failed,
            DeliveryStatus::Expired => &mut self.expired,
            DeliveryStatus::Deleted => &mut self.deleted,
            DeliveryStatus::Rerouted => &mut self.rerouted,
        } += 1;
    }

    /// Adds the numbers of another period.
    pub(super) fn merge(&mut self, other: &Outcomes) {
        self.delivered += other.delivered;
        self.deferred += other.deferred;
        self.failed += other.failed;
        self.expired += other.expired;
        self.deleted += other.deleted;
        self.rerouted += other.rerouted;
    }

    /// Number of lines.
    pub(super) fn total(&self) -> u64 {
        let Outcomes { delivered, deferred, failed, expired, deleted, rerouted } = self;
        delivered + deferred + failed + expired + deleted + rerouted
    }

    /// Number of lines about recipients that failed or expired.
    pub(super) fn given_up(&self) -> u64 {
        self.failed + self.expired
    }
}

/// Outcomes of something, with the delays of what was delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Traffic {
    #[serde(flatten)]
    pub(super) outcomes: Outcomes,
    /// Sum of the delays, in seconds.
    #[serde(skip)]
    delays: f64,
    /// The longest of them, in seconds.
    pub(super) longest_delay: f64,
}

impl Traffic {
    fn add(&mut self, line: &StatusLine<'_>) {
        self.outcomes.add(line.status);
        if line.status == DeliveryStatus::Delivered {
            self.delays += line.delay;
            self.longest_delay = self.longest_delay.max(line.delay);
        }
    }

    /// Average delay of what was delivered, in seconds.
    pub(super) fn average_delay(&self) -> Option<f64> {
        (self.outcomes.delivered > 0).then(|| self.delays / self.outcomes.delivered as f64)
    }
}

/// Values by name, of a bounded number of names.
#[derive(Debug)]
pub(super) struct ByName<V>(HashMap<String, V>);

impl<V> Default for ByName<V> {
    fn default() -> Self {
        ByName(HashMap::new())
    }
}

impl<V: Default> ByName<V> {
    fn value(&mut self, name: &str) -> &mut V {
        let name = &cut(name, MAX_NAME_COLUMNS);
        let name = match self.0.contains_key(name) || self.0.len() < MAX_NAMES {
            true => name,
            false => OTHERS,
        };
        self.0.entry(name.to_string()).or_default()
    }

    /// The rows with the largest `rank`, the largest first. Those of rank 0 are left out.
    pub(super) fn top(&self, limit: usize, rank: impl Fn(&V) -> u64) -> Vec<(&str, &V)> {
        let mut rows: Vec<(&str, &V)> = self.0.iter().map(|(name, v)| (name.as_str(), v)).collect();
        rows.retain(|(_, value)| rank(value) > 0);
        rows.sort_by(|(a_name, a), (b_name, b)| (rank(b), a_name).cmp(&(rank(a), b_name)));
        rows.truncate(limit);
        rows
    }
}

/// Numbers of delays by class, each 5 % longer than the one before it.
#[derive(Debug)]
pub(super) struct Delays {
    classes: Vec<u64>,
    longest: f64,
}

impl Default for Delays {
    fn default() -> Self {
        Delays { classes: vec![0; DELAY_CLASSES], longest: 0.0 }
    }
}

impl Delays {
    fn add(&mut self, seconds: f64) {
        let class = (seconds.max(FIRST_CLASS_END) / FIRST_CLASS_END).ln() / DELAY_CLASS_RATIO.ln();
        // A value that is not a number, from a damaged line, falls into the first class.
        self.classes[(class.ceil() as usize).min(DELAY_CLASSES - 1)] += 1;
        self.longest = self.longest.max(seconds);
    }

    /// The delay in seconds, at most 5 % too long, within which this share was delivered.
    ///
    /// `None` if nothing was delivered.
    pub(super) fn within(&self, share: f64) -> Option<f64> {
        let total: u64 = self.classes.iter().sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut count = 0;
        let class = self.classes.iter().position(|class| {
            count += class;
            count >= wanted
        })?;
        Some((FIRST_CLASS_END * DELAY_CLASS_RATIO.powi(class as i32)).min(self.longest))
    }

    /// The longest delay in seconds; 0 if nothing was delivered.
    pub(super) fn longest(&self) -> f64 {
        self.longest
    }
}

/// What a status log has, counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Times of the first and the last line.
    pub(super) times: Option<(Timestamp, Timestamp)>,
    pub(super) all: Outcomes,
    pub(super) delays: Delays,
    /// By hours since 1970.
    pub(super) hours: BTreeMap<i64, Outcomes>,
    /// By `channel/host`.
    pub(super) destinations: ByName<Traffic>,
    pub(super) senders: ByName<Traffic>,
    pub(super) recipients: ByName<Traffic>,
    /// By destination and text, with the code if the text lacks it.
    pub(super) deferral_reasons: ByName<u64>,
    pub(super) failure_reasons: ByName<u64>,
    pub(super) smtp: SmtpTally,
}

/// What clients have brought by SMTP.
#[derive(Debug, Default)]
pub(super) struct SmtpTally {
    pub(super) all: SmtpCounts,
    /// By login, or by client without one.
    pub(super) clients: ByName<SmtpCounts>,
    /// By reply.
    pub(super) reasons: ByName<u64>,
}

/// Numbers of what was accepted, and of what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SmtpCounts {
    /// Messages that were accepted.
    pub(super) messages: u64,
    /// Recipients of these messages.
    pub(super) recipients: u64,
    /// Recipients, messages and connections that were refused.
    pub(super) refused: u64,
    /// Recipients, messages and connections that were put off.
    pub(super) deferred: u64,
}

impl SmtpCounts {
    fn add(&mut self, line: &SmtpLine<'_>) {
        match line.status {
            SmtpStatus::Accepted => {
                self.messages += 1;
                self.recipients += line.recipients;
            }
            SmtpStatus::Refused => self.refused += 1,
            SmtpStatus::Deferred => self.deferred += 1,
        }
    }

    /// Number of lines.
    pub(super) fn total(&self) -> u64 {
        self.messages + self.refused + self.deferred
    }
}

impl SmtpTally {
    /// Counts a line.
    pub(super) fn add(&mut self, line: &SmtpLine<'_>) {
        self.all.add(line);
        let client = line.smtp.login.as_deref().unwrap_or(&line.smtp.client);
        self.clients.value(client).add(line);
        if line.status != SmtpStatus::Accepted {
            *self.reasons.value(&line.reply) += 1;
        }
    }
}

impl Tally {
    /// Counts a line.
    pub(super) fn add(&mut self, time: Timestamp, line: &StatusLine<'_>) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.all.add(line.status);
        self.hours.entry(time.as_second().div_euclid(3600)).or_default().add(line.status);
        if line.status == DeliveryStatus::Delivered {
            self.delays.add(line.delay);
        }
        let destination = format!("{}/{}", line.channel, line.host);
        self.destinations.value(&destination).add(line);
        self.senders.value(line.sender.as_deref().unwrap_or("-")).add(line);
        self.recipients.value(line.recipient.as_deref().unwrap_or("-")).add(line);
        let reasons = match line.status {
            DeliveryStatus::Deferred => &mut self.deferral_reasons,
            DeliveryStatus::Failed | DeliveryStatus::Expired => &mut self.failure_reasons,
            _ => return,
        };
        let text = last_line(&line.text);
        let code = line.code.as_deref().filter(|code| !text.contains(code)).unwrap_or_default();
        let blank = if code.is_empty() { "" } else { " " };
        *reasons.value(&format!("{destination}: {code}{blank}{text}")) += 1;
    }
}
