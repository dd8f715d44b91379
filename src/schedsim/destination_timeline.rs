//! The timeline of a destination, or of all destinations of a host.
//!
//! It has what becomes of each of their messages, and what the mail of a destination waits for as a
//! whole when no agent is at work on it.

use super::timeline::{TimelineEntry, clause_text, report_text, spool_id, wait_text};
use std::collections::BTreeMap;
use std::rc::Rc;
use zsched_config::Clause;
use zsched_core::view::{Message, QueuedVertex, Thread};
use zsched_core::why::{Reason, Why};
use zsched_core::{Action, AgentId, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, RecipientReport};
use zsched_format::printable::count;
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};

/// The destinations to explain; both in lower case.
#[derive(Clone, Debug)]
pub(crate) struct DestinationFilter {
    /// Their channel; `None` is any.
    pub channel: Option<Vec<u8>>,
    /// Their host.
    pub host: Vec<u8>,
}

impl DestinationFilter {
    fn is(&self, channel: &[u8], host: &[u8]) -> bool {
        host == self.host && self.channel.as_ref().is_none_or(|wanted| channel == wanted)
    }
}

/// What is known of a destination while mail for it is queued.
#[derive(Default)]
struct KnownDestination {
    clause: Option<Rc<Clause>>,
    reason: Option<Reason>,
}

/// Collects the timeline during a replay.
pub(crate) struct DestinationTimeline {
    wanted: DestinationFilter,
    /// The present time.
    now: Timestamp,
    /// When the timeline begins.
    start: Option<Timestamp>,
    known: BTreeMap<Destination, KnownDestination>,
    /// The timeline in order.
    pub entries: Vec<TimelineEntry>,
}

impl DestinationTimeline {
    /// Creates an empty timeline.
    pub(crate) fn new(wanted: DestinationFilter) -> DestinationTimeline {
        DestinationTimeline {
            wanted,
            now: Timestamp::default(),
            start: None,
            known: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// Takes what is queued at the beginning of a recording.
    pub(crate) fn begin(&mut self, now: Timestamp, core: &Scheduler) {
        self.now = now;
        let rings = core.view().ring_ids().into_iter().filter_map(|ring| core.view().ring(ring));
        let threads = rings.flat_map(|ring| &ring.threads).filter_map(|id| core.view().thread(*id));
        for thread in threads {
            let to = &thread.destination;
            if self.wanted.is(to.channel(), to.host()) && !self.known.contains_key(to) {
                let text =
                    format!("{} recipients queued before the recording began", thread.recipients);
                self.add("known", to, text);
                self.known.insert(to.clone(), KnownDestination::default());
            }
        }
        self.compare(core);
    }

    fn add(
        &mut self,
        what: &'static str,
        to: &Destination,
        text: impl Into<String>,
    ) -> &mut TimelineEntry {
        let start = *self.start.get_or_insert(self.now);
        let destination = Some(to.to_string());
        let entry =
            TimelineEntry { destination, ..TimelineEntry::new(self.now, start, what, text) };
        let index = self.entries.len();
        self.entries.push(entry);
        &mut self.entries[index]
    }

    /// Adds the changes in the state of the destinations.
    fn compare(&mut self, core: &Scheduler) {
        let mut known = std::mem::take(&mut self.known);
        known.retain(|to, known| {
            let thread = core
                .view()
                .thread_id(to.channel(), to.host())
                .and_then(|id| core.view().thread(id));
            match thread {
                Some(thread) => self.compare_thread(core, thread, known),
                None => drop(self.add("empty", to, "nothing is queued for it")),
            }
            thread.is_some()
        });
        self.known = known;
    }

    fn compare_thread(&mut self, core: &Scheduler, thread: &Thread, known: &mut KnownDestination) {
        let to = &thread.destination;
        let ring = core.view().ring_of(thread);
        if known.clause.as_ref().is_none_or(|clause| !Rc::ptr_eq(clause, &ring.clause)) {
            self.add("queued", to, clause_text(ring));
            known.clause = Some(ring.clause.clone());
        }
        let reason = reason(core, thread);
        if std::mem::replace(&mut known.reason, reason) == reason {
            return;
        }
        // Others are reported as `fed`, with the agent.
        if matches!(reason, None | Some(Reason::AtWork | Reason::AgentStarting | Reason::Turn)) {
            return;
        }
        let mut waits = core.view().waits_of(thread);
        if let Some(wait) = waits.find(|wait| !matches!(wait.why, Why::AtWork { .. })) {
            let text = wait_text(core, self.now, &wait, false);
            let messages = count(wait.vertices as u64, "message");
            self.add("waits", to, format!("{messages}: {text}"));
        }
    }

    fn fed(&mut self, agent: AgentId, job: &[u8], core: &Scheduler) {
        let Some((number, host)) = super::parse_job(job) else { return };
        let to = core.view().destination_of_job(agent, host);
        if let Some(to) = to.filter(|to| self.wanted.is(to.channel(), to.host())) {
            let entry = self.add("fed", &to, "");
            entry.message = core.view().message(number).map(Message::spool_id);
            entry.pid = pid(core, agent);
        }
    }

    fn reported(&mut self, agent: AgentId, report: &RecipientReport<'_>, core: &Scheduler) {
        let is_of = |job: &QueuedVertex<'_>| {
            job.message.name.number() == report.number
                && job.vertex.recipients.pending().contains(&report.offset)
        };
        if let Some(job) = self.job_of(agent, core, is_of) {
            let entry = self.add("report", &job.thread.destination, report_text(report));
            entry.message = Some(job.message.spool_id());
            entry.offsets = vec![report.offset];
            entry.pid = pid(core, agent);
        }
    }

    /// The first job of an agent for these destinations that `is` accepts.
    fn job_of<'s>(
        &self,
        agent: AgentId,
        core: &'s Scheduler,
        is: impl Fn(&QueuedVertex<'s>) -> bool,
    ) -> Option<QueuedVertex<'s>> {
        let mut jobs =
            core.view().agent(agent)?.agent.jobs().filter_map(|job| core.view().vertex(job));
        jobs.find(|job| {
            let to = &job.thread.destination;
            self.wanted.is(to.channel(), to.host()) && is(job)
        })
    }
}

fn pid(core: &Scheduler, agent: AgentId) -> Option<u32> {
    core.view().agent(agent)?.agent.pid
}

/// What the mail of a destination waits for while no agent is at work on it.
fn reason(core: &Scheduler, thread: &Thread) -> Option<Reason> {
    if thread.held {
        return Some(Reason::Held);
    }
    if !thread.agents.is_empty() {
        return None;
    }
    let without_due = || match core.view().wakeup_of(thread) {
        Some(at) => Reason::Retry(at),
        None if thread.waiting.is_empty() => Reason::Held,
        None => Reason::Request,
    };
    core.view().pending_reason(thread).or_else(|| Some(without_due()))
}

impl ReplayObserver for DestinationTimeline {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        self.now = told.time;
        match event {
            Event::Arrived(arrival) if core.view().is_new(arrival.name.number()) => {
                for group in &arrival.groups {
                    if !self.wanted.is(&group.channel, &group.host) {
                        continue;
                    }
                    let to = Destination::new(&group.channel, &group.host);
                    let entry = self.add("arrived", &to, "");
                    entry.message = Some(spool_id(arrival));
                    entry.offsets.clone_from(&group.offsets);
                    self.known.entry(to).or_default();
                }
            }
            Event::AgentSaid { agent, line } => {
                if let AgentLine::Report(report) = AgentLine::parse(line) {
                    self.reported(*agent, &report, core);
                }
            }
            Event::AgentEnded { agent, end } => {
                if let Some(job) = self.job_of(*agent, core, |_| true) {
                    let to = &job.thread.destination;
                    self.add("agent", to, format!("the agent {end}")).pid = pid(core, *agent);
                }
            }
            _ => {}
        }
    }

    fn after(&mut self, _: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        for action in decided {
            match action {
                Action::Feed { agent, job } => self.fed(*agent, job, core),
                Action::Statistics(end)
                    if self.wanted.is(end.destination.channel(), end.destination.host()) =>
                {
                    self.add("finished", &end.destination, end.state).message = Some(end.spool_id);
                }
                _ => {}
            }
        }
        self.compare(core);
    }
}
