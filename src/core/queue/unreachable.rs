//! Destinations that are known to be unreachable, and the reports that have shown it.
//!
//! New mail is tried at once unless its destination is known to be unreachable
//! (`docs/scheduling.md`, "What waits for a retry").

use crate::context::Context;
use crate::queue::retry::seconds_of;
use crate::queue::{Diagnosis, Queue, Retry, ThreadId, VertexId};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// A destination that is known to be unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// When it is tried again.
    pub until: Timestamp,
    /// The reason.
    #[serde(rename = "block")]
    pub reason: UnreachableReason,
    /// The report that gave the reason.
    pub cause: Cause,
}

/// A report that made a destination unreachable, if it is known.
pub type Cause = Option<Rc<UnreachableReport>>;

/// Reason for which a destination is known to be unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnreachableReason {
    /// An agent reported that it cannot be reached (`deferall`).
    HostDown,
    /// An agent reported when to try it again (`retryat`).
    RetryAt,
    /// Agents die over it.
    AgentsDie,
    /// Too many rounds of agents could not reach the host (`failed-cohort-limit`).
    Dead,
    /// The last report blames the host by its status code.
    HostBlamed,
    /// Jobs of three or more messages in a row were deferred without a status code.
    AllDeferred,
}

impl UnreachableReason {
    /// Returns true if no later report ends the wait.
    pub fn is_firm(self) -> bool {
        !matches!(self, UnreachableReason::HostBlamed | UnreachableReason::AllDeferred)
    }
}

/// A report that made a destination unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableReport {
    /// Process id of the agent.
    pub pid: Option<u32>,
    /// The message that it was about.
    pub id: Option<SpoolId>,
    /// Time of the report.
    pub at: Timestamp,
    /// Its text.
    pub diagnosis: Option<Rc<Diagnosis>>,
}

impl Queue {
    /// Forgets that a destination is unreachable: it is tried again.
    pub(crate) fn forget_unreachable(&mut self, thread: ThreadId) {
        self.threads[thread].retry.unreachable = None;
        self.deferrals.remove(&thread);
    }

    /// Marks a destination as unreachable until its next try.
    ///
    /// That is not before the time in `known`. Returns the time of the next try. The clause must
    /// not be `queueonly`.
    pub(crate) fn mark_unreachable(
        &mut self,
        cx: &mut Context,
        thread: ThreadId,
        known: Unreachable,
    ) -> Timestamp {
        self.apply_clock_step(cx, thread);
        let former = self.threads[thread].retry.unreachable.as_deref();
        let is_firm = former.is_some_and(|former| former.reason.is_firm());
        let planned = former.map(|former| former.until).filter(|until| *until > cx.now);
        let until = planned.unwrap_or_else(|| self.next_try_of_host(cx, thread)).max(known.until);
        cx.learned_revision += 1;
        let Retry { unreachable, steps, .. } = &mut self.threads[thread].retry;
        // The try after the next one is spaced from the next one.
        steps.planned = seconds_of(until);
        match unreachable {
            // A firm reason is not replaced by one that is not.
            Some(former) if is_firm && !known.reason.is_firm() => former.until = until,
            _ => *unreachable = Some(Box::new(Unreachable { until, ..known })),
        }
        until
    }

    /// Ends the state of being unreachable, unless the reason for it is firm.
    ///
    /// The destination has answered, or its last report does not blame it. So mail that waits only
    /// for the destination is due, and new mail is tried.
    pub(crate) fn mark_reachable(&mut self, cx: &mut Context, thread: ThreadId) {
        self.apply_clock_step(cx, thread);
        let retry = &mut self.threads[thread].retry;
        if retry.unreachable.as_ref().is_none_or(|known| known.reason.is_firm()) {
            return;
        }
        retry.unreachable = None;
        cx.learned_revision += 1;
        if self.threads[thread].waiting.wake_for_destination(cx.now) {
            self.make_some_due(cx, thread);
        }
    }

    /// Creates a cause from the report of an agent about a vertex.
    pub(crate) fn cause(
        &self,
        now: Timestamp,
        pid: Option<u32>,
        vertex: VertexId,
        diagnosis: Option<Rc<Diagnosis>>,
    ) -> Cause {
        let id = Some(self.messages[self.vertices[vertex].message].spool_id());
        Some(Rc::new(UnreachableReport { pid, id, at: now, diagnosis }))
    }
}
