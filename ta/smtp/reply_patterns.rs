//! What the operator makes of replies: `[[reply-patterns]]` of `smtp-ta.conf`.
//!
//! Large providers say by replies what they think of the sending host: too fast, blocked, not yet
//! known. That is told apart here from what a reply says about a recipient.

use crate::configuration::interval;
use regex::Regex;
use serde::Deserialize;
use std::cell::Cell;
use std::time::Duration;
use zsched_agent::{Outcome, Verdict};
use zsched_mail_exchanger::HostPattern;

/// Maximum length of a reply in the scheduler's log, in characters.
const MAX_NOTE_LEN: usize = 500;
/// Wait where a pattern has no `time`.
const DEFAULT_TIME: Duration = Duration::from_secs(300);
/// Maximum wait of an agent before the next message (`slow-down`).
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// A rule: replies, and what they mean.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplyPattern {
    /// The name in logs and diagnostics.
    pub name: String,
    /// Regular expression for the reply, whose lines are joined by blanks.
    #[serde(deserialize_with = "regular_expression")]
    pattern: Regex,
    /// The hosts: destinations, or the names of mail exchangers.
    #[serde(default)]
    hosts: HostPattern,
    /// What is done.
    action: Action,
    /// How long.
    #[serde(default, deserialize_with = "optional_interval")]
    time: Option<Duration>,
    /// How often this process has seen such a reply.
    #[serde(skip)]
    count: Cell<u64>,
}

/// What is done after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// All mail for the host waits for its next try.
    DeferHost,
    /// The recipient waits, and this agent pauses before its next message to the host.
    SlowDown,
    /// All mail for the host waits for a time.
    Suspend,
    /// The recipient fails.
    Bounce,
    /// The recipient waits.
    Defer,
}

/// The effect of a pattern on a recipient and its job.
#[derive(Debug)]
pub struct Effect<'a> {
    /// The pattern.
    pub pattern: &'a ReplyPattern,
    /// The new outcome of the recipient.
    pub outcome: Outcome,
    /// The line for the scheduler's log, with how often this process has seen such a reply.
    ///
    /// `None` if the reply was counted before.
    pub note: Option<String>,
    /// True if the other recipients of the job have to wait, too.
    pub ends_job: bool,
    /// Wait before the next message.
    pub pause: Option<Duration>,
}

impl Effect<'_> {
    /// Returns true if no other server of the host is tried (RFC 5321, 5.1).
    ///
    /// A recipient that only waits goes on with the next one.
    pub fn is_decision(&self) -> bool {
        self.ends_job || self.outcome.verdict() != Verdict::Deferred
    }
}

impl ReplyPattern {
    fn apply(&self, reply: &str, is_new: bool, outcome: Outcome) -> Effect<'_> {
        let note = is_new.then(|| {
            self.count.set(self.count.get() + 1);
            let reply: String = reply.chars().take(MAX_NOTE_LEN).collect();
            format!("reply pattern {} ({}): {reply}", self.name, self.count.get())
        });
        let time = self.time.unwrap_or(DEFAULT_TIME);
        let (verdict, ends_job, pause) = match self.action {
            Action::DeferHost => (Verdict::DeferAll, true, None),
            Action::Suspend => (Verdict::RetryAfter(time), true, None),
            Action::SlowDown => (Verdict::Deferred, false, Some(time.min(MAX_PAUSE))),
            Action::Bounce => (Verdict::Failed, false, None),
            Action::Defer => (Verdict::Deferred, false, None),
        };
        let text = format!("{}\r(reply pattern {})", outcome.text(), self.name);
        // Notary data must not say 4.x.x of a failure, or 5.x.x of a deferral.
        let class = if verdict == Verdict::Failed { "5" } else { "4" };
        let status = format!("{class}{}", outcome.status().get(1..).unwrap_or(".0.0"));
        let outcome = outcome.with_verdict(verdict).with_status(status).with_text(text);
        Effect { pattern: self, outcome, note, ends_job, pause }
    }
}

/// Applies the first pattern that matches a reply. Accepted recipients are left alone.
///
/// `is_new` is false if the reply is counted already, for another recipient.
pub fn apply<'a>(
    patterns: &'a [ReplyPattern],
    names: [&str; 2],
    reply: &str,
    is_new: bool,
    outcome: &Outcome,
) -> Option<Effect<'a>> {
    let line = reply.replace('\n', " ");
    let matches = |pattern: &&ReplyPattern| {
        names.iter().any(|name| pattern.hosts.matches(&name.to_ascii_lowercase()))
            && pattern.pattern.is_match(&line)
    };
    Some(patterns.iter().find(matches)?.apply(reply, is_new, outcome.clone()))
}

fn regular_expression<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Regex, D::Error> {
    Regex::new(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn optional_interval<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    interval(from).map(Some)
}
