//! Assignment of agents to threads.
//!
//! A thread gets an idle agent of its ring, a new one, or a refusal with the reason. Begin with
//! `assign_agent`. Which ring is served first: `agent_waitlist`, `fair_share`.

use crate::Settings;
use crate::action::Action;
use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch, Refusal, Resource};
use crate::queue::{Queue, Ring, RingId, ThreadId};
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use zsched_config::MailPriority;
use zsched_format::time::Timestamp;

/// Maximum number of idle agents examined for a known host.
const MAX_IDLE_EXAMINED: usize = 64;

/// Number of agents started in the present second.
#[derive(Default, Serialize, Deserialize)]
pub struct ForkRate {
    second: i64,
    started: u32,
}

impl Dispatch {
    /// Assigns an agent to the first ready thread of a ring, if the limits allow it.
    ///
    /// The ring is served again after that: other threads may be ready then.
    pub(crate) fn assign_agent(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        ring: RingId,
    ) {
        if queue.ring(ring).is_retired {
            return;
        }
        self.of_rings[ring].refusal = None;
        if queue.ring(ring).clause.mail_priority == MailPriority::Held {
            self.of_rings[ring].refusal = Some(Refusal::PriorityHeld);
            return;
        }
        let Some(thread) = queue.next_ready(ring) else {
            return;
        };
        if let Some(agent) = self.take_idle(queue, ring, thread) {
            self.reuse_agent(queue, admission, cx, agent, thread);
            self.next_ring = Some(ring);
        } else if let Err(refusal) = self.check_start_limits(queue, cx, ring) {
            self.record_refusal(queue, cx, ring, refusal);
        } else {
            self.start_agent(queue, cx, ring, thread);
            // One at a time, so that rings take turns.
            queue.mark_ring(ring);
        }
    }

    /// Adds a thread to the ready threads of its ring or window, or removes it.
    pub(crate) fn update_readiness(&mut self, queue: &mut Queue, cx: &Context, thread: ThreadId) {
        let thread_ref = queue.thread(thread);
        let has_asked = thread_ref.is_ready || self.waits_for_window(queue, thread);
        // With `wakeuprestartonly`, a second agent is added only at a wake-up.
        let may_ask = has_asked
            || thread_ref.is_woken
            || thread_ref.agents.is_empty()
            || !queue.ring(thread_ref.ring).clause.wakeup_restart_only;
        let (window, is_ready) = (thread_ref.window, thread_ref.is_ready);
        let wants = may_ask && self.needs_agent(queue, cx, thread);
        match window {
            Some(window) => self.update_window_demand(queue, window, thread, wants),
            None if wants == is_ready => {}
            None if wants => queue.make_ready(thread),
            None => self.unready(queue, thread),
        }
    }

    /// Returns true if a thread could use an agent, or one more.
    pub(crate) fn needs_agent(&self, queue: &Queue, cx: &Context, thread: ThreadId) -> bool {
        let due = queue.due_for_agents(thread);
        let thread = queue.thread(thread);
        let may_have_one = !thread.held
            && thread.agents.len() < queue.max_thread(thread) as usize
            && cx.settings.is_selected(thread.destination.channel(), thread.destination.host());
        let has_jobs = queue.ring(thread.ring).jobs.is_some();
        // An agent that is ending takes no more work, but it still counts. In a ring with jobs,
        // only an agent that was started for the thread and has not asked for work yet is sure to
        // take more of it.
        let comes = |agent: &&AgentId| match self.agents[**agent].state() {
            AgentState::Starting => true,
            _ => !has_jobs && self.agents[**agent].is_alive(),
        };
        // The agents are looked at only if they could be enough.
        let has_unshared_work =
            || due > thread.agents.len() || due > thread.agents.iter().filter(comes).count();
        due > 0 && may_have_one && has_unshared_work()
    }

    fn start_agent(&mut self, queue: &mut Queue, cx: &mut Context, ring: RingId, thread: ThreadId) {
        cx.counters.agents_started += 1;
        self.fork_rate.started += 1;
        let agent = self.agents.insert(Agent::new(ring, thread, cx.now));
        self.end_ring_wait(ring);
        self.agents.counts.add(queue.ring(ring), &mut self.of_rings[ring]);
        self.of_rings[ring].starts.unproven += 1;
        let Ring { clause, channel, .. } = queue.ring(ring);
        let (clause, channel) = (clause.clone(), channel.clone());
        let host = queue.thread(thread).destination.host().into();
        self.attach(queue, cx, agent, thread);
        cx.act(Action::StartAgent { agent, clause, channel, host });
    }

    /// Binds an agent to a thread.
    pub(crate) fn attach(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: AgentId,
        thread: ThreadId,
    ) {
        queue.add_agent(thread, agent);
        let agent_ref = &mut self.agents[agent];
        agent_ref.thread = Some(thread);
        agent_ref.thread_since = cx.now;
        agent_ref.last_destination = Some(queue.thread(thread).destination.clone());
        // The other threads come first before it gets another agent. Jobs have an order of their
        // own.
        let ring = queue.thread(thread).ring;
        if queue.ring(ring).jobs.is_none() || queue.thread(thread).window.is_some() {
            self.unready(queue, thread);
        }
        self.enter_window(queue, cx, agent, thread);
        queue.set_woken(thread);
    }

    /// Takes an agent away from its thread, if it has one.
    pub(crate) fn detach(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        let agent_ref = &mut self.agents[agent];
        let had_permit = std::mem::take(&mut agent_ref.has_delivery_permit);
        let Some(thread) = agent_ref.thread.take() else {
            return;
        };
        queue.remove_agent(thread, agent);
        self.leave_window_with_agent(queue, cx, thread, had_permit);
    }

    /// Checks all limits on starting an agent in a ring now.
    fn check_start_limits(
        &mut self,
        queue: &Queue,
        cx: &Context,
        ring: RingId,
    ) -> Result<(), Refusal> {
        let Ring { clause, channel, .. } = queue.ring(ring);
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        let of_channel = self.agents.counts.of_channel(channel).agents;
        if cx.settings.frozen {
            Err(Refusal::Frozen)
        } else if cx.awaits_initial_scan {
            Err(Refusal::Loading)
        } else if cx.is_draining {
            Err(Refusal::Ending)
        } else if clause.command.is_none() {
            Err(Refusal::NoCommand)
        } else if let Some(refusal) = self.of_rings[ring].starts.refusal(cx.now) {
            Err(refusal)
        } else if self.agents.len() >= limit(clause.max_agents).min(cx.settings.max_agents) {
            Err(Refusal::MaxAgents)
        } else if of_channel >= limit(clause.max_channel) {
            Err(Refusal::MaxChannel)
        } else if self.of_rings[ring].count >= limit(clause.max_ring) {
            Err(Refusal::MaxRing)
        } else if self.claiming_waitlist(queue, cx, ring).is_some() {
            Err(Refusal::Claimed)
        } else if !self.fork_rate.allows(cx.now, cx.settings.fork_rate) {
            Err(Refusal::ForkRate)
        } else {
            Ok(())
        }
    }

    /// Records why a ring gets no agent.
    ///
    /// Ensures that the ring tries again when that may change.
    fn record_refusal(&mut self, queue: &Queue, cx: &mut Context, ring: RingId, refusal: Refusal) {
        self.of_rings[ring].refusal = Some(refusal);
        let Ring { channel, clause, .. } = queue.ring(ring);
        let resource = match refusal {
            Refusal::MaxAgents => Some(Resource::Agents(clause.max_agents)),
            Refusal::MaxChannel => Some(Resource::Channel(channel.clone(), clause.max_channel)),
            Refusal::Claimed => self.claiming_waitlist(queue, cx, ring),
            Refusal::ForkRate => {
                let next_second = Timestamp::from_seconds(cx.now.seconds() + 1);
                cx.timers.add(next_second, Timer::ForkRate);
                return self.join_waitlist(queue, cx.now, ring, Resource::ForkRate);
            }
            // The ring's own agents come to serve the thread.
            Refusal::MaxRing => None,
            // The configuration or the mode must change first.
            Refusal::NoCommand => return self.warn_no_command(queue, cx, ring),
            Refusal::Frozen | Refusal::Loading | Refusal::Ending | Refusal::NotSelected => None,
            // A timer, or an agent that is being started, triggers the next try.
            Refusal::Suspended | Refusal::Unproven => None,
            // These rings are not served.
            Refusal::Reloading | Refusal::PriorityHeld => None,
        };
        if let Some(resource) = resource {
            self.join_waitlist(queue, cx.now, ring, resource.clone());
            self.retire_idle_for(queue, cx, &resource);
        }
    }

    /// Logs once that a ring has mail that cannot be delivered.
    fn warn_no_command(&mut self, queue: &Queue, cx: &mut Context, ring: RingId) {
        if std::mem::replace(&mut self.of_rings[ring].logged_no_command, true) {
            return;
        }
        if let Some(thread) = queue.next_ready(ring) {
            let destination = &queue.thread(thread).destination;
            // Line 0 stands for the defaults, where no clause matches.
            let location = &queue.ring(ring).clause.location;
            let place = if location.line > 0 { format!(" ({location})") } else { String::new() };
            let text =
                format!("{destination}{place}: no clause has a command for it; its mail stays");
            cx.log(Level::Warn, text);
        }
    }

    /// Removes a thread from the ready threads of its ring and window.
    pub(crate) fn unready(&mut self, queue: &mut Queue, thread: ThreadId) {
        let thread_ref = queue.thread(thread);
        if let Some(window) = thread_ref.window.filter(|_| thread_ref.is_ready) {
            self.windows[window].ready.remove(&thread);
        }
        queue.unready(thread);
    }

    /// Takes an agent out of the ring's pool.
    ///
    /// It is the one that served this thread last, if it is there, else the one that was busy last.
    fn take_idle(&mut self, queue: &Queue, ring: RingId, thread: ThreadId) -> Option<AgentId> {
        let idle = &self.of_rings[ring].idle;
        let newest = idle.len().checked_sub(1)?;
        let destination = Some(&queue.thread(thread).destination);
        let knows_it =
            |index: &usize| self.agents[idle[*index]].last_destination.as_ref() == destination;
        let looked_at = idle.len().saturating_sub(MAX_IDLE_EXAMINED)..idle.len();
        let index = looked_at.rev().find(knows_it).unwrap_or(newest);
        self.agents.idle_count -= 1;
        let agent = self.of_rings[ring].idle.remove(index);
        self.end_ring_wait(ring);
        Some(agent)
    }
}

impl Settings {
    /// Returns true if `-p` selects a destination.
    pub(crate) fn is_selected(&self, channel: &[u8], host: &[u8]) -> bool {
        let selection = self.selection.as_ref();
        selection.is_none_or(|selection| selection.matches(channel, host))
    }
}

impl ForkRate {
    /// Returns true if the counted second is over.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now.seconds() != self.second
    }

    fn allows(&mut self, now: Timestamp, per_second: u32) -> bool {
        if now.seconds() != self.second {
            *self = ForkRate { second: now.seconds(), started: 0 };
        }
        self.started < per_second.max(1)
    }
}
