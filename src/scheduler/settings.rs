//! What the scheduler is told once, when it starts.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Settings that no configuration file changes: command line and limits of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Load and show the queue, but start no agent (`-F`).
    pub frozen: bool,
    /// Start no agent before everything found at start is loaded (`-S`).
    pub wait_for_initial_scan: bool,
    /// Start agents for this destination only (`-p`).
    pub selection: Option<Selection>,
    /// Agents that may be started in one second (`-R`, default 30).
    pub fork_rate: u32,
    /// Agents that the process has descriptors for; the default and the upper bound of `maxta`.
    pub max_agents: usize,
    /// Log what becomes of each recipient and message.
    pub log_outcomes: bool,
    /// Tell of each attempt, for the status log.
    pub status_log: bool,
    /// Threads that are dealt with in one turn, where all or many of them are to be: for a new configuration, for
    /// their wake-ups, or for a destination that they share. A thousand take a few milliseconds.
    pub reload_step: usize,
    /// Wait after a note, a removal or an order could not be written to the spool.
    pub failed_write: Duration,
    /// Seed of everything that is left to chance.
    pub seed: u64,
}

/// Which threads `-p channel/host` selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The channel; `None` is any.
    pub channel: Option<Box<[u8]>>,
    /// The host; `None` is any.
    pub host: Option<Box<[u8]>>,
}

impl Selection {
    /// Reads `channel/host`, where either may be `*`. `None` without a slash.
    pub fn parse(text: &str) -> Option<Selection> {
        let (channel, host) = text.split_once('/')?;
        let part =
            |text: &str| (text != "*").then(|| text.to_ascii_lowercase().into_bytes().into());
        Some(Selection { channel: part(channel), host: part(host) })
    }

    /// Whether a destination, in lower case, is selected.
    pub fn matches(&self, channel: &[u8], host: &[u8]) -> bool {
        self.channel.as_deref().is_none_or(|selected| selected == channel)
            && self.host.as_deref().is_none_or(|selected| selected == host)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Option<Box<[u8]>>| match part {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => "*".to_string(),
        };
        write!(f, "{}/{}", part(&self.channel), part(&self.host))
    }
}

impl Settings {
    /// How many threads are dealt with in one turn, at least one.
    pub fn step(&self) -> usize {
        self.reload_step.max(1)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            frozen: false,
            wait_for_initial_scan: false,
            selection: None,
            fork_rate: 30,
            max_agents: 1000,
            log_outcomes: false,
            status_log: false,
            reload_step: 1000,
            failed_write: Duration::from_secs(30),
            seed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_match_by_part() {
        let selected = |text, channel: &str, host: &str| {
            let selection = Selection::parse(text).expect("a selection");
            selection.matches(channel.as_bytes(), host.as_bytes())
        };
        assert!(selected("smtp/a.x", "smtp", "a.x"));
        assert!(!selected("smtp/a.x", "smtp", "b.x"));
        assert!(selected("SMTP/*", "smtp", "b.x"));
        assert!(selected("*/a.x", "local", "a.x"));
        assert_eq!(Selection::parse("smtp"), None);
    }
}
