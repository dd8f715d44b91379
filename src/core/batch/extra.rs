//! Room for messages that preempt others (`extra-recipient-limit`).
//!
//! A large message that came first has all the room of its ring. One that preempts it could be read in steps of
//! the minimum only, and would lose its place with each. So a ring has more room for these: whoever has
//! something unread and preempts another gets half of what is left of both. It keeps that until all of it is
//! read, and then as much of it as it fills, until its recipients are dealt with.

use super::super::Scheduler;
use super::super::message::MessageId;
use super::super::ring::RingId;
use super::Batches;
use std::collections::BTreeSet;
use zsched_config::Clause;

/// What is left of the room of a ring, in recipients.
#[derive(Clone, Copy)]
pub(super) struct Pools {
    /// Of `recipient-limit`.
    pub usual: usize,
    /// Of `extra-recipient-limit`.
    pub extra: usize,
}

/// How many recipients of a ring may be in memory beyond the minimum of each message.
pub(super) fn slots(clause: &Clause) -> usize {
    clause.recipient_limit as usize + extra_slots(clause)
}

/// Of a ring in which nobody is preempted there are none.
fn extra_slots(clause: &Clause) -> usize {
    if clause.slot_cost > 0 { clause.extra_recipient_limit as usize } else { 0 }
}

impl Scheduler {
    /// How many recipients of a message are not in memory, at the most.
    pub(in super::super) fn unread_of(&self, message: MessageId) -> u32 {
        let partial = self.batches.partial.get(&message).filter(|_| self.is_partial(message));
        partial.map_or(0, |partial| partial.unread_at_most)
    }

    /// A message preempts another one in a ring. If it has something unread, it gets room to read it.
    pub(in super::super) fn has_preempted(&mut self, ring: RingId, message: MessageId) {
        if self.unread_of(message) == 0 {
            return;
        }
        let Pools { usual, extra } = self.pools(ring);
        let slots = ((usual + extra) / 2) as u32;
        let Some(partial) = self.batches.partial.get_mut(&message) else {
            return;
        };
        match partial.extra.iter_mut().find(|(of, _)| *of == ring) {
            Some((_, had)) => *had = had.saturating_add(slots),
            None => partial.extra.push((ring, slots)),
        }
        self.batches.with_extra.insert((ring, message));
        if slots > 0 {
            if let Some(jobs) = &mut self.rings[ring].jobs {
                jobs.await_more(message);
            }
            self.look_at_batch(message);
        }
    }

    /// What is left of the room of a ring.
    pub(super) fn pools(&self, ring: RingId) -> Pools {
        let first = (ring, MessageId::first());
        let with_extra = self.batches.with_extra.range(first..).take_while(|(of, _)| *of == ring);
        let (mut taken, mut filled) = (0, 0);
        for (_, message) in with_extra {
            let partial = &self.batches.partial[message];
            let slots = partial.extra_in(ring) as usize;
            let used = slots.min(self.messages[*message].pending as usize);
            taken += if partial.unread.is_some() { slots } else { used };
            filled += used;
        }
        let ring = &self.rings[ring];
        let limit = extra_slots(&ring.clause);
        // Who came while there was room in the usual pool has some of that.
        let of_usual = taken.saturating_sub(limit);
        let used = (ring.recipients as usize).saturating_sub(filled) + of_usual;
        Pools {
            usual: (ring.clause.recipient_limit as usize).saturating_sub(used),
            extra: limit.saturating_sub(taken),
        }
    }

    /// A message is not in memory in part any more.
    pub(super) fn give_extra_back(&mut self, message: MessageId, extra: &[(RingId, u32)]) {
        for (ring, _) in extra {
            self.batches.with_extra.remove(&(*ring, message));
            if let Some(jobs) = &mut self.rings[*ring].jobs {
                jobs.expect(message, 0);
            }
        }
    }
}

impl super::Partial {
    fn extra_in(&self, ring: RingId) -> u32 {
        self.extra.iter().find(|(of, _)| *of == ring).map_or(0, |(_, slots)| *slots)
    }

    /// The room that it has got for preempting others.
    pub(super) fn extra(&self) -> usize {
        self.extra.iter().map(|(_, slots)| *slots as usize).sum()
    }
}

impl Batches {
    /// A ring is forgotten, and its room with it.
    pub fn ring_goes(&mut self, ring: RingId) {
        let first = (ring, MessageId::first());
        while let Some((of, message)) = self.with_extra.range(first..).next().copied()
            && of == ring
        {
            self.with_extra.remove(&(ring, message));
            if let Some(partial) = self.partial.get_mut(&message) {
                partial.extra.retain(|(of, _)| *of != ring);
            }
        }
    }

    /// Panics if somebody has extra room who is not known to have it, or the other way round.
    pub(super) fn check_extra(&self) {
        let of_partial = self.partial.iter().flat_map(|(message, partial)| {
            partial.extra.iter().map(move |(ring, _)| (*ring, *message))
        });
        let all: BTreeSet<(RingId, MessageId)> = of_partial.collect();
        assert_eq!(all, self.with_extra, "extra room");
    }
}
