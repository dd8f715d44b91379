//! The subject of a trace.

use zsched_format::control_file::ControlFile;
use zsched_format::status_log::StatusLine;
use zsched_spool::SpoolId;

/// A message, or a recipient of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TraceSubject {
    /// The message of this spool id.
    SpoolId(String),
    /// A Message-ID or the address of a recipient, without angle brackets.
    Name(String),
}

impl TraceSubject {
    /// Parses the argument.
    pub(super) fn parse(text: &str) -> TraceSubject {
        match SpoolId::number_in(text) {
            Some(_) => TraceSubject::SpoolId(text.to_string()),
            None => TraceSubject::Name(without_brackets(text).to_string()),
        }
    }

    /// Returns true if a log line matches.
    pub(super) fn matches_entry(&self, entry: &StatusLine<'_>) -> bool {
        match self {
            TraceSubject::SpoolId(id) => *id == entry.spool_id,
            TraceSubject::Name(name) => {
                entry.message_id.as_ref().is_some_and(|id| without_brackets(id) == name)
                    || entry.recipient.as_ref().is_some_and(|address| same_address(address, name))
            }
        }
    }

    /// Returns true if a whole message matches, by one of its ids.
    pub(super) fn matches_message(&self, spool_id: &str, message_id: Option<&str>) -> bool {
        match self {
            TraceSubject::SpoolId(id) => id == spool_id,
            TraceSubject::Name(name) => message_id.is_some_and(|id| without_brackets(id) == name),
        }
    }

    /// Returns true if a recipient of a control file matches, by its address.
    pub(super) fn matches_recipient(&self, file: &ControlFile, index: usize) -> bool {
        let TraceSubject::Name(name) = self else {
            return false;
        };
        let address = file.get(file.recipients[index].quad.user);
        same_address(&String::from_utf8_lossy(address), name)
    }
}

/// Compares addresses in any case.
fn same_address(address: &str, name: &str) -> bool {
    let address = without_brackets(address);
    address.eq_ignore_ascii_case(name) || address.to_lowercase() == name.to_lowercase()
}

fn without_brackets(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_ignores_brackets_and_case_of_addresses() {
        let id = "S4711AbmKUKEJuuHwA";
        assert_eq!(TraceSubject::parse(id), TraceSubject::SpoolId(id.to_string()));
        let subject = TraceSubject::parse("<Bob@Host.example>");
        assert_eq!(subject, TraceSubject::Name("Bob@Host.example".to_string()));
        assert!(subject.matches_message(id, Some("<Bob@Host.example>")));
        assert!(!subject.matches_message(id, Some("<bob@host.example>")), "ids are exact");
        assert!(same_address("bob@HOST.example", "Bob@Host.example"));
        assert!(same_address("JÜRGEN@x", "jürgen@X"));
        assert!(!same_address("bob@host.example.org", "bob@host.example"));
    }
}
