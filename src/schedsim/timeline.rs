//! The timeline of one message, collected while a recording is replayed.
//!
//! Events and actions show what happens to the message. After each event the core is asked why the
//! message waits; changes of the reason are added to the timeline.
//! [`DestinationTimeline`](super::destination_timeline) is the same for a destination.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zsched_config::Clause;
use zsched_core::view::{Message, QueuedVertex, Ring};
use zsched_core::why::{Reason, Wait};
use zsched_core::{Action, AgentEnd, AgentId, Event, NoteTicket, Scheduler};
use zsched_explain::predicate;
use zsched_format::agent_protocol::{AgentLine, RecipientReport};
use zsched_format::printable::{count, grouped};
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_spool::note::OutcomeKind;
use zsched_spool::{Arrival, SpoolId};

/// The message to explain.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageFilter {
    /// Its number.
    pub number: u64,
    /// Its spool id; `None` accepts any message of that number.
    pub id: Option<String>,
}

impl MessageFilter {
    fn is(&self, id: SpoolId) -> bool {
        id.number == self.number && self.id.as_ref().is_none_or(|wanted| *wanted == id.to_string())
    }
}

/// An entry of the timeline.
#[derive(Clone, Debug)]
pub(crate) struct TimelineEntry {
    /// Time of the entry.
    pub time: Timestamp,
    /// When the message arrived, or the recording began if the message was queued before.
    ///
    /// In the timeline of a destination, when that begins.
    pub arrived: Timestamp,
    /// What happened, in one word.
    pub what: &'static str,
    /// The message, if it concerns one.
    pub message: Option<SpoolId>,
    /// Channel and host, if it concerns only some recipients.
    pub destination: Option<String>,
    /// The recipients it concerns.
    pub offsets: Vec<u32>,
    /// Process id of the agent, if one is involved.
    pub pid: Option<u32>,
    /// Further text.
    pub text: String,
}

impl TimelineEntry {
    /// Creates an entry that concerns nothing in particular.
    pub(crate) fn new(
        time: Timestamp,
        arrived: Timestamp,
        what: &'static str,
        text: impl Into<String>,
    ) -> TimelineEntry {
        let (message, destination, offsets, pid, text) =
            (None, None, Vec::new(), None, text.into());
        TimelineEntry { time, arrived, what, message, destination, offsets, pid, text }
    }
}

/// Status and text of a report.
pub(super) fn report_text(report: &RecipientReport<'_>) -> String {
    let words = String::from_utf8_lossy(report.message);
    format!("{} {}", report.status.word(), words.trim()).trim_end().to_string()
}

/// The spool id of a message that arrives.
pub(super) fn spool_id(arrival: &Arrival) -> SpoolId {
    SpoolId { number: arrival.name.number(), modified: arrival.modified }
}

/// The clause that applies to a destination, and its place.
pub(super) fn clause_text(ring: &Ring) -> String {
    format!("by clause {}, {}", ring.pattern(), ring.clause.location)
}

/// What mail waits for, as a phrase. `is_one` selects the singular.
pub(super) fn wait_text(core: &Scheduler, now: Timestamp, wait: &Wait<'_>, is_one: bool) -> String {
    let text = predicate(core, now, wait.destination, &wait.why, is_one);
    let text = text.strip_prefix(if is_one { "waits " } else { "wait " }).unwrap_or(&text);
    format!("{text}; tries so far: {}", wait.tries)
}

/// The last known state of a vertex.
struct KnownVertex {
    offsets: Vec<u32>,
    clause: Rc<Clause>,
    reason: Reason,
}

/// Collects the timeline during a replay.
#[derive(Default)]
pub(crate) struct Timeline {
    wanted: MessageFilter,
    /// The present time.
    now: Timestamp,
    /// Spool id of the message, and when it arrived, while it is queued.
    present: Option<(SpoolId, Timestamp)>,
    /// Its vertices, by destination.
    vertices: BTreeMap<String, KnownVertex>,
    /// The agent that was fed each destination last.
    fed: BTreeMap<String, (AgentId, Option<u32>)>,
    /// Notes about the message that are not known to be on disk.
    notes: BTreeSet<NoteTicket>,
    /// The reason given if the present event makes a vertex due.
    cause: &'static str,
    /// The timeline in order.
    pub entries: Vec<TimelineEntry>,
}

impl Timeline {
    /// Creates an empty timeline.
    pub(crate) fn new(wanted: MessageFilter) -> Timeline {
        Timeline { wanted, ..Timeline::default() }
    }

    /// Compares the message with the core at the beginning of a recording.
    pub(crate) fn begin(&mut self, now: Timestamp, core: &Scheduler) {
        self.now = now;
        let id = core.view().message(self.wanted.number).map(Message::spool_id);
        match id.filter(|id| self.wanted.is(*id)) {
            None if self.present.is_some() => {
                self.add("lost", "it is gone when the next recording begins");
                self.end();
            }
            Some(id) if self.present.is_none() => {
                self.present = Some((id, now));
                self.add("known", format!("{id}: queued before the recording began"));
                self.compare_vertices(core);
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        self.present = None;
        self.vertices.clear();
        self.fed.clear();
        self.notes.clear();
    }

    fn add(&mut self, what: &'static str, text: impl Into<String>) -> &mut TimelineEntry {
        let (message, arrived) = self.present.unzip();
        let arrived = arrived.unwrap_or(self.now);
        let entry = TimelineEntry { message, ..TimelineEntry::new(self.now, arrived, what, text) };
        let index = self.entries.len();
        self.entries.push(entry);
        &mut self.entries[index]
    }

    fn add_for(
        &mut self,
        what: &'static str,
        name: &str,
        text: impl Into<String>,
    ) -> &mut TimelineEntry {
        let offsets = self.vertices.get(name).map(|vertex| vertex.offsets.clone());
        let entry = self.add(what, text);
        entry.destination = Some(name.to_string());
        entry.offsets = offsets.unwrap_or_default();
        entry
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let now = self.now;
        let id = spool_id(arrival);
        self.present = Some((id, now));
        let ago = |time: Timestamp| now.since(time).as_secs_f64();
        let text = format!(
            "{id}: {}, {} to do; received {:.3} s before, routed {:.3} s before",
            count(u64::from(arrival.recipients), "recipient"),
            grouped(arrival.pending() as u64),
            ago(arrival.modified),
            ago(arrival.created),
        );
        self.add("arrived", text);
    }

    fn reported(&mut self, pid: Option<u32>, report: &RecipientReport<'_>) {
        let of = |vertex: &KnownVertex| vertex.offsets.contains(&report.offset);
        let name =
            self.vertices.iter().find(|(_, vertex)| of(vertex)).map(|(name, _)| name.clone());
        let unknown = if name.is_none() { " (no such recipient is to do)" } else { "" };
        let entry = self.add("report", report_text(report) + unknown);
        (entry.destination, entry.offsets, entry.pid) = (name, vec![report.offset], pid);
    }

    fn agent_ended(&mut self, agent: AgentId, end: &AgentEnd) {
        let at_work: Vec<(String, Option<u32>)> = self
            .fed
            .iter()
            .filter(|(name, (by, _))| {
                *by == agent && self.vertices.get(*name).is_some_and(|v| v.reason == Reason::AtWork)
            })
            .map(|(name, (_, pid))| (name.clone(), *pid))
            .collect();
        for (name, pid) in at_work {
            self.add_for("agent", &name, format!("the agent {end}")).pid = pid;
        }
    }

    /// Adds the jobs given out for the message.
    fn fed(&mut self, decided: &[Action], core: &Scheduler) {
        let mut bursts: BTreeMap<AgentId, usize> = BTreeMap::new();
        for action in decided {
            if let Action::Feed { agent, .. } = action {
                *bursts.entry(*agent).or_default() += 1;
            }
        }
        let mut places: BTreeMap<AgentId, usize> = BTreeMap::new();
        for action in decided {
            let Action::Feed { agent, job } = action else { continue };
            let place = places.entry(*agent).or_default();
            *place += 1;
            let Some(name) = self.of_job(job, *agent, core) else { continue };
            let (place, of) = (*place, bursts[agent]);
            let pid = core.view().agent(*agent).and_then(|row| row.agent.pid);
            self.fed.insert(name.clone(), (*agent, pid));
            let text =
                if of > 1 { format!("job {place} of {of} at once") } else { "one job".into() };
            self.add_for("fed", &name, text).pid = pid;
        }
    }

    /// Returns the destination of a job if it belongs to the message.
    fn of_job(&self, job: &[u8], agent: AgentId, core: &Scheduler) -> Option<String> {
        let (number, host) = super::parse_job(job)?;
        if number != self.wanted.number {
            return None;
        }
        core.view().destination_of_job(agent, host).map(|destination| destination.to_string())
    }

    /// Adds the changes in the state of its vertices.
    fn compare_vertices(&mut self, core: &Scheduler) {
        let Some(message) = core.view().message(self.wanted.number) else { return };
        let mut former = std::mem::take(&mut self.vertices);
        let present: BTreeMap<String, QueuedVertex<'_>> = core
            .view()
            .vertices_of(message)
            .map(|queued| (queued.thread.destination.to_string(), queued))
            .collect();
        for (name, queued) in present {
            let (clause, reason) = (&queued.ring.clause, core.view().reason_of(queued.id));
            let before = former.remove(&name);
            let offsets = queued.vertex.recipients.pending();
            let known = KnownVertex { offsets, clause: clause.clone(), reason };
            self.vertices.insert(name.clone(), known);
            if before.as_ref().is_none_or(|before| !Rc::ptr_eq(&before.clause, clause)) {
                self.add_for("queued", &name, clause_text(queued.ring));
            }
            if before.as_ref().is_none_or(|before| before.reason != reason) {
                let before = before.map(|before| before.reason);
                self.add_wait_reason(core, &name, (before, reason), &queued);
            }
        }
    }

    fn add_wait_reason(
        &mut self,
        core: &Scheduler,
        name: &str,
        (before, reason): (Option<Reason>, Reason),
        queued: &QueuedVertex<'_>,
    ) {
        let waits = |reason: Reason| matches!(reason, Reason::Retry(_) | Reason::Request);
        if before.is_some_and(waits) && !waits(reason) {
            self.add_for("due", name, self.cause);
        }
        // These are reported as `fed`, with the agent.
        if matches!(reason, Reason::AtWork | Reason::Turn) {
            return;
        }
        self.add_for(
            "waits",
            name,
            wait_text(core, self.now, &core.view().why_vertex(queued), true),
        );
    }

    fn decided(&mut self, action: &Action) {
        let number = self.wanted.number;
        match action {
            Action::Note(note) if note.name.number() == number => {
                self.notes.insert(note.ticket);
                let why = match note.occasion {
                    OutcomeKind::Success => "success report, if the sender requested one",
                    OutcomeKind::Failure => "failure report to the sender",
                    OutcomeKind::Expiry => "expired; failure report to the sender",
                    OutcomeKind::FailedAlternative => "failed; an alternative may be tried",
                    OutcomeKind::Delay | OutcomeKind::DeadlinePassed => {
                        "late; delay report, if requested"
                    }
                    OutcomeKind::Deletion => "deleted by an operator",
                    OutcomeKind::Reroute => "rerouted by an operator",
                };
                let words = String::from_utf8_lossy(&note.message).replace('\r', " ");
                let text = format!("{why}: {}", words.trim());
                self.add("note", text).offsets = note.offsets.clone();
            }
            Action::Report { name, .. } if name.number() == number => {
                self.add("report", "its sender is to get a report");
            }
            Action::Statistics(end) if end.spool_id.number == number => {
                let destination = Some(end.destination.to_string());
                self.add("finished", end.state).destination = destination;
            }
            Action::ReadAgain(name) if name.number() == number => {
                self.add("resync", "its control file is to be read again");
            }
            Action::ClearLocks { name, pid } if name.number() == number => {
                let text = "locks of the dead agent are to be cleared";
                self.add("locks", text).pid = Some(*pid);
            }
            Action::PageOut { name, .. } if name.number() == number => {
                self.add("rests", "paged out to make room in memory");
            }
            Action::Remove { name, aside } if name.number() == number => {
                let text = if *aside {
                    "a line cannot be delivered: to be moved to postman/"
                } else {
                    "to be removed"
                };
                self.add("complete", text);
            }
            _ => {}
        }
    }
}

impl ReplayObserver for Timeline {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        let number = self.wanted.number;
        self.now = told.time;
        self.cause = match event {
            Event::Etrn(_) => "the host's mail was asked for",
            Event::Arrived(arrival) if !arrival.etrn_hosts.is_empty() => {
                "the host's mail was asked for"
            }
            Event::Configured(_) => "a new configuration",
            _ => "the wait is over",
        };
        if let Event::Arrived(arrival) = event
            && self.wanted.is(spool_id(arrival))
            && core.view().is_new(number)
        {
            self.arrive(arrival);
        }
        if self.present.is_none() {
            return;
        }
        match event {
            Event::AgentSaid { agent, line } => {
                if let AgentLine::Report(report) = AgentLine::parse(line)
                    && report.number == number
                {
                    self.reported(core.view().agent(*agent).and_then(|row| row.agent.pid), &report);
                }
            }
            Event::AgentEnded { agent, end } => self.agent_ended(*agent, end),
            Event::Noted { ticket, outcome } if self.notes.contains(ticket) => match outcome {
                Ok(wrote) => {
                    self.notes.remove(ticket);
                    let text = if *wrote { "it is on disk" } else { "no report requested" };
                    self.add("noted", text);
                }
                Err(error) => {
                    self.add("noted", format!("not yet: {error}"));
                }
            },
            Event::Removed { number: removed, outcome } if *removed == number => match outcome {
                Ok(()) => {
                    self.add("removed", "out of the spool");
                    self.end();
                }
                Err(error) => {
                    self.add("removed", format!("not yet: {error}"));
                }
            },
            _ => {}
        }
    }

    fn after(&mut self, _: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        if self.present.is_none() {
            return;
        }
        self.compare_vertices(core);
        self.fed(decided, core);
        decided.iter().for_each(|action| self.decided(action));
        if core.view().message(self.wanted.number).is_none() {
            self.add("forgotten", "its control file is gone or damaged");
            self.end();
        }
    }
}
