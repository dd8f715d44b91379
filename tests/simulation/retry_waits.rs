//! New mail for unreachable destinations waits for the destination's next try; other new mail is
//! tried at once; ETRN starts everything.
//!
//! `docs/scheduling.md` has the rule. Only cases in which the expected result is certain are
//! checked.

use crate::expected_queue::ExpectedQueue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_config::{Clause, Config};
use zsched_core::why::Why;
use zsched_core::{Backlog, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, RecipientReport, ReportStatus};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::SimTime;
use zsched_spool::Arrival;

/// Minimum time for which mail for a host waits after `deferall`.
const MIN_WAIT_AFTER_DEFERALL: Duration = Duration::from_secs(60);
/// Minimum time for which mail waits after a deferral whose status code blames the host.
const MIN_WAIT_AFTER_BLAME: Duration = Duration::from_secs(1);
/// Number of failed jobs after which a destination may be unreachable.
const MIN_FAILED_JOBS: u32 = 3;

/// Reachability of each destination, as reports imply.
#[derive(Default)]
pub struct RetryChecks {
    reachability: BTreeMap<Destination, Reachability>,
    /// Messages that have arrived at any scheduler: number and modification time of the control
    /// file.
    known: BTreeSet<(u64, Timestamp)>,
    /// The event since the last check, if there was only one.
    news: LastEvent,
    /// There was an event since the last check.
    has_unchecked_events: bool,
    /// The running scheduler has learned state of its predecessor, or of paged-out messages.
    has_learned_state: bool,
    /// Some messages are partial.
    ///
    /// An observer cannot tell which of their recipients are loaded.
    has_partial_messages: bool,
    /// An agent has said `deferall`, perhaps about a recipient of another destination than its own.
    ///
    /// If its own has feedback, the window may be dead, and other destinations may share it.
    is_window_dead: bool,
    /// New mail that had to wait, and new mail that did not.
    pub counts: (u64, u64),
}

#[derive(Default, PartialEq)]
enum LastEvent {
    #[default]
    None,
    /// A new message for these destinations arrived.
    Arrived(u64, Vec<Destination>),
    Etrn(Box<[u8]>),
    Many,
}

/// Reachability of a destination.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reachability {
    /// It is reachable.
    ///
    /// The number is at least that of jobs that left recipients unfinished since the last final
    /// report.
    Reachable(u32),
    /// It may be unreachable; a final report will show that it is not.
    MaybeUnreachable,
    /// It is unreachable until this time, whatever is reported.
    UnreachableUntil(Timestamp),
    /// It is unreachable until this time, unless a report shows otherwise.
    BlamedUntil(Timestamp),
    /// The result is not certain.
    Unknown,
}

impl RetryChecks {
    /// Starts anew for a new scheduler.
    pub fn started(&mut self) {
        self.reachability.clear();
        self.news = LastEvent::None;
        self.has_learned_state = false;
        self.has_partial_messages = false;
        self.is_window_dead = false;
    }

    /// Records an event before the scheduler and the expected queue handle it.
    pub fn record_event(
        &mut self,
        now: Timestamp,
        event: &Event<'_>,
        config: &Config,
        expected: &ExpectedQueue,
    ) {
        self.has_unchecked_events = true;
        match event {
            Event::Tick | Event::AgentStarted { .. } => {}
            Event::Arrived(arrival) => {
                self.has_partial_messages |= arrival.next_offset.is_some() || arrival.is_chunk;
                let news = self.arrived(arrival);
                self.add(news);
            }
            Event::Etrn(host) => {
                self.may_be_tried_early(|to| to.host() == *host);
                self.add(LastEvent::Etrn((*host).into()));
            }
            Event::AgentSaid { line, .. } => {
                if let AgentLine::Report(report) = AgentLine::parse(line) {
                    self.reported(now, &report, config, expected);
                }
                self.add(LastEvent::Many);
            }
            Event::Learned(_) | Event::Restored { .. } => self.has_learned_state = true,
            Event::BacklogChanged { waiting, .. } => {
                self.has_learned_state |= *waiting != Backlog::None
            }
            Event::MoreRead { .. } => self.has_partial_messages = true,
            Event::Configured(_) | Event::ClockSet(_) => {
                // They may change times and the rule that applies.
                self.reachability.values_mut().for_each(|word| *word = Reachability::Unknown);
                self.add(LastEvent::Many);
            }
            Event::Ordered { .. } => {
                self.may_be_tried_early(|_| true);
                self.add(LastEvent::Many);
            }
            _ => self.add(LastEvent::Many),
        }
    }

    fn add(&mut self, news: LastEvent) {
        self.news = if self.news == LastEvent::None { news } else { LastEvent::Many };
    }

    /// Records that destinations may be tried before their time.
    fn may_be_tried_early(&mut self, is_meant: impl Fn(&Destination) -> bool) {
        for (_, word) in self.reachability.iter_mut().filter(|(to, _)| is_meant(to)) {
            if let Reachability::UnreachableUntil(_) | Reachability::BlamedUntil(_) = word {
                *word = Reachability::MaybeUnreachable;
            }
        }
    }

    fn arrived(&mut self, arrival: &Arrival) -> LastEvent {
        for host in &arrival.etrn_hosts {
            self.may_be_tried_early(|to| to.host() == &**host);
        }
        if !self.known.insert((arrival.name.number(), arrival.modified))
            || !arrival.etrn_hosts.is_empty()
        {
            return LastEvent::Many;
        }
        let to = arrival.groups.iter().map(|group| Destination::new(&group.channel, &group.host));
        LastEvent::Arrived(arrival.name.number(), to.collect())
    }

    fn reported(
        &mut self,
        now: Timestamp,
        report: &RecipientReport<'_>,
        config: &Config,
        expected: &ExpectedQueue,
    ) {
        self.is_window_dead |= report.status == ReportStatus::DeferAll;
        let Some(to) = expected.destination(report.number, report.offset) else {
            return;
        };
        let clause = config.select(to.channel(), to.host());
        let has_feedback = clause.is_some_and(|clause| clause.flow.tolerates_deferall());
        let Some(word) = self.reachability.get_mut(to) else {
            return;
        };
        if expected.is_unsure(report.number, report.offset) {
            // The scheduler ignores reports about finished recipients.
            *word = Reachability::Unknown;
            return;
        }
        let blames_host = report.notary.windows(5).any(|text| text == b"4.4.1");
        *word = match (*word, report.status) {
            (Reachability::Unknown, _) => Reachability::Unknown,
            (word, ReportStatus::DeferAll) if has_feedback => word,
            (_, ReportStatus::DeferAll) => {
                Reachability::UnreachableUntil(now + MIN_WAIT_AFTER_DEFERALL)
            }
            // The time also depends on the configuration.
            (_, ReportStatus::RetryAt) => Reachability::Unknown,
            (Reachability::UnreachableUntil(until), _) => Reachability::UnreachableUntil(until),
            (
                _,
                ReportStatus::Ok
                | ReportStatus::Ok2
                | ReportStatus::Ok3
                | ReportStatus::Error
                | ReportStatus::Error2,
            ) => Reachability::Reachable(0),
            (word, ReportStatus::Deferred) if has_feedback => word,
            (_, ReportStatus::Deferred) if blames_host => {
                Reachability::BlamedUntil(now + MIN_WAIT_AFTER_BLAME)
            }
            (Reachability::BlamedUntil(_), _) => Reachability::MaybeUnreachable,
            (word, _) => word,
        };
    }

    /// Records that an agent has ended a job. A job that leaves recipients unfinished has failed.
    pub fn job_ended(&mut self, number: u64, to: &Destination, expected: &ExpectedQueue) {
        if expected.has_to_do(number, to)
            && let Some(word) = self.reachability.get_mut(to)
            && let Reachability::Reachable(in_vain) = word
        {
            *in_vain += 1;
            if *in_vain >= MIN_FAILED_JOBS {
                *word = Reachability::MaybeUnreachable;
            }
        }
    }

    /// Records the end of an agent. Agents that die may make a thread wait, whatever they reported.
    pub fn agent_ended(&mut self, to: &Destination) {
        self.reachability.insert(to.clone(), Reachability::Unknown);
    }

    /// Checks all threads after all actions are carried out.
    pub fn check_all(
        &mut self,
        at: SimTime,
        core: &Scheduler,
        config: &Config,
        expected: &ExpectedQueue,
    ) {
        if !std::mem::take(&mut self.has_unchecked_events) || self.has_partial_messages {
            return;
        }
        let mut words = std::mem::take(&mut self.reachability);
        let mut news = std::mem::take(&mut self.news);
        if let LastEvent::Arrived(number, all) = &mut news {
            // Mail that was too old has expired at once.
            all.retain(|to| expected.has_to_do(*number, to));
        }
        for id in core.view().ring_ids() {
            for thread in &core.view().ring(id).expect("it is listed").threads {
                let thread = core.view().thread(*thread).expect("its threads are there");
                let to = thread.destination.clone();
                let word = match words.remove(&to) {
                    Some(before) => {
                        let clause = config.select(to.channel(), to.host());
                        let is_unclear = |clause: &Clause| {
                            // A window may be shared with destinations of other clauses.
                            let may_die =
                                clause.flow.tolerates_deferall() || clause.flow.key.is_some();
                            clause.queue_only || may_die && self.is_window_dead
                        };
                        if !clause.is_some_and(|clause| is_unclear(&clause)) {
                            self.check(at, &news, &to, before, core);
                        }
                        before.after(at)
                    }
                    None if self.has_learned_state || thread.attempts > 0 => Reachability::Unknown,
                    None => Reachability::Reachable(0),
                };
                self.reachability.insert(to, word);
            }
        }
    }

    fn check(
        &mut self,
        at: SimTime,
        news: &LastEvent,
        to: &Destination,
        before: Reachability,
        core: &Scheduler,
    ) {
        match news {
            LastEvent::Etrn(host) if to.host() == &**host => {
                let waits = core.view().why_thread(to.channel(), to.host()).unwrap_or_default();
                let waits = waits.iter().any(
                    |wait| matches!(wait.why, Why::Retry { at: until, .. } if until > at.wall),
                );
                assert!(!waits, "{to} was asked for, and waits");
            }
            LastEvent::Arrived(number, all) if all.contains(to) => {
                let message = core.view().message(*number);
                let queued =
                    message.into_iter().flat_map(|message| core.view().vertices_of(message));
                let queued = queued.filter(|queued| queued.thread.destination == *to);
                let waits: Vec<Why> =
                    queued.map(|queued| core.view().why_vertex(&queued).why).collect();
                let is_put_off = waits.iter().any(|why| matches!(why, Why::Retry { .. }));
                // Such mail is not tried, whatever is known about the host.
                let is_kept = waits.iter().any(|why| {
                    matches!(
                        why,
                        Why::Held { .. } | Why::Scheduled { .. } | Why::Kept | Why::Job { .. }
                    )
                });
                match before {
                    _ if is_kept => {}
                    Reachability::Reachable(in_vain) => {
                        self.counts.1 += 1;
                        assert!(!is_put_off, "{to} is open after {in_vain}, and new mail waits");
                    }
                    Reachability::UnreachableUntil(until) | Reachability::BlamedUntil(until)
                        if until > at.wall =>
                    {
                        self.counts.0 += 1;
                        assert!(is_put_off, "{to}: {before:?}, and new mail does not wait");
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl Reachability {
    /// Returns the state at a later time.
    fn after(self, at: SimTime) -> Reachability {
        match self {
            Reachability::UnreachableUntil(until) | Reachability::BlamedUntil(until)
                if until <= at.wall =>
            {
                Reachability::MaybeUnreachable
            }
            word => word,
        }
    }
}
