//! Suspension of rings whose agents cannot be started.
//!
//! The program is missing, may not be executed, or ends before it first asks for work. Such a ring
//! is suspended as a whole. One agent is started at a time to find out if that has changed: after a
//! second, then each time after twice as long as before. When ETRN or an operator asks for mail of
//! the ring, the next one is started at once. An agent that asks for work ends the suspension, and
//! so does a new configuration. So one wrong path does not use up the starts that the fork rate
//! allows to all rings.

use crate::context::Context;
use crate::dispatch::{Agent, AgentId, Dispatch, Refusal};
use crate::event::AgentEnd;
use crate::queue::{Queue, RingId};
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of agents started before one has asked for work.
const MAX_UNPROVEN_AGENTS: usize = 4;
/// Time from the first failed start to the next one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time from one failed start to the next.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// What is known about starting a ring's agents.
#[derive(Default, Serialize, Deserialize)]
pub struct StartState {
    /// Number of its agents that have not asked for work yet.
    pub unproven: usize,
    /// An agent of the ring has asked for work.
    is_proven: bool,
    /// Why it is suspended, if it is.
    pub failure: Option<Box<StartFailure>>,
}

/// Why no agent of a ring can be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// When the next agent is started.
    pub until: Timestamp,
    /// Number of failures in a row.
    pub count: u32,
    /// How the last one ended.
    pub reason: String,
}

impl StartState {
    /// Why no agent may be started now; `None` if one may.
    pub fn refusal(&self, now: Timestamp) -> Option<Refusal> {
        match &self.failure {
            Some(failure) => {
                let waits = now < failure.until || self.unproven > 0;
                waits.then_some(Refusal::Suspended)
            }
            None => {
                let waits = !self.is_proven && self.unproven >= MAX_UNPROVEN_AGENTS;
                waits.then_some(Refusal::Unproven)
            }
        }
    }

    /// Moves the time of the next start, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        if let Some(failure) = &mut self.failure {
            failure.until = failure.until + step;
        }
    }
}

impl Dispatch {
    /// Processes the first request for work of an agent.
    ///
    /// It ends the suspension of its ring.
    pub(crate) fn agent_proven(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        let ring = self.agents[agent].ring;
        let starts = &mut self.of_rings[ring].starts;
        starts.unproven -= 1;
        let was_proven = std::mem::replace(&mut starts.is_proven, true);
        if self.end_suspension(cx, ring) {
            let name = self.ring_name(queue, ring);
            cx.log(Level::Info, format!("{name}: its agents can be started again"));
            queue.mark_ring(ring);
        } else if !was_proven {
            queue.mark_ring(ring);
        }
    }

    /// Processes the end of an agent that never asked for work.
    ///
    /// This is done only if the agent itself is to blame, and no other agent of the ring works.
    pub(crate) fn agent_start_failed(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: &Agent,
        end: &AgentEnd,
        is_to_blame: bool,
    ) {
        let ring = agent.ring;
        self.of_rings[ring].starts.unproven -= 1;
        let agents = &self.of_rings[ring];
        let others_work = agents.count > agents.starts.unproven;
        if !is_to_blame || others_work || queue.ring(ring).is_retired {
            return;
        }
        // Agents that were started at the same time count once.
        let former = agents.starts.failure.as_ref();
        let count = match former {
            Some(former) if cx.now < former.until => former.count,
            Some(former) => former.count.saturating_add(1),
            None => 1,
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << (count - 1).min(16)).min(MAX_PAUSE);
        let reason = format!("{end}{}", agent.stray_lines.in_parentheses());
        let failure = StartFailure { until: cx.now + pause, count, reason };
        if former.is_none() {
            let name = self.ring_name(queue, ring);
            let text =
                format!("{name}: its agent {end}; they are started one at a time until one works");
            cx.log(Level::Warn, text);
        }
        self.end_suspension(cx, ring);
        self.leave_waitlist(ring);
        self.of_rings[ring].waiting_since = None;
        cx.timers.add(failure.until, Timer::Ring(ring));
        self.of_rings[ring].starts.failure = Some(Box::new(failure));
    }

    /// Starts the next agent of a suspended ring at once.
    ///
    /// Its mail was requested.
    pub(crate) fn retry_start_now(&mut self, queue: &mut Queue, cx: &mut Context, ring: RingId) {
        let Some(failure) = &mut self.of_rings[ring].starts.failure else {
            return;
        };
        let planned = std::mem::replace(&mut failure.until, cx.now);
        cx.timers.cancel(planned, Timer::Ring(ring));
        cx.timers.add(cx.now, Timer::Ring(ring));
        queue.mark_ring(ring);
    }

    /// Ends the suspension of a ring. Returns true if there was one.
    pub(crate) fn end_suspension(&mut self, cx: &mut Context, ring: RingId) -> bool {
        let failure = self.of_rings[ring].starts.failure.take();
        if let Some(failure) = &failure {
            cx.timers.cancel(failure.until, Timer::Ring(ring));
        }
        failure.is_some()
    }

    /// Name of a ring in the log: its pattern and clause.
    pub(crate) fn ring_name(&self, queue: &Queue, ring: RingId) -> String {
        let clause = &queue.ring(ring).clause;
        format!("{}/{} ({})", clause.channel_pattern, clause.host_pattern, clause.location)
    }
}
