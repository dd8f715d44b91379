//! Restoring what was known about messages that are loaded again.

use crate::Scheduler;
use crate::admission::Admission;
use crate::admission::paged_message::{HostFilter, PagedMessage, PagedVertex};
use crate::admission::partial::Unloaded;
use crate::queue::vertex::VertexId;
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// What is known about a message that is loaded again.
pub(crate) struct RestoredMessage {
    rested: PagedMessage,
    wanted: Vec<HostFilter>,
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

impl RestoredMessage {
    /// Creates a record without requests.
    pub fn of(rested: PagedMessage) -> RestoredMessage {
        RestoredMessage { rested, wanted: Vec::new() }
    }

    /// What is known about its recipients.
    pub fn learned(&self) -> Vec<PagedVertex> {
        self.rested.vertices.to_vec()
    }

    /// Requests for its recipients.
    pub fn wanted(&self) -> Vec<HostFilter> {
        self.wanted.clone()
    }
}

impl Scheduler {
    /// Prepares for a message that was paged out.
    ///
    /// It arrives next, unless its files are gone.
    pub(crate) fn prepare_restore(
        &mut self,
        number: u64,
        rested: PagedMessage,
        wanted: Vec<HostFilter>,
    ) {
        let recipients = u64::from(rested.recipients);
        self.admission.paging.recipients -= recipients.min(self.admission.paging.recipients);
        // The arrival counts them again.
        self.counters.recipients_in -= recipients.min(self.counters.recipients_in);
        self.counters.messages_in = self.counters.messages_in.saturating_sub(1);
        self.admission.paging.restored = Some((number, rested));
        self.admission.paging.wanted = wanted;
    }

    /// Restores a vertex. Returns what happens with it.
    pub(crate) fn restore_paged_vertex(
        &mut self,
        prepare_restore: &RestoredMessage,
        vertex: VertexId,
    ) -> RestoreAction {
        let to = &self.queue.threads[self.queue.vertices[vertex].thread].destination;
        let (vertices, key) = (&prepare_restore.rested.vertices, PagedVertex::key_of(to));
        let Ok(place) = vertices.binary_search_by_key(&key, |rested| rested.key()) else {
            return RestoreAction::Unknown;
        };
        let rested = &vertices[place];
        let vertex = &mut self.queue.vertices[vertex];
        rested.restore_to(vertex);
        vertex.diagnosis = self.admission.paging.texts.find(rested.text());
        match prepare_restore.wanted.iter().any(|wanted| wanted.selects(*rested)) {
            true => RestoreAction::Requested,
            false => RestoreAction::of(vertex.attempts, rested.due()),
        }
    }

    /// Restores a vertex of a partial message whose recipients were paged out.
    pub(crate) fn restore_unloaded_vertex(
        &mut self,
        left: Option<Unloaded>,
        vertex: VertexId,
    ) -> RestoreAction {
        let Some(Unloaded { learned, in_this_pass, is_wanted }) = left else {
            return RestoreAction::Unknown;
        };
        let vertex = &mut self.queue.vertices[vertex];
        learned.restore_to(vertex);
        vertex.diagnosis = self.admission.paging.texts.find(learned.text());
        match vertex.attempts {
            _ if in_this_pass => RestoreAction::Unloaded { due: learned.due() },
            _ if is_wanted => RestoreAction::Requested,
            attempts => RestoreAction::of(attempts, learned.due()),
        }
    }
}

impl Admission {
    /// Takes the record of a message that arrives, if it was paged out.
    pub(crate) fn take_restored(&mut self, arrival: &Arrival) -> Option<RestoredMessage> {
        let (number, rested) = self.paging.restored.take()?;
        let wanted = std::mem::take(&mut self.paging.wanted);
        let is_it = number == arrival.name.number() && rested.modified == arrival.modified;
        is_it.then_some(RestoredMessage { rested, wanted })
    }
}
