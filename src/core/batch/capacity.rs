//! How many recipients there may be in memory, and how many there are.

use super::super::Scheduler;
use super::super::ring::{Ring, RingId};
use super::extra::slots;
use zsched_config::MemoryLimits;

/// How much room there is for recipients.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    limits: MemoryLimits,
    /// Recipients in memory, and those that the core has asked for.
    present: usize,
    /// How many more there may be, whoever they are.
    pub(super) room: usize,
}

impl Capacity {
    /// How many recipients the first batch of a message may have, if the shell has so many others under way.
    /// Zero is that there is no room.
    pub fn first_batch(&self, under_way: usize) -> u32 {
        let Capacity { limits, present, room } = *self;
        let room = room.saturating_sub(under_way);
        let left = limits.recipients.saturating_sub(present + under_way);
        // Others may come at the same time.
        let wanted = limits.minimum.max(left.div_ceil(2));
        if room >= limits.minimum { wanted.min(room) as u32 } else { 0 }
    }
}

impl Scheduler {
    pub(super) fn limits(&self) -> Option<MemoryLimits> {
        self.config.parameters.memory()
    }

    /// How many recipients may be in memory at the most; `None` is any number.
    pub fn most_recipients(&self) -> Option<usize> {
        let limits = self.limits()?;
        let of_rings = self.rings.iter().map(|(_, ring)| slots(&ring.clause));
        let pools = limits.minimum.saturating_mul(limits.messages).saturating_add(of_rings.sum());
        Some(pools.max(limits.recipients))
    }

    /// The same of a ring.
    pub fn most_recipients_of(&self, ring: RingId) -> Option<usize> {
        let limits = self.limits()?;
        let pool = slots(&self.rings.get(ring)?.clause);
        let pools = limits.minimum.saturating_mul(limits.messages).saturating_add(pool);
        Some(pools.max(limits.recipients))
    }

    /// Recipients of a ring that are in memory.
    pub fn recipients_of(&self, ring: RingId) -> Option<usize> {
        Some(self.rings.get(ring)?.recipients as usize)
    }

    /// How much room there is for recipients; `None` is any. It takes a look at all rings.
    pub fn capacity(&self) -> Option<Capacity> {
        let limits = self.limits()?;
        let present = self.recipients() as usize + self.batches.reserved;
        let of_all = self.most_recipients()?.saturating_sub(present);
        let of_ring = |(id, ring): (RingId, &Ring)| {
            let taken = ring.recipients as usize + self.batches.reserved;
            self.most_recipients_of(id).map(|most| most.saturating_sub(taken))
        };
        let of_rings = self.rings.iter().filter_map(of_ring).min().unwrap_or(usize::MAX);
        // All of them may go to a ring that is not there yet.
        let of_new = limits.recipients.max(limits.minimum.saturating_mul(limits.messages));
        let of_new = of_new.saturating_sub(self.batches.reserved);
        Some(Capacity { limits, present, room: of_all.min(of_rings).min(of_new) })
    }

    /// How many recipients may come with first batches, as the shell has said.
    pub(in super::super) fn reserved(&self) -> u32 {
        self.batches.reserved_by_shell as u32
    }

    /// The shell has first batches under way with at most so many recipients.
    pub(in super::super) fn reserve(&mut self, recipients: u32) {
        self.batches.reserved_by_shell = recipients as usize;
    }
}
