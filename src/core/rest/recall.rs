//! Restoring what was known about messages that are loaded again.

use super::super::Scheduler;
use super::super::batch::Left;
use super::super::rested::{Rested, RestedVertex, Wanted};
use super::super::vertex::VertexId;
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// What is known about a message that is loaded again.
pub(in super::super) struct Recalled {
    rested: Rested,
    wanted: Vec<Wanted>,
}

/// What happens with recipients that are loaded again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Recall {
    /// They are treated as new.
    Unknown,
    /// They wait for their next try.
    Waiting {
        /// Due time; `None` is as soon as the destination is tried.
        due: Option<Timestamp>,
    },
    /// They were tried in this pass, and wait in any case.
    Left {
        /// Due time, if it is known.
        due: Option<Timestamp>,
    },
    /// They were requested, and are tried now.
    Wanted,
}

impl Recall {
    /// The treatment of recipients without a request.
    ///
    /// Recipients that were never tried have a due time if their clause is `queueonly`.
    pub fn of(attempts: u32, due: Option<Timestamp>) -> Recall {
        match (attempts, due) {
            (0, None) => Recall::Unknown,
            (_, due) => Recall::Waiting { due },
        }
    }
}

impl Recalled {
    /// Creates a record without requests.
    pub fn of(rested: Rested) -> Recalled {
        Recalled { rested, wanted: Vec::new() }
    }

    /// What is known about its recipients.
    pub fn learned(&self) -> Vec<RestedVertex> {
        self.rested.vertices.to_vec()
    }

    /// Requests for its recipients.
    pub fn wanted(&self) -> Vec<Wanted> {
        self.wanted.clone()
    }
}

impl Scheduler {
    /// Prepares for a message that was paged out.
    ///
    /// It arrives next, unless its files are gone.
    pub(in super::super) fn recalled(&mut self, number: u64, rested: Rested, wanted: Vec<Wanted>) {
        let recipients = u64::from(rested.recipients);
        self.rests.recipients -= recipients.min(self.rests.recipients);
        // The arrival counts them again.
        self.counters.recipients_in -= recipients.min(self.counters.recipients_in);
        self.counters.messages_in = self.counters.messages_in.saturating_sub(1);
        self.rests.recalled = Some((number, rested));
        self.rests.wanted = wanted;
    }

    /// Takes the record of a message that arrives, if it was paged out.
    pub(in super::super) fn take_recalled(&mut self, arrival: &Arrival) -> Option<Recalled> {
        let (number, rested) = self.rests.recalled.take()?;
        let wanted = std::mem::take(&mut self.rests.wanted);
        let is_it = number == arrival.name.number() && rested.modified == arrival.modified;
        is_it.then_some(Recalled { rested, wanted })
    }

    /// Restores a vertex. Returns what happens with it.
    pub(in super::super) fn recall_rested(
        &mut self,
        recalled: &Recalled,
        vertex: VertexId,
    ) -> Recall {
        let to = &self.threads[self.vertices[vertex].thread].destination;
        let (vertices, key) = (&recalled.rested.vertices, RestedVertex::key_of(to));
        let Ok(place) = vertices.binary_search_by_key(&key, |rested| rested.key()) else {
            return Recall::Unknown;
        };
        let rested = &vertices[place];
        let vertex = &mut self.vertices[vertex];
        rested.teach(vertex);
        vertex.diagnosis = self.rests.texts.find(rested.text());
        match recalled.wanted.iter().any(|wanted| wanted.means(*rested)) {
            true => Recall::Wanted,
            false => Recall::of(vertex.attempts, rested.due()),
        }
    }

    /// Restores a vertex of a partial message whose recipients were paged out.
    pub(in super::super) fn recall_left(&mut self, left: Option<Left>, vertex: VertexId) -> Recall {
        let Some(Left { learned, in_this_pass, is_wanted }) = left else {
            return Recall::Unknown;
        };
        let vertex = &mut self.vertices[vertex];
        learned.teach(vertex);
        vertex.diagnosis = self.rests.texts.find(learned.text());
        match vertex.attempts {
            _ if in_this_pass => Recall::Left { due: learned.due() },
            _ if is_wanted => Recall::Wanted,
            attempts => Recall::of(attempts, learned.due()),
        }
    }
}
