//! The world of a simulation: a TOML file. `man/schedsim.1` explains the keys.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::fs;
use std::path::Path;
use std::time::Duration;
use zsched_config::parse_interval;
use zsched_format::time::Timestamp;
use zsched_simulation::Delays;
use zsched_simulation::faults::AgentFaults;
use zsched_simulation::hosts::{HostBehaviour, Hosts, Outage};

/// The environment of the scheduler.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    /// Virtual time to simulate, unless the command line gives it.
    pub length: Option<Span>,
    /// How agents behave.
    #[serde(default)]
    pub agents: Agents,
    /// Hosts by pattern; the first that matches is used.
    #[serde(default)]
    pub host: Vec<Host>,
    /// The mail.
    pub mail: Vec<Mail>,
}

/// How agents behave.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Agents {
    /// Time from the start of a process until it asks for work.
    pub start: Span,
    /// Fraction of jobs during which the process dies, 0 to 1.
    pub dies: Fraction,
    /// Fraction of jobs during which the process stalls, 0 to 1.
    pub stalls: Fraction,
    /// Duration of a stall.
    pub stall: Span,
}

/// How a host behaves.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// Its name: a pattern with `*`, `?` and `[...]`.
    pub name: Pattern,
    /// Time to open a connection.
    pub connect: Option<Span>,
    /// Time per message.
    pub latency: Option<Span>,
    /// Maximum random time added to `latency`.
    pub spread: Option<Span>,
    /// Maximum number of connections.
    pub connections: Option<usize>,
    /// True if connections stay open for the next message.
    #[serde(default = "yes")]
    pub keeps: bool,
    /// If they do not: number of connections that may wait to be accepted.
    #[serde(default)]
    pub queue: usize,
    /// Time until a connection beyond these fails.
    #[serde(default)]
    pub full_timeout: Span,
    /// Fraction of recipients that are deferred, 0 to 1.
    #[serde(default)]
    pub defer: Fraction,
    /// Fraction of recipients that are refused, 0 to 1.
    #[serde(default)]
    pub fail: Fraction,
    /// Outages.
    #[serde(default)]
    pub outage: Vec<OutageSpec>,
}

/// An outage of a host.
#[derive(Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct OutageSpec {
    /// Start, from the start of the simulation.
    pub from: Span,
    /// End.
    pub until: Span,
    /// Time until a connection fails; 0 means that connections are refused.
    #[serde(default)]
    pub timeout: Span,
}

/// Mail of one kind.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Mail {
    /// Channel of the recipients, in lower case.
    pub channel: String,
    /// Host of the recipients; `*` stands for a number.
    pub host: String,
    /// How many numbers the `*` takes.
    #[serde(default = "one")]
    pub hosts: u32,
    /// Messages per minute, on average.
    pub per_minute: f64,
    /// Recipients per message: minimum and maximum.
    #[serde(default = "one_recipient")]
    pub recipients: [u32; 2],
    /// Each recipient of a message has a host of its own.
    #[serde(default)]
    pub scattered: bool,
    /// Maximum number of messages.
    pub messages: Option<u64>,
    /// When the first one arrives, from the start of the simulation.
    #[serde(default)]
    pub from: Span,
    /// When the last one arrives, at the latest.
    pub until: Option<Span>,
    /// Notifications that the sender requests, as in `N` lines.
    #[serde(default)]
    pub notify: String,
    /// Priority as in `p` lines: 0 to 9; 0 is the most urgent.
    pub priority: Option<u8>,
}

/// A duration: a number of seconds, or a text such as `1h30m`.
#[derive(Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(try_from = "SpanText")]
pub(super) struct Span(pub Duration);

/// The two forms of a duration.
#[derive(Deserialize)]
#[serde(untagged, expecting = "seconds, or a time such as \"1h30m\"")]
enum SpanText {
    Seconds(f64),
    Interval(String),
}

/// A fraction, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fraction(pub f64);

/// A pattern of host names.
#[derive(Clone, Debug)]
pub(super) struct Pattern(pub glob::Pattern);

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

const fn one_recipient() -> [u32; 2] {
    [1, 1]
}

impl World {
    /// Reads the file of a world.
    pub(super) fn load(path: &Path) -> Result<World, String> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        World::parse(&name, &text)
    }

    /// Parses the text of such a file; errors have line and column.
    pub(super) fn parse(name: &str, text: &str) -> Result<World, String> {
        let world: World = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{name}:{}: {}", place(text, at), error.message().replace('\n', ", "))
        })?;
        world.check().map_err(|reason| format!("{name}: {reason}"))?;
        Ok(world)
    }

    fn check(&self) -> Result<(), String> {
        for mail in &self.mail {
            let Mail { channel, host, recipients: [min, max], .. } = mail;
            let is_lower = |text: &str| {
                !text.chars().any(|c| c.is_uppercase() || c.is_whitespace() || c.is_control())
            };
            let is_word = !channel.is_empty() && is_lower(channel) && is_lower(host);
            let is_rate = mail.per_minute > 0.0 && mail.per_minute <= 6e7;
            let rules = [
                (is_word, "channel and host are words in lower case"),
                (!mail.notify.contains(char::is_control), "notify is a word"),
                (
                    (1..=*max).contains(min) && *max <= 100_000,
                    "recipients is [least, most], of 1 to 100000",
                ),
                (is_rate, "per_minute is more than 0, and at most 60000000"),
                (mail.priority.is_none_or(|priority| priority <= 9), "priority is 0 to 9"),
                (mail.hosts > 0, "hosts is at least 1"),
            ];
            if let Some((_, problem)) = rules.iter().find(|(is_kept, _)| !is_kept) {
                return Err(format!("mail for {channel}/{host}: {problem}"));
            }
        }
        Ok(())
    }

    /// Returns the hosts in a simulation that begins at `start`.
    pub(super) fn hosts(&self, start: Timestamp) -> Hosts {
        let rules = self.host.iter().map(|host| (host.name.0.clone(), host.behaviour(start)));
        Hosts::new(rules.collect(), HostBehaviour::default())
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}")
}

impl Host {
    fn behaviour(&self, start: Timestamp) -> HostBehaviour {
        let usual = HostBehaviour::default();
        let span = |given: Option<Span>, usual| given.map_or(usual, |span| span.0);
        HostBehaviour {
            connect: span(self.connect, usual.connect),
            latency: span(self.latency, usual.latency),
            spread: span(self.spread, usual.spread),
            connections: self.connections.unwrap_or(usual.connections),
            keeps_connections: self.keeps,
            queue: self.queue,
            full_timeout: self.full_timeout.0,
            defer_rate: self.defer.0,
            fail_rate: self.fail.0,
            outages: self.outage.iter().map(|down| down.outage(start)).collect(),
        }
    }
}

impl OutageSpec {
    fn outage(self, start: Timestamp) -> Outage {
        let (from, until) = (start + self.from.0, start + self.until.0);
        Outage { from, until, timeout: self.timeout.0 }
    }
}

impl Default for Agents {
    fn default() -> Agents {
        Agents {
            start: Span(Duration::from_millis(20)),
            dies: Fraction(0.0),
            stalls: Fraction(0.0),
            stall: Span(Duration::from_secs(7200)),
        }
    }
}

impl Agents {
    /// Returns the delays: only the start of an agent takes time.
    pub(super) fn delays(&self) -> Delays {
        Delays { start: self.start.0, ..Delays::default() }
    }

    /// Returns the faults of agents.
    pub(super) fn faults(&self) -> AgentFaults {
        let stall = self.stall.0;
        AgentFaults { dies: self.dies.0, stalls: self.stalls.0, stall, ..AgentFaults::default() }
    }
}

impl TryFrom<SpanText> for Span {
    type Error = String;

    fn try_from(text: SpanText) -> Result<Span, String> {
        let seconds = match text {
            SpanText::Interval(text) => {
                return parse_interval(&text).map(Span).map_err(|error| error.message);
            }
            SpanText::Seconds(seconds) => seconds,
        };
        let span = Duration::try_from_secs_f64(seconds).ok();
        let span = span.filter(|span| span.as_secs() < 1 << 32);
        span.map(Span).ok_or_else(|| "seconds out of range".to_string())
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
        let part = f64::deserialize(deserializer)?;
        let is_part = (0.0..=1.0).contains(&part);
        is_part.then_some(Fraction(part)).ok_or_else(|| D::Error::custom("a part is 0 to 1"))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        let text = String::deserialize(deserializer)?;
        glob::Pattern::new(&text).map(Pattern).map_err(|error| D::Error::custom(error.msg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = "[[mail]]\nchannel = \"smtp\"\nhost = \"a.x\"\nper_minute = 1\n";

    #[test]
    fn durations_parse_from_numbers_and_text() {
        let text = format!("{MAIL}from = \"1h30m\"\nuntil = 0.5\n");
        let world = World::parse("w", &text).expect("a world");
        assert_eq!(world.mail[0].from.0, Duration::from_secs(5400));
        assert_eq!(world.mail[0].until, Some(Span(Duration::from_millis(500))));
    }

    #[test]
    fn error_has_line_and_column() {
        let error = |text: &str| World::parse("w", &format!("{MAIL}{text}")).expect_err(text);
        assert!(error("speed = 1\n").starts_with("w:5:1: unknown field `speed`"));
        assert!(
            error("from = \"soon\"\n").starts_with("w:5:8: "),
            "{}",
            error("from = \"soon\"\n")
        );
        assert!(
            error("[[host]]\nname = \"*\"\nfail = 1.5\n").starts_with("w:7:8: a part is 0 to 1")
        );
        assert!(error("recipients = [2, 1]\n").starts_with("w: mail for smtp/a.x: recipients"));
        assert!(error("priority = 10\n").ends_with("priority is 0 to 9"));
        assert!(error("x = \n").starts_with("w:5:5: "));
    }
}
