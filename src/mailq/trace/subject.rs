//! The subject of a trace.

use crate::message::envelope::{same_address, without_brackets};
use zsched_format::control_file::ControlFile;
use zsched_format::status_log::{ReportLine, StatusLine};
use zsched_mailq_protocol::subject::message_number;
use zsched_spool::SpoolId;

/// A message, a recipient of messages, or a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TraceSubject {
    /// The message of this spool id.
    SpoolId(String),
    /// The messages that had this number; `submit` prints it.
    Number(u64),
    /// A Message-ID or the address of a recipient, without angle brackets.
    Name(String),
    /// A host; or an address of a recipient, its local part or its domain.
    Word(String),
    /// A channel and a host.
    Destination(String, String),
}

impl TraceSubject {
    /// Parses the argument.
    pub(super) fn parse(text: &str) -> TraceSubject {
        let is_in_brackets = text.trim().starts_with('<');
        if SpoolId::number_in(text).is_some() {
            return TraceSubject::SpoolId(text.to_string());
        }
        match (message_number(text), text.split_once('/')) {
            (Some(number), _) => TraceSubject::Number(number),
            _ if is_in_brackets || text.contains('@') => {
                TraceSubject::Name(without_brackets(text).to_string())
            }
            (_, Some((channel, host))) => {
                TraceSubject::Destination(channel.to_ascii_lowercase(), host.to_ascii_lowercase())
            }
            (_, None) => TraceSubject::Word(text.to_string()),
        }
    }

    /// The number of the message, if the subject is a message.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            TraceSubject::SpoolId(id) => SpoolId::number_in(id),
            TraceSubject::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns true if a log line matches.
    pub(super) fn matches_entry(&self, entry: &StatusLine<'_>) -> bool {
        let is_recipient = |name: &str| {
            entry.recipient.as_ref().is_some_and(|address| same_address(address, name))
        };
        match self {
            TraceSubject::SpoolId(id) => *id == entry.spool_id,
            TraceSubject::Number(number) => SpoolId::number_in(&entry.spool_id) == Some(*number),
            TraceSubject::Name(name) => {
                entry.message_id.as_ref().is_some_and(|id| without_brackets(id) == name)
                    || is_recipient(name)
            }
            TraceSubject::Word(word) => {
                let recipient = entry.recipient.as_deref();
                entry.host.eq_ignore_ascii_case(word)
                    || recipient.is_some_and(|address| is_part_of(word, address))
            }
            TraceSubject::Destination(channel, host) => {
                entry.channel.eq_ignore_ascii_case(channel) && entry.host.eq_ignore_ascii_case(host)
            }
        }
    }

    /// Returns true if a line about a report matches.
    ///
    /// The id is that of the report or of its message.
    pub(super) fn matches_report(&self, line: &ReportLine<'_>) -> bool {
        self.matches_message(&line.report_id, None)
            || self.matches_message(&line.spool_id, line.message_id.as_deref())
    }

    /// Returns true if a whole message matches, by one of its ids.
    pub(super) fn matches_message(&self, spool_id: &str, message_id: Option<&str>) -> bool {
        match self {
            TraceSubject::SpoolId(id) => id == spool_id,
            TraceSubject::Number(number) => SpoolId::number_in(spool_id) == Some(*number),
            TraceSubject::Name(name) => message_id.is_some_and(|id| without_brackets(id) == name),
            TraceSubject::Word(_) | TraceSubject::Destination(..) => false,
        }
    }

    /// Returns true if the address of a recipient matches.
    pub(super) fn is_address(&self, address: &str) -> bool {
        match self {
            TraceSubject::Name(name) => same_address(address, name),
            TraceSubject::Word(word) => is_part_of(word, address),
            _ => false,
        }
    }

    /// Returns true if a recipient of a control file matches, by its address or destination.
    pub(super) fn matches_recipient(&self, file: &ControlFile, index: usize) -> bool {
        let quad = &file.recipients[index].quad;
        let is_host = |host: &str| file.get(quad.host).eq_ignore_ascii_case(host.as_bytes());
        let user = || String::from_utf8_lossy(file.get(quad.user));
        let is_user = |name: &str| same_address(&user(), name);
        match self {
            TraceSubject::SpoolId(_) | TraceSubject::Number(_) => false,
            TraceSubject::Name(name) => is_user(name),
            TraceSubject::Word(word) => is_host(word) || is_part_of(word, &user()),
            TraceSubject::Destination(channel, host) => {
                file.get(quad.channel).eq_ignore_ascii_case(channel.as_bytes()) && is_host(host)
            }
        }
    }
}

/// Returns true if a word names an address.
///
/// It is the address, its local part or its domain, in upper or lower case.
fn is_part_of(word: &str, address: &str) -> bool {
    let parts = without_brackets(address).rsplit_once('@');
    same_address(address, word)
        || parts.is_some_and(|(local, domain)| {
            [local, domain].iter().any(|part| part.eq_ignore_ascii_case(word))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_matches_address_local_part_and_domain() {
        for (word, expected) in [
            ("Bob", true),
            ("host.example", true),
            ("bob@HOST.example", true),
            ("example", false),
            ("bo", false),
        ] {
            assert_eq!(is_part_of(word, "<bob@host.example>"), expected, "{word}");
        }
        assert!(is_part_of("bob", "Bob"));
    }

    #[test]
    fn subject_ignores_brackets_and_case_of_addresses() {
        let id = "S4711AbmKUKEJuuHwA";
        assert_eq!(TraceSubject::parse(id), TraceSubject::SpoolId(id.to_string()));
        assert_eq!(TraceSubject::parse("4711-23"), TraceSubject::Number(4711));
        assert_eq!(TraceSubject::parse("Mx.test"), TraceSubject::Word("Mx.test".to_string()));
        assert_eq!(
            TraceSubject::parse("SMTP/Mx.test"),
            TraceSubject::Destination("smtp".to_string(), "mx.test".to_string())
        );
        assert!(TraceSubject::Number(4711).matches_message(id, None));
        let subject = TraceSubject::parse("<Bob@Host.example>");
        assert_eq!(subject, TraceSubject::Name("Bob@Host.example".to_string()));
        assert!(subject.matches_message(id, Some("<Bob@Host.example>")));
        assert!(!subject.matches_message(id, Some("<bob@host.example>")), "ids are exact");
    }
}
