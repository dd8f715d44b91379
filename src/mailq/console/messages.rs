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

use super::client;
use super::model::QueuedMessage;
use super::summary::short;
use super::views::print_list;
use crate::connect::lines::parse_object;
use crate::connect::session::Session;
use crate::failure::Failure;
use crate::format::{self, cut, now, one_line};
use crate::message::envelope::Envelope;
use crate::message::files::MessageFiles;
use crate::screen::{Screen, Style};
use crate::table::{Column, ColumnKind};
use serde::Serialize;
use std::rc::Rc;

/// Minimum line width for what is in the spool as columns.
const MIN_WIDTH_OF_COLUMNS: usize = 180;
/// Maximum number of messages of a list that are looked for in the spool.
const MAX_MESSAGES_FROM_SPOOL: usize = 10_000;
/// Maximum number of recipients that are named in a list.
const MAX_NAMED_RECIPIENTS: usize = 2;
/// Maximum number of recipients that `show` names.
const MAX_SHOWN_RECIPIENTS: usize = 20;

/// A message and one of its destinations.
struct Row<'m> {
    message: &'m QueuedMessage,
    in_spool: Option<RowInSpool>,
}

/// What is in the spool about a row.
struct RowInSpool {
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
        Row { message, in_spool: envelope.map(|envelope| RowInSpool::new(&envelope, message)) }
    };
    let rows: Vec<Row<'_>> = messages.iter().enumerate().map(row).collect();
    let is_wide = screen.columns().is_none_or(|columns| columns >= MIN_WIDTH_OF_COLUMNS);
    let are_columns = files.are_here() && is_wide;
    let columns = columns(are_columns);
    if are_columns || !files.are_here() {
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

fn columns<'m>(with_spool: bool) -> Vec<Column<'m, Row<'m>>> {
    let now = now();
    let place = |row: &Row<'m>| {
        let place = short(row.message.place.as_deref().unwrap_or_default());
        let style = match place.as_str() {
            "held" => Style::Warning,
            "with-agent" => Style::Good,
            _ => Style::Plain,
        };
        (place, style)
    };
    let in_spool = |title, kind, text: fn(&RowInSpool) -> Option<String>| {
        let cell = move |row: &Row<'m>| {
            let text = row.in_spool.as_ref().and_then(text);
            (text.map_or("-".to_string(), |text| one_line(&text)), Style::Plain)
        };
        with_spool.then(|| Column::new(title, kind, cell))
    };
    let columns = [
        Some(Column::word("ID", |row: &Row<'m>| cut(&one_line(&row.message.id), 40))),
        Some(Column::name("DESTINATION", |row: &Row<'m>| {
            format!("{}/{}", row.message.channel, row.message.host)
        })),
        in_spool("FROM", ColumnKind::Text, |row| Some(row.sender.clone())),
        in_spool("TO", ColumnKind::Text, |row| row.recipients.clone()),
        Some(Column::number("RCPTS", |row: &Row<'m>| row.message.recipients).optional()),
        in_spool("SIZE", ColumnKind::Number, |row| Some(row.size.clone())),
        Some(Column::span("AGE", |row: &Row<'m>| row.message.age)),
        Some(Column::number("TRIES", |row: &Row<'m>| row.message.attempts).optional()),
        Some(Column::new("STATE", ColumnKind::Word, place)),
        Some(
            Column::span("EXPIRES", move |row: &Row<'m>| {
                row.message.expires.filter(|at| *at > 0.0).map(|at| at - now)
            })
            .optional(),
        ),
        in_spool("SUBJECT", ColumnKind::Text, |row| row.subject.clone()),
        Some(Column::text("LAST TEXT", Style::Dim, |row: &Row<'m>| row.message.text.as_deref())),
    ];
    columns.into_iter().flatten().collect()
}

impl RowInSpool {
    fn new(envelope: &Envelope, message: &QueuedMessage) -> RowInSpool {
        let QueuedMessage { channel, host, recipients, .. } = message;
        RowInSpool::of_recipients(envelope, envelope.queued_for(channel, host), *recipients)
    }

    /// Names the first of these recipients, of which there are `number`.
    fn of_recipients<'e>(
        envelope: &Envelope,
        recipients: impl Iterator<Item = &'e str>,
        number: u64,
    ) -> RowInSpool {
        let named: Vec<&str> = recipients.take(MAX_NAMED_RECIPIENTS).collect();
        let others = number.saturating_sub(named.len() as u64);
        let more = if others > 0 { format!(" +{others}") } else { String::new() };
        RowInSpool {
            sender: envelope.sender.clone(),
            recipients: (!named.is_empty()).then(|| named.join(", ") + &more),
            size: format::size(envelope.size),
            subject: envelope.subject.clone(),
        }
    }

    fn in_words(&self) -> String {
        let RowInSpool { sender, recipients, size, subject } = self;
        let to = recipients.as_ref().map_or(String::new(), |to| format!(" to {to}"));
        let subject = subject.as_ref().map_or(String::new(), |text| format!(": {text}"));
        format!("from {sender}{to}, size {size}{subject}")
    }
}

/// Describes a message with all its recipients, of which there are `number`, in one line.
pub(super) fn in_words(envelope: &Envelope, number: u64) -> String {
    let recipients = envelope.recipients.iter().map(|to| to.recipient.as_str());
    RowInSpool::of_recipients(envelope, recipients, number).in_words()
}

impl Row<'_> {
    /// What is in the spool, as a line below the row.
    fn details(&self) -> String {
        let words = self.in_spool.as_ref().map_or("-".to_string(), RowInSpool::in_words);
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
    let request = super::views::messages_request(&super::views::of(id), 1)?;
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
