//! How long the agent waits for a peer (RFC 5321, 4.5.3.2).

use crate::session::Phase;
use std::str::FromStr;
use std::time::Duration;
use zsched_config::parse_interval;

/// The time limits of a session. Option `-T` sets them, as for ZMailer's `smtp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Connecting to one address (`conn`).
    pub connect: Duration,
    /// The greeting, after the connection (`greet`).
    pub greeting: Duration,
    /// A reply to a command (`cmd`).
    pub command: Duration,
    /// The reply to DATA (`data`).
    pub data: Duration,
    /// A write that makes no progress (`tcpw`).
    pub write: Duration,
    /// The reply to the end of the message (`dot`).
    pub end: Duration,
    /// A whole job, with all addresses and recipients (`job`).
    pub job: Duration,
}

impl Default for TimeLimits {
    fn default() -> TimeLimits {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        TimeLimits {
            connect: Duration::from_secs(30),
            greeting: minutes(5),
            command: minutes(5),
            data: minutes(2),
            write: minutes(3),
            end: minutes(10),
            job: minutes(120),
        }
    }
}

impl TimeLimits {
    /// The limit of a phase.
    pub fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Connect => self.connect,
            Phase::Greeting => self.greeting,
            Phase::Hello | Phase::Command => self.command,
            Phase::Data => self.data,
            Phase::Content => self.write,
            Phase::End => self.end,
            Phase::Quit => self.command.min(Duration::from_secs(2)),
        }
    }

    /// Sets one limit, or several: `conn=30s,dot=20m`. A time without a name is that of commands.
    ///
    /// # Errors
    ///
    /// A name or a time is wrong, in words.
    pub fn set(&mut self, words: &str) -> Result<(), String> {
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, time) = word.split_once('=').unwrap_or(("cmd", word));
            let TimeLimit(time) = time.parse()?;
            let limit = match name {
                "conn" => &mut self.connect,
                "greet" => &mut self.greeting,
                "cmd" => &mut self.command,
                "data" => &mut self.data,
                "tcpw" => &mut self.write,
                "dot" => &mut self.end,
                "job" => &mut self.job,
                _ => return Err(format!("{name} is none of conn greet cmd data tcpw dot job")),
            };
            *limit = time;
        }
        Ok(())
    }
}

/// A time of at least a second: `90`, `90s`, `5m`, `1h30m`.
pub struct TimeLimit(pub Duration);

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeLimit, String> {
        match parse_interval(text) {
            Ok(time) if time >= Duration::from_secs(1) => Ok(TimeLimit(time)),
            _ => Err(format!("{text:?} is no time of at least one second, such as 90s or 5m")),
        }
    }
}
