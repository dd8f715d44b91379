//! Arguments of commands, other than those that select the server.

use crate::failure::Failure;
use crate::format::{checked_span, one_line};
use clap::{Args, ValueEnum};
use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;
use zsched_mailq_protocol::schema::ThreadStatus;
use zsched_mailq_protocol::size;
use zsched_mailq_protocol::subject::Subject;

/// Output options.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputOptions {
    /// Print the scheduler's JSON, one object per line
    #[arg(long)]
    pub json: bool,

    /// Repeat every two seconds, or at this interval
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", require_equals = true, value_parser = interval)]
    pub watch: Option<Duration>,

    /// Maximum line length
    ///
    /// By default, lines fit the terminal. Elsewhere their length has no limit.
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Selected part of the queue.
#[derive(Args, Clone, Debug, Default)]
pub struct SelectionArgs {
    /// A destination, a host, a message, or a recipient
    ///
    /// A destination is channel/host, such as smtp/mx.test or smtp/*; it may contain "*" and the
    /// other wildcards of scheduler.cf. A host can stand alone. A message is named by its spool id,
    /// by the number that submit prints, which begins the name of its control file, or by its
    /// Message-ID in angle brackets. A recipient is an address with "@". A ring of scheduler.cf is
    /// named as "ring=smtp/*".
    pub what: Option<String>,

    /// Only messages of this sender; * and ? are wildcards
    #[arg(long, value_name = "PATTERN")]
    pub sender: Option<String>,

    /// Only messages for this recipient; * and ? are wildcards
    ///
    /// The other recipients of the message with the same destination are selected, too.
    #[arg(long, value_name = "PATTERN")]
    pub recipient: Option<String>,

    /// Only messages older than this, such as 90s, 30m, 2h or 5d
    #[arg(long, value_name = "SPAN", value_parser = checked_span)]
    pub older: Option<String>,

    /// Only messages larger than this, such as 812 (bytes), 100k, 10M or 1G
    #[arg(long, value_name = "SIZE", value_parser = checked_size)]
    pub larger: Option<String>,

    /// Only messages smaller than this
    #[arg(long, value_name = "SIZE", value_parser = checked_size)]
    pub smaller: Option<String>,

    /// Only mail on hold: one by one, or with its destination or ring
    #[arg(long)]
    pub held: bool,
}

/// Options of an order.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct OrderOptions {
    /// Only show what the order would affect
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    ///
    /// On a terminal, an order that cannot be undone has to be confirmed, after the number of
    /// messages is shown.
    #[arg(long, short = 'y')]
    pub yes: bool,

    /// Print the scheduler's JSON, one object per line
    #[arg(long)]
    pub json: bool,
}

/// Parses an interval in an argument, in seconds.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let wrong = || "the interval must be 0.1 to 86400 seconds".to_string();
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

fn checked_size(text: &str) -> Result<String, String> {
    let wrong = || format!("{text} is not a size, such as 812, 100k, 10M or 1G");
    size::parse(text).map(|_| text.to_string()).ok_or_else(wrong)
}

/// Sort order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Most messages first
    #[default]
    Backlog,
    /// Oldest message first
    Oldest,
    /// Most recipients that cannot be delivered first
    Undelivered,
    /// Largest message first
    Size,
}

impl Sort {
    /// Fails if this is no order of messages, or of destinations.
    pub(super) fn check(self, of_messages: bool) -> Result<(), Failure> {
        match (self, of_messages) {
            (Sort::Oldest, _) | (Sort::Size, true) => Ok(()),
            (Sort::Backlog | Sort::Undelivered, false) => Ok(()),
            (Sort::Size, false) => {
                Failure::usage("destinations have no size; --messages lists messages, which do")
            }
            (Sort::Backlog | Sort::Undelivered, true) => {
                Failure::usage("messages can be sorted by oldest or size only")
            }
        }
    }

    /// Compares two destinations.
    pub(super) fn compare(self, a: &ThreadStatus, b: &ThreadStatus) -> Ordering {
        match self {
            // Destinations have no size.
            Sort::Backlog | Sort::Size => b.messages.cmp(&a.messages),
            Sort::Undelivered => b.undelivered.cmp(&a.undelivered),
            Sort::Oldest => b.oldest.unwrap_or(0.0).total_cmp(&a.oldest.unwrap_or(0.0)),
        }
    }
}

/// Keyword of a value in requests, which is that of the command line.
pub(super) fn keyword(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

impl fmt::Display for SelectionArgs {
    /// Writes what is selected, for messages about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.as_deref().map(one_line);
        let criteria = self.criteria().map(|criterion| one_line(&criterion));
        f.write_str(&what.into_iter().chain(criteria).collect::<Vec<String>>().join(" "))
    }
}

impl SelectionArgs {
    /// The selection of what a command names.
    pub(super) fn of(what: &str) -> SelectionArgs {
        SelectionArgs { what: Some(what.to_string()), ..SelectionArgs::default() }
    }

    /// Returns true if the selection has no condition.
    pub fn is_everything(&self) -> bool {
        self.what.is_none() && !self.chooses_messages()
    }

    /// Returns true if it selects all mail.
    pub fn selects_all(&self) -> bool {
        !self.chooses_messages() && self.what.as_deref().is_some_and(|what| target(what) == "*/*")
    }

    /// Returns true if only messages can match, not destinations.
    pub fn chooses_messages(&self) -> bool {
        let SelectionArgs { what: _, sender, recipient, older, larger, smaller, held } = self;
        let criteria = [sender, recipient, older, larger, smaller];
        *held || criteria.iter().any(|criterion| criterion.is_some())
    }

    /// Returns true if it names destinations or a ring, and nothing else.
    pub fn is_scope(&self) -> bool {
        let is_scope = |what: &String| !is_about_messages(&target(what));
        !self.chooses_messages() && self.what.as_ref().is_some_and(is_scope)
    }

    /// Returns true if it selects messages by more than their destination.
    pub fn selects_messages(&self) -> bool {
        !self.is_everything() && !self.is_scope()
    }

    /// The id of a message as requests have it, if it is selected by its id.
    pub fn message_id(&self) -> Option<String> {
        target(self.what.as_deref()?).strip_prefix("id=").map(quoted)
    }

    /// What a look-up tries one after the other, until something is found.
    ///
    /// A word alone is a host, else a channel, else a recipient with or without a domain; an
    /// address is that of a recipient, else of a sender, else a Message-ID.
    pub fn readings(&self) -> Vec<SelectionArgs> {
        let with = |what: String| SelectionArgs { what: Some(what), ..self.clone() };
        match self.what.as_deref() {
            Some(word) if is_bare_word(word) => {
                let as_recipient =
                    [word.to_string(), format!("{word}@*")].map(|name| format!("recipient={name}"));
                let readings = [format!("{word}/*")].into_iter().chain(as_recipient);
                std::iter::once(self.clone()).chain(readings.map(with)).collect()
            }
            Some(address) if target(address).starts_with("recipient=") => {
                let name = address.strip_prefix("recipient=").unwrap_or(address);
                let (sender, id) = (format!("sender={name}"), format!("message-id={name}"));
                vec![self.clone(), with(sender), with(id)]
            }
            _ => vec![self.clone()],
        }
    }

    /// What helps a user whose selection by an address matches nothing, in parentheses.
    ///
    /// An order takes an address for that of a recipient; `is_order` says if this is one.
    pub fn hint(&self, is_order: bool) -> &'static str {
        let is_address = |what: &str| target(what).starts_with("recipient=");
        let is_partial = |pattern: &&String| !pattern.contains(['@', '*', '?', '<']);
        if self.sender.iter().chain(&self.recipient).any(|pattern| is_partial(&pattern)) {
            return " (a pattern is compared with whole addresses; * stands for any text)";
        }
        match self.what.as_deref().is_some_and(is_address) {
            true if is_order => " (as a recipient; --sender selects by sender)",
            true => " (as a recipient, a sender and a Message-ID)",
            false => "",
        }
    }

    /// Words of a request for this selection.
    pub fn words(&self) -> Vec<String> {
        let what = self.what.iter().map(|what| quoted(&target(what)));
        what.chain(self.criteria()).collect()
    }

    /// The criteria besides the subject, as words of a request.
    fn criteria(&self) -> impl Iterator<Item = String> {
        let criteria = [
            ("sender", &self.sender),
            ("recipient", &self.recipient),
            ("older", &self.older),
            ("larger", &self.larger),
            ("smaller", &self.smaller),
        ];
        criteria
            .into_iter()
            .filter_map(|(name, value)| Some(quoted(&format!("{name}={}", value.as_ref()?))))
            .chain(self.held.then(|| "held=yes".to_string()))
    }
}

/// Converts a subject to the form of requests: a destination, or a criterion.
pub(super) fn target(what: &str) -> String {
    if CRITERIA.iter().any(|kind| what.starts_with(kind)) {
        return what.to_string();
    }
    match Subject::parse(what) {
        Some(Subject::Message(..)) => format!("id={what}"),
        _ if what.starts_with('<') && what.ends_with('>') => format!("message-id={what}"),
        Some(Subject::Thread(..)) => what.to_ascii_lowercase(),
        None if what.contains('@') => format!("recipient={what}"),
        None => format!("*/{}", what.to_ascii_lowercase()),
    }
}

/// Criteria that are no destinations, and need no conversion.
const CRITERIA: [&str; 5] = ["id=", "ring=", "message-id=", "recipient=", "sender="];

/// Returns true if a subject is a word of several meanings.
///
/// It can be a host, a channel or a recipient.
pub(super) fn is_bare_word(what: &str) -> bool {
    target(what).starts_with("*/") && !what.contains('/')
}

/// Returns true if the subject is an id, an address or a Message-ID: not a destination.
pub(super) fn is_about_messages(target: &str) -> bool {
    CRITERIA.iter().any(|kind| *kind != "ring=" && target.starts_with(kind))
}

/// Converts a target for requests in which an id has no `id=` before it.
pub(super) fn subject(what: &str) -> String {
    let target = target(what);
    match target.strip_prefix("id=") {
        Some(id) => quoted(id),
        None => quoted(&target),
    }
}

/// Quotes a word of a request if needed.
pub(super) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| !character.is_whitespace() && character != '"' && character != '\\';
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    let escape = |character| match character {
        '"' | '\\' => vec!['\\', character],
        other => vec![other],
    };
    // The name of an option stays outside the quotes: name="value".
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if name.chars().all(|c| c.is_ascii_lowercase() || c == '-') => {
            (format!("{name}="), value)
        }
        _ => (String::new(), word),
    };
    format!("{name}\"{}\"", value.chars().flat_map(escape).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MailqOptions;
    use clap::Parser;

    #[test]
    fn selection_becomes_words_of_request() {
        for (what, word) in [
            ("smtp/MX.test", "smtp/mx.test"),
            ("mx.test", "*/mx.test"),
            ("4711", "id=4711"),
            ("B/Q/4711-2", "id=B/Q/4711-2"),
            ("S4711AbmKUKEJuveqC", "id=S4711AbmKUKEJuveqC"),
            ("ring=smtp/*", "ring=smtp/*"),
            ("bob@MX.test", "recipient=bob@MX.test"),
            ("<1.A@mx.test>", "message-id=<1.A@mx.test>"),
            ("id=4711", "id=4711"),
            ("hold/a b", "\"hold/a b\""),
        ] {
            let selection =
                SelectionArgs { what: Some(what.to_string()), ..SelectionArgs::default() };
            assert_eq!(selection.words(), [word], "{what}");
        }
        assert_eq!(
            (subject("4711"), subject("SMTP/a")),
            ("4711".to_string(), "smtp/a".to_string())
        );
        let selection = SelectionArgs {
            what: None,
            sender: Some("<>".to_string()),
            recipient: Some("a \"b\\\"@c".to_string()),
            older: Some("2h".to_string()),
            larger: Some("10M".to_string()),
            smaller: Some("1G".to_string()),
            held: true,
        };
        let expected = [
            "sender=<>",
            r#"recipient="a \"b\\\"@c""#,
            "older=2h",
            "larger=10M",
            "smaller=1G",
            "held=yes",
        ];
        assert_eq!(selection.words(), expected);
        for wrong in [
            &["hold", "--older", "soon"][..],
            &["hold", "--larger", "1x"],
            &["list", "--watch=0"],
            &["set", "maxta=1", "--for", "0s"],
        ] {
            let parsed = MailqOptions::try_parse_from([&["mailq"], wrong].concat());
            assert!(parsed.is_err(), "{wrong:?}");
        }
        let large = SelectionArgs { larger: Some("1k".to_string()), ..SelectionArgs::default() };
        assert!(large.chooses_messages() && !large.is_everything());
        assert!(!selection.is_everything() && SelectionArgs::default().is_everything());
    }
}
