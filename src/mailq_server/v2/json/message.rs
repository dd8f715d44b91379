//! `SHOW JSON MESSAGE` and `SHOW MESSAGE`: everything known about one message.

use super::why::Waits;
use super::{AT_A_TIME, ago, object, refuse, seconds, text};
use crate::report::push;
use crate::v2::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::v2::selection::MessageName;
use crate::why::sentence;
use serde::Serialize;
use std::vec;
use zsched_core::vertex_rows::{MessageRow, VertexId, VertexRow};
use zsched_format::priority::DEFAULT_PRIORITY;
use zsched_format::time::{ShortDuration, Timestamp};

/// Maximum number of offsets shown of a destination.
const MOST_OFFSETS: usize = 1000;

/// A message; its destinations follow.
#[derive(Serialize)]
struct Message {
    /// Its spool id.
    id: String,
    number: u64,
    /// The name of its control file.
    name: String,
    /// When its message file was modified.
    arrived: f64,
    /// When it was routed.
    routed: f64,
    /// Seconds since it arrived.
    age: i64,
    /// Priority, 0 to 9; 0 is the most urgent.
    priority: u8,
    /// Recipients that are not finished.
    recipients: u32,
    /// All recipients, including finished ones.
    recipients_in_all: u32,
    failed: u32,
    /// The message is held as a whole.
    held: bool,
    /// All recipients are finished, and the message is being removed from the spool.
    leaving: bool,
}

/// A destination of the message.
#[derive(Serialize)]
struct Destination {
    channel: String,
    host: String,
    /// Recipients that are not finished.
    recipients: u32,
    attempts: u32,
    /// `due`, `with-agent`, `waiting` or `held`.
    place: &'static str,
    /// When it expires.
    expires: Option<f64>,
    /// Offsets of the recipients' lines in the control file; at most the first thousand.
    offsets: Vec<u32>,
    #[serde(flatten)]
    waits: Option<Waits>,
}

impl Message {
    fn new(row: &MessageRow<'_>, now: Timestamp) -> Message {
        Message {
            id: row.id.to_string(),
            number: row.id.number,
            name: row.name.to_string(),
            arrived: seconds(row.id.modified),
            routed: seconds(row.created),
            age: ago(now, row.id.modified),
            priority: row.priority,
            recipients: row.pending,
            recipients_in_all: row.recipients,
            failed: row.failed,
            held: row.is_held,
            leaving: row.is_being_removed,
        }
    }
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Text,
}

/// Answers `SHOW JSON MESSAGE`.
pub fn answer(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    reply(rest, around, Form::Json)
}

/// Answers `SHOW MESSAGE`.
pub fn answer_people(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    reply(rest, around, Form::Text)
}

fn reply(rest: &[u8], around: &mut Surroundings<'_>, form: Form) -> Reply {
    let rest = text(rest);
    let Some(name) = MessageName::parse(rest.trim()) else {
        return refuse("give a spool id, the number of a message or the name of a control file");
    };
    let row = around.scheduler.message_row(name.number);
    match row.filter(|row| name.is_of(row.id, row.name)) {
        Some(_) => Reply::Text(Box::new(MessageText {
            number: name.number,
            form,
            has_begun: false,
            left: None,
        })),
        None => refuse(&format!("{} is not queued", rest.trim())),
    }
}

struct MessageText {
    number: u64,
    form: Form,
    /// True if a destination has been shown.
    has_begun: bool,
    /// Vertices not shown yet; `None` before the first step.
    left: Option<vec::IntoIter<VertexId>>,
}

impl Text for MessageText {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let (number, form) = (self.number, self.form);
        let Some(left) = &mut self.left else {
            let Some(row) = around.scheduler.message_row(number) else {
                return Step::Over;
            };
            match form {
                Form::Json => begin_object(&row, around.now, out),
                Form::Text => write_head(&row, around.now, out),
            }
            let vertices = around.scheduler.vertices_of_message(number);
            self.left = Some(vertices.unwrap_or_default().into_iter());
            return Step::More;
        };
        for vertex in left.by_ref().take(AT_A_TIME) {
            let Some(entry) = around.scheduler.entry(number, vertex) else {
                continue;
            };
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            if form == Form::Json && !is_first {
                out.push(b',');
            }
            match form {
                Form::Json => write_object(around, number, vertex, &entry, out),
                Form::Text => write_sentence(around, number, vertex, &entry, out),
            }
        }
        if left.len() > 0 {
            return Step::More;
        }
        if form == Form::Json {
            out.extend_from_slice(b"]}\n");
        }
        Step::Over
    }

    fn learn(&mut self, _findings: Findings) {}
}

/// Writes the object up to its destinations.
fn begin_object(row: &MessageRow<'_>, now: Timestamp, out: &mut Vec<u8>) {
    object(out, &Message::new(row, now));
    out.pop();
    out.extend_from_slice(b",\"destinations\":[");
}

fn write_object(
    around: &Surroundings<'_>,
    number: u64,
    vertex: VertexId,
    entry: &VertexRow<'_>,
    out: &mut Vec<u8>,
) {
    let (scheduler, now) = (around.scheduler, around.now);
    let mut offsets = scheduler.offsets_of(number, vertex).unwrap_or_default();
    offsets.truncate(MOST_OFFSETS);
    let wait = scheduler.why_in_message(number, vertex);
    let destination = Destination {
        channel: text(entry.destination.channel()),
        host: text(entry.destination.host()),
        recipients: entry.recipients,
        attempts: entry.attempts,
        place: entry.place,
        expires: entry.expires.map(seconds),
        offsets,
        waits: wait.map(|wait| Waits::new(scheduler, now, &wait, true)),
    };
    object(out, &destination);
}

fn write_head(row: &MessageRow<'_>, now: Timestamp, out: &mut Vec<u8>) {
    let age = ShortDuration(ago(now, row.id.modified));
    push(out, format_args!("{}, control file {}, {age} old: ", row.id, row.name));
    let recipients = if row.recipients == 1 { "recipient" } else { "recipients" };
    push(out, format_args!("{} of {} {recipients} left", row.pending, row.recipients));
    if row.failed > 0 {
        push(out, format_args!(", {} failed", row.failed));
    }
    if row.priority != DEFAULT_PRIORITY {
        push(out, format_args!(", priority {}", row.priority));
    }
    out.extend_from_slice(match row {
        MessageRow { is_being_removed: true, .. } => b"; it is leaving the spool\n",
        MessageRow { is_held: true, .. } => b"; it is held\n",
        _ => b"\n",
    });
}

fn write_sentence(
    around: &Surroundings<'_>,
    number: u64,
    vertex: VertexId,
    entry: &VertexRow<'_>,
    out: &mut Vec<u8>,
) {
    let (scheduler, now) = (around.scheduler, around.now);
    if let Some(wait) = scheduler.why_in_message(number, vertex) {
        push(out, format_args!("{}", sentence(scheduler, now, true, &wait)));
    }
    let recipients = if entry.recipients == 1 { "recipient" } else { "recipients" };
    push(out, format_args!("; {} {recipients}", entry.recipients));
    if let Some(expires) = entry.expires {
        let left = expires.seconds_since(now);
        match left > 0 {
            true => push(out, format_args!("; expires in {}", ShortDuration(left))),
            false => out.extend_from_slice(b"; expires with the next failure"),
        }
    }
    out.push(b'\n');
}
