//! Which mail is in memory.
//!
//! [`intake`] chooses the control files that are read; the shell owns its [`intake::Intake`]. Of
//! large messages only some recipients are loaded ([`partial`]). Messages that wait may be evicted
//! ([`paging`]).
//!
//! | limit | where it is applied |
//! |---|---|
//! | messages in memory (`PARAMmessage-active-limit`) | `Intake::has_room`; [`paging`] evicts when files wait for room |
//! | recipients in memory (`PARAMmessage-recipient-limit` …) | [`partial`], its `recipient_room` |

pub mod intake;

pub mod paged_message;
pub mod paging;
pub mod partial;

use crate::queue::{Queue, RingId};
use paging::PagingState;
use partial::PartialMessages;
use serde::{Deserialize, Serialize};

/// What is known about mail that is not in memory.
#[derive(Default, Serialize, Deserialize)]
pub struct Admission {
    /// Messages that are paged out, and their destinations.
    paging: PagingState,
    /// Messages of which only some recipients are in memory.
    partials: PartialMessages,
}

impl Admission {
    /// Forgets a ring that is removed.
    pub fn drop_ring(&mut self, ring: RingId) {
        self.partials.drop_ring(ring);
    }

    /// Panics if paging or partial messages contradict the queue.
    pub fn check(&self, queue: &Queue) {
        self.paging.check();
        self.partials.check(queue);
    }
}
