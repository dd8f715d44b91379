//! Assignment of work in rings that choose by message ([`crate::queue::jobs`]).
//!
//! In such a ring a hungry agent belongs to no thread: it gets the next entry of the ring, and belongs to
//! that thread until it is hungry again. It gets several entries at once only if they are the
//! ring's next anyway.

use crate::Scheduler;
use crate::dispatch::AgentId;
use crate::queue::jobs::Entry;
use crate::queue::{RingId, ThreadId};

impl Scheduler {
    /// Feeds an agent without a thread the next entry of its ring.
    ///
    /// Returns true if there was one.
    ///
    /// It gets up to `burst` entries if the following ones are in the same thread. An entry in the
    /// `former` thread is preferred if the job has one, because the agent's connection may still be
    /// open.
    pub(crate) fn feed_next(
        &mut self,
        agent: AgentId,
        former: Option<ThreadId>,
        burst: usize,
    ) -> bool {
        let ring = self.dispatch.agents[agent].ring;
        let Some((thread, first)) = self.select_next(ring, former, None) else {
            return false;
        };
        let flow = self.queue.flow(thread);
        let burst = if flow.rate.is_some() || flow.delay.is_some() { 1 } else { burst };
        let mut chosen = vec![first];
        while chosen.len() < burst
            && let Some((_, next)) = self.select_next(ring, Some(thread), Some(thread))
        {
            chosen.push(next);
        }
        self.dispatch.agents.start_burst(agent, self.cx.now, chosen.len());
        self.dispatch.attach(&mut self.queue, &mut self.cx, agent, thread);
        for vertex in chosen {
            if self.dispatch.may_start_delivery(&self.queue, &mut self.cx, agent, thread) {
                self.dispatch.feed_one(&mut self.queue, &mut self.cx, agent, vertex);
            } else {
                debug_assert!(false, "a thread is ready, but may start no delivery");
                self.queue.enqueue_vertex(self.cx.now, vertex);
            }
        }
        true
    }

    /// Takes the next entry of a ring.
    ///
    /// If `must` names a thread, the entry must be in it.
    fn select_next(
        &mut self,
        ring: RingId,
        preferred: Option<ThreadId>,
        must: Option<ThreadId>,
    ) -> Option<Entry> {
        let jobs = self.queue.rings[ring].jobs.as_deref_mut()?;
        let (thread, vertex) = jobs.choose(self.cx.now, preferred)?;
        if let Some(message) = jobs.take_preempting() {
            self.admission.has_preempted(&mut self.queue, &mut self.cx, ring, message);
        }
        if must.is_some_and(|must| must != thread) {
            return None;
        }
        let message = self.queue.vertices[vertex].message;
        let jobs = self.queue.rings[ring].jobs.as_deref_mut()?;
        jobs.select(message, thread, vertex);
        Some((thread, vertex))
    }
}
