//! What a hungry agent gets: jobs, another thread, or a pool place.
//!
//! An agent that says `#hungry` gets the next jobs of its own thread. If there are none, it gets
//! another thread of its ring, else a place in the pool of its ring.
//!
//! In a ring with `slot-cost` or `job-order`, `feed_next` chooses instead:
//! `job_for_agent_by_message.rs`.

use crate::action::{Action, StopMode};
use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::fair_share::next_burst;
use crate::dispatch::window::DeliverySignal;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch, Owed};
use crate::queue::{Queue, RingId, ThreadId, VertexId};
use std::io::Write;
use std::time::Duration;
use zsched_config::MailPriority;
use zsched_format::time::Timestamp;

/// Maximum time on one thread while others of the ring wait.
///
/// Without it, a thread that never runs dry would starve the others. A shorter time would waste
/// connections.
const MAX_TIME_ON_THREAD: Duration = Duration::from_secs(10);

/// Room for most names, a tab and a line end, in bytes.
const USUAL_NAME_LEN: usize = 24;

/// A hungry agent that has left its thread, and gets another one.
pub(crate) struct FreeAgent {
    agent: AgentId,
    former: Option<ThreadId>,
    burst: usize,
}

impl Dispatch {
    /// Reports the outcome of a delivery to the window of its thread.
    pub(crate) fn update_window(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: AgentId,
        vertex: VertexId,
    ) {
        let agent_ref = &mut self.agents[agent];
        let heard = std::mem::take(&mut agent_ref.signal);
        let has_window = |thread: &ThreadId| queue.thread(*thread).window.is_some();
        if let Some(thread) = agent_ref.thread.filter(has_window) {
            let cause = match heard {
                DeliverySignal::Failure => queue.cause(
                    cx.now,
                    agent_ref.pid,
                    vertex,
                    queue.vertex(vertex).diagnosis.clone(),
                ),
                _ => None,
            };
            self.delivery_ended(queue, cx, thread, heard, cause);
        }
    }

    /// Gives work to a hungry agent: its next job is chosen here.
    pub(crate) fn give_work(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        if self.gets_no_more_work(queue, cx, agent) || self.yields_place(queue, cx, agent) {
            self.detach(queue, cx, agent);
            self.retire_agent(cx, agent);
            return;
        }
        let agent_ref = &self.agents[agent];
        let ring = queue.ring(agent_ref.ring);
        // Its own thread first: the connection is open. A new agent gets a single job, to show that
        // it works; then it gets bursts.
        let burst = match (agent_ref.state(), agent_ref.fed_at) {
            (AgentState::Working, Some(fed_at)) => {
                let most = ring.clause.overfeed as usize + 1;
                next_burst(agent_ref.burst, cx.now.since(fed_at), most)
            }
            _ => 1,
        };
        let jobs_left = self.jobs_left(queue, agent_ref);
        let burst = jobs_left.map_or(burst, |left| burst.min(left as usize));
        let former = agent_ref.thread;
        if ring.jobs.is_none()
            && let Some(thread) = former
            && self.may_keep_thread(queue, cx.now, agent, thread)
            && self.feed(queue, cx, agent, thread, burst)
        {
            return;
        }
        self.detach(queue, cx, agent);
        self.free_agent = Some(FreeAgent { agent, former, burst });
    }

    /// Gives another thread to an agent without one, or sends it to the pool.
    pub(crate) fn give_other_work(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        FreeAgent { agent, former, burst }: FreeAgent,
    ) {
        let ring = queue.ring(self.agents[agent].ring);
        if ring.jobs.is_some() {
            if !self.feed_next(queue, admission, cx, agent, former, burst) {
                self.send_idle(cx, agent);
            }
            return;
        }
        let queue_only = ring.clause.queue_only;
        match queue.next_ready(self.agents[agent].ring) {
            Some(thread) if !queue_only => {
                self.attach(queue, cx, agent, thread);
                self.feed(queue, cx, agent, thread, 1);
            }
            _ => self.send_idle(cx, agent),
        }
    }

    /// Gives work to an idle agent.
    pub(crate) fn reuse_agent(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        agent: AgentId,
        thread: ThreadId,
    ) {
        self.agents.set_state(agent, AgentState::Starting);
        let agent_ref = &mut self.agents[agent];
        agent_ref.progress_at = cx.now;
        if queue.ring(agent_ref.ring).jobs.is_some() {
            self.feed_next(queue, admission, cx, agent, Some(thread), 1);
        } else {
            self.attach(queue, cx, agent, thread);
            self.feed(queue, cx, agent, thread, 1);
        }
    }

    /// Tells all agents to end.
    pub(crate) fn drain(&mut self, cx: &mut Context) {
        if std::mem::replace(&mut cx.is_draining, true) {
            return;
        }
        let alive = self.agents.iter().filter(|(_, agent)| agent.is_alive());
        let alive: Vec<AgentId> = alive.map(|(id, _)| id).collect();
        alive.into_iter().for_each(|agent| self.stop_agent(cx, agent, StopMode::Quit));
    }

    /// Parks an agent for which there is no work.
    pub(crate) fn send_idle(&mut self, cx: &mut Context, agent: AgentId) {
        self.agents.set_state(agent, AgentState::Parking);
        self.agents[agent].owed.push_back(Owed::Idle);
        cx.act(Action::SendIdle(agent));
    }

    /// Returns true if an agent gets no more work.
    fn gets_no_more_work(&self, queue: &Queue, cx: &Context, agent: AgentId) -> bool {
        let agent = &self.agents[agent];
        let ring = queue.ring(agent.ring);
        let lived = cx.now.since(agent.started_at);
        let is_old = ring.clause.agent_life.is_some_and(|life| lived >= life);
        let is_held = ring.clause.mail_priority == MailPriority::Held;
        let is_worn = self.jobs_left(queue, agent) == Some(0);
        ring.is_retired || cx.is_draining || is_old || is_worn || is_held
    }

    /// Returns true if an agent may continue with its thread.
    ///
    /// It may not if a new configuration has moved the thread to another ring, if an operator holds
    /// the thread, if the thread is being put off, or if its window has more agents than it allows.
    /// It also may not if its turn is over while other threads of the ring wait.
    fn may_keep_thread(
        &self,
        queue: &Queue,
        now: Timestamp,
        agent: AgentId,
        thread: ThreadId,
    ) -> bool {
        let agent = &self.agents[agent];
        let is_ours = queue.thread(thread).ring == agent.ring;
        let others_wait = || {
            let next = queue.next_ready(agent.ring).filter(|next| *next != thread);
            next.is_some() && !queue.ring(agent.ring).clause.queue_only
        };
        is_ours
            && !queue.thread(thread).held
            && !queue.is_being_deferred(queue.thread(thread))
            && !self.window_exceeds_size(queue.thread(thread))
            && (now.since(agent.thread_since) < MAX_TIME_ON_THREAD || !others_wait())
    }

    /// Gives an agent up to `burst` jobs of a thread.
    ///
    /// Returns true if there was at least one.
    fn feed(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: AgentId,
        thread: ThreadId,
        burst: usize,
    ) -> bool {
        let mut fed = 0;
        while fed < burst
            && let Some(vertex) = queue.choose_due(cx, thread)
            && self.may_start_delivery(queue, cx, agent, thread)
        {
            self.feed_one(queue, cx, agent, vertex);
            fed += 1;
        }
        if fed > 0 {
            self.agents.start_burst(agent, cx.now, fed);
        }
        fed > 0
    }

    pub(crate) fn feed_one(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: AgentId,
        vertex: VertexId,
    ) {
        let ring = self.agents[agent].ring;
        queue.feed(cx.now, vertex, ring);
        self.agents[agent].owed.push_back(Owed::Job(vertex));
        let vertex = queue.vertex(vertex);
        let (name, host) =
            (queue.message(vertex.message).name(), queue.thread(vertex.thread).destination.host());
        let mut job = Vec::with_capacity(USUAL_NAME_LEN + host.len());
        write!(job, "{name}").expect("a Vec takes everything");
        let has_packets = vertex.is_part();
        if queue.ring(ring).host.is_none() || has_packets {
            job.push(b'\t');
            job.extend_from_slice(host);
        }
        if has_packets {
            let offsets = vertex.pending_offsets();
            let offsets: Vec<String> = offsets.iter().map(u32::to_string).collect();
            job.push(b'\t');
            job.extend_from_slice(offsets.join(",").as_bytes());
        }
        job.push(b'\n');
        cx.act(Action::Feed { agent, job });
    }

    /// Puts an agent that has answered `#idle` into the pool.
    pub(super) fn park(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        if self.gets_no_more_work(queue, cx, agent) {
            self.retire_agent(cx, agent);
            return;
        }
        let since = self.agents[agent].pinged.take().unwrap_or(cx.now);
        self.agents.set_state(agent, AgentState::Idle(since));
        let ring = self.agents[agent].ring;
        self.of_rings[ring].idle.push(agent);
        self.agents.idle_count += 1;
        queue.mark_ring(ring);
        // If its own ring has no use for it, it may have to make room for an agent of another ring.
        self.waitlists.has_news = true;
    }

    /// Orders an agent to end when it has no jobs left.
    pub(crate) fn retire_agent(&mut self, cx: &mut Context, agent: AgentId) {
        self.stop_agent(cx, agent, StopMode::Retire);
    }

    pub(crate) fn stop_agent(&mut self, cx: &mut Context, agent: AgentId, manner: StopMode) {
        let (state, ring) = (self.agents[agent].state(), self.agents[agent].ring);
        self.leave_pool(agent, state, ring);
        let state = match manner {
            StopMode::Kill => AgentState::Killed,
            _ => AgentState::Stopping(cx.now),
        };
        self.agents.set_state(agent, state);
        self.agents.counts.ending.insert(agent);
        cx.act(Action::StopAgent { agent, manner });
    }

    /// Number of jobs that an agent may still get, if `agent-jobs` limits it.
    fn jobs_left(&self, queue: &Queue, agent: &Agent) -> Option<u32> {
        let limit = queue.ring(agent.ring).clause.agent_jobs?;
        Some(limit.saturating_sub(agent.jobs_fed))
    }

    /// Takes an agent out of the pool of its ring, if it is idle.
    pub(crate) fn leave_pool(&mut self, id: AgentId, state: AgentState, ring: RingId) {
        if let AgentState::Idle(_) = state {
            self.of_rings[ring].idle.retain(|other| *other != id);
            self.agents.idle_count -= 1;
        }
    }

    pub(crate) fn agent_started(&mut self, agent: AgentId, pid: u32) {
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.pid = Some(pid);
        }
    }
}
