//! Limits of recipients in memory, and the room that is left.
//!
//! The limit of messages in memory is in [`crate::intake`].

use crate::admission::Admission;
use crate::admission::partial::preemption_reserve::slots;
use crate::query::view::View;
use crate::queue::{Ring, RingId};
use zsched_config::MemoryLimits;

/// Room for recipients in memory.
#[derive(Clone, Copy, Debug)]
pub struct RecipientRoom {
    limits: MemoryLimits,
    /// Recipients in memory, and those that the core has requested.
    present: usize,
    /// Number of further recipients that fit, wherever they go.
    pub(super) room: usize,
}

impl RecipientRoom {
    /// Maximum number of recipients for a first chunk; 0 means no room.
    ///
    /// `under_way` is the number of recipients in other chunks that the shell is reading.
    pub fn first_chunk(&self, under_way: usize) -> u32 {
        let RecipientRoom { limits, present, room } = *self;
        let room = room.saturating_sub(under_way);
        let left = limits.recipients.saturating_sub(present + under_way);
        // Leaves room for messages that arrive at the same time.
        let wanted = limits.minimum.max(left.div_ceil(2));
        if room >= limits.minimum { wanted.min(room) as u32 } else { 0 }
    }
}

impl<'s> View<'s> {
    pub(super) fn limits(self) -> Option<MemoryLimits> {
        self.core.cx.config.parameters.memory()
    }

    /// Maximum number of recipients in memory; `None` means unlimited.
    pub fn max_recipients(self) -> Option<usize> {
        let ring_slots = self.core.queue.rings().iter().map(|(_, ring)| slots(&ring.clause));
        self.bound_with(ring_slots.sum())
    }

    /// Maximum number of recipients of a ring in memory; `None` means unlimited.
    pub fn max_recipients_of(self, ring: &Ring) -> Option<usize> {
        self.bound_with(slots(&ring.clause))
    }

    fn bound_with(self, ring_slots: usize) -> Option<usize> {
        let limits = self.limits()?;
        let pools = limits.minimum.saturating_mul(limits.messages).saturating_add(ring_slots);
        Some(pools.max(limits.recipients))
    }

    /// Returns the room for recipients; `None` means unlimited.
    ///
    /// Visits all rings.
    pub fn recipient_room(self) -> Option<RecipientRoom> {
        let limits = self.limits()?;
        let present = self.recipients() as usize + self.core.admission.partials.chunks_being_read;
        let total_room = self.max_recipients()?.saturating_sub(present);
        let room_in_ring = |(_, ring): (RingId, &Ring)| {
            let taken = ring.recipients as usize + self.core.admission.partials.chunks_being_read;
            self.max_recipients_of(ring).map(|max| max.saturating_sub(taken))
        };
        let rings = self.core.queue.rings().iter();
        let fullest_ring = rings.filter_map(room_in_ring).min().unwrap_or(usize::MAX);
        // All recipients of a chunk may go to a ring that does not exist yet.
        let new_ring = limits.recipients.max(limits.minimum.saturating_mul(limits.messages));
        let new_ring = new_ring.saturating_sub(self.core.admission.partials.chunks_being_read);
        Some(RecipientRoom { limits, present, room: total_room.min(fullest_ring).min(new_ring) })
    }
}

impl Admission {
    /// Maximum number of recipients in first chunks being read, as the shell reported.
    pub(crate) fn first_chunks_being_read(&self) -> u32 {
        self.partials.first_chunks_being_read as u32
    }

    /// Sets the maximum number of recipients in first chunks being read.
    pub(crate) fn set_first_chunks_being_read(&mut self, recipients: u32) {
        self.partials.first_chunks_being_read = recipients as usize;
    }
}
