//! New mail and retry times: what arrives for a host that does not seem to answer waits for the retry time
//! of its thread, what arrives for one that answers does not, and ETRN starts everything. The rule is in
//! `docs/architecture.md`; here it is only asked in cases that leave no doubt.

use crate::book::Book;
use std::collections::{BTreeMap, BTreeSet};
use zsched::agent::protocol::{Answer, Report, Status};
use zsched::config::Config;
use zsched::scheduler::why::Why;
use zsched::scheduler::{Destination, Event, Scheduler};
use zsched::simulation::observer::At;
use zsched::spool::Arrival;
use zsched::time::Timestamp;

/// What the scheduler can know of each host, and what it makes of that.
#[derive(Default)]
pub struct Waits {
    threads: BTreeMap<Destination, Seen>,
    /// Messages that have arrived at some scheduler: by their files.
    known: BTreeSet<(u64, Timestamp)>,
    /// What was told since everything was looked at last, if it is one thing only.
    news: News,
    /// Something was told since everything was looked at last.
    is_stale: bool,
    /// The scheduler that runs remembers things of its predecessor.
    remembers: bool,
    /// Messages are in memory in part, and nobody knows which recipients are.
    is_blurred: bool,
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

/// A thread, when it was looked at last.
struct Seen {
    word: Word,
    /// Reports about it have come since, or agents have ended.
    is_reported: bool,
    wakeup: Option<Timestamp>,
    /// Nothing is due, and no agent is at work.
    rests: bool,
}

/// What was heard of a host since the last wake-up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    /// Nothing final.
    Nothing,
    /// There was a final word, and so many jobs have ended since with something left to do, or more.
    Answers(u32),
    /// The last word is that it cannot be reached.
    Lost,
    /// The whole thread has to wait.
    Blocked,
    /// It depends.
    Unclear,
}

impl Waits {
    /// A scheduler starts.
    pub fn started(&mut self) {
        self.threads.clear();
        self.news = News::None;
        self.remembers = false;
        self.is_blurred = false;
    }

    /// The scheduler is told something, before it acts on it. `book` does not know of it yet.
    pub fn told(&mut self, event: &Event<'_>, book: &Book) {
        self.is_stale = true;
        match event {
            Event::Tick | Event::AgentStarted { .. } => {}
            Event::Arrived(arrival) => {
                self.is_blurred |= arrival.unread.is_some() || arrival.is_part;
                let news = self.arrived(arrival);
                self.add(news);
            }
            Event::Turn(host) => {
                let of_host = |to: &Destination| to.host() == *host;
                let threads = self.threads.iter_mut().filter(|(to, _)| of_host(to));
                threads.for_each(|(_, seen)| seen.word = Word::Nothing);
                self.add(News::Turn((*host).into()));
            }
            Event::AgentSaid { line, .. } => {
                if let Answer::Report(report) = Answer::parse(line) {
                    self.reported(&report, book);
                }
                self.add(News::Much);
            }
            Event::Learned(_) | Event::Recalled { .. } => self.remembers = true,
            Event::MoreRead { .. } => self.is_blurred = true,
            Event::Configured(_) | Event::ClockSet(_) => {
                // They may move wake-ups.
                for seen in self.threads.values_mut() {
                    (seen.word, seen.wakeup) = (Word::Unclear, None);
                }
                self.add(News::Much);
            }
            _ => self.add(News::Much),
        }
    }

    fn add(&mut self, news: News) {
        self.news = if self.news == News::None { news } else { News::Much };
    }

    fn arrived(&mut self, arrival: &Arrival) -> News {
        if !self.known.insert((arrival.name.number(), arrival.modified)) {
            return News::Much;
        }
        let to = arrival.groups.iter().map(|group| Destination::new(&group.channel, &group.host));
        News::Arrived(arrival.name.number(), to.collect())
    }

    fn reported(&mut self, report: &Report<'_>, book: &Book) {
        let to = book.destination(report.number, report.offset);
        let Some(seen) = to.and_then(|to| self.threads.get_mut(to)) else {
            return;
        };
        seen.is_reported = true;
        seen.word = match (seen.word, report.status) {
            (word @ (Word::Blocked | Word::Unclear), _) => word,
            (_, Status::DeferAll | Status::RetryAt) => Word::Blocked,
            (_, Status::Ok | Status::Ok2 | Status::Ok3) => Word::Answers(0),
            (_, Status::Error | Status::Error2) => Word::Answers(0),
            (_, Status::Deferred) if report.notary.windows(5).any(|text| text == b"4.4.1") => {
                Word::Lost
            }
            (word, _) => word,
        };
    }

    /// An agent has ended the job of a message for a destination. In vain, if something is left to do.
    pub fn job_over(&mut self, number: u64, to: &Destination, book: &Book) {
        if book.has_to_do(number, to)
            && let Some(Seen { word: Word::Answers(in_vain), .. }) = self.threads.get_mut(to)
        {
            *in_vain += 1;
        }
    }

    /// An agent has ended. Agents that die may make a thread wait, whatever they said.
    pub fn agent_ended(&mut self, to: &Destination) {
        if let Some(seen) = self.threads.get_mut(to) {
            (seen.word, seen.is_reported) = (Word::Unclear, true);
        }
    }

    /// Everything is carried out: looks at all threads.
    pub fn look(&mut self, at: At, core: &Scheduler, config: &Config, book: &Book) {
        if !std::mem::take(&mut self.is_stale) || self.is_blurred {
            return;
        }
        let threads = std::mem::take(&mut self.threads);
        let mut news = std::mem::take(&mut self.news);
        if let News::Arrived(number, all) = &mut news {
            // What was too old has expired at once.
            all.retain(|to| book.has_to_do(*number, to));
        }
        for id in core.ring_ids() {
            for thread in core.ring_view(id).expect("it is listed").threads {
                let view = core.thread_view(at.wall, thread).expect("its threads are there");
                let to = view.destination.clone();
                let rests = view.agents.is_empty() && view.unfed == 0;
                let wakeup = wakeup(core, &to);
                let word = match threads.get(&to) {
                    Some(before) => before.word_after(at, wakeup),
                    None if self.remembers || view.attempts > 0 => Word::Unclear,
                    None => Word::Nothing,
                };
                let seen = Seen { word, is_reported: false, wakeup, rests };
                if let Some(before) = threads.get(&to)
                    && !config
                        .select(to.channel(), to.host())
                        .is_some_and(|clause| clause.queue_only || clause.flow.is_steered())
                {
                    self.check(at, &news, &to, before, &seen);
                }
                self.threads.insert(to, seen);
            }
        }
    }

    fn check(&mut self, at: At, news: &News, to: &Destination, before: &Seen, after: &Seen) {
        match news {
            News::Turn(host) if to.host() == &**host => {
                assert_eq!(after.wakeup, None, "{to} was asked for, and waits");
            }
            News::Arrived(_, all) if all.contains(to) => {
                let is_waiting = before.wakeup.is_some_and(|wakeup| wakeup > at.wall);
                if !is_waiting || !before.rests || after.wakeup != before.wakeup {
                    return;
                }
                match before.word {
                    Word::Unclear => {}
                    Word::Answers(in_vain) if in_vain > 2 => {}
                    Word::Answers(_) => {
                        self.counts.1 += 1;
                        assert!(!after.rests, "{to} answers, and new mail waits");
                    }
                    word => {
                        self.counts.0 += 1;
                        assert!(after.rests, "{to}: {word:?}, and new mail does not wait");
                    }
                }
            }
            _ => {}
        }
    }
}

impl Seen {
    /// What holds if the thread waits until `wakeup` now.
    fn word_after(&self, at: At, wakeup: Option<Timestamp>) -> Word {
        match (self.wakeup, wakeup) {
            (before, after) if before == after => self.word,
            (None, Some(_)) => self.word,
            // Put off further, by an agent's wish.
            (Some(before), Some(after)) if before > at.wall && after > before => self.word,
            (Some(before), _) if before <= at.wall && !self.is_reported => Word::Nothing,
            _ => Word::Unclear,
        }
    }
}

/// The time that the deferred recipients of a thread wait for.
fn wakeup(core: &Scheduler, to: &Destination) -> Option<Timestamp> {
    let waits = core.why_thread(to.channel(), to.host())?;
    waits.iter().find_map(|wait| match wait.why {
        Why::Retry { at, .. } => Some(at),
        _ => None,
    })
}
