//! Reasons for which mail waits, with the deciding settings.
//!
//! This is the only answer to why mail waits: MAILQ, `mailq why` and `schedsim explain` render it.
//! Each reason is what led to the decision: a vertex waits where [`VertexState`] says, a thread
//! until the wake-up of its retry state, a ring for the reason of its refusal.

use crate::dispatch::suspended_ring::StartFailure;
use crate::dispatch::{AgentId, AgentState, Refusal};
use crate::operator::overrides::{Hold, LimitName, LimitOverride};
use crate::query::rank::JobRank;
use crate::query::view::{QueuedVertex, View};
use crate::queue::{Destination, Ring, RingId, Thread, Unreachable, Vertex, VertexId, VertexState};
use std::rc::Rc;
use zsched_bulk::JobId;
use zsched_config::SourceLocation;
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;

/// Maximum number of vertices or rings counted before one.
///
/// To count all would take too long.
pub(crate) const MAX_COUNTED: usize = 1000;

/// What a vertex waits for: the decision alone.
///
/// It costs the same for each vertex, so the classic reports use it. [`Why`] adds numbers, names
/// and lines of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An agent has it.
    AtWork,
    /// A new agent of its thread has not asked for work yet.
    AgentStarting,
    /// Agents are at work on its thread, and other vertices come first.
    InLine,
    /// Its next try, at this time.
    Retry(Timestamp),
    /// A request for the host: `queueonly`.
    Request,
    /// An agent, which may not be started.
    Refused(Refusal),
    /// An operator, who holds the destination or the message.
    Held,
    /// The first time that its sender allows, or the next one.
    Scheduled(Timestamp),
    /// A priority above `z`, which keeps its message.
    Kept,
    /// Its bulk job, which is paused or has its share of agents.
    Job,
    /// Its window, which has no room for another agent.
    Window,
    /// The time at which its next delivery may start.
    Pace,
    /// The next turn of the scheduler.
    Turn,
}

/// What a vertex or a list of vertices waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// An agent has it.
    AtWork {
        /// Process id of the agent.
        pid: u32,
        /// When it was given to the agent.
        ///
        /// For a whole thread, when the agent was last given a job.
        since: Option<Timestamp>,
        /// When the agent last reported anything, or got work after a time without any.
        heard: Timestamp,
        /// Jobs that the agent has.
        jobs: usize,
    },
    /// A new agent of its thread has not asked for work yet.
    AgentStarting {
        /// Process id of the agent.
        pid: u32,
    },
    /// Agents are at work on its thread, and other vertices come first.
    InLine {
        /// Number of agents at work on the thread.
        agents: usize,
        /// The limit: `maxthr`.
        max: usize,
        /// The source of the limit.
        origin: Origin,
        /// Number of vertices that come first, up to [`MAX_COUNTED`].
        ///
        /// `None` for a whole thread, and in rings that choose work by message.
        before: Option<usize>,
    },
    /// Its next try.
    Retry {
        /// Time of the try.
        at: Timestamp,
        /// What is known about the destination, if that is what it waits for.
        unreachable: Option<Box<Unreachable>>,
        /// Where `retries` is set.
        line: SourceLocation,
    },
    /// A request for the host: `queueonly`.
    Request {
        /// Where `queueonly` is set.
        line: SourceLocation,
    },
    /// An agent, which may not be started.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// The limit, if there is one.
        limit: Option<Limit>,
        /// The source of the limit, or else the clause.
        origin: Origin,
        /// Number of rings that come first on the waitlist.
        ///
        /// Only if its ring has no agent and gets the place of another ring's agent.
        before: Option<usize>,
    },
    /// An agent of its ring, of which none can be started.
    Suspended {
        /// The reason, and the time of the next attempt.
        failure: Box<StartFailure>,
        /// Where the command is set.
        line: SourceLocation,
    },
    /// An operator, who holds the destination or the message.
    Held {
        /// The hold, with operator and reason.
        hold: Hold,
    },
    /// The first time that its sender allows, or the next one.
    Scheduled {
        /// The time.
        at: Timestamp,
        /// The window of the day, if the sender has set one.
        window: Option<Rc<DayWindow>>,
    },
    /// A priority above `z`, which keeps its message.
    Kept,
    /// Its bulk job.
    Job {
        /// The job.
        job: JobId,
        /// It is paused. Otherwise other packets of it have its share of agents.
        is_paused: bool,
    },
    /// Its window, which has no room for another agent.
    Window {
        /// Number of agents at work in it.
        used: usize,
        /// Maximum number of agents now.
        max: usize,
        /// Its name, if it may be shared with other threads.
        name: Option<Rc<[u8]>>,
        /// The keyword that determined its size.
        keyword: &'static str,
        /// Where the keyword is set.
        line: SourceLocation,
    },
    /// The time at which its next delivery may start.
    Pace {
        /// The time.
        ///
        /// `None` if it depends on the end of the present delivery.
        at: Option<Timestamp>,
        /// `rate` or `delivery-delay`.
        keyword: &'static str,
        /// Where the keyword is set.
        line: SourceLocation,
    },
    /// The next turn of the scheduler.
    Turn,
}

/// Source of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the configuration.
    Line(SourceLocation),
    /// An override of an operator.
    Order(Box<LimitOverride>),
}

/// A limit on agents that is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Maximum number.
    pub max: usize,
    /// Present number.
    pub used: usize,
    /// It is not a setting: the process has no more descriptors.
    pub is_of_process: bool,
}

/// The reason for which some vertices of a thread wait.
#[derive(Debug)]
pub struct Wait<'s> {
    /// Where they go.
    pub destination: &'s Destination,
    /// Number of vertices.
    pub vertices: usize,
    /// What they wait for.
    pub why: Why,
    /// Tries so far; for a whole thread, those of the first vertex.
    pub tries: u32,
    /// Last diagnosis of the first of them.
    pub text: Option<&'s [u8]>,
    /// Position of its message among the others of its ring.
    ///
    /// Only for one vertex that is due, in rings that choose work by message.
    pub rank: Option<Box<JobRank>>,
}

impl Why {
    /// The keyword in the formats that programs read.
    pub fn word(&self) -> &'static str {
        match self {
            Why::AtWork { .. } => "at-work",
            Why::AgentStarting { .. } => "agent-starting",
            Why::InLine { .. } => "in-line",
            Why::Retry { .. } => "retry",
            Why::Request { .. } => "request",
            Why::Refused { .. } => "refused",
            Why::Suspended { .. } => "suspended",
            Why::Held { .. } => "held",
            Why::Scheduled { .. } => "scheduled",
            Why::Kept => "kept",
            Why::Job { .. } => "job",
            Why::Window { .. } => "window",
            Why::Pace { .. } => "pace",
            Why::Turn => "turn",
        }
    }

    /// The configuration line that sets the reason, if there is one.
    pub fn line(&self) -> Option<&SourceLocation> {
        match self {
            Why::InLine { origin, .. } | Why::Refused { origin, .. } => match origin {
                Origin::Line(line) => Some(line),
                Origin::Order(_) => None,
            },
            Why::Retry { line, .. }
            | Why::Request { line }
            | Why::Suspended { line, .. }
            | Why::Window { line, .. }
            | Why::Pace { line, .. } => Some(line),
            Why::AtWork { .. } | Why::AgentStarting { .. } | Why::Turn => None,
            Why::Held { .. } | Why::Scheduled { .. } | Why::Kept | Why::Job { .. } => None,
        }
    }
}

impl<'s> View<'s> {
    /// Reasons for the vertices of a thread, those with agents first.
    ///
    /// `None` if nothing is queued for it. Channel and host are in lower case.
    pub fn why_thread(self, channel: &[u8], host: &[u8]) -> Option<Vec<Wait<'s>>> {
        let thread = self.thread(self.thread_id(channel, host)?)?;
        Some(self.waits_of(thread).collect())
    }

    /// Last text of an agent about a thread: of the next of its vertices without an agent that has
    /// one.
    pub fn last_text_of(self, thread: &'s Thread) -> Option<&'s [u8]> {
        let waves = thread.waiting.waves().map(|(.., first)| first);
        let mut next = thread.due.first().into_iter().chain(waves).chain(thread.held_back.first());
        next.find_map(|vertex| {
            let diagnosis = self.core.queue.vertex(vertex).diagnosis.as_ref()?;
            Some(&diagnosis.message[..])
        })
    }

    /// The reasons for a thread, one by one.
    pub fn waits_of(self, thread: &'s Thread) -> impl Iterator<Item = Wait<'s>> {
        let with_agents = thread.agents.iter().filter_map(move |agent| self.why_agent(*agent));
        let due = thread.due.first().map(|first| {
            let why = self.why_of(first, false);
            self.wait(thread, thread.due.len(), self.core.queue.vertex(first), why)
        });
        let waiting = self.waits_of_waves(thread);
        let held_back = self.waits_of_held_back(thread);
        with_agents.chain(due).chain(waiting).chain(held_back)
    }

    /// Reasons for the waiting vertices of a thread, the next ones first.
    ///
    /// Waves with the same reason are combined.
    fn waits_of_waves(self, thread: &'s Thread) -> Vec<Wait<'s>> {
        let mut waits: Vec<Wait<'_>> = Vec::new();
        for (_, vertices, first) in thread.waiting.waves() {
            let why = self.why_of(first, false);
            match waits.last_mut().filter(|last| last.why == why) {
                Some(last) => last.vertices += vertices,
                None => waits.push(self.wait(thread, vertices, self.core.queue.vertex(first), why)),
            }
        }
        waits
    }

    /// Reasons for each vertex of a message.
    ///
    /// `None` if it is not queued.
    pub fn why_message(self, number: u64) -> Option<Vec<Wait<'s>>> {
        let vertices = self.vertices_of(self.message(number)?);
        Some(vertices.map(|queued| self.why_vertex(&queued)).collect())
    }

    /// The reason for a vertex, with its details.
    pub fn why_vertex(self, queued: &QueuedVertex<'s>) -> Wait<'s> {
        let QueuedVertex { id, vertex, thread, .. } = *queued;
        let why = self.why_of(id, true);
        let rank = if matches!(why, Why::Held { .. }) { None } else { self.rank_of(queued) };
        Wait { rank, ..self.wait(thread, 1, vertex, why) }
    }

    pub(super) fn wait(
        self,
        thread: &'s Thread,
        vertices: usize,
        first: &'s Vertex,
        why: Why,
    ) -> Wait<'s> {
        let diagnosis = first.diagnosis.as_ref();
        Wait {
            destination: &thread.destination,
            vertices,
            why,
            tries: first.attempts.into(),
            text: diagnosis.map(|diagnosis| &diagnosis.message[..]),
            rank: None,
        }
    }

    /// The jobs of an agent in its thread.
    ///
    /// `None` if it has none yet.
    fn why_agent(self, agent: AgentId) -> Option<Wait<'s>> {
        let agent_ref = &self.core.dispatch.agents()[agent];
        let jobs = agent_ref
            .jobs()
            .filter(|job| self.core.queue.vertex(*job).state == VertexState::Fed)
            .count();
        let first = agent_ref.jobs().next().map(|job| self.core.queue.vertex(job))?;
        let (pid, since) = (agent_ref.pid.unwrap_or_default(), agent_ref.fed_at);
        let thread = self.core.queue.thread(agent_ref.thread?);
        let heard = agent_ref.progress_at;
        (jobs > 0).then(|| self.wait(thread, jobs, first, Why::AtWork { pid, since, heard, jobs }))
    }

    fn why_fed(self, vertex: VertexId) -> Why {
        let mut agents =
            self.core.queue.thread(self.core.queue.vertex(vertex).thread).agents.iter();
        let has_it =
            |agent: &&AgentId| self.core.dispatch.agents()[**agent].jobs().any(|job| job == vertex);
        // An agent that was told to end may no longer have a thread.
        let Some(agent) = agents.find(has_it).map(|agent| &self.core.dispatch.agents()[*agent])
        else {
            return Why::Turn;
        };
        let since = self.core.queue.vertex(vertex).last_fed;
        let since = (since > 0).then(|| Timestamp::from_seconds(i64::from(since)));
        Why::AtWork {
            pid: agent.pid.unwrap_or_default(),
            since,
            heard: agent.progress_at,
            jobs: agent.jobs().count(),
        }
    }

    /// The reason for which a vertex waits.
    pub fn reason_of(self, vertex: VertexId) -> Reason {
        let vertex = self.core.queue.vertex(vertex);
        let thread = self.core.queue.thread(vertex.thread);
        match vertex.state {
            VertexState::Fed | VertexState::Finished => Reason::AtWork,
            VertexState::Held => self.reason_of_held_back(vertex.message),
            VertexState::Due => self.reason_of_due(thread),
            VertexState::Waiting if thread.held => Reason::Held,
            VertexState::Waiting => self.reason_until(thread, thread.waiting.wakeup(vertex.wave)),
        }
    }

    fn reason_until(self, thread: &Thread, until: Option<Timestamp>) -> Reason {
        until.map_or(Reason::Request, |at| {
            Reason::Retry(self.core.queue.to_present_clock(thread, at))
        })
    }

    /// The reason for which the due vertices of a thread wait.
    pub(super) fn reason_of_due(self, thread: &Thread) -> Reason {
        if thread.held {
            return Reason::Held;
        }
        if self.core.queue.is_being_deferred(thread) {
            return self.reason_until(thread, thread.wakeup());
        }
        let ring = self.core.queue.ring(thread.ring);
        if !self
            .core
            .cx
            .settings
            .is_selected(thread.destination.channel(), thread.destination.host())
        {
            return Reason::Refused(Refusal::NotSelected);
        }
        if self.core.queue.is_backfilling(thread) {
            return Reason::Refused(Refusal::Reloading);
        }
        match self.why_window(thread) {
            Some(Why::Pace { .. }) => return Reason::Pace,
            // Vertices behind others of their thread have that as their reason, unless the window
            // is small.
            Some(Why::Window { keyword: "maxthr", .. }) if !thread.agents.is_empty() => {}
            Some(_) => return Reason::Window,
            None => {}
        }
        // In rings that choose work by message, a thread with room for an agent waits for the
        // ring's next agent. It has no line of its own.
        let has_line = ring.jobs.is_none() || !thread.is_ready;
        if let Some(agent) = thread.agents.last().filter(|_| has_line) {
            let agent = &self.core.dispatch.agents()[*agent];
            return match agent.state() == AgentState::Starting && agent.fed_at.is_none() {
                true => Reason::AgentStarting,
                false => Reason::InLine,
            };
        }
        self.ring_agents(thread.ring).refusal.map_or(Reason::Turn, Reason::Refused)
    }

    /// The reason for which a vertex waits, with its details.
    ///
    /// The number of vertices before it counts only if it is `alone`: it may stand for all of its
    /// thread that have the same reason.
    pub(super) fn why_of(self, id: VertexId, alone: bool) -> Why {
        let vertex = self.core.queue.vertex(id);
        let thread = self.core.queue.thread(vertex.thread);
        let ring = self.core.queue.ring(thread.ring);
        match self.reason_of(id) {
            Reason::AtWork => self.why_fed(id),
            Reason::Held => {
                // Without a hold it is about to be released: releases go from thread to thread.
                self.hold_of(vertex).map_or(Why::Turn, |hold| Why::Held { hold: hold.clone() })
            }
            Reason::Scheduled(at) => {
                let schedules = &self.core.queue.messages().schedules;
                Why::Scheduled { at, window: schedules.window(vertex.message) }
            }
            Reason::Kept => Why::Kept,
            Reason::Job => self.why_kept_by_job(vertex.message),
            Reason::Retry(at) => {
                let present = |time| self.core.queue.to_present_clock(thread, time);
                let known = thread.retry.unreachable.clone();
                let unreachable = known.filter(|known| present(known.until) == at);
                Why::Retry { at, unreachable, line: ring.clause.location_of("retries") }
            }
            Reason::Request => Why::Request { line: ring.clause.location_of("queueonly") },
            Reason::Window | Reason::Pace => self.why_window(thread).unwrap_or(Why::Turn),
            Reason::AgentStarting => {
                let newest =
                    thread.agents.last().and_then(|agent| self.core.dispatch.agents()[*agent].pid);
                Why::AgentStarting { pid: newest.unwrap_or_default() }
            }
            Reason::InLine => {
                let before = (alone && ring.jobs.is_none()).then(|| {
                    let mut due = thread.due.iter(self.core.queue.vertices()).take(MAX_COUNTED);
                    due.position(|other| other == id).unwrap_or(MAX_COUNTED)
                });
                let max = self.core.queue.max_thread(thread) as usize;
                let origin = self.origin_of_thread_limit(thread);
                Why::InLine { agents: thread.agents.len(), max, origin, before }
            }
            Reason::Refused(refusal) => match &self.ring_agents(thread.ring).starts.failure {
                Some(failure) if refusal == Refusal::Suspended => {
                    let line = ring.clause.location_of("command");
                    Why::Suspended { failure: failure.clone(), line }
                }
                _ => self.refused(thread.ring, refusal),
            },
            Reason::Turn => Why::Turn,
        }
    }

    /// The hold of the message of a vertex, or of its destination.
    fn hold_of(self, vertex: &Vertex) -> Option<&'s Hold> {
        let overrides = &self.core.overrides;
        if vertex.state == VertexState::Held {
            return overrides.hold_of_message(self.core.queue.message(vertex.message).spool_id());
        }
        let thread = self.core.queue.thread(vertex.thread);
        overrides.hold_of(&thread.destination, self.core.queue.ring(thread.ring))
    }

    fn origin(self, ring: &Ring, limit: LimitName) -> Origin {
        match self.core.overrides.limit_of(ring, limit) {
            Some(set) => Origin::Order(Box::new(set.clone())),
            None => Origin::Line(ring.clause.location_of(limit.keyword())),
        }
    }

    fn origin_of_thread_limit(self, thread: &Thread) -> Origin {
        match self.core.overrides.limit_of_thread(&thread.destination) {
            Some(set) => Origin::Order(Box::new(set.clone())),
            None => self.origin(self.core.queue.ring(thread.ring), LimitName::MaxThr),
        }
    }

    fn refused(self, id: RingId, refusal: Refusal) -> Why {
        let (ring, agents) = (self.core.queue.ring(id), self.ring_agents(id));
        let clause = &ring.clause;
        let of_process = self.core.cx.settings.max_agents;
        let limit = |limit: Option<u32>, used: usize| {
            let max = limit.map_or(of_process, |limit| limit as usize);
            Some(Limit { max, used, is_of_process: limit.is_none() })
        };
        // The default of a limit is the limit on all agents.
        let origin_of = |limit: LimitName| match clause.lines.contains_key(limit.keyword()) {
            _ if self.core.overrides.limit_of(ring, limit).is_some() => self.origin(ring, limit),
            true => self.origin(ring, limit),
            false => self.origin(ring, LimitName::MaxTa),
        };
        let of_clause = || Origin::Line(clause.location.clone());
        let of_channel = || self.core.dispatch.agents().counts.of_channel(&ring.channel).agents;
        let (limit, origin) = match refusal {
            Refusal::MaxRing => {
                (limit(clause.max_ring, agents.count), origin_of(LimitName::MaxRing))
            }
            Refusal::MaxChannel => {
                (limit(clause.max_channel, of_channel()), origin_of(LimitName::MaxChannel))
            }
            Refusal::MaxAgents => {
                let given = clause.max_agents.filter(|max| (*max as usize) < of_process);
                (limit(given, self.core.dispatch.agents().len()), origin_of(LimitName::MaxTa))
            }
            Refusal::ForkRate => {
                let max = self.core.cx.settings.fork_rate.max(1) as usize;
                let rate = Limit { max, used: max, is_of_process: false };
                (Some(rate), of_clause())
            }
            Refusal::Unproven => {
                let used = agents.starts.unproven;
                (Some(Limit { max: used, used, is_of_process: false }), of_clause())
            }
            _ => (None, of_clause()),
        };
        let gets_place =
            matches!(refusal, Refusal::MaxAgents | Refusal::MaxChannel) && agents.count == 0;
        let before = self.core.dispatch.rings_before(id).filter(|_| gets_place);
        Why::Refused { refusal, limit, origin, before }
    }
}
