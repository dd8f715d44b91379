//! Room for messages that preempt others (`extra-recipient-limit`).
//!
//! A large message that arrived first has all the room of its ring. A message that preempts it
//! could be read only in steps of the minimum, and would lose its place with each step. So a ring
//! has extra room. A message with an unread part that preempts another gets half of what is left of
//! the usual and the extra room. It keeps this until it is read completely. From then on it keeps
//! what it fills, until its recipients are finished.

use crate::admission::Admission;
use crate::admission::partial::PartialMessages;
use crate::queue::{MessageId, Queue, RingId};
use std::collections::BTreeSet;
use zsched_config::Clause;

/// Room that is left in a ring, in recipients.
#[derive(Clone, Copy)]
pub(super) struct RingRoom {
    /// Of `recipient-limit`.
    pub usual: usize,
    /// Of `extra-recipient-limit`.
    pub extra: usize,
}

/// Maximum number of recipients of a ring beyond each message's minimum.
pub(super) fn slots(clause: &Clause) -> usize {
    clause.recipient_limit as usize + extra_slots(clause)
}

/// Extra room of a ring; none if the ring has no preemption.
fn extra_slots(clause: &Clause) -> usize {
    if clause.slot_cost > 0 { clause.extra_recipient_limit as usize } else { 0 }
}

impl Admission {
    /// Grants extra room to a message that has preempted another.
    ///
    /// A message without an unread part gets none.
    pub(crate) fn has_preempted(&mut self, queue: &mut Queue, ring: RingId, message: MessageId) {
        if queue.max_unread(message) == 0 {
            return;
        }
        let RingRoom { usual, extra } = self.pools(queue, ring);
        let slots = ((usual + extra) / 2) as u32;
        let Some(partial) = self.partials.partial.get_mut(&message) else {
            return;
        };
        match partial.extra.iter_mut().find(|(of, _)| *of == ring) {
            Some((_, had)) => *had = had.saturating_add(slots),
            None => partial.extra.push((ring, slots)),
        }
        self.partials.with_reserve.insert((ring, message));
        if slots > 0 {
            queue.keep_place_while_read(ring, message);
            queue.mark_message(message);
        }
    }

    /// Returns the room that is left in a ring.
    pub(super) fn pools(&self, queue: &Queue, ring: RingId) -> RingRoom {
        let first = (ring, MessageId::FIRST);
        let with_reserve =
            self.partials.with_reserve.range(first..).take_while(|(of, _)| *of == ring);
        let (mut taken, mut filled) = (0, 0);
        for (_, message) in with_reserve {
            let partial = &self.partials.partial[message];
            let slots = partial.extra_in(ring) as usize;
            let used = slots.min(queue.message(*message).pending as usize);
            taken += if partial.unread.is_some() { slots } else { used };
            filled += used;
        }
        let ring = queue.ring(ring);
        let limit = extra_slots(&ring.clause);
        // Grants beyond the extra room come from the usual room.
        let of_usual = taken.saturating_sub(limit);
        let used = (ring.recipients as usize).saturating_sub(filled) + of_usual;
        RingRoom {
            usual: (ring.clause.recipient_limit as usize).saturating_sub(used),
            extra: limit.saturating_sub(taken),
        }
    }

    /// Takes back the extra room of a message no longer partial.
    pub(super) fn return_reserve(
        &mut self,
        queue: &mut Queue,
        message: MessageId,
        extra: &[(RingId, u32)],
    ) {
        for (ring, _) in extra {
            self.partials.with_reserve.remove(&(*ring, message));
            queue.expect_entries(*ring, message, 0);
        }
    }
}

impl crate::admission::partial::PartialMessage {
    fn extra_in(&self, ring: RingId) -> u32 {
        self.extra.iter().find(|(of, _)| *of == ring).map_or(0, |(_, slots)| *slots)
    }

    /// Extra room of the message in all rings.
    pub(super) fn extra(&self) -> usize {
        self.extra.iter().map(|(_, slots)| *slots as usize).sum()
    }
}

impl PartialMessages {
    /// Drops the extra room of a ring that is removed.
    pub fn drop_ring(&mut self, ring: RingId) {
        let first = (ring, MessageId::FIRST);
        while let Some((of, message)) = self.with_reserve.range(first..).next().copied()
            && of == ring
        {
            self.with_reserve.remove(&(ring, message));
            if let Some(partial) = self.partial.get_mut(&message) {
                partial.extra.retain(|(of, _)| *of != ring);
            }
        }
    }

    /// Panics if the index of extra room is inconsistent.
    pub(super) fn check_extra(&self) {
        let of_partial = self.partial.iter().flat_map(|(message, partial)| {
            partial.extra.iter().map(move |(ring, _)| (*ring, *message))
        });
        let all: BTreeSet<(RingId, MessageId)> = of_partial.collect();
        assert_eq!(all, self.with_reserve, "extra room");
    }
}
