//! A pattern for destinations, `channel/host`, where either may be `*`.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;

/// A pattern for destinations, as in the option `-p channel/host`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Selection {
    /// The channel; `None` is any.
    pub channel: Option<Box<[u8]>>,
    /// The host; `None` is any.
    pub host: Option<Box<[u8]>>,
}

impl Selection {
    /// Parses `channel/host`, where either may be `*`. `None` without a slash.
    pub fn parse(text: &str) -> Option<Selection> {
        let (channel, host) = text.split_once('/')?;
        let part =
            |text: &str| (text != "*").then(|| text.to_ascii_lowercase().into_bytes().into());
        Some(Selection { channel: part(channel), host: part(host) })
    }

    /// Returns true if a destination, in lower case, is selected.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_matches_channel_and_host() {
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
