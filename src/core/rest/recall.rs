//! Messages that come back get what was learned of them.

use super::super::Scheduler;
use super::super::batch::Left;
use super::super::rested::{Rested, RestedVertex, Wanted};
use super::super::vertex::VertexId;
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// What is known of a message that comes back.
pub(in super::super) struct Recalled {
    rested: Rested,
    wanted: Vec<Wanted>,
}

/// How recipients that come back are to be dealt with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Recall {
    /// As if they were new.
    Unknown,
    /// They wait for their next try.
    Waiting {
        /// When that is; `None` is as soon as the destination is tried.
        due: Option<Timestamp>,
    },
    /// They were tried just now, and are to wait in any case.
    Left {
        /// Until when, if that is known.
        due: Option<Timestamp>,
    },
    /// Somebody has asked for them: they are tried now.
    Wanted,
}

impl Recall {
    /// How to deal with recipients for which there is no request. Those that were never tried have a time if their
    /// clause is `queueonly`.
    pub fn of(attempts: u32, due: Option<Timestamp>) -> Recall {
        match (attempts, due) {
            (0, None) => Recall::Unknown,
            (_, due) => Recall::Waiting { due },
        }
    }
}

impl Recalled {
    /// Of which nobody has asked for anything.
    pub fn of(rested: Rested) -> Recalled {
        Recalled { rested, wanted: Vec::new() }
    }

    /// What is known of its recipients.
    pub fn learned(&self) -> Vec<RestedVertex> {
        self.rested.vertices.to_vec()
    }

    /// What somebody has asked for.
    pub fn wanted(&self) -> Vec<Wanted> {
        self.wanted.clone()
    }
}

impl Scheduler {
    /// The shell is about to tell of a message that has rested, or whose files are gone.
    pub(in super::super) fn recalled(&mut self, number: u64, rested: Rested, wanted: Vec<Wanted>) {
        let recipients = u64::from(rested.recipients);
        self.rests.recipients -= recipients.min(self.rests.recipients);
        // They are counted again when it arrives.
        self.counters.recipients_in -= recipients.min(self.counters.recipients_in);
        self.counters.messages_in = self.counters.messages_in.saturating_sub(1);
        self.rests.recalled = Some((number, rested));
        self.rests.wanted = wanted;
    }

    /// What is known of a message that arrives from before.
    pub(in super::super) fn take_recalled(&mut self, arrival: &Arrival) -> Option<Recalled> {
        let (number, rested) = self.rests.recalled.take()?;
        let wanted = std::mem::take(&mut self.rests.wanted);
        let is_it = number == arrival.name.number() && rested.modified == arrival.modified;
        is_it.then_some(Recalled { rested, wanted })
    }

    /// Gives a vertex back what was learned of it. Tells how it is to be dealt with.
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

    /// Gives a vertex of a large message back what was learned of those who were left behind.
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
