//! Reading more of a partial message.

use crate::Scheduler;
use crate::action::Action;
use crate::event::RereadResult;
use crate::queue::MessageId;
use log::Level;
use std::time::Duration;
use zsched_spool::Portion;

impl Scheduler {
    /// Reads more of a message, if there is room for it.
    ///
    /// Returns true if there may be room later.
    pub(super) fn read_on(&mut self, message: MessageId, from: u32) -> bool {
        let allowed = self.refill(message);
        if allowed == 0 {
            return true;
        }
        let at_most = u32::try_from(allowed).unwrap_or(u32::MAX);
        if let Some(partial) = self.admission.partials.partial.get_mut(&message) {
            partial.reading = Some(at_most);
            self.admission.partials.chunks_being_read += at_most as usize;
        }
        let name = self.queue.message(message).name();
        self.cx.act(Action::ReadMore { name, portion: Portion { from, max_recipients: at_most } });
        false
    }

    /// Number of recipients of a message that may be read now.
    fn refill(&self, message: MessageId) -> usize {
        let Some(limits) = self.view().limits() else {
            return usize::MAX;
        };
        let partial = &self.admission.partials.partial[&message];
        // A read is worth it from this number of recipients (`refill-limit`), or after this time
        // since the last one (`refill-delay`).
        let (mut limit, mut delay) = (self.queue.max_unread(message), Duration::MAX);
        let mut usual = 0;
        for ring in &partial.rings {
            let Some(ring_ref) = self.queue.rings().get(*ring) else {
                continue;
            };
            limit = limit.min(ring_ref.clause.refill_limit);
            delay = delay.min(ring_ref.clause.refill_delay);
            // The first message of a ring gets all of its room.
            if self.admission.partials.first_of(*ring) == Some(message) {
                usual += self.admission.pools(&self.queue, *ring).usual;
            }
        }
        let pending = self.queue.message(message).pending as usize;
        // Room for preemption is filled first.
        let (extra, filled) = (partial.extra(), partial.extra().min(pending));
        let mut slots = limits.minimum + usual + extra - filled;
        if usual == 0 {
            slots = slots.saturating_sub(pending - filled);
        }
        let room = self.view().recipient_room().map_or(usize::MAX, |room| room.room);
        let room = room.saturating_sub(self.admission.partials.first_chunks_being_read);
        let allowed = slots.min(room);
        let has_nothing = self.queue.message(message).vertices.is_empty();
        let is_late = self.cx.now.since(partial.read_at) >= delay;
        if has_nothing || is_late || allowed >= limit as usize { allowed } else { 0 }
    }

    /// The shell has read more of a message.
    pub(crate) fn more_read(&mut self, number: u64, outcome: RereadResult) {
        let Some(message) = self.queue.messages().find(number) else {
            return;
        };
        let Some(partial) = self.admission.partials.partial.get_mut(&message) else {
            return;
        };
        let Some(at_most) = partial.reading.take() else {
            return;
        };
        partial.read_at = self.cx.now;
        self.admission.partials.chunks_being_read -= at_most as usize;
        match self.check_reread(message, outcome) {
            None => {}
            Some(Ok(arrival)) => self.take_chunk(message, arrival),
            Some(Err(error)) => {
                let id = self.queue.message(message).spool_id();
                self.cx.log(Level::Error, format!("{id}: cannot read more of it: {error}"));
                self.admission.queue_partial_check(message);
                let again = self.cx.now + Duration::from_secs(1);
                self.admission.check_partials_at(again);
            }
        }
    }
}
