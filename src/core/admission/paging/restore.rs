//! Restoring what was known about messages that are loaded again.

use crate::admission::Admission;
use crate::admission::paged_message::{HostFilter, PagedMessage, PagedVertex};
use crate::context::Context;
use crate::queue::{MessageId, Queue, VertexId};
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// What is known about a message that is loaded again.
pub(crate) struct RestoredMessage {
    pub record: PagedMessage,
    /// Requests for its recipients.
    pub wanted: Vec<HostFilter>,
}

/// What happens with recipients that are loaded again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreAction {
    /// They are treated as new.
    Unknown,
    /// They wait for their next try.
    Waiting {
        /// Due time; `None` is as soon as the destination is tried.
        due: Option<Timestamp>,
    },
    /// They were tried in this pass, and wait in any case.
    Unloaded {
        /// Due time, if it is known.
        due: Option<Timestamp>,
    },
    /// They were requested, and are tried now.
    Requested,
}

impl RestoreAction {
    /// The treatment of recipients without a request.
    ///
    /// Recipients that were never tried have a due time if their clause is `queueonly`.
    pub fn of(attempts: u32, due: Option<Timestamp>) -> RestoreAction {
        match (attempts, due) {
            (0, None) => RestoreAction::Unknown,
            (_, due) => RestoreAction::Waiting { due },
        }
    }
}

impl Admission {
    /// Restores the state of a vertex.
    ///
    /// Its message was paged out, or is partial.
    ///
    /// Returns what happens with it; `None` if there is no record of the vertex.
    pub(crate) fn restore_vertex(
        &self,
        queue: &mut Queue,
        message: MessageId,
        restored: Option<&RestoredMessage>,
        vertex: VertexId,
    ) -> Option<RestoreAction> {
        let key = PagedVertex::key_of(&queue.thread(queue.vertex(vertex).thread).destination);
        let (record, in_this_pass, wanted) = match self.partials.get(message) {
            Some(partial) => {
                let (record, in_this_pass) = *partial.learned.get(&key)?;
                (record, in_this_pass, &partial.wanted)
            }
            None => (restored?.record.vertex(key)?, false, &restored?.wanted),
        };
        queue.restore_from_record(vertex, record, self.paging.texts.find(record.text()));
        let due = record.due();
        Some(match wanted.iter().any(|wanted| wanted.selects(record)) {
            _ if in_this_pass => RestoreAction::Unloaded { due },
            true => RestoreAction::Requested,
            false => RestoreAction::of(record.attempts(), due),
        })
    }

    /// Prepares for a message that was paged out.
    ///
    /// It arrives next, unless its files are gone.
    pub(crate) fn prepare_restore(
        &mut self,
        cx: &mut Context,
        number: u64,
        record: PagedMessage,
        wanted: Vec<HostFilter>,
    ) {
        let recipients = u64::from(record.recipients);
        self.paging.recipients -= recipients.min(self.paging.recipients);
        // The arrival counts them again.
        cx.counters.recipients_in -= recipients.min(cx.counters.recipients_in);
        cx.counters.messages_in = cx.counters.messages_in.saturating_sub(1);
        self.paging.restored = Some((number, record));
        self.paging.wanted = wanted;
    }

    /// Takes the record of a message that arrives, if it was paged out.
    pub(crate) fn take_restored(&mut self, arrival: &Arrival) -> Option<RestoredMessage> {
        let (number, record) = self.paging.restored.take()?;
        let wanted = std::mem::take(&mut self.paging.wanted);
        let is_restored = number == arrival.name.number() && record.modified == arrival.modified;
        is_restored.then_some(RestoredMessage { record, wanted })
    }
}
