//! `SHOW JSON MESSAGES`: one object for each message and destination.
//!
//! `SHOW JSON MESSAGE` and `SHOW MESSAGE`: everything known about one message.

use super::threads::limit;
use super::wait::wait;
use super::{ago, line, object, seconds, text};
use crate::queue_report::push;
use crate::v2::arguments::Arguments;
use crate::v2::remarks::remarks;
use crate::v2::rows::{MAX_ROWS_PER_STEP, Rows};
use crate::v2::search::Search;
use crate::v2::selection::{MessageName, Selection};
use crate::v2::show_why::OutputFormat;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::sender_reports::SenderReportState;
use zsched_core::view::{Message, MessageFlag, QueuedVertex};
use zsched_explain::sentence;
use zsched_format::printable::count;
use zsched_format::priority::{DEFAULT_PRIORITY, letter};
use zsched_format::time::{ShortDuration, Timestamp};
use zsched_mailq_protocol::schema::{MessageDestination, MessageStatus, QueuedMessage};

fn queued_message(queued: &QueuedVertex<'_>, now: Timestamp) -> QueuedMessage {
    QueuedMessage {
        id: queued.message.spool_id().to_string(),
        name: Some(queued.message.name().to_string()),
        channel: text(queued.thread.destination.channel()),
        host: text(queued.thread.destination.host()),
        recipients: u64::from(queued.vertex.pending()),
        age: Some(ago(now, queued.message.modified)),
        attempts: u64::from(queued.vertex.attempts),
        place: Some(queued.place().to_string()),
        expires: queued.expiry().map(seconds),
        text: queued.text().map(text),
    }
}

/// Answers `SHOW JSON MESSAGES`.
pub(crate) fn messages(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?.unwrap_or(usize::MAX);
    let selection = Selection::take(&mut words)?;
    words.end()?;
    selection.require(rest.len())?;
    let search = Search::new(selection, context.now, false);
    Ok(Reply::long_text(Rows::new(search, limit, |_, context, found, out| {
        let queued = context.scheduler.view().vertex(found.vertex?)?;
        let is_same = queued.message.spool_id() == found.id
            && Some(&queued.thread.destination) == found.target.destination.as_ref();
        is_same.then(|| line(out, &queued_message(&queued, context.now)))?;
        Some(0)
    })))
}

/// Maximum number of offsets shown of a destination.
const MAX_OFFSETS: usize = 1000;

/// Answers `SHOW JSON MESSAGE` or `SHOW MESSAGE`.
pub(crate) fn message(
    rest: &[u8],
    format: OutputFormat,
    context: &SessionContext<'_>,
) -> ReplyResult {
    let rest = text(rest);
    let Some(name) = MessageName::parse(rest.trim()) else {
        return Ok(Reply::refusal(
            "give a spool id, the number of a message or the name of a control file",
        ));
    };
    let view = context.scheduler.view();
    let message = view.message(name.number);
    let message = message.filter(|it| name.matches(it.spool_id(), &it.name()));
    let Some(message) = message else {
        return Ok(Reply::refusal(format!("no matching mail now: {}", rest.trim())));
    };
    let mut head = Vec::new();
    let (mut separator, end) = match format {
        OutputFormat::Json => {
            // The destinations are written one by one: there may be very many.
            object(&mut head, &status(message, context.now));
            head.pop();
            (",\"destinations\":[", "]}\n")
        }
        OutputFormat::Text => {
            write_head(context, message, &mut head);
            ("", "")
        }
    };
    let vertices: Vec<_> = view.vertices_of(message).map(|queued| queued.id).collect();
    let mut vertices = vertices.into_iter();
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        out.append(&mut head);
        for vertex in vertices.by_ref().take(MAX_ROWS_PER_STEP) {
            let view = context.scheduler.view();
            let Some(queued) = view.vertex_in_message(name.number, vertex) else { continue };
            match format {
                OutputFormat::Json => {
                    push(out, format_args!("{}", std::mem::replace(&mut separator, ",")));
                    object(out, &destination(context, &queued));
                }
                OutputFormat::Text => write_sentence(context, &queued, out),
            }
        }
        if vertices.len() > 0 {
            return Step::More;
        }
        push(out, format_args!("{end}"));
        Step::Done
    }))
}

fn status(message: &Message, now: Timestamp) -> MessageStatus {
    let deadline = message.deliver_by();
    MessageStatus {
        id: message.spool_id().to_string(),
        number: message.number(),
        name: message.name().to_string(),
        arrived: seconds(message.modified),
        routed: seconds(message.created),
        age: ago(now, message.modified) as i64,
        priority: message.priority,
        recipients: message.pending,
        recipients_in_all: message.recipients,
        failed: message.failed,
        held: message.is(MessageFlag::Held),
        leaving: message.is(MessageFlag::Removing),
        report: match message.report {
            SenderReportState::None => None,
            SenderReportState::Planned => Some("planned".to_string()),
            SenderReportState::Requested => Some("requested".to_string()),
            SenderReportState::Failed => Some("failed".to_string()),
        },
        deliver_by: deadline.map(|deadline| f64::from(deadline.at)),
        deliver_by_returns: deadline.map(|deadline| deadline.returns),
    }
}

fn destination(context: &SessionContext<'_>, queued: &QueuedVertex<'_>) -> MessageDestination {
    let mut offsets = queued.vertex.pending_offsets();
    offsets.truncate(MAX_OFFSETS);
    MessageDestination {
        channel: text(queued.thread.destination.channel()),
        host: text(queued.thread.destination.host()),
        recipients: queued.vertex.pending(),
        attempts: queued.vertex.attempts.into(),
        place: queued.place().to_string(),
        expires: queued.expiry().map(seconds),
        offsets: offsets.into_vec(),
        wait: wait(context, &context.scheduler.view().why_vertex(queued), true),
    }
}

fn write_head(context: &SessionContext<'_>, message: &Message, out: &mut Vec<u8>) {
    let Message { recipients, pending, failed, priority, .. } = message;
    let age = ShortDuration(ago(context.now, message.modified) as i64);
    let (id, name) = (message.spool_id(), message.name());
    push(out, format_args!("{id}, control file {name}, {age} old: "));
    let noun = if *recipients == 1 { "recipient" } else { "recipients" };
    push(out, format_args!("{pending} of {recipients} {noun} left"));
    if *failed > 0 {
        push(out, format_args!(", {failed} failed"));
    }
    if *priority != DEFAULT_PRIORITY {
        push(out, format_args!(", priority {}", letter(*priority)));
    }
    let end: &[u8] = match message {
        _ if message.is(MessageFlag::Removing) => b"; it is leaving the spool\n",
        _ if message.is(MessageFlag::Held) => b"; it is held\n",
        _ => b"\n",
    };
    out.extend_from_slice(end);
    for remark in remarks(context, message) {
        push(out, format_args!("{}\n", remark.sentence));
    }
}

fn write_sentence(context: &SessionContext<'_>, queued: &QueuedVertex<'_>, out: &mut Vec<u8>) {
    let (scheduler, now) = (context.scheduler, context.now);
    let wait = scheduler.view().why_vertex(queued);
    out.extend_from_slice(sentence(scheduler, now, true, &wait).as_bytes());
    push(out, format_args!("; {}", count(queued.vertex.pending().into(), "recipient")));
    if let Some(expires) = queued.expiry() {
        let left = expires.seconds_since(now);
        match left > 0 {
            true => push(out, format_args!("; expires in {}", ShortDuration(left))),
            false => out.extend_from_slice(b"; expires with the next failure"),
        }
    }
    out.push(b'\n');
}
