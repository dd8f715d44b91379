//! `SHOW JSON MESSAGES`: one object for each message and destination.

use super::threads::limit;
use super::{ago, line, seconds, text};
use crate::v2::arguments::Arguments;
use crate::v2::rows::Rows;
use crate::v2::search::Search;
use crate::v2::selection::Selection;
use crate::v2::task::{Reply, ReplyResult, SessionContext};
use zsched_core::view::QueuedVertex;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::QueuedMessage;

fn queued_message(queued: &QueuedVertex<'_>, now: Timestamp) -> QueuedMessage {
    QueuedMessage {
        id: queued.message.spool_id().to_string(),
        name: Some(queued.message.name.to_string()),
        channel: text(queued.thread.destination.channel()),
        host: text(queued.thread.destination.host()),
        recipients: u64::from(queued.vertex.pending),
        age: Some(ago(now, queued.message.modified)),
        attempts: u64::from(queued.vertex.attempts),
        place: Some(queued.place().to_string()),
        expires: queued.expiry().map(seconds),
        text: queued.text().map(text),
    }
}

/// Answers the request.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?.unwrap_or(usize::MAX);
    let selection = Selection::take(&mut words)?;
    words.end()?;
    selection.require(rest.len())?;
    let search = Search::new(selection, context.now, false);
    Ok(Reply::long_text(Rows::new(search, limit, |_, context, found, out| {
        let queued = context.scheduler.view().vertex(found.vertex?)?;
        let is_it = queued.message.spool_id() == found.id
            && Some(&queued.thread.destination) == found.target.destination.as_ref();
        is_it.then(|| line(out, &queued_message(&queued, context.now)))?;
        Some(0)
    })))
}
