//! Invariants between any two events, checked by tests and simulations.

use crate::Scheduler;
use crate::dispatch::agent::{Agent, AgentId, AgentState, Owed};
use crate::dispatch::fair_share::AgentCount;
use crate::dispatch::ring::Refusal;
use crate::queue::message::MessageId;
use crate::queue::vertex::VertexState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Scheduler {
    /// Panics if the queue contradicts itself.
    ///
    /// Examples are a count that is not the length of its list, a vertex in no thread, a thread in
    /// no ring, and something that waits for nothing.
    pub fn check_invariants(&self) {
        self.check_vertices();
        self.check_threads();
        self.check_rings();
        self.check_agents();
        self.check_partial_messages();
        self.check_windows();
    }

    fn check_vertices(&self) {
        let mut recipients = 0;
        let mut jobs: HashMap<MessageId, u32> = HashMap::new();
        for job in self.dispatch.agents.values().flat_map(|agent| agent.jobs()) {
            *jobs.entry(self.queue.vertices[job].message).or_default() += 1;
        }
        for (id, message) in self.queue.messages.iter() {
            let mut pending = 0;
            for vertex in message.vertices.iter(&self.queue.vertices) {
                let vertex = &self.queue.vertices[vertex];
                assert_eq!(vertex.message, id, "a vertex is in the list of another message");
                assert_ne!(vertex.place, VertexState::Finished, "a spent vertex is in a message");
                assert_eq!(vertex.pending as usize, vertex.recipients.pending().len());
                assert!(vertex.pending > 0, "a vertex has no recipient left, but is not finished");
                pending += vertex.pending;
            }
            assert_eq!(message.pending, pending, "{}: pending recipients", message.name);
            let jobs = jobs.get(&id).copied().unwrap_or_default();
            assert_eq!(message.jobs, jobs, "{}: jobs with agents", message.name);
            let is_over = message.is_complete();
            assert!(message.is_removing || !is_over, "{} is complete, but stays", message.name);
            recipients += u64::from(pending);
        }
        let mut seconds = BTreeMap::new();
        for (id, message) in self.queue.messages.iter() {
            if self.queue.messages.find(message.name.number()) == Some(id) {
                *seconds.entry(message.modified.seconds()).or_insert(0) += 1;
            }
        }
        assert_eq!(*self.queue.messages.by_second(), seconds, "messages by their age");
        assert_eq!(self.recipients(), recipients, "recipients in minus out and resting");
    }

    fn check_threads(&self) {
        let vertices: usize = self.queue.threads.iter().map(|(_, thread)| thread.len()).sum();
        assert_eq!(self.totals().vertices, vertices, "vertices in threads");
        let held = self.queue.threads.iter().filter(|(_, thread)| thread.held).count();
        assert_eq!(self.queue.threads.held(), held, "held threads");
        for thread in self.queue.deferrals.threads() {
            let is_ready = self.queue.threads[thread].is_ready;
            assert!(!is_ready, "{}: put off, but ready", self.queue.threads[thread].destination);
        }
        for (id, thread) in self.queue.threads.iter() {
            for (place, list) in [
                (VertexState::Due, thread.due.to_vec(&self.queue.vertices)),
                (VertexState::Fed, thread.fed.to_vec(&self.queue.vertices)),
                (VertexState::Waiting, thread.waiting.iter(&self.queue.vertices).collect()),
                (VertexState::Held, thread.held_back.to_vec(&self.queue.vertices)),
            ] {
                for vertex in list {
                    assert_eq!(self.queue.vertices[vertex].thread, id);
                    assert_eq!(self.queue.vertices[vertex].place, place);
                    let held = self.queue.messages[self.queue.vertices[vertex].message].held;
                    assert!(held || place != VertexState::Held, "held back without a hold");
                    assert!(
                        !held || matches!(place, VertexState::Held | VertexState::Fed),
                        "held, but free"
                    );
                }
            }
            assert_eq!(thread.vertices(&self.queue.vertices).count(), thread.len());
            let recipients: u32 = thread
                .vertices(&self.queue.vertices)
                .map(|vertex| self.queue.vertices[vertex].pending)
                .sum();
            assert_eq!(thread.recipients, recipients, "{}: recipients", thread.destination);
            let unused = thread.is_empty() && thread.agents.is_empty();
            assert!(!unused, "{} is unused, but stays", thread.destination);
            let mut of_host = self.queue.threads.of_host(thread.destination.host());
            assert!(of_host.any(|other| other == id), "{}: not found by host", thread.destination);
            self.check_wait(id);
        }
    }

    /// Checks that all that waits has a time or condition to end.
    fn check_wait(&self, id: crate::queue::thread::ThreadId) {
        let thread = &self.queue.threads[id];
        let ring = &self.dispatch.rings[thread.ring];
        let is_old = ring.is_retired;
        assert!(
            !is_old || self.sweep.applies_configuration(),
            "{} is in a retired ring",
            thread.destination
        );
        assert!(!is_old || thread.agents.is_empty(), "{} got an agent", thread.destination);
        assert_eq!(ring.threads.get(thread.ring_slot), Some(&id));
        for vertex in thread.waiting.iter(&self.queue.vertices) {
            let wave = self.queue.vertices[vertex].wave;
            let wakes = thread.waiting.wakeup(wave).is_some() || ring.clause.is_etrn_only();
            assert!(wakes, "{} waits for nothing", thread.destination);
            let known = thread.retry.unreachable.as_ref();
            let waits_for_nothing = known.is_none()
                && thread.waiting.is_for_destination(wave)
                && thread.waiting.wakeup(wave).map(|time| self.to_present_clock(thread, time))
                    > Some(self.last_event_at);
            assert!(!waits_for_nothing, "{}: waits, but can be reached", thread.destination);
        }
        // The timer may be too early, if what it was set for is gone.
        if let Some(wanted) = thread.wakeup().into_iter().chain(thread.expiry_check).min() {
            let is_in_time = thread.timer.is_some_and(|timer| timer <= wanted);
            assert!(is_in_time, "{}: timer", thread.destination);
        }
        if let Some(timer) = thread.timer {
            assert!(
                self.timers.has_thread(id, self.is_shifted(id), timer),
                "{}: no timer",
                thread.destination
            );
        }
        let held = self.overrides.hold_of(&thread.destination, ring).is_some();
        let is_known = !is_old && !self.sweep.applies_overrides();
        assert!(!is_known || thread.held == held, "{}: held or not", thread.destination);
        assert!(!thread.held || !thread.is_ready, "{} is held, and in line", thread.destination);
        // If something is due and no agent is at work, the thread must be in line for an agent,
        // waiting for its window, excluded by -p, or held.
        let idle = self.due_for_agents(id) > 0 && thread.agents.is_empty();
        let waits_for_window = self.waits_for_window(id);
        assert!(
            !waits_for_window || !thread.due.is_empty(),
            "waits for its window with nothing due"
        );
        let selected = self.is_selected(thread.destination.channel(), thread.destination.host());
        assert!(
            !idle || thread.is_ready || !selected || thread.held || waits_for_window,
            "{} is not in line",
            thread.destination
        );
    }

    fn check_rings(&self) {
        for (id, ring) in self.dispatch.rings.iter() {
            let recipients =
                ring.threads.iter().map(|thread| self.queue.threads[*thread].recipients);
            let recipients: u64 = recipients.map(u64::from).sum();
            assert_eq!(ring.recipients, recipients, "recipients of a ring");
            self.check_jobs(id);
            let agents = self.dispatch.agents.values().filter(|agent| agent.ring == id).count();
            assert_eq!(ring.agents, agents, "agents of a ring");
            let has_never_asked = |agent: &&Agent| agent.owed.front() == Some(&Owed::Start);
            let of_ring = self.dispatch.agents.values().filter(|agent| agent.ring == id);
            assert_eq!(
                ring.starts.unproven,
                of_ring.filter(has_never_asked).count(),
                "newborn agents"
            );
            for thread in ring.ready.iter(self.queue.threads.pool()) {
                assert_eq!(self.queue.threads[thread].ring, id);
                assert!(self.queue.threads[thread].is_ready);
            }
            for agent in &ring.idle {
                assert!(matches!(self.dispatch.agents[*agent].state, AgentState::Idle(_)));
                assert_eq!(self.dispatch.agents[*agent].thread, None);
            }
            let in_line = self.dispatch.waitlists.count_in_waitlist(id, ring.waitlist.as_ref());
            assert_eq!(in_line, usize::from(ring.waitlist.is_some()), "a ring's place in its line");
            let waits_in_line = matches!(
                ring.refusal,
                Some(
                    Refusal::MaxAgents | Refusal::MaxChannel | Refusal::Claimed | Refusal::ForkRate
                )
            );
            let (is_in_line, place) = (ring.waitlist.is_some(), ring.waitlist_position);
            assert!(!is_in_line || place.has_agents == (ring.agents > 0), "a place in line");
            // Rings are tried again while limits are reapplied.
            let waits_in_line = waits_in_line && !self.sweep.applies_overrides();
            assert!(
                !waits_in_line || ring.waitlist.is_some() || ring.ready.is_empty(),
                "not in line"
            );
            let refused = ring.refusal.is_some();
            let served = ring.ready.is_empty() || refused || ring.is_queued_to_serve;
            let unused = ring.threads.is_empty() && ring.agents == 0;
            assert!(!unused, "a ring is unused, but stays");
            assert!(served, "threads of a ring want agents, and the ring has no refusal");
        }
        let idle: usize = self.dispatch.rings.iter().map(|(_, ring)| ring.idle.len()).sum();
        assert_eq!(self.dispatch.agents.idle, idle, "idle agents");
        assert!(
            self.dispatch.agents.len() <= self.settings.max_agents,
            "more agents than descriptors"
        );
    }

    fn check_agents(&self) {
        for (id, agent) in self.dispatch.agents.iter() {
            if let Some(thread) = agent.thread {
                assert!(
                    self.queue.threads[thread].agents.contains(&id),
                    "an agent's thread does not know it"
                );
            }
            for vertex in agent.jobs() {
                let place = self.queue.vertices[vertex].place;
                assert!(
                    matches!(place, VertexState::Fed | VertexState::Finished),
                    "a job is {place:?}"
                );
            }
            let waits = matches!(agent.state, AgentState::Killed | AgentState::ExitedMidJob)
                || agent.timer.is_some();
            assert!(waits, "an agent is not looked at again");
        }
        let mut all = AgentCount { agents: self.dispatch.agents.len(), rings: 0 };
        let mut channels: HashMap<_, AgentCount> = HashMap::new();
        for (_, ring) in self.dispatch.rings.iter().filter(|(_, ring)| ring.agents > 0) {
            all.rings += 1;
            let population = channels.entry(ring.channel.clone()).or_default();
            population.agents += ring.agents;
            population.rings += 1;
        }
        assert_eq!(*self.dispatch.agents.counts.channels(), channels, "agents of channels");
        assert_eq!(self.dispatch.agents.counts.all, all, "agents in all");
        let is_ending =
            |agent: &Agent| matches!(agent.state, AgentState::Stopping(_) | AgentState::Killed);
        let ending = self.dispatch.agents.iter().filter(|(_, agent)| is_ending(agent));
        let ending: BTreeSet<AgentId> = ending.map(|(id, _)| id).collect();
        assert_eq!(self.dispatch.agents.counts.ending, ending, "agents that were told to end");
    }
}
