//! What is queued: messages, their vertices, and the threads that these are in.

pub mod destination;
pub mod message;
pub mod thread;
pub mod vertex;
pub mod ring;
pub mod jobs;
mod vertex_state;
pub mod waves;

mod arrival;
mod thread_of_arrival;
pub mod backfill;
mod ring_jobs;

pub mod deferall;
pub mod deferral;
pub mod expiry;
pub mod host_health;
pub mod retry;
pub mod schedule;
pub mod unreachable;

pub mod attempt_records;
mod finish;
mod message_removal;

mod check;

pub use deferral::{DeferralNote, Deferrals};
pub use destination::Destination;
pub use host_health::{DeferralCount, FailureScope};
pub use message::{Message, MessageId, Messages};
pub use retry::{MIN_HOST_DOWN_WAIT, RetryJump, RetryPosition};
pub use ring::{Ring, RingId, Rings};
pub use thread::{ReadyChain, Retry, Thread, ThreadId, Threads};
pub use unreachable::{Cause, Unreachable, UnreachableReason, UnreachableReport};
pub use vertex::{AfterJob, Diagnosis, MessageChain, ThreadChain, Vertex, VertexId, VertexState};
pub use waves::Waves;

use crate::clock_step::LastClockStep;
use crate::pool::Pool;
use backfill::Backfill;
use expiry::ExpiryChecks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All mail in memory: which message has recipients where, and in which state they are.
#[derive(Default, Serialize, Deserialize)]
pub struct Queue {
    pub messages: Messages,
    pub vertices: Pool<Vertex>,
    pub threads: Threads,
    pub rings: Rings,
    /// Maximum number of recipients in the unread part of each partial message.
    pub unread: BTreeMap<MessageId, u32>,
    /// Threads with due vertices that are still to be deferred.
    pub deferrals: Deferrals,
    /// Threads with vertices that are still to be checked for expiry.
    pub expiry_checks: ExpiryChecks,
    /// Threads whose due vertices are still to be enqueued in jobs.
    pub backfill: Backfill,
    /// The last step of the clock, which some threads may not have applied yet.
    pub clock: LastClockStep,
}

impl Queue {
    /// Maximum number of unread recipients of a message.
    pub(crate) fn max_unread(&self, message: MessageId) -> u32 {
        self.unread.get(&message).copied().unwrap_or(0)
    }

    /// Changes a vertex in place, and the counts of its thread with it.
    pub(crate) fn change_vertex(&mut self, vertex: VertexId, change: impl FnOnce(&mut Vertex)) {
        let vertex = &mut self.vertices[vertex];
        let before = vertex.deferred();
        change(vertex);
        let thread = &mut self.threads.pool_mut()[vertex.thread];
        thread.deferred = thread.deferred - before + vertex.deferred();
    }
}
