//! `SHOW JSON MESSAGE` and `SHOW MESSAGE`: everything known about one message.

use super::why;
use super::{MAX_OBJECTS_PER_STEP, ago, object, seconds, text};
use crate::explain::sentence;
use crate::report::push;
use crate::v2::selection::MessageName;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use serde::Serialize;
use zsched_core::vertex_rows::{MessageRow, VertexId, VertexRow};
use zsched_format::priority::DEFAULT_PRIORITY;
use zsched_format::time::{ShortDuration, Timestamp};
use zsched_mailq_protocol::schema::Wait;

/// Maximum number of offsets shown of a destination.
const MAX_OFFSETS: usize = 1000;

/// A message; its destinations follow.
#[derive(Serialize)]
struct MessageJson {
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
struct DestinationJson {
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
    waits: Option<Wait>,
}

impl MessageJson {
    fn new(row: &MessageRow<'_>, now: Timestamp) -> MessageJson {
        MessageJson {
            id: row.id.to_string(),
            number: row.id.number,
            name: row.name.to_string(),
            arrived: seconds(row.id.modified),
            routed: seconds(row.created),
            age: ago(now, row.id.modified) as i64,
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
pub(crate) enum OutputFormat {
    /// `SHOW JSON MESSAGE`.
    Json,
    /// `SHOW MESSAGE`.
    Text,
}

/// Answers `SHOW JSON MESSAGE` or `SHOW MESSAGE`.
pub(crate) fn answer(rest: &[u8], form: OutputFormat, context: &SessionContext<'_>) -> ReplyResult {
    let rest = text(rest);
    let Some(name) = MessageName::parse(rest.trim()) else {
        return Ok(Reply::refusal(
            "give a spool id, the number of a message or the name of a control file",
        ));
    };
    let row = context.scheduler.message_row(name.number);
    if row.filter(|row| name.matches(row.id, row.name)).is_none() {
        return Ok(Reply::refusal(format!("{} is not queued", rest.trim())));
    }
    let (number, is_json) = (name.number, form == OutputFormat::Json);
    // Vertices not shown yet, after the first step; and whether one was shown.
    let (mut left, mut has_begun) = (None, false);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let (scheduler, now) = (context.scheduler, context.now);
        let Some(left) = &mut left else {
            let Some(row) = scheduler.message_row(number) else {
                return Step::Done;
            };
            match is_json {
                true => begin_object(&row, now, out),
                false => write_head(&row, now, out),
            }
            left = Some(scheduler.vertices_of_message(number).unwrap_or_default().into_iter());
            return Step::More;
        };
        for vertex in left.by_ref().take(MAX_OBJECTS_PER_STEP) {
            let Some(entry) = scheduler.entry(number, vertex) else {
                continue;
            };
            if std::mem::replace(&mut has_begun, true) && is_json {
                out.push(b',');
            }
            match is_json {
                true => write_object(context, number, vertex, &entry, out),
                false => write_sentence(context, number, vertex, &entry, out),
            }
        }
        if left.len() > 0 {
            return Step::More;
        }
        if is_json {
            out.extend_from_slice(b"]}\n");
        }
        Step::Done
    }))
}

/// Writes the object up to its destinations.
fn begin_object(row: &MessageRow<'_>, now: Timestamp, out: &mut Vec<u8>) {
    object(out, &MessageJson::new(row, now));
    out.pop();
    out.extend_from_slice(b",\"destinations\":[");
}

fn write_object(
    context: &SessionContext<'_>,
    number: u64,
    vertex: VertexId,
    entry: &VertexRow<'_>,
    out: &mut Vec<u8>,
) {
    let (scheduler, now) = (context.scheduler, context.now);
    let mut offsets = scheduler.offsets_of(number, vertex).unwrap_or_default();
    offsets.truncate(MAX_OFFSETS);
    let wait = scheduler.why_in_message(number, vertex);
    let destination = DestinationJson {
        channel: text(entry.destination.channel()),
        host: text(entry.destination.host()),
        recipients: entry.recipients,
        attempts: entry.attempts,
        place: entry.place,
        expires: entry.expires.map(seconds),
        offsets,
        waits: wait.map(|wait| why::wait(scheduler, now, &wait, true)),
    };
    object(out, &destination);
}

fn write_head(row: &MessageRow<'_>, now: Timestamp, out: &mut Vec<u8>) {
    let age = ShortDuration(ago(now, row.id.modified) as i64);
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
    context: &SessionContext<'_>,
    number: u64,
    vertex: VertexId,
    entry: &VertexRow<'_>,
    out: &mut Vec<u8>,
) {
    let (scheduler, now) = (context.scheduler, context.now);
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
