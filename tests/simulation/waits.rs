//! New mail and destinations that are known to be unreachable: what arrives for one of them waits until it is
//! tried again, and what arrives for any other is tried at once; ETRN starts everything. The rule is in
//! `docs/architecture.md`; here it is only asked in cases that leave no doubt.

use crate::book::Book;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_config::{Clause, Config};
use zsched_core::why::Why;
use zsched_core::{Crowd, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{Answer, Report, Status};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::At;
use zsched_spool::Arrival;

/// Time for which a host is left alone after `deferall`, at least.
const AFTER_DEFERALL: Duration = Duration::from_secs(60);
/// The same after a deferral whose status code blames the host.
const AFTER_BLAME: Duration = Duration::from_secs(1);
/// Jobs in vain that may make a destination unreachable.
const SEVERAL: u32 = 3;

/// What the scheduler can know of each host, and what it makes of that.
#[derive(Default)]
pub struct Waits {
    words: BTreeMap<Destination, Word>,
    /// Messages that have arrived at some scheduler: by their files.
    known: BTreeSet<(u64, Timestamp)>,
    /// What was told since everything was looked at last, if it is one thing only.
    news: News,
    /// Something was told since everything was looked at last.
    is_stale: bool,
    /// The scheduler that runs remembers things of its predecessor, or of messages that rest.
    remembers: bool,
    /// Messages are in memory in part, and nothing tells which recipients are.
    is_blurred: bool,
    /// An agent has said `deferall` of a destination with feedback: its window may be dead, and others share it.
    is_window_dead: bool,
    /// New mail that had to wait, and that had not to.
    pub counts: (u64, u64),
}

#[derive(Default, PartialEq)]
enum News {
    #[default]
    None,
    /// A new message came, for these destinations.
    Arrived(u64, Vec<Destination>),
    Turn(Box<[u8]>),
    Much,
}

/// What was heard of a destination.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    /// Nothing says that it is unreachable; and the number of jobs that have ended with something left to do
    /// since the last final word, or a larger one.
    Open(u32),
    /// It may be unreachable, but a final word will say that it is not.
    Perhaps,
    /// It is unreachable for the rest of this time, whatever else is said.
    Shut(Timestamp),
    /// It is unreachable for the rest of this time, unless a report says otherwise.
    Blamed(Timestamp),
    /// It depends.
    Unclear,
}

impl Waits {
    /// A scheduler starts.
    pub fn started(&mut self) {
        self.words.clear();
        self.news = News::None;
        self.remembers = false;
        self.is_blurred = false;
        self.is_window_dead = false;
    }

    /// The scheduler is told something, before it acts on it. `book` does not know of it yet.
    pub fn told(&mut self, now: Timestamp, event: &Event<'_>, config: &Config, book: &Book) {
        self.is_stale = true;
        match event {
            Event::Tick | Event::AgentStarted { .. } => {}
            Event::Arrived(arrival) => {
                self.is_blurred |= arrival.unread.is_some() || arrival.is_part;
                let news = self.arrived(arrival);
                self.add(news);
            }
            Event::Turn(host) => {
                self.is_asked_for(|to| to.host() == *host);
                self.add(News::Turn((*host).into()));
            }
            Event::AgentSaid { line, .. } => {
                if let Answer::Report(report) = Answer::parse(line) {
                    self.reported(now, &report, config, book);
                }
                self.add(News::Much);
            }
            Event::Learned(_) | Event::Recalled { .. } => self.remembers = true,
            Event::Outside { crowd, .. } => self.remembers |= *crowd != Crowd::None,
            Event::MoreRead { .. } => self.is_blurred = true,
            Event::Configured(_) | Event::ClockSet(_) => {
                // They may change times, and which rule holds.
                self.words.values_mut().for_each(|word| *word = Word::Unclear);
                self.add(News::Much);
            }
            Event::Ordered { .. } => {
                self.is_asked_for(|_| true);
                self.add(News::Much);
            }
            _ => self.add(News::Much),
        }
    }

    fn add(&mut self, news: News) {
        self.news = if self.news == News::None { news } else { News::Much };
    }

    /// Destinations may be tried again before their time.
    fn is_asked_for(&mut self, is_meant: impl Fn(&Destination) -> bool) {
        for (_, word) in self.words.iter_mut().filter(|(to, _)| is_meant(to)) {
            if let Word::Shut(_) | Word::Blamed(_) = word {
                *word = Word::Perhaps;
            }
        }
    }

    fn arrived(&mut self, arrival: &Arrival) -> News {
        for host in &arrival.turns {
            self.is_asked_for(|to| to.host() == &**host);
        }
        if !self.known.insert((arrival.name.number(), arrival.modified))
            || !arrival.turns.is_empty()
        {
            return News::Much;
        }
        let to = arrival.groups.iter().map(|group| Destination::new(&group.channel, &group.host));
        News::Arrived(arrival.name.number(), to.collect())
    }

    fn reported(&mut self, now: Timestamp, report: &Report<'_>, config: &Config, book: &Book) {
        let Some(to) = book.destination(report.number, report.offset) else {
            return;
        };
        let clause = config.select(to.channel(), to.host());
        let has_feedback = clause.is_some_and(|clause| clause.flow.is_patient());
        self.is_window_dead |= has_feedback && report.status == Status::DeferAll;
        let Some(word) = self.words.get_mut(to) else {
            return;
        };
        let blames_host = report.notary.windows(5).any(|text| text == b"4.4.1");
        *word = match (*word, report.status) {
            (Word::Unclear, _) => Word::Unclear,
            (word, Status::DeferAll) if has_feedback => word,
            (_, Status::DeferAll) => Word::Shut(now + AFTER_DEFERALL),
            // When that is depends on the configuration, too.
            (_, Status::RetryAt) => Word::Unclear,
            (Word::Shut(until), _) => Word::Shut(until),
            (_, Status::Ok | Status::Ok2 | Status::Ok3 | Status::Error | Status::Error2) => {
                Word::Open(0)
            }
            (word, Status::Deferred) if has_feedback => word,
            (_, Status::Deferred) if blames_host => Word::Blamed(now + AFTER_BLAME),
            (Word::Blamed(_), _) => Word::Perhaps,
            (word, _) => word,
        };
    }

    /// An agent has ended the job of a message for a destination. In vain, if something is left to do.
    pub fn job_over(&mut self, number: u64, to: &Destination, book: &Book) {
        if book.has_to_do(number, to)
            && let Some(word) = self.words.get_mut(to)
            && let Word::Open(in_vain) = word
        {
            *in_vain += 1;
            if *in_vain >= SEVERAL {
                *word = Word::Perhaps;
            }
        }
    }

    /// An agent has ended. Agents that die may make a thread wait, whatever they said.
    pub fn agent_ended(&mut self, to: &Destination) {
        self.words.insert(to.clone(), Word::Unclear);
    }

    /// Everything is carried out: looks at all threads.
    pub fn look(&mut self, at: At, core: &Scheduler, config: &Config, book: &Book) {
        if !std::mem::take(&mut self.is_stale) || self.is_blurred {
            return;
        }
        let mut words = std::mem::take(&mut self.words);
        let mut news = std::mem::take(&mut self.news);
        if let News::Arrived(number, all) = &mut news {
            // What was too old has expired at once.
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
                            let may_die = clause.flow.is_patient() || clause.flow.key.is_some();
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
    /// What holds when some time has passed.
    fn after(self, at: At) -> Word {
        match self {
            Word::Shut(until) | Word::Blamed(until) if until <= at.wall => Word::Perhaps,
            word => word,
        }
    }
}
