//! Selections: which mail a request is about. Mail must match all criteria.
//!
//! ```text
//! smtp/*.test older=2h larger=10M sender=*@example.org recipient=bob@mx.test id=S4711AbmKUKEJuveqC
//! message-id=<1@example.org>
//! ```

use super::addresses::{AddressPattern, Addresses, MAX_PATTERN_LEN};
use super::arguments::{Arguments, SyntaxError, Word};
use std::time::Duration;
use zsched_config::parse_interval;
use zsched_core::overrides::DestinationPattern;
use zsched_core::select::{MailFilter, Selected};
use zsched_format::control_file::bare_message_id;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::size;
use zsched_mailq_protocol::subject::message_number;
use zsched_spool::{SpoolId, SpoolName};

/// A selection of mail.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The destination matches this.
    pub destinations: Option<DestinationPattern>,
    /// The message is this one.
    pub message: Option<MessageName>,
    /// The message is older than this.
    pub older: Option<Duration>,
    /// The mail is on hold.
    pub held: bool,
    /// Criteria that only the files of a message can answer.
    pub files: FileCriteria,
}

/// Criteria that only the files of a message can answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCriteria {
    /// Criteria for the control file.
    pub addresses: Addresses,
    /// The message file has more bytes than this.
    pub larger: Option<u64>,
    /// The message file has fewer bytes than this.
    pub smaller: Option<u64>,
}

impl FileCriteria {
    /// Returns true if at least one criterion is given.
    pub fn is_given(&self) -> bool {
        self.addresses.is_given() || self.has_size()
    }

    /// Returns true if the size of the message file is needed.
    pub fn has_size(&self) -> bool {
        self.larger.is_some() || self.smaller.is_some()
    }

    /// Returns true if a message file of this size matches.
    pub fn matches_size(&self, size: u64) -> bool {
        self.larger.is_none_or(|limit| size > limit)
            && self.smaller.is_none_or(|limit| size < limit)
    }
}

/// A message, as named in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// The number that the names of its files begin with.
    pub number: u64,
    /// The whole name, if it is more than the number.
    exact: Option<String>,
}

impl MessageName {
    /// Parses a spool id, a message number or a control file name.
    ///
    /// `None` if the text is none of these.
    pub fn parse(text: &str) -> Option<MessageName> {
        let number = SpoolId::number_in(text).or_else(|| message_number(text))?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        Some(MessageName { number, exact: (!is_number).then(|| text.to_string()) })
    }

    /// Returns true if the name is the number or the spool id of this message.
    pub fn matches_id(&self, id: SpoolId) -> bool {
        let exact = self.exact.as_ref();
        id.number == self.number && exact.is_none_or(|exact| *exact == id.to_string())
    }

    /// Returns true if the name matches a message with this id and control file.
    pub fn matches(&self, id: SpoolId, name: &SpoolName) -> bool {
        let Some(exact) = &self.exact else {
            return id.number == self.number;
        };
        let path = name.to_string();
        *exact == id.to_string()
            || *exact == path
            || path.rsplit('/').next() == Some(exact.as_str())
    }
}

impl Selection {
    /// Takes the words of a selection out of a request; it may be empty.
    pub fn take(words: &mut Arguments) -> Result<Selection, SyntaxError> {
        let destinations = words.next_word().map(|word| destinations(&word)).transpose()?;
        let addresses = Addresses {
            sender: address(words.option("sender"))?,
            recipient: address(words.option("recipient"))?,
            message_id: words.option("message-id").map(|word| message_id(&word)).transpose()?,
        };
        let [larger, smaller] = [size(words.option("larger"))?, size(words.option("smaller"))?];
        let files = FileCriteria { addresses, larger, smaller };
        let message = words.option("id").map(|word| message(&word)).transpose()?;
        let older = words.option("older").map(|word| span(&word)).transpose()?;
        let held = words.flag("held")?;
        Ok(Selection { destinations, message, older, held, files })
    }

    /// Returns true if no criterion is given, so that all mail would match.
    pub fn is_empty(&self) -> bool {
        self.destinations.is_none() && self.is_pattern_only()
    }

    /// Fails with an error at this offset if no criterion is given.
    pub fn require(&self, at: usize) -> Result<(), SyntaxError> {
        match self.is_empty() {
            true => Err(SyntaxError::new(at, "missing selection; */* is everything")),
            false => Ok(()),
        }
    }

    /// Returns true if there is at most a pattern of destinations.
    pub fn is_pattern_only(&self) -> bool {
        self.message.is_none() && self.older.is_none() && !self.held && !self.files.is_given()
    }

    /// Returns true if the selection does not distinguish recipients of a message.
    ///
    /// Address criteria do, because a message may have several senders and recipients; and holds,
    /// because some of its destinations may be held.
    pub fn means_whole_messages(&self) -> bool {
        self.destinations.as_ref().is_none_or(DestinationPattern::matches_all)
            && !self.held
            && !self.files.addresses.means_recipients()
    }

    /// Returns the criteria that the core can check.
    ///
    /// What the core finds must also match the name ([`matches_name`](Self::matches_name)) and the
    /// criteria for files.
    pub fn filter(&self, now: Timestamp) -> MailFilter {
        let since = |age: Duration| i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let time = |age| Timestamp::from_nanoseconds(now.nanoseconds().saturating_sub(since(age)));
        MailFilter {
            destinations: self.destinations.clone(),
            number: self.message.as_ref().map(|message| message.number),
            older_than: self.older.map(time),
            held: false,
            on_hold: self.held,
        }
    }

    /// Returns true if the message has the name in the selection, if there is one.
    pub fn matches_name(&self, found: &Selected) -> bool {
        self.message.as_ref().is_none_or(|message| message.matches(found.id, &found.name))
    }
}

/// Parses a pattern of destinations.
pub(super) fn destinations(word: &Word) -> Result<DestinationPattern, SyntaxError> {
    if !word.text.contains('/') {
        return Err(word.error("expected a pattern channel/host; */* is everything"));
    }
    DestinationPattern::parse(&word.text).map_err(|what| word.error(what))
}

/// Parses the name of a message.
pub(super) fn message(word: &Word) -> Result<MessageName, SyntaxError> {
    let what = "not a spool id, message number or control file name";
    MessageName::parse(&word.text).ok_or_else(|| word.error(what))
}

/// Parses a span of time.
pub(super) fn span(word: &Word) -> Result<Duration, SyntaxError> {
    parse_interval(&word.text).map_err(|error| word.error(error.message))
}

fn message_id(word: &Word) -> Result<String, SyntaxError> {
    let id = bare_message_id(&word.text);
    match id.is_empty() || id.len() > MAX_PATTERN_LEN {
        true => Err(word.error(format!("a Message-ID of 1 to {MAX_PATTERN_LEN} bytes is missing"))),
        false => Ok(id.to_string()),
    }
}

fn size(word: Option<Word>) -> Result<Option<u64>, SyntaxError> {
    let wrong = "a size is a number of bytes, or one with k, M or G";
    word.map(|word| size::parse(&word.text).ok_or_else(|| word.error(wrong))).transpose()
}

fn address(word: Option<Word>) -> Result<Option<AddressPattern>, SyntaxError> {
    let parse = |word: Word| AddressPattern::parse(&word.text).map_err(|what| word.error(what));
    word.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_spool::HashFolder;

    fn take(text: &str) -> Result<Selection, SyntaxError> {
        let mut words = Arguments::parse(text.as_bytes())?;
        let selection = Selection::take(&mut words)?;
        words.end().map(|()| selection)
    }

    #[test]
    fn selection_parses_all_criteria() {
        let all = take("SMTP/*.test sender=<> recipient=*@x older=2h id=4711").expect("fine");
        assert_eq!(all.destinations.as_ref().map(DestinationPattern::text), Some("smtp/*.test"));
        assert_eq!(all.older, Some(Duration::from_secs(7200)));
        assert!(!all.is_empty() && !all.is_pattern_only() && all.files.is_given());
        let now = Timestamp::from_seconds(10_000);
        let filter = all.filter(now);
        assert_eq!(filter.number, Some(4711));
        assert_eq!(filter.older_than, Some(Timestamp::from_seconds(2800)));
        let large = take("larger=10M smaller=1G").expect("fine");
        assert!(large.means_whole_messages() && !large.is_pattern_only() && !large.is_empty());
        let sizes = [10 << 20, (10 << 20) + 1, 1 << 30].map(|size| large.files.matches_size(size));
        assert_eq!(sizes, [false, true, false]);
        let held = take("held=yes").expect("fine");
        assert!(held.filter(now).on_hold && !held.means_whole_messages() && !held.is_empty());
        assert!(take("").expect("nothing").is_empty());
        let pattern = take("*/*").expect("everything");
        assert!(pattern.is_pattern_only() && !pattern.is_empty());
    }

    #[test]
    fn invalid_selection_fails_with_its_offset() {
        for (text, at) in [
            ("smtp", 0),
            ("/x", 0),
            ("a/b c/d", 4),
            ("id=x", 3),
            ("older=", 6),
            ("older=1x", 6),
            ("larger=1x", 7),
            ("smaller=-1", 8),
            ("held=1", 5),
            ("sender=", 7),
            ("a/b foo=1", 8),
            ("smtp/[", 0),
        ] {
            assert_eq!(take(text).map(|_| ()).map_err(|error| error.at), Err(at), "{text}");
        }
    }

    #[test]
    fn message_name_matches_number_file_or_spool_id() {
        let id = SpoolId { number: 4711, modified: Timestamp::from_seconds(1_767_323_045) };
        let name = SpoolName::new(HashFolder::TOP, b"4711-23").expect("a name");
        for (text, expected) in [
            ("4711", true),
            ("4711-23", true),
            ("S4711AbmABDEF", true),
            ("S4711AbmABDEG", false),
            ("4711-2", false),
        ] {
            let called = MessageName::parse(text).expect("a name");
            assert_eq!(called.matches(id, &name), expected, "{text}");
        }
        assert_eq!(MessageName::parse("smtp/x"), None);
    }
}
