//! What is queued: messages, their vertices, and the threads that these are in.

pub mod destination;
pub mod message;
mod number_index;
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
mod feeding;
mod marks;
mod reread;
mod clock;

mod keep_back;
mod overrides;
mod selection;

pub mod oldest;
mod paging;
mod partial;

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
pub use message::{Message, MessageFlag, MessageId, Messages};
pub use retry::{MIN_HOST_DOWN_WAIT, RetryJump, RetryPosition};
pub use ring::{Ring, RingId, Rings};
pub use thread::{ReadyChain, Retry, Thread, ThreadId, Threads};
pub use unreachable::{Cause, Unreachable, UnreachableReason, UnreachableReport};
pub use vertex::{AfterJob, Diagnosis, MessageChain, ThreadChain, Vertex, VertexId, VertexState};
pub use waves::Waves;

use crate::pool::Pool;
use backfill::Backfill;
use clock::LastClockStep;
use expiry::ExpiryChecks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use zsched_format::time::Timestamp;

/// All mail in memory: which message has recipients where, and in which state they are.
#[derive(Default, Serialize, Deserialize)]
pub struct Queue {
    messages: Messages,
    vertices: Pool<Vertex>,
    threads: Threads,
    rings: Rings,
    /// Maximum number of recipients in the unread part of each partial message.
    unread: BTreeMap<MessageId, u32>,
    /// Threads with due vertices that are still to be deferred.
    deferrals: Deferrals,
    /// Threads with vertices that are still to be checked for expiry.
    expiry_checks: ExpiryChecks,
    /// Threads whose due vertices are still to be enqueued in jobs.
    backfill: Backfill,
    /// Vertices that have become due, or have begun to wait, or are held.
    // Empty between two events.
    #[serde(skip)]
    changed_vertices: VecDeque<VertexId>,
    /// The last step of the clock, which some threads may not have applied yet.
    clock: LastClockStep,
}

impl Queue {
    /// All messages in memory.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// All vertices, for the lists that traverse them.
    pub fn vertices(&self) -> &Pool<Vertex> {
        &self.vertices
    }

    /// All threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// All rings.
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    /// A message.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id]
    }

    /// A vertex.
    pub fn vertex(&self, id: VertexId) -> &Vertex {
        &self.vertices[id]
    }

    /// A thread.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id]
    }

    /// A ring.
    pub fn ring(&self, id: RingId) -> &Ring {
        &self.rings[id]
    }

    /// A message that changes: what follows from it is settled later.
    pub fn message_mut(&mut self, id: MessageId) -> &mut Message {
        &mut self.messages[id]
    }

    /// The vertices of a message.
    pub fn vertices_of(&self, message: MessageId) -> Vec<VertexId> {
        self.messages[message].vertices.to_vec(&self.vertices)
    }

    /// Removes a ring without threads.
    pub fn remove_ring(&mut self, id: RingId) {
        self.rings.remove(id);
    }

    /// Removes a message from memory.
    pub fn remove_message(&mut self, id: MessageId) {
        self.messages.remove(id);
    }

    /// Returns true if due vertices are still to be enqueued in jobs.
    pub fn has_backfill(&self) -> bool {
        !self.backfill.is_empty()
    }

    /// Returns true if vertices are still to be checked for expiry.
    pub fn has_expiry_checks(&self) -> bool {
        !self.expiry_checks.is_empty()
    }

    /// Returns true if due vertices are still to be deferred.
    pub fn has_deferrals(&self) -> bool {
        !self.deferrals.is_empty()
    }

    /// Completes a restored queue: the index of its threads, and the diagnoses of its vertices.
    ///
    /// The numbers are those of the vertices' diagnoses, from 1; 0 means none.
    pub fn complete(&mut self, diagnoses: Vec<Rc<Diagnosis>>, numbers: Vec<u32>) -> Option<()> {
        self.threads.restore_index();
        for (vertex, number) in self.vertices.iter_mut().zip(numbers) {
            if number > 0 {
                vertex.diagnosis = Some(diagnoses.get(number as usize - 1)?.clone());
            }
        }
        Some(())
    }

    /// Maximum number of unread recipients of a message.
    pub(crate) fn max_unread(&self, message: MessageId) -> u32 {
        self.unread.get(&message).copied().unwrap_or(0)
    }

    /// Removes a vertex that waits from memory, without an end of its recipients.
    pub fn evict_vertex(&mut self, now: Timestamp, id: VertexId) {
        let Vertex { message, thread, .. } = self.vertices[id];
        let pending = self.vertices[id].pending();
        self.messages[message].pending -= pending;
        self.adjust_recipients(thread, -i64::from(pending));
        self.messages[message].vertices.remove(&mut self.vertices, id);
        self.set_state(now, id, VertexState::Finished);
        self.vertices.remove(id);
    }

    /// Changes a vertex in place, and the counts of its thread with it.
    pub(crate) fn change_vertex<T>(
        &mut self,
        vertex: VertexId,
        change: impl FnOnce(&mut Vertex) -> T,
    ) -> T {
        let vertex = &mut self.vertices[vertex];
        let before = vertex.deferred();
        let changed = change(vertex);
        let thread = &mut self.threads.pool_mut()[vertex.thread];
        thread.deferred = thread.deferred - before + vertex.deferred();
        changed
    }
}
