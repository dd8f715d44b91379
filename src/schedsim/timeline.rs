//! The timeline of a message or of destinations, collected while a recording is replayed.
//!
//! Events and actions show what happens to the mail. After each event the core is asked why a
//! vertex of the message, or the mail of a destination without an agent, waits; changes of the
//! reason are added to the timeline.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zsched_config::Clause;
use zsched_core::view::{Message, QueuedVertex, Thread};
use zsched_core::why::{Reason, Wait};
use zsched_core::{Action, AgentEnd, AgentId, Destination, Event, NoteTicket, Scheduler};
use zsched_explain::predicate;
use zsched_format::agent_protocol::{AgentLine, RecipientReport};
use zsched_format::printable::{count, grouped};
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_spool::note::OutcomeKind;
use zsched_spool::{Arrival, Offsets, SpoolId};

/// The mail that a timeline is about.
#[derive(Clone, Debug)]
pub(crate) enum TimelineFilter {
    /// A message.
    Message {
        /// Its number.
        number: u64,
        /// Its spool id; `None` accepts any message of that number.
        id: Option<String>,
    },
    /// Destinations; both in lower case.
    Destinations {
        /// Their channel; `None` is any.
        channel: Option<Vec<u8>>,
        /// Their host.
        host: Vec<u8>,
    },
}

impl TimelineFilter {
    fn has_message(&self, message: SpoolId) -> bool {
        match self {
            TimelineFilter::Message { number, id } => {
                message.number == *number && id.as_ref().is_none_or(|id| *id == message.to_string())
            }
            TimelineFilter::Destinations { .. } => true,
        }
    }

    fn has_destination(&self, to: &Destination) -> bool {
        match self {
            TimelineFilter::Message { .. } => true,
            TimelineFilter::Destinations { channel, host } => {
                to.host() == host && channel.as_ref().is_none_or(|wanted| to.channel() == wanted)
            }
        }
    }

    /// The number of the message, if it is about one.
    fn number(&self) -> Option<u64> {
        match self {
            TimelineFilter::Message { number, .. } => Some(*number),
            TimelineFilter::Destinations { .. } => None,
        }
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
    pub offsets: Offsets,
    /// Process id of the agent, if one is involved.
    pub pid: Option<u32>,
    /// Further text.
    pub text: String,
}

/// The last known state of a vertex of the message, or of a destination.
#[derive(Default)]
struct KnownState {
    /// The recipients of the vertex.
    offsets: Offsets,
    clause: Option<Rc<Clause>>,
    /// `None` for a destination with agents.
    reason: Option<Reason>,
}

/// Collects the timeline during a replay.
pub(crate) struct Timeline {
    wanted: TimelineFilter,
    /// The present time.
    now: Timestamp,
    /// When the message arrived, or the timeline of a destination begins.
    start: Option<Timestamp>,
    /// Spool id of the message, while it is queued.
    present: Option<SpoolId>,
    /// The destinations of the message, or those that are wanted and have mail.
    known: BTreeMap<Destination, KnownState>,
    /// Notes about the message that are not known to be on disk.
    notes: BTreeSet<NoteTicket>,
    /// The reason given if the present event makes mail due.
    cause: &'static str,
    /// The timeline in order.
    pub entries: Vec<TimelineEntry>,
}

impl Timeline {
    /// Creates an empty timeline.
    pub(crate) fn new(wanted: TimelineFilter) -> Timeline {
        Timeline {
            wanted,
            now: Timestamp::default(),
            start: None,
            present: None,
            known: BTreeMap::new(),
            notes: BTreeSet::new(),
            cause: "",
            entries: Vec::new(),
        }
    }

    /// Takes what is queued at the beginning of a recording.
    pub(crate) fn begin(&mut self, now: Timestamp, core: &Scheduler) {
        self.now = now;
        let view = core.view();
        if let Some(number) = self.wanted.number() {
            let id = view.message(number).map(Message::spool_id);
            match id.filter(|id| self.wanted.has_message(*id)) {
                None if self.present.is_some() => {
                    self.add("lost", None, "it is gone when the next recording begins");
                    self.end();
                }
                Some(id) if self.present.is_none() => {
                    (self.present, self.start) = (Some(id), Some(now));
                    self.add("known", None, format!("{id}: queued before the recording began"));
                }
                _ => {}
            }
        } else {
            for (_, thread) in view.threads() {
                let to = &thread.destination;
                if self.wanted.has_destination(to) && !self.known.contains_key(to) {
                    let recipients = count(thread.recipients.into(), "recipient");
                    let text = format!("{recipients} queued before the recording began");
                    self.add("known", Some(to), text);
                    self.known.insert(to.clone(), KnownState::default());
                }
            }
        }
        self.compare(core);
    }

    fn end(&mut self) {
        (self.present, self.start) = (None, None);
        self.known.clear();
        self.notes.clear();
    }

    fn add(
        &mut self,
        what: &'static str,
        to: Option<&Destination>,
        text: impl Into<String>,
    ) -> &mut TimelineEntry {
        let offsets = to.and_then(|to| self.known.get(to)).map(|known| known.offsets.clone());
        let index = self.entries.len();
        self.entries.push(TimelineEntry {
            time: self.now,
            arrived: *self.start.get_or_insert(self.now),
            what,
            message: self.present,
            destination: to.map(ToString::to_string),
            offsets: offsets.unwrap_or_default(),
            pid: None,
            text: text.into(),
        });
        &mut self.entries[index]
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let id = SpoolId { number: arrival.name.number(), modified: arrival.modified };
        if !self.wanted.has_message(id) {
            return;
        }
        if self.wanted.number().is_some() {
            (self.present, self.start) = (Some(id), Some(self.now));
            let ago = |time: Timestamp| self.now.since(time).as_secs_f64();
            let text = format!(
                "{id}: {}, {} to do; received {:.3} s before, routed {:.3} s before",
                count(u64::from(arrival.recipients), "recipient"),
                grouped(arrival.pending() as u64),
                ago(arrival.modified),
                ago(arrival.created),
            );
            self.add("arrived", None, text);
            return;
        }
        for group in &arrival.groups {
            let to = Destination::new(&group.channel, &group.host);
            if self.wanted.has_destination(&to) {
                let entry = self.add("arrived", Some(&to), "");
                entry.message = Some(id);
                entry.offsets.clone_from(&group.offsets);
                self.known.entry(to).or_default();
            }
        }
    }

    fn reported(&mut self, agent: AgentId, report: &RecipientReport<'_>, core: &Scheduler) {
        let words = String::from_utf8_lossy(report.message);
        let text = format!("{} {}", report.status.word(), words.trim()).trim_end().to_string();
        let job = self.job_of(agent, core, |job| {
            job.message.number() == report.number
                && job.vertex.pending_offsets().contains(&report.offset)
        });
        let entry = match job {
            Some(job) => {
                let entry = self.add("report", Some(&job.thread.destination), text);
                entry.message = Some(job.message.spool_id());
                entry
            }
            None if self.wanted.number() == Some(report.number) => {
                self.add("report", None, text + " (no such recipient is to do)")
            }
            None => return,
        };
        (entry.offsets, entry.pid) = (Offsets::from_slice(&[report.offset]), pid(core, agent));
    }

    fn agent_ended(&mut self, agent: AgentId, end: &AgentEnd, core: &Scheduler) {
        if let Some(job) = self.job_of(agent, core, |_| true) {
            let text = format!("the agent {end}");
            self.add("agent", Some(&job.thread.destination), text).pid = pid(core, agent);
        }
    }

    /// The first wanted job of an agent that `is` accepts.
    fn job_of<'s>(
        &self,
        agent: AgentId,
        core: &'s Scheduler,
        is: impl Fn(&QueuedVertex<'s>) -> bool,
    ) -> Option<QueuedVertex<'s>> {
        let jobs = core.view().agent(agent)?.agent.jobs();
        jobs.filter_map(|job| core.view().vertex(job)).find(|job| {
            self.wanted.has_message(job.message.spool_id())
                && self.wanted.has_destination(&job.thread.destination)
                && is(job)
        })
    }

    /// Adds the jobs given out.
    fn fed(&mut self, decided: &[Action], core: &Scheduler) {
        let mut jobs: BTreeMap<AgentId, Vec<&[u8]>> = BTreeMap::new();
        for action in decided {
            if let Action::Feed { agent, job } = action {
                jobs.entry(*agent).or_default().push(job);
            }
        }
        for (agent, jobs) in jobs {
            for (index, job) in jobs.iter().enumerate() {
                let Some((number, host)) = super::parse_job(job) else { continue };
                let message = core.view().message(number).map(Message::spool_id);
                let to = core.view().destination_of_job(agent, host);
                let Some((message, to)) = message.zip(to) else { continue };
                if self.wanted.has_message(message) && self.wanted.has_destination(&to) {
                    let text = match jobs.len() {
                        1 => "one job".to_string(),
                        all => format!("job {} of {all} at once", index + 1),
                    };
                    let entry = self.add("fed", Some(&to), text);
                    (entry.message, entry.pid) = (Some(message), pid(core, agent));
                }
            }
        }
    }

    /// Adds the changes in what the core says about the vertices of the message.
    ///
    /// In the timeline of destinations, about each as a whole.
    fn compare(&mut self, core: &Scheduler) {
        let view = core.view();
        let present: Vec<(&Thread, Option<QueuedVertex<'_>>)> = match self.wanted.number() {
            Some(number) => {
                let vertices = view.message(number).into_iter().flat_map(|it| view.vertices_of(it));
                vertices.map(|queued| (queued.thread, Some(queued))).collect()
            }
            None => {
                let threads = self.known.keys().filter_map(|to| thread(core, to));
                threads.map(|thread| (thread, None)).collect()
            }
        };
        for (thread, queued) in present {
            let (to, ring) = (&thread.destination, view.ring_of(thread));
            let (offsets, reason) = match &queued {
                Some(queued) => (queued.vertex.pending_offsets(), Some(view.reason_of(queued.id))),
                None => (Offsets::new(), reason_of_thread(core, thread)),
            };
            let known = KnownState { offsets, clause: Some(ring.clause.clone()), reason };
            let former = self.known.insert(to.clone(), known).unwrap_or_default();
            if former.clause.is_none_or(|clause| !Rc::ptr_eq(&clause, &ring.clause)) {
                let text = format!("by clause {}, {}", ring.pattern(), ring.clause.location);
                self.add("queued", Some(to), text);
            }
            let waits = |reason| matches!(reason, Some(Reason::Retry(_) | Reason::Request));
            if waits(former.reason) && !waits(reason) {
                self.add("due", Some(to), self.cause);
            }
            // The others are reported as `fed`, with the agent.
            if former.reason != reason
                && !matches!(reason, None | Some(Reason::AtWork | Reason::Turn))
            {
                let (wait, is_one) = match &queued {
                    Some(queued) => (Some(view.why_vertex(queued)), true),
                    None => (view.waits_of(thread).next(), false),
                };
                self.add("waits", Some(to), wait_text(core, self.now, wait.as_ref(), is_one));
            }
        }
    }

    /// Adds an action about the message, or the end of recipients.
    fn decided(&mut self, action: &Action) {
        if let Action::Statistics(end) = action
            && self.wanted.has_message(end.spool_id)
            && self.wanted.has_destination(&end.destination)
        {
            let entry = self.add("finished", Some(&end.destination), end.state);
            (entry.message, entry.offsets) = (Some(end.spool_id), Offsets::new());
        }
        let Some(number) = self.wanted.number() else { return };
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
                self.add("note", None, text).offsets = note.offsets.clone();
            }
            Action::Report { name, .. } if name.number() == number => {
                self.add("report", None, "its sender is to get a report");
            }
            Action::ReadAgain(name) if name.number() == number => {
                self.add("resync", None, "its control file is to be read again");
            }
            Action::ClearLocks { name, pid } if name.number() == number => {
                let text = "locks of the dead agent are to be cleared";
                self.add("locks", None, text).pid = Some(*pid);
            }
            Action::PageOut { name, .. } if name.number() == number => {
                self.add("rests", None, "paged out to make room in memory");
            }
            Action::Remove { name, aside, .. } if name.number() == number => {
                let text = match aside {
                    true => "a line cannot be delivered: to be moved to postman/",
                    false => "to be removed",
                };
                self.add("complete", None, text);
            }
            _ => {}
        }
    }
}

/// What the mail of a destination waits for while no agent is at work on it.
fn reason_of_thread(core: &Scheduler, thread: &Thread) -> Option<Reason> {
    let waiting = || thread.waiting.waves().next().map(|(.., first)| first);
    let first = thread.due.first().or_else(waiting).or_else(|| thread.held_back.first());
    first.filter(|_| thread.agents.is_empty()).map(|first| core.view().reason_of(first))
}

/// What mail waits for, as a phrase, with the number of messages unless it is one.
fn wait_text(core: &Scheduler, now: Timestamp, wait: Option<&Wait<'_>>, is_one: bool) -> String {
    let Some(wait) = wait else { return String::new() };
    let text = predicate(core, now, wait.destination, &wait.why, is_one);
    let (verb, messages) = match is_one {
        true => ("waits ", String::new()),
        false => ("wait ", format!("{}: ", count(wait.vertices as u64, "message"))),
    };
    let text = text.strip_prefix(verb).unwrap_or(&text);
    format!("{messages}{text}; tries so far: {}", wait.tries)
}

fn pid(core: &Scheduler, agent: AgentId) -> Option<u32> {
    core.view().agent(agent)?.agent.pid
}

fn thread<'s>(core: &'s Scheduler, to: &Destination) -> Option<&'s Thread> {
    core.view().thread(core.view().thread_id(to.channel(), to.host())?)
}

impl ReplayObserver for Timeline {
    fn before(&mut self, replayed: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        self.now = replayed.time;
        self.cause = match event {
            Event::Etrn(_) => "the host's mail was asked for",
            Event::Arrived(arrival) if !arrival.etrn_hosts.is_empty() => {
                "the host's mail was asked for"
            }
            Event::Configured(_) => "a new configuration",
            _ => "the wait is over",
        };
        match event {
            Event::Arrived(arrival) if core.view().is_new(arrival.name.number()) => {
                self.arrive(arrival);
            }
            _ if self.wanted.number().is_some() && self.present.is_none() => {}
            Event::AgentSaid { agent, line } => {
                if let AgentLine::Report(report) = AgentLine::parse(line) {
                    self.reported(*agent, &report, core);
                }
            }
            Event::AgentEnded { agent, end } => self.agent_ended(*agent, end, core),
            Event::Noted { ticket, outcome } if self.notes.contains(ticket) => match outcome {
                Ok(wrote) => {
                    self.notes.remove(ticket);
                    let text = if *wrote { "it is on disk" } else { "no report requested" };
                    self.add("noted", None, text);
                }
                Err(error) => drop(self.add("noted", None, format!("not yet: {error}"))),
            },
            Event::Removed { number, outcome } if Some(*number) == self.wanted.number() => {
                match outcome {
                    Ok(()) => {
                        self.add("removed", None, "out of the spool");
                        self.end();
                    }
                    Err(error) => drop(self.add("removed", None, format!("not yet: {error}"))),
                }
            }
            _ => {}
        }
    }

    fn after(&mut self, _: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        if self.wanted.number().is_some() && self.present.is_none() {
            return;
        }
        self.compare(core);
        self.fed(decided, core);
        decided.iter().for_each(|action| self.decided(action));
        match self.wanted.number() {
            Some(number) if core.view().message(number).is_none() => {
                self.add("forgotten", None, "its control file is gone or damaged");
                self.end();
            }
            Some(_) => {}
            None => {
                let is_gone = |to: &&Destination| thread(core, to).is_none();
                let gone: Vec<Destination> = self.known.keys().filter(is_gone).cloned().collect();
                for to in gone {
                    self.add("empty", Some(&to), "nothing is queued for it");
                    self.known.remove(&to);
                }
            }
        }
    }
}
