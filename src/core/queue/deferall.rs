//! Destinations that are not tried for a while: `deferall` and `retryat` of agents.
//!
//! `deferall` says that the host cannot be reached. Then all mail of the destination waits, and
//! each due vertex counts as tried ([`Queue::defer_thread`]). A window that is dead does the
//! same. `retryat` and agents that die make it wait without a try ([`Queue::block_thread`]).
//! The due vertices are deferred in steps ([`crate::queue::deferral`]).

use crate::context::Context;
use crate::outcome::agent_report::diagnosis_of;
use crate::queue::{
    DeferralNote, MIN_HOST_DOWN_WAIT, Queue, ThreadId, Unreachable, UnreachableReason, VertexId,
};
use std::time::Duration;
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};
use zsched_format::time::Timestamp;

/// Largest `retryat` number that is relative to now.
///
/// A larger one is a time since the epoch. Both are in seconds.
const MAX_RELATIVE_RETRY: i64 = 100_000;

/// Maximum time for which a report can block a destination.
///
/// It also limits mistakes of agents.
pub(crate) const MAX_BLOCK: Duration = Duration::from_secs(86_400);

impl Queue {
    /// Processes a report about the whole destination: `deferall` or `retryat`.
    ///
    /// `deferall` says that it cannot be reached. With feedback or `failed-cohort-limit`, its
    /// window decides when the job ends (`dispatch/window/delivery_signal.rs`). Otherwise
    /// [`defer_thread`](Queue::defer_thread) makes everything of the destination wait.
    ///
    /// `retryat` says that it is not to be tried before a time.
    pub(crate) fn destination_deferred(
        &mut self,
        cx: &mut Context,
        pid: Option<u32>,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        let thread = self.vertices[vertex].thread;
        let diagnosis = diagnosis_of(report);
        self.record(vertex, diagnosis.clone());
        let is_deferall = report.status == ReportStatus::DeferAll;
        if is_deferall && self.clause(thread).flow.tolerates_deferall() {
            // When the job ends, the window decides if that applies to the other recipients.
            return;
        }
        let cause = self.cause(cx.now, pid, vertex, Some(diagnosis));
        if is_deferall {
            let (until, reason) = (cx.now + MIN_HOST_DOWN_WAIT, UnreachableReason::HostDown);
            return self.defer_thread(cx, thread, Unreachable { until, reason, cause });
        }
        let until = match report.retry_seconds() {
            Some(seconds) if seconds > MAX_RELATIVE_RETRY => Timestamp::from_seconds(seconds),
            Some(seconds) => cx.now + Duration::from_secs(seconds.unsigned_abs()),
            None => cx.now,
        };
        let (until, reason) = (until.min(cx.now + MAX_BLOCK), UnreachableReason::RetryAt);
        self.block_thread(cx, thread, Unreachable { until, reason, cause }, DeferralNote::None);
    }

    /// Makes a whole thread wait until at least the time in `unreachable`.
    ///
    /// This applies to due and waiting vertices and to those that arrive. `note` is recorded
    /// about the due ones.
    pub(crate) fn block_thread(
        &mut self,
        cx: &mut Context,
        thread: ThreadId,
        unreachable: Unreachable,
        note: DeferralNote,
    ) {
        self.apply_clock_step(cx, thread);
        if self.clause(thread).is_etrn_only() {
            return self.defer_due_vertices(cx, thread, None, note);
        }
        let until = self.mark_unreachable(cx, thread, unreachable);
        self.threads[thread].waiting.postpone(until);
        self.defer_due_vertices(cx, thread, Some(until), note);
    }

    /// Does the same as `block_thread`, and counts a try for each due vertex.
    ///
    /// Each of them gets the diagnosis of the one recipient that was reported.
    pub(crate) fn defer_thread(
        &mut self,
        cx: &mut Context,
        thread: ThreadId,
        unreachable: Unreachable,
    ) {
        let diagnosis = unreachable.cause.as_ref().and_then(|cause| cause.diagnosis.clone());
        self.block_thread(cx, thread, unreachable, DeferralNote::Tried(diagnosis));
    }
}
