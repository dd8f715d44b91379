//! `SHOW JSON MESSAGE` and `SHOW MESSAGE`: everything known about one message.

use super::wait;
use super::{MAX_OBJECTS_PER_STEP, ago, object, seconds, text};
use crate::explain::{remarks, sentence};
use crate::queue_report::push;
use crate::v2::selection::MessageName;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use serde::Serialize;
use zsched_core::Scheduler;
use zsched_core::sender_reports::SenderReportState;
use zsched_core::view::{Message, QueuedVertex, VertexId};
use zsched_format::priority::{DEFAULT_PRIORITY, letter};
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
    /// The report to its sender: `planned`, `requested` or `failed`; null without one.
    report: Option<&'static str>,
    /// The deadline that its sender has set.
    deliver_by: Option<f64>,
    /// The message fails at the deadline; otherwise its sender gets a report.
    deliver_by_returns: Option<bool>,
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
    waits: Wait,
}

impl MessageJson {
    fn new(message: &Message, now: Timestamp) -> MessageJson {
        MessageJson {
            id: message.spool_id().to_string(),
            number: message.name.number(),
            name: message.name.to_string(),
            arrived: seconds(message.modified),
            routed: seconds(message.created),
            age: ago(now, message.modified) as i64,
            priority: message.priority,
            recipients: message.pending,
            recipients_in_all: message.recipients,
            failed: message.failed,
            held: message.held,
            leaving: message.is_removing,
            report: match message.report {
                SenderReportState::None => None,
                SenderReportState::Planned => Some("planned"),
                SenderReportState::Requested => Some("requested"),
                SenderReportState::Failed => Some("failed"),
            },
            deliver_by: message.deliver_by().map(|deadline| f64::from(deadline.at)),
            deliver_by_returns: message.deliver_by().map(|deadline| deadline.returns),
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
    let message = context.scheduler.view().message(name.number);
    if !message.is_some_and(|message| name.matches(message.spool_id(), &message.name)) {
        return Ok(Reply::refusal(format!("no matching mail now: {}", rest.trim())));
    }
    let (number, is_json) = (name.number, form == OutputFormat::Json);
    // Vertices not shown yet, after the first step; and whether one was shown.
    let (mut left, mut has_begun) = (None, false);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let (scheduler, now) = (context.scheduler, context.now);
        let Some(left) = &mut left else {
            let Some(message) = scheduler.view().message(number) else {
                return Step::Done;
            };
            match is_json {
                true => begin_object(message, now, out),
                false => write_head(scheduler, message, now, out),
            }
            let vertices = scheduler.view().vertices_of(message).map(|queued| queued.id);
            left = Some(vertices.collect::<Vec<VertexId>>().into_iter());
            return Step::More;
        };
        for vertex in left.by_ref().take(MAX_OBJECTS_PER_STEP) {
            let Some(queued) = scheduler.view().vertex_in_message(number, vertex) else {
                continue;
            };
            if std::mem::replace(&mut has_begun, true) && is_json {
                out.push(b',');
            }
            match is_json {
                true => write_object(context, &queued, out),
                false => write_sentence(context, &queued, out),
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
fn begin_object(message: &Message, now: Timestamp, out: &mut Vec<u8>) {
    object(out, &MessageJson::new(message, now));
    out.pop();
    out.extend_from_slice(b",\"destinations\":[");
}

fn write_object(context: &SessionContext<'_>, queued: &QueuedVertex<'_>, out: &mut Vec<u8>) {
    let (scheduler, now) = (context.scheduler, context.now);
    let mut offsets = queued.vertex.recipients.pending();
    offsets.truncate(MAX_OFFSETS);
    let destination = DestinationJson {
        channel: text(queued.thread.destination.channel()),
        host: text(queued.thread.destination.host()),
        recipients: queued.vertex.pending,
        attempts: queued.vertex.attempts.into(),
        place: queued.place(),
        expires: queued.expiry().map(seconds),
        offsets,
        waits: wait::wait(scheduler, now, &scheduler.view().why_vertex(queued), true),
    };
    object(out, &destination);
}

fn write_head(scheduler: &Scheduler, message: &Message, now: Timestamp, out: &mut Vec<u8>) {
    let Message { name, recipients, pending, failed, priority, .. } = message;
    let age = ShortDuration(ago(now, message.modified) as i64);
    push(out, format_args!("{}, control file {name}, {age} old: ", message.spool_id()));
    let noun = if *recipients == 1 { "recipient" } else { "recipients" };
    push(out, format_args!("{pending} of {recipients} {noun} left"));
    if *failed > 0 {
        push(out, format_args!(", {failed} failed"));
    }
    if *priority != DEFAULT_PRIORITY {
        push(out, format_args!(", priority {}", letter(*priority)));
    }
    out.extend_from_slice(match message {
        Message { is_removing: true, .. } => b"; it is leaving the spool\n",
        Message { held: true, .. } => b"; it is held\n",
        _ => b"\n",
    });
    for remark in remarks(scheduler, message, now) {
        push(out, format_args!("{}\n", remark.sentence));
    }
}

fn write_sentence(context: &SessionContext<'_>, queued: &QueuedVertex<'_>, out: &mut Vec<u8>) {
    let (scheduler, now) = (context.scheduler, context.now);
    let wait = scheduler.view().why_vertex(queued);
    out.extend_from_slice(sentence(scheduler, now, true, &wait).as_bytes());
    let count = queued.vertex.pending;
    push(out, format_args!("; {count} {}", if count == 1 { "recipient" } else { "recipients" }));
    if let Some(expires) = queued.expiry() {
        let left = expires.seconds_since(now);
        match left > 0 {
            true => push(out, format_args!("; expires in {}", ShortDuration(left))),
            false => out.extend_from_slice(b"; expires with the next failure"),
        }
    }
    out.push(b'\n');
}
