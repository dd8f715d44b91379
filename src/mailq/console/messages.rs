//! Messages in lists: what the scheduler sends, and sender, recipients, size and subject from the
//! spool.
//!
//! ```text
//! ID                  DESTINATION   RCPTS  AGE  TRIES  STATE    EXPIRES  LAST TEXT
//! S4711AbmKUKEJuveqC  smtp/mx.test      3   1d      6  waiting       2d  451 busy
//!     from ann@x.test to bob@mx.test, carol@mx.test +1, size 3.4k: Minutes of Monday
//! ```
//!
//! Where lines are long enough, these are columns. So a search in the output finds whole rows.

use super::arguments::{SelectionArgs, Sort};
use super::client;
use super::summary::short;
use super::views::{messages_request, print_list};
use crate::connect::lines::{LineSource, parse_object};
use crate::connect::session::Session;
use crate::failure::Failure;
use crate::format::{self, cut, now, one_line};
use crate::message::envelope::Envelope;
use crate::message::files::MessageFiles;
use crate::progress::Progress;
use crate::screen::{Screen, Style};
use crate::table::{Column, ColumnKind};
use serde::Serialize;
use std::rc::Rc;
use zsched_mailq_protocol::schema::QueuedMessage;

/// Minimum number of rows that are sorted at once.
const MIN_SORTED_ROWS: usize = 1000;
/// Minimum line width for what is in the spool as columns.
const MIN_WIDTH_OF_COLUMNS: usize = 180;
/// Maximum number of messages of a list that are looked for in the spool.
const MAX_MESSAGES_FROM_SPOOL: usize = 10_000;
/// Maximum number of recipients that are named in a list.
const MAX_NAMED_RECIPIENTS: usize = 2;
/// Maximum number of recipients that `show` names.
const MAX_SHOWN_RECIPIENTS: usize = 20;

/// A message and one of its destinations.
struct MessageRow<'m> {
    message: &'m QueuedMessage,
    in_spool: Option<SpoolDetails>,
}

/// What is in the spool about a row.
struct SpoolDetails {
    sender: String,
    /// The first recipients, and the number of the others.
    recipients: Option<String>,
    size: String,
    subject: Option<String>,
}

/// Prints a list of messages, as `print_list`.
pub(super) fn print(
    messages: &[QueuedMessage],
    limit: (usize, &str),
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let row = |(index, message): (usize, _)| {
        let is_read = index < limit.0.min(MAX_MESSAGES_FROM_SPOOL);
        let envelope = is_read.then(|| envelope_of(message, files)).flatten();
        MessageRow {
            message,
            in_spool: envelope.map(|envelope| SpoolDetails::new(&envelope, message)),
        }
    };
    let rows: Vec<MessageRow<'_>> = messages.iter().enumerate().map(row).collect();
    let is_wide = screen.columns().is_none_or(|columns| columns >= MIN_WIDTH_OF_COLUMNS);
    let are_columns = files.has_found_any() && is_wide;
    let columns = columns(are_columns);
    if are_columns || !files.has_found_any() {
        return print_list(&columns, &rows, limit, "", screen);
    }
    let width = screen.columns().unwrap_or_default();
    let details: Vec<String> = rows.iter().map(|row| cut(&row.details(), width)).collect();
    screen.with_details(&details[..rows.len().min(limit.0)], |screen| {
        print_list(&columns, &rows, limit, "", screen)
    })
}

fn envelope_of(message: &QueuedMessage, files: &mut MessageFiles<'_>) -> Option<Rc<Envelope>> {
    files.envelope(&message.id, message.name.as_deref())
}

fn columns<'m>(with_spool: bool) -> [Column<'m, MessageRow<'m>>; 12] {
    let now = now();
    let place = |row: &MessageRow<'m>| {
        let place = short(row.message.place.as_deref().unwrap_or_default());
        let style = match place.as_str() {
            "held" => Style::Warning,
            "with-agent" => Style::Good,
            _ => Style::Plain,
        };
        (place, style)
    };
    let in_spool = |title, kind, text: fn(&SpoolDetails) -> Option<String>| {
        let cell = move |row: &MessageRow<'m>| {
            let text = row.in_spool.as_ref().and_then(text);
            (text.map_or("-".to_string(), |text| one_line(&text)), Style::Plain)
        };
        Column::new(title, kind, cell).only_if(with_spool)
    };
    [
        Column::word("ID", |row: &MessageRow<'m>| cut(&one_line(&row.message.id), 40)),
        Column::name("DESTINATION", |row: &MessageRow<'m>| {
            format!("{}/{}", row.message.channel, row.message.host)
        }),
        in_spool("FROM", ColumnKind::Text, |row| Some(row.sender.clone())),
        in_spool("TO", ColumnKind::Text, |row| row.recipients.clone()),
        Column::number("RCPTS", |row: &MessageRow<'m>| row.message.recipients).optional(),
        in_spool("SIZE", ColumnKind::Number, |row| Some(row.size.clone())),
        Column::span("AGE", |row: &MessageRow<'m>| row.message.age),
        Column::number("TRIES", |row: &MessageRow<'m>| row.message.attempts).optional(),
        Column::new("STATE", ColumnKind::Word, place),
        Column::span("EXPIRES", move |row: &MessageRow<'m>| {
            row.message.expires.filter(|at| *at > 0.0).map(|at| at - now)
        })
        .optional(),
        in_spool("SUBJECT", ColumnKind::Text, |row| row.subject.clone()),
        Column::text("LAST TEXT", Style::Dim, |row: &MessageRow<'m>| row.message.text.as_deref()),
    ]
}

impl SpoolDetails {
    fn new(envelope: &Envelope, message: &QueuedMessage) -> SpoolDetails {
        let QueuedMessage { channel, host, recipients, .. } = message;
        SpoolDetails::of_recipients(envelope, envelope.queued_for(channel, host), *recipients)
    }

    /// Names the first of these recipients, of which there are `number`.
    fn of_recipients<'e>(
        envelope: &Envelope,
        recipients: impl Iterator<Item = &'e str>,
        number: u64,
    ) -> SpoolDetails {
        let named: Vec<&str> = recipients.take(MAX_NAMED_RECIPIENTS).collect();
        let others = number.saturating_sub(named.len() as u64);
        let more = if others > 0 { format!(" +{others}") } else { String::new() };
        SpoolDetails {
            sender: envelope.sender.clone(),
            recipients: (!named.is_empty()).then(|| named.join(", ") + &more),
            size: format::size(envelope.size),
            subject: envelope.subject.clone(),
        }
    }

    fn in_words(&self) -> String {
        let SpoolDetails { sender, recipients, size, subject } = self;
        let to = recipients.as_ref().map_or(String::new(), |to| format!(" to {to}"));
        let subject = subject.as_ref().map_or(String::new(), |text| format!(": {text}"));
        format!("from {sender}{to}, size {size}{subject}")
    }
}

/// Describes a message with all its recipients, of which there are `number`, in one line.
pub(super) fn in_words(envelope: &Envelope, number: u64) -> String {
    let recipients = envelope.recipients.iter().map(|to| to.recipient.as_str());
    SpoolDetails::of_recipients(envelope, recipients, number).in_words()
}

impl MessageRow<'_> {
    /// What is in the spool, as a line below the row.
    fn details(&self) -> String {
        let words = self.in_spool.as_ref().map_or("-".to_string(), SpoolDetails::in_words);
        format!("    {}", one_line(&words))
    }
}

/// Prints what is in the spool about the message that a request names.
pub(super) fn print_envelope(
    session: &mut Session,
    id: &str,
    files: &mut MessageFiles<'_>,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let request = messages_request(&SelectionArgs::of(id), 1);
    let found: Vec<QueuedMessage> = match client::fetch_all(session, request) {
        Err(Failure::Refused(_) | Failure::NotFound(_) | Failure::Denied(_)) => return Ok(()),
        found => found?,
    };
    let Some(envelope) = found.first().and_then(|message| envelope_of(message, files)) else {
        return Ok(());
    };
    let origin = files.origin(&envelope).map(|origin| ("came from", origin));
    for (title, value) in origin.into_iter().chain(envelope.lines(MAX_SHOWN_RECIPIENTS)) {
        screen.styled(&format!("{title:<13}"), Style::Title)?;
        writeln!(screen, "{}", one_line(&value))?;
    }
    match envelope.recipients.len() > MAX_SHOWN_RECIPIENTS {
        true => Ok(writeln!(screen, "... and more recipients; cat shows all")?),
        false => Ok(()),
    }
}

/// The fields that `mailq` adds to objects about messages.
#[derive(Serialize)]
struct SpoolFields<'e> {
    size: u64,
    sender: &'e str,
    to: Vec<&'e str>,
    subject: Option<&'e str>,
    message_id: Option<&'e str>,
}

/// Adds what is in the spool to an object about a message.
///
/// Recipients are those of its destination, if it has one.
pub(super) fn with_envelope(line: &[u8], files: &mut MessageFiles<'_>) -> Vec<u8> {
    let added = parse_object(line).ok().and_then(|message: QueuedMessage| {
        let envelope = envelope_of(&message, files)?;
        let to = match message.channel.is_empty() {
            true => envelope.recipients.iter().map(|to| to.recipient.as_str()).collect(),
            false => envelope.queued_for(&message.channel, &message.host).collect(),
        };
        add_fields(line, &envelope, to)
    });
    added.unwrap_or_else(|| line.to_vec())
}

/// Adds an envelope to an object, with these recipients.
pub(super) fn add_fields(line: &[u8], envelope: &Envelope, to: Vec<&str>) -> Option<Vec<u8>> {
    let fields = SpoolFields {
        size: envelope.size,
        sender: &envelope.sender,
        to,
        subject: envelope.subject.as_deref(),
        message_id: envelope.message_id.as_deref(),
    };
    let fields = serde_json::to_vec(&fields).ok()?;
    let object = line.trim_ascii_end().strip_suffix(b"}")?;
    Some([object, b",", fields.strip_prefix(b"{")?].concat())
}

/// The first `max` messages in an order that the scheduler does not have, as JSON.
///
/// All that match are read, and the first ones kept.
pub(super) fn sorted(
    session: &mut Session,
    selection: &SelectionArgs,
    max: usize,
    sort: Sort,
    files: &MessageFiles<'_>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let _progress = Progress::start("sorting all messages that match");
    let request = messages_request(selection, session.entries());
    let mut text = session.ask_for_text(request)?;
    let mut first = FirstRows::new(max);
    while let Some(line) = text.next()? {
        let message: QueuedMessage = parse_object(line)?;
        let key = match sort {
            Sort::Size => files.size(message.name.as_deref()).unwrap_or(0) as f64,
            _ => message.age.unwrap_or(0.0),
        };
        first.add(key, line);
    }
    Ok(first.finish())
}

/// The rows with the largest keys.
struct FirstRows {
    max: usize,
    rows: Vec<(f64, Vec<u8>)>,
}

impl FirstRows {
    fn new(max: usize) -> FirstRows {
        FirstRows { max, rows: Vec::new() }
    }

    fn add(&mut self, key: f64, row: &[u8]) {
        self.rows.push((key, row.to_vec()));
        // Each sort drops at least half of the rows, so that their number is bounded.
        if self.rows.len() > self.max.saturating_mul(2).max(MIN_SORTED_ROWS) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        self.rows.truncate(self.max);
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.sort();
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rows_are_those_with_largest_keys() {
        let mut rows = FirstRows::new(2);
        for number in (0..3000).chain([5000, 4000]) {
            rows.add(f64::from(number), number.to_string().as_bytes());
        }
        assert!(rows.rows.len() <= MIN_SORTED_ROWS + 1);
        assert_eq!(rows.finish(), [b"5000".to_vec(), b"4000".to_vec()]);
    }
}
