//! The subject of a trace.

use zsched_format::control_file::ControlFile;
use zsched_format::status_log::StatusLine;
use zsched_spool::SpoolId;

/// A message, or a recipient of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The message of this spool id.
    SpoolId(String),
    /// A Message-ID or the address of a recipient, without angle brackets.
    Name(String),
}

impl Subject {
    /// Parses the argument.
    pub fn parse(text: &str) -> Subject {
        match SpoolId::number_in(text) {
            Some(_) => Subject::SpoolId(text.to_string()),
            None => Subject::Name(bare(text).to_string()),
        }
    }

    /// Returns true if a log line matches.
    pub fn has_entry(&self, entry: &StatusLine<'_>) -> bool {
        match self {
            Subject::SpoolId(id) => *id == entry.spool_id,
            Subject::Name(name) => {
                entry.message_id.as_ref().is_some_and(|id| bare(id) == name)
                    || entry.recipient.as_ref().is_some_and(|address| is_same(address, name))
            }
        }
    }

    /// Returns true if a whole message matches, by one of its ids.
    pub fn has_message(&self, spool_id: &str, message_id: Option<&str>) -> bool {
        match self {
            Subject::SpoolId(id) => id == spool_id,
            Subject::Name(name) => message_id.is_some_and(|id| bare(id) == name),
        }
    }

    /// Returns true if a recipient of a control file matches, by its address.
    pub fn has_recipient(&self, file: &ControlFile, index: usize) -> bool {
        let Subject::Name(name) = self else {
            return false;
        };
        let address = file.get(file.recipients[index].quad.user);
        is_same(&String::from_utf8_lossy(address), name)
    }
}

/// Compares addresses in any case.
fn is_same(address: &str, name: &str) -> bool {
    let address = bare(address);
    address.eq_ignore_ascii_case(name) || address.to_lowercase() == name.to_lowercase()
}

fn bare(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_ignores_brackets_and_case_of_addresses() {
        let id = "S4711AbmKUKEJuuHwA";
        assert_eq!(Subject::parse(id), Subject::SpoolId(id.to_string()));
        let subject = Subject::parse("<Bob@Host.example>");
        assert_eq!(subject, Subject::Name("Bob@Host.example".to_string()));
        assert!(subject.has_message(id, Some("<Bob@Host.example>")));
        assert!(!subject.has_message(id, Some("<bob@host.example>")), "ids are exact");
        assert!(is_same("bob@HOST.example", "Bob@Host.example"));
        assert!(is_same("JÜRGEN@x", "jürgen@X"));
        assert!(!is_same("bob@host.example.org", "bob@host.example"));
    }
}
