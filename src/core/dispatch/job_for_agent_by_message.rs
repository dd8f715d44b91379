//! Assignment of work in rings that choose by message ([`crate::queue::jobs`]).
//!
//! In such a ring a hungry agent belongs to no thread: it gets the next entry of the ring, and
//! belongs to that thread until it is hungry again. It gets several entries at once only if they
//! are the ring's next anyway.

use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::{AgentId, Dispatch};
use crate::queue::{Queue, ThreadId};

impl Dispatch {
    /// Feeds an agent without a thread the next entry of its ring.
    ///
    /// Returns true if there was one.
    ///
    /// It gets up to `burst` entries if the following ones are in the same thread. An entry in the
    /// `former` thread is preferred if the job has one, because the agent's connection may still be
    /// open.
    pub(crate) fn feed_next(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        agent: AgentId,
        former: Option<ThreadId>,
        burst: usize,
    ) -> bool {
        let ring = self.agents[agent].ring;
        let Some((thread, first)) = queue.select_next(admission, cx, ring, former, None) else {
            return false;
        };
        let flow = queue.flow(thread);
        let burst = if flow.rate.is_some() || flow.delay.is_some() { 1 } else { burst };
        let mut chosen = vec![first];
        while chosen.len() < burst
            && let Some((_, next)) =
                queue.select_next(admission, cx, ring, Some(thread), Some(thread))
        {
            chosen.push(next);
        }
        self.agents.start_burst(agent, cx.now, chosen.len());
        self.attach(queue, cx, agent, thread);
        for vertex in chosen {
            if self.may_start_delivery(queue, cx, agent, thread) {
                self.feed_one(queue, cx, agent, vertex);
            } else {
                debug_assert!(false, "a thread is ready, but may start no delivery");
                queue.enqueue_vertex(cx.now, vertex);
            }
        }
        true
    }
}
