//! New mail for unreachable destinations waits for the destination's next try; other new mail is
//! tried at once; ETRN starts everything.
//!
//! `docs/architecture.md` has the rule. Only cases in which the expected result is certain are
//! checked.

use crate::book::Book;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_config::{Clause, Config};
use zsched_core::why::Why;
use zsched_core::{Backlog, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, RecipientReport, ReportStatus};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::At;
use zsched_spool::Arrival;

/// Minimum time for which mail for a host waits after `deferall`.
const MIN_WAIT_AFTER_DEFERALL: Duration = Duration::from_secs(60);
/// Minimum time for which mail waits after a deferral whose status code blames the host.
const MIN_WAIT_AFTER_BLAME: Duration = Duration::from_secs(1);
/// Number of failed jobs after which a destination may be unreachable.
const MIN_FAILED_JOBS: u32 = 3;

/// Reachability of each destination, as reports imply.
#[derive(Default)]
pub struct Waits {
    words: BTreeMap<Destination, Word>,
    /// Messages that have arrived at any scheduler: number and modification time of the control
    /// file.
    known: BTreeSet<(u64, Timestamp)>,
    /// The event since the last check, if there was only one.
    news: News,
    /// There was an event since the last check.
    is_stale: bool,
    /// The running scheduler has learned state of its predecessor, or of paged-out messages.
    remembers: bool,
    /// Some messages are partial.
    ///
    /// An observer cannot tell which of their recipients are loaded.
    is_blurred: bool,
    /// An agent has said `deferall` for a destination with feedback.
    ///
    /// Its window may be dead, and other destinations may share it.
    is_window_dead: bool,
    /// New mail that had to wait, and new mail that did not.
    pub counts: (u64, u64),
}

#[derive(Default, PartialEq)]
enum News {
    #[default]
    None,
    /// A new message for these destinations arrived.
    Arrived(u64, Vec<Destination>),
    Turn(Box<[u8]>),
    Much,
}

/// Reachability of a destination.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    /// It is reachable.
    ///
    /// The number is at least that of jobs that left recipients unfinished since the last final
    /// report.
    Open(u32),
    /// It may be unreachable; a final report will show that it is not.
    Perhaps,
    /// It is unreachable until this time, whatever is reported.
    Shut(Timestamp),
    /// It is unreachable until this time, unless a report shows otherwise.
    Blamed(Timestamp),
    /// The result is not certain.
    Unclear,
}

impl Waits {
    /// Starts anew for a new scheduler.
    pub fn started(&mut self) {
        self.words.clear();
        self.news = News::None;
        self.remembers = false;
        self.is_blurred = false;
        self.is_window_dead = false;
    }

    /// Records an event before the scheduler and `book` handle it.
    pub fn record_event(
        &mut self,
        now: Timestamp,
        event: &Event<'_>,
        config: &Config,
        book: &Book,
    ) {
        self.is_stale = true;
        match event {
            Event::Tick | Event::AgentStarted { .. } => {}
            Event::Arrived(arrival) => {
                self.is_blurred |= arrival.unread.is_some() || arrival.is_part;
                let news = self.arrived(arrival);
                self.add(news);
            }
            Event::Etrn(host) => {
                self.may_be_tried_early(|to| to.host() == *host);
                self.add(News::Turn((*host).into()));
            }
            Event::AgentSaid { line, .. } => {
                if let AgentLine::Report(report) = AgentLine::parse(line) {
                    self.reported(now, &report, config, book);
                }
                self.add(News::Much);
            }
            Event::Learned(_) | Event::Restored { .. } => self.remembers = true,
            Event::BacklogChanged { crowd, .. } => self.remembers |= *crowd != Backlog::None,
            Event::MoreRead { .. } => self.is_blurred = true,
            Event::Configured(_) | Event::ClockSet(_) => {
                // They may change times and the rule that applies.
                self.words.values_mut().for_each(|word| *word = Word::Unclear);
                self.add(News::Much);
            }
            Event::Ordered { .. } => {
                self.may_be_tried_early(|_| true);
                self.add(News::Much);
            }
            _ => self.add(News::Much),
        }
    }

    fn add(&mut self, news: News) {
        self.news = if self.news == News::None { news } else { News::Much };
    }

    /// Records that destinations may be tried before their time.
    fn may_be_tried_early(&mut self, is_meant: impl Fn(&Destination) -> bool) {
        for (_, word) in self.words.iter_mut().filter(|(to, _)| is_meant(to)) {
            if let Word::Shut(_) | Word::Blamed(_) = word {
                *word = Word::Perhaps;
            }
        }
    }

    fn arrived(&mut self, arrival: &Arrival) -> News {
        for host in &arrival.turns {
            self.may_be_tried_early(|to| to.host() == &**host);
        }
        if !self.known.insert((arrival.name.number(), arrival.modified))
            || !arrival.turns.is_empty()
        {
            return News::Much;
        }
        let to = arrival.groups.iter().map(|group| Destination::new(&group.channel, &group.host));
        News::Arrived(arrival.name.number(), to.collect())
    }

    fn reported(
        &mut self,
        now: Timestamp,
        report: &RecipientReport<'_>,
        config: &Config,
        book: &Book,
    ) {
        let Some(to) = book.destination(report.number, report.offset) else {
            return;
        };
        let clause = config.select(to.channel(), to.host());
        let has_feedback = clause.is_some_and(|clause| clause.flow.tolerates_deferall());
        self.is_window_dead |= has_feedback && report.status == ReportStatus::DeferAll;
        let Some(word) = self.words.get_mut(to) else {
            return;
        };
        let blames_host = report.notary.windows(5).any(|text| text == b"4.4.1");
        *word = match (*word, report.status) {
            (Word::Unclear, _) => Word::Unclear,
            (word, ReportStatus::DeferAll) if has_feedback => word,
            (_, ReportStatus::DeferAll) => Word::Shut(now + MIN_WAIT_AFTER_DEFERALL),
            // The time also depends on the configuration.
            (_, ReportStatus::RetryAt) => Word::Unclear,
            (Word::Shut(until), _) => Word::Shut(until),
            (
                _,
                ReportStatus::Ok
                | ReportStatus::Ok2
                | ReportStatus::Ok3
                | ReportStatus::Error
                | ReportStatus::Error2,
            ) => Word::Open(0),
            (word, ReportStatus::Deferred) if has_feedback => word,
            (_, ReportStatus::Deferred) if blames_host => Word::Blamed(now + MIN_WAIT_AFTER_BLAME),
            (Word::Blamed(_), _) => Word::Perhaps,
            (word, _) => word,
        };
    }

    /// Records that an agent has ended a job. A job that leaves recipients unfinished has failed.
    pub fn job_ended(&mut self, number: u64, to: &Destination, book: &Book) {
        if book.has_to_do(number, to)
            && let Some(word) = self.words.get_mut(to)
            && let Word::Open(in_vain) = word
        {
            *in_vain += 1;
            if *in_vain >= MIN_FAILED_JOBS {
                *word = Word::Perhaps;
            }
        }
    }

    /// Records the end of an agent. Agents that die may make a thread wait, whatever they reported.
    pub fn agent_ended(&mut self, to: &Destination) {
        self.words.insert(to.clone(), Word::Unclear);
    }

    /// Checks all threads after all actions are carried out.
    pub fn check_all(&mut self, at: At, core: &Scheduler, config: &Config, book: &Book) {
        if !std::mem::take(&mut self.is_stale) || self.is_blurred {
            return;
        }
        let mut words = std::mem::take(&mut self.words);
        let mut news = std::mem::take(&mut self.news);
        if let News::Arrived(number, all) = &mut news {
            // Mail that was too old has expired at once.
            all.retain(|to| book.has_to_do(*number, to));
        }
        for id in core.ring_ids() {
            for thread in core.ring_view(id).expect("it is listed").threads {
                let view = core.thread_view(at.wall, thread).expect("its threads are there");
                let to = view.destination.clone();
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
                    None if self.remembers || view.attempts > 0 => Word::Unclear,
                    None => Word::Open(0),
                };
                self.words.insert(to, word);
            }
        }
    }

    fn check(&mut self, at: At, news: &News, to: &Destination, before: Word, core: &Scheduler) {
        match news {
            News::Turn(host) if to.host() == &**host => {
                let waits = core.why_thread(to.channel(), to.host()).unwrap_or_default();
                let waits = waits.iter().any(
                    |wait| matches!(wait.why, Why::Retry { at: until, .. } if until > at.wall),
                );
                assert!(!waits, "{to} was asked for, and waits");
            }
            News::Arrived(number, all) if all.contains(to) => {
                let waits = core.why_message(*number).unwrap_or_default();
                let mut waits = waits.iter().filter(|wait| wait.destination == to);
                let is_put_off = waits.any(|wait| matches!(wait.why, Why::Retry { .. }));
                let is_held = core
                    .why_message(*number)
                    .unwrap_or_default()
                    .iter()
                    .any(|wait| wait.destination == to && matches!(wait.why, Why::Held { .. }));
                match before {
                    _ if is_held => {}
                    Word::Open(in_vain) => {
                        self.counts.1 += 1;
                        assert!(!is_put_off, "{to} is open after {in_vain}, and new mail waits");
                    }
                    Word::Shut(until) | Word::Blamed(until) if until > at.wall => {
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

impl Word {
    /// Returns the state at a later time.
    fn after(self, at: At) -> Word {
        match self {
            Word::Shut(until) | Word::Blamed(until) if until <= at.wall => Word::Perhaps,
            word => word,
        }
    }
}
