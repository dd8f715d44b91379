//! The jobs that agents get, and what becomes of those that they give back.

use crate::action::Action;
use crate::context::Context;
use crate::dispatch::window::WindowId;
use crate::dispatch::{Agent, AgentId};
use crate::queue::{
    AfterJob, Diagnosis, MessageFlag, Queue, RingId, ThreadId, Vertex, VertexId, VertexState,
};
use zsched_config::JobOrder;
use zsched_format::time::Timestamp;

/// Maximum number of vertices from which `job-order=random` chooses.
const MAX_RANDOM_CHOICES: usize = 32;

impl Queue {
    /// Gives a vertex to an agent of a ring, as a job.
    pub(crate) fn feed(&mut self, now: Timestamp, vertex: VertexId, ring: RingId) {
        let Vertex { thread, message, .. } = self.vertices[vertex];
        self.threads[thread].move_vertex(&mut self.vertices, vertex, VertexState::Fed);
        self.messages.add_job(message);
        let vertex = &mut self.vertices[vertex];
        vertex.fed_at(now);
        // A new `packet=` does not divide or join vertices: a part stays a part, and a whole that
        // is too large for a packet stays whole.
        vertex.set_part(vertex.is_part() || vertex.pending() <= self.rings[ring].clause.packet);
    }

    /// Counts an agent that begins to work on a thread.
    pub(crate) fn add_agent(&mut self, thread: ThreadId, agent: AgentId) {
        if self.threads[thread].agents.is_empty() {
            self.order_due(thread);
        }
        self.threads[thread].agents.push(agent);
    }

    /// Counts an agent that no longer works on a thread.
    pub(crate) fn remove_agent(&mut self, thread: ThreadId, agent: AgentId) {
        self.threads[thread].agents.retain(|other| *other != agent);
    }

    /// Lets the next agent of a thread come in spite of `wakeuprestartonly`.
    pub(crate) fn set_woken(&mut self, thread: ThreadId) {
        self.threads[thread].is_woken = true;
    }

    /// Sets the window of a thread. Returns the former one.
    pub(crate) fn set_window(
        &mut self,
        thread: ThreadId,
        window: Option<WindowId>,
    ) -> Option<WindowId> {
        std::mem::replace(&mut self.threads[thread].window, window)
    }

    /// Counts an agent that has died over a thread.
    pub(crate) fn count_death(&mut self, thread: ThreadId) {
        let deaths = &mut self.threads[thread].consecutive_deaths;
        *deaths = deaths.saturating_add(1);
    }

    /// Forgets the agents that have died over a thread.
    pub(crate) fn forget_deaths(&mut self, thread: ThreadId) {
        self.threads[thread].consecutive_deaths = 0;
    }

    /// Sets what happens to a vertex after its present job. Returns what was set before.
    pub(crate) fn set_after_job(&mut self, vertex: VertexId, after_job: AfterJob) -> AfterJob {
        std::mem::replace(&mut self.vertices[vertex].after_job, after_job)
    }

    /// Sets the diagnosis of a vertex, which is the scheduler's own.
    pub(crate) fn set_diagnosis(&mut self, vertex: VertexId, text: &str) {
        self.vertices[vertex].diagnosis = Some(Diagnosis::of_scheduler(text));
    }

    /// Counts a report about a recipient of a thread.
    pub(crate) fn count_report(&mut self, cx: &mut Context, thread: ThreadId) {
        self.apply_clock_step(cx, thread);
        let thread = &mut self.threads.pool_mut()[thread];
        thread.consecutive_deaths = 0;
        thread.attempts = thread.attempts.saturating_add(1);
    }

    /// The vertex of a thread that is fed next.
    ///
    /// With `job-order=random` it is one of those that have been due the longest. Any of them is
    /// chosen with the same probability, so each is chosen soon, however many come after it.
    pub(crate) fn choose_due(&self, cx: &mut Context, thread: ThreadId) -> Option<VertexId> {
        let thread = &self.threads[thread];
        match self.rings[thread.ring].clause.job_order {
            JobOrder::Random => {
                let choices = thread.due.len().min(MAX_RANDOM_CHOICES);
                let index = if choices > 1 { cx.random.usize(0..choices) } else { 0 };
                thread.due.iter(&self.vertices).nth(index)
            }
            JobOrder::Turns | JobOrder::Message => thread.due.first(),
        }
    }

    /// Sorts a thread's due vertices by age, if its clause has `ageorder`.
    ///
    /// Called when the thread gets its first agent.
    pub(crate) fn order_due(&mut self, thread: ThreadId) {
        let ring = &self.rings[self.threads[thread].ring];
        if !ring.clause.age_order || ring.jobs.is_some() {
            return;
        }
        let age = |vertex: &VertexId| self.messages[self.vertices[*vertex].message].modified;
        let mut due = self.threads[thread].due.to_vec(&self.vertices);
        if due.is_sorted_by_key(age) {
            return;
        }
        due.sort_by_key(age);
        for vertex in due {
            self.threads[thread].move_vertex(&mut self.vertices, vertex, VertexState::Due);
        }
    }

    /// Takes a job from an agent. Returns true if recipients are left.
    ///
    /// A finished vertex was kept only for the job: it is freed, and perhaps its message ends.
    pub(crate) fn release_job(&mut self, vertex: VertexId) -> bool {
        let message = self.vertices[vertex].message;
        self.messages[message].jobs -= 1;
        let is_finished = self.vertices[vertex].state == VertexState::Finished;
        if is_finished {
            self.vertices.remove(vertex);
        }
        !is_finished
    }

    /// Clears the locks of a dead agent: they would exclude its successor.
    pub(crate) fn clear_locks(&self, cx: &mut Context, agent: &Agent) {
        let Some(pid) = agent.pid else {
            return;
        };
        for vertex in agent.jobs() {
            let message = &self.messages[self.vertices[vertex].message];
            let is_finished = self.vertices[vertex].state == VertexState::Finished;
            if !is_finished || message.is(MessageFlag::Partial) {
                cx.act(Action::ClearLocks { name: message.name(), pid });
            }
        }
    }

    /// Returns true if a job not begun must wait.
    ///
    /// It must if its host may not be tried, its message is kept, or an operator has removed it.
    pub(crate) fn must_wait_after_job(&self, vertex: VertexId) -> bool {
        let vertex = &self.vertices[vertex];
        let known = self.threads[vertex.thread].retry.unreachable.as_ref();
        let is_blocked = known.is_some_and(|known| known.reason.is_firm());
        let has_fate = !matches!(vertex.after_job, AfterJob::Usual | AfterJob::OneMoreTry);
        is_blocked || has_fate || self.messages[vertex.message].is_kept()
    }
}
