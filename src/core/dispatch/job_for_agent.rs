//! What a hungry agent gets: jobs, another thread, or a pool place.
//!
//! An agent that says `#hungry` gets the next jobs of its own thread. If there are none, it gets
//! another thread of its ring, else a place in the pool of its ring.
//!
//! In a ring with `slot-cost` or `job-order`, `feed_next` chooses instead:
//! `job_for_agent_by_message.rs`.

use crate::Scheduler;
use crate::action::{Action, StopMode};
use crate::dispatch::agent_log::StrayLines;
use crate::dispatch::fair_share::next_burst;
use crate::dispatch::window::DeliverySignal;
use crate::dispatch::{AgentId, AgentState, Dispatch, Owed, RingId};
use crate::queue::attempt_records::present_attempt;
use crate::queue::{Diagnosis, Queue, ThreadId, Vertex, VertexId, VertexState};
use log::Level;
use std::time::Duration;
use zsched_config::MailPriority;
use zsched_format::agent_protocol::AgentLine;

/// Maximum time on one thread while others of the ring wait.
///
/// Without it, a thread that never runs dry would starve the others. A shorter time would waste
/// connections.
const MAX_TIME_ON_THREAD: Duration = Duration::from_secs(10);

impl Scheduler {
    pub(crate) fn agent_said(&mut self, agent: AgentId, line: &[u8]) {
        if self.dispatch.agents.get(agent).is_none() {
            return;
        }
        match AgentLine::parse(line) {
            AgentLine::Hungry => self.agent_is_hungry(agent),
            AgentLine::Resync(path) => self.agent_found_nothing(agent, path),
            AgentLine::Report(report) => self.agent_reported(agent, &report),
            AgentLine::Comment(text) => self.log_stray_line(agent, None, text),
            AgentLine::Malformed(missing, text) => self.log_stray_line(agent, Some(missing), text),
        }
    }

    fn agent_is_hungry(&mut self, agent: AgentId) {
        let agent_ref = &mut self.dispatch.agents[agent];
        let Some(answered) = agent_ref.owed.pop_front() else {
            let text = "says #hungry once too often".to_string();
            return self.log_about_agent(agent, Level::Warn, text);
        };
        agent_ref.progress_at = self.now;
        agent_ref.deferrals = 0;
        if !agent_ref.is_alive() {
            // Without jobs it has less time to end.
            self.dispatch.agents.mark(agent);
        }
        match answered {
            Owed::Start => self.agent_proven(agent),
            Owed::Job(vertex) => self.end_job(agent, vertex),
            Owed::Idle => {}
        }
        let agent_ref = &mut self.dispatch.agents[agent];
        (agent_ref.hungry_at, agent_ref.stray_lines) = (self.now, StrayLines::default());
        // It is fed again when it has answered everything that it was given.
        if agent_ref.owed.is_empty() && agent_ref.is_alive() {
            match agent_ref.state() {
                AgentState::Parking => self.park(agent),
                _ => self.dispatch.hungry_agents.push_back(agent),
            }
        }
    }

    /// Ends a job: what is not finished waits for its next try.
    fn end_job(&mut self, agent: AgentId, vertex: VertexId) {
        self.update_window(agent, vertex);
        let found_nothing = std::mem::take(&mut self.dispatch.agents[agent].found_nothing);
        if !self.queue.release_job(vertex) {
            return;
        }
        let missing = match (found_nothing, self.queue.vertices[vertex].reported) {
            (true, _) => {
                Some("the agent found nothing to do in the control file, which is read again")
            }
            (false, false) => {
                self.queue.count_attempt(vertex);
                Some("the agent ended the job without a word about this recipient")
            }
            (false, true) => None,
        };
        if let Some(text) = missing {
            let agent_ref = &self.dispatch.agents[agent];
            let text = format!("{text}{}", agent_ref.stray_lines.in_parentheses());
            self.status_unreported(present_attempt(agent_ref), vertex, &text);
            self.queue.vertices[vertex].diagnosis = Some(Diagnosis::of_scheduler(&text));
        }
        match found_nothing {
            true => self.request_reread(self.queue.vertices[vertex].message),
            false => self.record_failed_job(agent, vertex),
        }
        self.defer(vertex, Scheduler::wait_after_try);
    }

    /// Reports the outcome of a delivery to the window of its thread.
    fn update_window(&mut self, agent: AgentId, vertex: VertexId) {
        let agent_ref = &mut self.dispatch.agents[agent];
        let heard = std::mem::take(&mut agent_ref.signal);
        let has_window = |thread: &ThreadId| self.queue.threads[*thread].window.is_some();
        if let Some(thread) = agent_ref.thread.filter(has_window) {
            let cause = match heard {
                DeliverySignal::Failure => {
                    self.cause(agent, vertex, self.queue.vertices[vertex].diagnosis.clone())
                }
                _ => None,
            };
            self.delivery_ended(thread, heard, cause);
        }
    }

    /// Makes a vertex wait that an agent has given back, by `wait`.
    pub(crate) fn defer(&mut self, vertex: VertexId, wait: impl FnOnce(&mut Scheduler, VertexId)) {
        match self.queue.messages[self.queue.vertices[vertex].message].held {
            true => self.set_state(vertex, VertexState::Held),
            false => wait(self, vertex),
        }
        self.learned.revision += 1;
        if !self.apply_after_job(vertex) {
            self.expire_or_watch(vertex);
        }
    }

    /// Gives work to a hungry agent: its next job is chosen here.
    pub(crate) fn give_work(&mut self, agent: AgentId) {
        if self.gets_no_more_work(agent) || self.yields_place(agent) {
            self.detach(agent);
            self.retire_agent(agent);
            return;
        }
        let agent_ref = &self.dispatch.agents[agent];
        let ring = agent_ref.ring;
        // Its own thread first: the connection is open. A new agent gets a single job, to show that
        // it works; then it gets bursts.
        let burst = match (agent_ref.state(), agent_ref.fed_at) {
            (AgentState::Working, Some(fed_at)) => {
                let most = self.dispatch.rings[ring].clause.overfeed as usize + 1;
                next_burst(agent_ref.burst, self.now.since(fed_at), most)
            }
            _ => 1,
        };
        if self.dispatch.rings[ring].jobs.is_some() {
            let former = agent_ref.thread;
            self.detach(agent);
            self.settle_threads();
            if !self.feed_next(agent, former, burst) {
                self.send_idle(agent);
            }
            return;
        }
        if let Some(thread) = agent_ref.thread {
            let stays = self.may_keep_thread(agent, thread);
            if stays && self.feed(agent, thread, burst) {
                return;
            }
            self.detach(agent);
            self.settle_threads();
        }
        match self.dispatch.next_ready(ring) {
            Some(thread) if !self.dispatch.rings[ring].clause.queue_only => {
                self.attach(agent, thread);
                self.feed(agent, thread, 1);
            }
            _ => self.send_idle(agent),
        }
    }

    /// Parks an agent for which there is no work.
    fn send_idle(&mut self, agent: AgentId) {
        self.dispatch.agents.set_state(agent, AgentState::Parking);
        self.dispatch.agents[agent].owed.push_back(Owed::Idle);
        self.act(Action::SendIdle(agent));
    }

    /// Returns true if an agent gets no more work.
    fn gets_no_more_work(&self, agent: AgentId) -> bool {
        let agent = &self.dispatch.agents[agent];
        let ring = &self.dispatch.rings[agent.ring];
        let lived = self.now.since(agent.started_at);
        let is_old = ring.clause.agent_life.is_some_and(|life| lived >= life);
        let is_held = ring.clause.mail_priority == MailPriority::Held;
        ring.is_retired || self.mode.is_draining || is_old || is_held
    }

    /// Returns true if an agent may continue with its thread.
    ///
    /// It may not if a new configuration has moved the thread to another ring, if an operator holds
    /// the thread, if the thread is being put off, or if its window has more agents than it allows.
    /// It also may not if its turn is over while other threads of the ring wait.
    fn may_keep_thread(&self, agent: AgentId, thread: ThreadId) -> bool {
        let agent = &self.dispatch.agents[agent];
        let is_ours = self.queue.threads[thread].ring == agent.ring;
        let others_wait = || {
            let next = self.dispatch.next_ready(agent.ring).filter(|next| *next != thread);
            next.is_some() && !self.dispatch.rings[agent.ring].clause.queue_only
        };
        is_ours
            && !self.queue.threads[thread].held
            && !self.queue.deferrals.contains_key(&thread)
            && !self.dispatch.window_exceeds_size(&self.queue.threads[thread])
            && (self.now.since(agent.thread_since) < MAX_TIME_ON_THREAD || !others_wait())
    }

    /// Gives an agent up to `burst` jobs of a thread.
    ///
    /// Returns true if there was at least one.
    fn feed(&mut self, agent: AgentId, thread: ThreadId, burst: usize) -> bool {
        let mut fed = 0;
        while fed < burst
            && let Some(vertex) = self.queue.threads[thread].due.first()
            && self.may_start_delivery(agent, thread)
        {
            self.feed_one(agent, vertex);
            fed += 1;
        }
        if fed > 0 {
            self.dispatch.agents.start_burst(agent, self.now, fed);
        }
        fed > 0
    }

    pub(crate) fn feed_one(&mut self, agent: AgentId, vertex: VertexId) {
        let Vertex { thread, message, .. } = self.queue.vertices[vertex];
        self.queue.threads[thread].move_vertex(&mut self.queue.vertices, vertex, VertexState::Fed);
        self.queue.vertices[vertex].fed_at(self.now);
        self.queue.messages.add_job(message);
        let agent_ref = &mut self.dispatch.agents[agent];
        agent_ref.owed.push_back(Owed::Job(vertex));
        let mut job = self.queue.messages[message].name.path().into_bytes();
        let ring = &self.dispatch.rings[agent_ref.ring];
        // A new `packet=` does not divide or join vertices: a part stays a part, and a whole that
        // is too large for a packet stays whole.
        let vertex = &mut self.queue.vertices[vertex];
        let has_packets = vertex.is_part() || vertex.pending <= ring.clause.packet;
        vertex.set_part(has_packets);
        if ring.host.is_none() || has_packets {
            job.push(b'\t');
            job.extend_from_slice(self.queue.threads[thread].destination.host());
        }
        if has_packets {
            let offsets = vertex.recipients.pending();
            let offsets: Vec<String> = offsets.iter().map(u32::to_string).collect();
            job.push(b'\t');
            job.extend_from_slice(offsets.join(",").as_bytes());
        }
        job.push(b'\n');
        self.act(Action::Feed { agent, job: job.into() });
    }

    /// Puts an agent that has answered `#idle` into the pool.
    fn park(&mut self, agent: AgentId) {
        if self.gets_no_more_work(agent) {
            self.retire_agent(agent);
            return;
        }
        self.dispatch.agents.set_state(agent, AgentState::Idle(self.now));
        let ring = self.dispatch.agents[agent].ring;
        self.dispatch.rings[ring].idle.push(agent);
        self.dispatch.agents.idle_count += 1;
        self.dispatch.serve_later(ring);
        // If its own ring has no use for it, it may have to make room for an agent of another ring.
        self.dispatch.waitlists.has_news = true;
    }

    /// Gives work to an idle agent.
    pub(crate) fn reuse_agent(&mut self, agent: AgentId, thread: ThreadId) {
        self.dispatch.agents.set_state(agent, AgentState::Starting);
        let agent_ref = &mut self.dispatch.agents[agent];
        agent_ref.progress_at = self.now;
        if self.dispatch.rings[agent_ref.ring].jobs.is_some() {
            self.feed_next(agent, Some(thread), 1);
        } else {
            self.attach(agent, thread);
            self.feed(agent, thread, 1);
        }
    }

    /// Orders an agent to end when it has no jobs left.
    pub(crate) fn retire_agent(&mut self, agent: AgentId) {
        self.stop_agent(agent, StopMode::Retire);
    }

    pub(crate) fn stop_agent(&mut self, agent: AgentId, manner: StopMode) {
        let (state, ring) = (self.dispatch.agents[agent].state(), self.dispatch.agents[agent].ring);
        self.dispatch.leave_pool(agent, state, ring);
        let state = match manner {
            StopMode::Kill => AgentState::Killed,
            _ => AgentState::Stopping(self.now),
        };
        self.dispatch.agents.set_state(agent, state);
        self.dispatch.agents.counts.ending.insert(agent);
        self.act(Action::StopAgent { agent, manner });
    }

    pub(crate) fn drain(&mut self) {
        if std::mem::replace(&mut self.mode.is_draining, true) {
            return;
        }
        let alive = self.dispatch.agents.iter().filter(|(_, agent)| agent.is_alive());
        let alive: Vec<AgentId> = alive.map(|(id, _)| id).collect();
        alive.into_iter().for_each(|agent| self.stop_agent(agent, StopMode::Quit));
    }
}

impl Queue {
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
}

impl Dispatch {
    /// Takes an agent out of the pool of its ring, if it is idle.
    pub(crate) fn leave_pool(&mut self, id: AgentId, state: AgentState, ring: RingId) {
        if let AgentState::Idle(_) = state {
            self.rings[ring].idle.retain(|other| *other != id);
            self.agents.idle_count -= 1;
        }
    }

    pub(crate) fn agent_started(&mut self, agent: AgentId, pid: u32) {
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.pid = Some(pid);
        }
    }

    /// Sorts a thread's due vertices by age, if its clause has `ageorder`.
    ///
    /// Called when the thread gets its first agent.
    pub(crate) fn order_due(&mut self, queue: &mut Queue, thread: ThreadId) {
        let ring = &self.rings[queue.threads[thread].ring];
        if !ring.clause.age_order || ring.jobs.is_some() {
            return;
        }
        let age = |vertex: &VertexId| queue.messages[queue.vertices[*vertex].message].modified;
        let mut due = queue.threads[thread].due.to_vec(&queue.vertices);
        if due.is_sorted_by_key(age) {
            return;
        }
        due.sort_by_key(age);
        for vertex in due {
            queue.threads[thread].move_vertex(&mut queue.vertices, vertex, VertexState::Due);
        }
    }
}
