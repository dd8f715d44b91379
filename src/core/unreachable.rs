//! Destinations that are known to be unreachable, and the reports by which they are.
//!
//! New mail is tried at once unless its destination is known to be unreachable
//! (`docs/architecture.md`, "What waits for a retry").

use super::Scheduler;
use super::agent::AgentId;
use super::retry::seconds_of;
use super::thread::{Retry, ThreadId};
use super::vertex::{Diagnosis, VertexId};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// A destination that is known to be unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// When it is tried again.
    pub until: Timestamp,
    /// How it is known.
    pub block: Block,
    /// The report that said so, as far as it is known.
    pub cause: Option<Rc<Cause>>,
}

/// How a destination is known to be unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Block {
    /// An agent said that it cannot be reached (`deferall`).
    HostDown,
    /// An agent said when to try it again (`retryat`).
    AgentAsked,
    /// Agents die over it.
    AgentsDie,
    /// Too many rounds of agents could not reach the host (`failed-cohort-limit`).
    Dead,
    /// The last report blames the host by its status code.
    Blamed,
    /// The last jobs, of three messages or more, were all deferred without a status code.
    AllDeferred,
}

impl Block {
    /// Whether nothing at all is tried before the time, and no other report changes that.
    pub fn is_firm(self) -> bool {
        !matches!(self, Block::Blamed | Block::AllDeferred)
    }
}

/// What was said of a destination, by which agent, about which message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The process of the agent.
    pub pid: Option<u32>,
    /// The message that it had.
    pub id: Option<SpoolId>,
    /// When it said so.
    pub at: Timestamp,
    /// What it said.
    pub diagnosis: Option<Rc<Diagnosis>>,
}

impl Scheduler {
    /// The report of an agent about a vertex, as the cause of a wait.
    pub(super) fn cause(
        &self,
        now: Timestamp,
        agent: Option<AgentId>,
        vertex: VertexId,
        diagnosis: Option<&Rc<Diagnosis>>,
    ) -> Rc<Cause> {
        let pid = agent.and_then(|agent| self.agents.get(&agent)?.pid);
        let id = Some(self.messages[self.vertices[vertex].message].spool_id());
        Rc::new(Cause { pid, id, at: now, diagnosis: diagnosis.cloned() })
    }

    /// Notes that a destination is unreachable, until `at_least` or its next try, whichever is later. Returns that
    /// time. The clause must not be `queueonly`.
    pub(super) fn mark_unreachable(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        (at_least, block): (Timestamp, Block),
        cause: Option<Rc<Cause>>,
    ) -> Timestamp {
        self.settle_clock(thread);
        let former = self.threads[thread].retry.unreachable.as_deref();
        let is_firm = former.is_some_and(|former| former.block.is_firm());
        let planned = former.map(|former| former.until).filter(|until| *until > now);
        let until = planned.unwrap_or_else(|| self.next_try_of_host(now, thread)).max(at_least);
        self.lessons += 1;
        let Retry { unreachable, steps, .. } = &mut self.threads[thread].retry;
        // The try after the next one counts from the next one.
        steps.planned = seconds_of(until);
        match unreachable {
            // What is known for certain stays known.
            Some(former) if is_firm && !block.is_firm() => former.until = until,
            _ => *unreachable = Some(Box::new(Unreachable { until, block, cause })),
        }
        self.set_thread_timer(thread);
        until
    }

    /// The destination answers, or at least the last report does not say otherwise: new mail waits no more.
    pub(super) fn mark_reachable(&mut self, now: Timestamp, thread: ThreadId) {
        self.settle_clock(thread);
        let retry = &mut self.threads[thread].retry;
        if retry.unreachable.as_ref().is_none_or(|known| known.block.is_firm()) {
            return;
        }
        retry.unreachable = None;
        self.lessons += 1;
        if self.threads[thread].waiting.wake_for_destination(now) {
            self.make_some_due(now, thread);
            self.update_readiness(thread);
        }
        self.set_thread_timer(thread);
    }
}
