//! The results of deliveries, and dead destinations.
//!
//! A delivery that ends with `deferall` has not reached the host; one with any other report has.
//! One without a report shows nothing. A classic clause makes a thread wait after the first
//! `deferall`. With feedback or `failed-cohort-limit` it takes as many as the clause says. Then
//! everything queued for the destination waits, as if it had been tried, and after that time one
//! agent tries again.

use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::dispatch::window::broadcast::MemberAction;
use crate::dispatch::window::feedback::Feedback;
use crate::dispatch::window::{Window, WindowId};
use crate::queue::{
    Cause, DeferralNote, MIN_HOST_DOWN_WAIT, Queue, ThreadId, Unreachable, UnreachableReason,
};
use log::Level;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum random delay of the next try of a dead destination.
///
/// Destinations that died together are then not tried together.
const MAX_PROBE_JITTER: Duration = Duration::from_secs(10);
/// Maximum length of a text of an agent in the log, in bytes.
const MAX_SAID_LEN: usize = 1000;

/// What an agent's reports about its present job show about the host.
///
/// Of several reports the last one in this order counts: a host that fails in the middle of a job
/// has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeliverySignal {
    /// No report.
    #[default]
    Nothing,
    /// The host has answered.
    Answer,
    /// The host could not be reached.
    Failure,
}

impl Dispatch {
    pub(crate) fn end_unreachable(&mut self, queue: &mut Queue, thread: ThreadId) {
        self.resume_window(queue, thread);
        queue.forget_unreachable(thread);
    }

    /// Processes the end of a delivery.
    ///
    /// `cause` is the last report if it failed.
    pub(crate) fn delivery_ended(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        signal: DeliverySignal,
        cause: Cause,
    ) {
        let Some(window) = queue.thread(thread).window else {
            return;
        };
        self.pause_after_delivery(queue, cx, thread);
        let before = self.windows[window].feedback.clone();
        match signal {
            DeliverySignal::Nothing => {}
            DeliverySignal::Answer => self.window_host_answered(queue, thread, window),
            DeliverySignal::Failure => self.host_failed(queue, cx, thread, window, cause),
        }
        if queue.clause(thread).flow.debug {
            let window = &self.windows[window];
            let destination = &queue.thread(thread).destination;
            let (word, agents, after) = (signal.word(), window.agents, &window.feedback);
            let text =
                format!("{destination}: {word}: window {before} -> {after}, {agents} agents");
            cx.log(Level::Info, text);
        }
    }

    fn window_host_answered(&mut self, queue: &mut Queue, thread: ThreadId, window: WindowId) {
        let (initial, limit) =
            (self.initial_window(queue, thread), queue.max_thread(queue.thread(thread)));
        let flow = &queue.ring(queue.thread(thread).ring).clause.flow;
        let Window { feedback, is_probing, agents, .. } = &mut self.windows[window];
        if std::mem::take(is_probing) {
            // The host answers. The window starts at its initial size, so that the host is not
            // flooded.
            *feedback = Feedback::new(initial);
            // The other threads that were suspended need not wait for their own time.
            self.start_round(window, MemberAction::Wake);
        } else {
            feedback.answered(flow, initial, limit, *agents);
        }
    }

    fn host_failed(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        window: WindowId,
        cause: Cause,
    ) {
        let flow = &queue.ring(queue.thread(thread).ring).clause.flow;
        // In a classic thread the report itself has made it wait.
        if !flow.tolerates_deferall() {
            return;
        }
        let Window { feedback, is_probing, resume, .. } = &mut self.windows[window];
        if resume.is_some_and(|resume| resume > cx.now) {
            // A delivery that was under way when the others had already failed.
            return;
        }
        if *is_probing || feedback.failed(flow) {
            self.suspend(queue, cx, thread, window, cause);
        }
    }

    /// Makes all threads of a window wait.
    ///
    /// What is due in them counts as tried, without an agent for each message.
    fn suspend(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
        window: WindowId,
        cause: Cause,
    ) {
        let jitter = Duration::from_millis(cx.random.u64(0..=MAX_PROBE_JITTER.as_millis() as u64));
        let until = cx.now + MIN_HOST_DOWN_WAIT + jitter;
        let initial = self.initial_window(queue, thread);
        self.windows[window].is_probing = true;
        self.windows[window].feedback = Feedback::new(initial);
        let reason = UnreachableReason::Dead;
        let said = cause.as_ref().and_then(|report| report.diagnosis.clone());
        queue.defer_thread(cx, thread, Unreachable { until, reason, cause: cause.clone() });
        // The others are tried at the time of the thread that was tried.
        let known = queue.thread(thread).retry.unreachable.as_ref();
        let until = known.map_or(until, |known| known.until);
        self.windows[window].resume = Some(until);
        self.windows[window].cause = cause;
        self.start_round(window, MemberAction::Suspend);
        let destination = &queue.thread(thread).destination;
        let seconds = until.since(cx.now).as_secs();
        let location = &queue.clause(thread).location;
        let said = said.as_ref().map_or(String::new(), |said| {
            let shown = &said.message[..said.message.len().min(MAX_SAID_LEN)];
            format!(": {}", String::from_utf8_lossy(shown))
        });
        let text =
            format!("{destination} is dead, and is left alone for {seconds} s ({location}){said}");
        cx.log(Level::Info, text);
    }

    /// Makes a thread that enters a dead window wait with it.
    pub(crate) fn wait_with_window(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        thread: ThreadId,
    ) {
        let window = self.windows.of(queue.thread(thread));
        let known = window.and_then(|window| window.suspension());
        if let Some(known) = known.filter(|known| known.until > cx.now) {
            queue.block_thread(cx, thread, known, DeferralNote::None);
        }
    }

    /// Ends the suspension of a window whose thread is tried again.
    ///
    /// It is not known yet if the host answers, so one agent tries it first.
    pub(crate) fn resume_window(&mut self, queue: &Queue, thread: ThreadId) {
        let known = queue.thread(thread).retry.unreachable.as_ref();
        let was_dead = known.is_some_and(|known| known.reason == UnreachableReason::Dead);
        if let Some(window) = queue.thread(thread).window.filter(|_| was_dead) {
            let window_ref = &mut self.windows[window];
            window_ref.resume = None;
            // After a restart only the threads have this state.
            window_ref.is_probing |= window_ref.agents == 0 && !window_ref.is_waking();
            if window_ref.is_suspending() {
                self.end_round(window);
            }
        }
    }

    /// Makes the window of a new thread probe a dead host.
    ///
    /// If other threads share the window, they have newer knowledge.
    pub(crate) fn probe_dead_window(&mut self, queue: &Queue, thread: ThreadId) {
        if self.is_alone_in_window(queue, thread) {
            self.resume_window(queue, thread);
        }
    }
}

impl DeliverySignal {
    fn word(self) -> &'static str {
        match self {
            DeliverySignal::Nothing => "no report",
            DeliverySignal::Answer => "answered",
            DeliverySignal::Failure => "not reached",
        }
    }
}
