//! Lines of recipients, as they are submitted and as they are stored.
//!
//! ```text
//! bob@example.net<TAB>name=Bob<TAB>sender=list-17@example.org
//! ```
//!
//! In `recipients` a [`Status`] byte precedes the line.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use zsched_format::merge::is_field_name;

/// The field with the envelope sender of one recipient.
pub const SENDER_FIELD: &str = "sender";
/// Maximum length of a line, in bytes.
pub const MAX_LINE_LEN: usize = 8192;

/// What has become of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Status {
    /// It is in no packet yet.
    Pending,
    /// It is in a packet.
    Cut,
    /// Its packet has vanished, and an operator has not decided what to do.
    Lost,
    /// It was delivered.
    Delivered,
    /// It has failed or expired.
    Failed,
    /// Its packet has vanished, and an operator gave it up: nobody knows if it was delivered.
    Unknown,
    /// Its packet is in `postman/`: a person must look at it.
    Aside,
    /// An operator has deleted it.
    Deleted,
    /// An operator has given it back to the router.
    Rerouted,
    /// It was not delivered, since an operator has cancelled the job.
    Cancelled,
    /// It was never tried, since the deadline of the job has passed.
    TooLate,
    /// It was handed to another scheduler, in an ordinary message.
    Exported,
}

impl Status {
    /// Number of values.
    const COUNT: usize = 12;

    /// All values, with their bytes and names.
    const ALL: [(Status, u8, &'static str); Status::COUNT] = [
        (Status::Pending, b' ', "pending"),
        (Status::Cut, b'=', "queued"),
        (Status::Lost, b'?', "lost"),
        (Status::Delivered, b'+', "delivered"),
        (Status::Failed, b'-', "failed"),
        (Status::Unknown, b'u', "unknown"),
        (Status::Aside, b'!', "aside"),
        (Status::Deleted, b'd', "deleted"),
        (Status::Rerouted, b'r', "rerouted"),
        (Status::Cancelled, b'c', "cancelled"),
        (Status::TooLate, b'x', "too-late"),
        (Status::Exported, b'e', "exported"),
    ];

    /// All values.
    pub fn all() -> impl Iterator<Item = Status> {
        Status::ALL.iter().map(|row| row.0)
    }

    /// Returns true if nothing happens to the recipient any more.
    pub fn is_final(self) -> bool {
        !matches!(self, Status::Pending | Status::Cut | Status::Lost)
    }

    /// Returns true if an operator has ended it, also while it is in a packet.
    pub(super) fn is_ended_by_operator(self) -> bool {
        matches!(self, Status::Deleted | Status::Rerouted | Status::Cancelled)
    }

    /// The status of a word of the result file.
    pub fn of_word(word: &[u8]) -> Option<Status> {
        Status::ALL.iter().find(|row| row.2.as_bytes() == word).map(|row| row.0)
    }

    /// Its byte in `recipients`.
    pub fn byte(self) -> u8 {
        Status::ALL[self as usize].1
    }

    /// The status of a byte; `None` for one that is no status.
    pub fn of_byte(byte: u8) -> Option<Status> {
        Status::ALL.iter().find(|row| row.1 == byte).map(|row| row.0)
    }
}

impl fmt::Display for Status {
    /// Formats the word of the result file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Status::ALL[*self as usize].2)
    }
}

/// A recipient of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipientLine<'l> {
    /// Its address.
    pub address: &'l str,
    /// Its fields, with tabs between.
    fields: &'l str,
}

/// Why a line is no recipient. The offset counts the bytes of the line from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct RecipientLineError {
    /// Offset in the line.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl<'l> RecipientLine<'l> {
    /// Parses a line without its line end.
    pub fn parse(line: &'l [u8]) -> Result<RecipientLine<'l>, RecipientLineError> {
        let error = |at, what| Err(RecipientLineError { at, what });
        if line.len() > MAX_LINE_LEN {
            return error(MAX_LINE_LEN, "the line is longer than 8192 bytes");
        }
        let line = match std::str::from_utf8(line) {
            Ok(line) => line,
            Err(invalid) => return error(invalid.valid_up_to(), "the line is not UTF-8"),
        };
        if let Some((at, _)) = line.char_indices().find(|(_, c)| c.is_control() && *c != '\t') {
            return error(at, "a control character");
        }
        let (address, fields) = line.split_once('\t').unwrap_or((line, ""));
        let bare = address.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        let address = bare.unwrap_or(address).trim_matches(' ');
        if address.is_empty() {
            return error(0, "the address is empty");
        }
        let mut at = line.len() - fields.len();
        for field in fields.split('\t').filter(|_| !fields.is_empty()) {
            let name = field.split_once('=').map_or("", |(name, _)| name);
            if !is_field_name(name) {
                return error(
                    at,
                    "a field is NAME=VALUE; a name has at most 64 letters, digits, - and _",
                );
            }
            at += field.len() + 1;
        }
        Ok(RecipientLine { address, fields })
    }

    /// Its domain in lower case; empty without one.
    pub fn domain(&self) -> String {
        self.address.rsplit_once('@').map_or("", |(_, domain)| domain).to_ascii_lowercase()
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&'l str> {
        let fields = self.fields.split('\t').filter_map(|field| field.split_once('='));
        fields.filter(|(of, _)| *of == name).map(|(_, value)| value).next()
    }
}

impl fmt::Display for RecipientLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.address)?;
        match self.fields {
            "" => Ok(()),
            fields => write!(f, "\t{fields}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_address_and_fields() {
        let line = RecipientLine::parse(b"<Bob@Example.NET>\tname=B. = C\tn=").expect("a line");
        assert_eq!((line.address, line.domain().as_str()), ("Bob@Example.NET", "example.net"));
        assert_eq!((line.field("name"), line.field("n")), (Some("B. = C"), Some("")));
        assert_eq!(line.field("other"), None);
        assert_eq!(line.to_string(), "Bob@Example.NET\tname=B. = C\tn=");
        assert_eq!(RecipientLine::parse(b"dave").expect("a line").domain(), "");
    }

    #[test]
    fn malformed_line_is_refused_with_offset() {
        for (line, at) in [
            (&b""[..], 0),
            (b"<>", 0),
            (b"a@b\r", 3),
            (b"a@b\0", 3),
            (b"a@b\tx", 4),
            (b"a@b\tx=1\t=2", 8),
            (b"a@b\tx=1\tb c=2", 8),
            (b"a\xff", 1),
            (&[b'a'; MAX_LINE_LEN + 1], MAX_LINE_LEN),
        ] {
            let error = RecipientLine::parse(line).expect_err("refused");
            assert_eq!(error.at, at, "{error} {}", line.escape_ascii());
        }
    }

    #[test]
    fn status_byte_is_read_as_written() {
        for (status, byte, name) in Status::ALL {
            assert_eq!((status.byte(), Status::of_byte(byte)), (byte, Some(status)));
            assert_eq!(
                (status.to_string().as_str(), Status::of_word(name.as_bytes())),
                (name, Some(status))
            );
        }
        assert_eq!(Status::of_byte(b'#'), None);
    }
}
