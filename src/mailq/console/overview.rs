//! Data for the summary: totals, destinations, rings, agents.

use super::arguments::Sort;
use super::classic;
use super::model::{Agent, Ring, Summary, Thread};
use super::source;
use crate::dial::Scheduler;
use crate::failure::Failure;
use crate::session::{Request, Session};
use std::io::{Read, Write};

/// Overview of the queue of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The totals.
    pub summary: Summary,
    /// Destinations: all, or those with most messages or most attempts.
    pub threads: Vec<Thread>,
    /// Rings.
    pub rings: Vec<Ring>,
    /// Agents.
    pub agents: Vec<Agent>,
}

/// Asks a scheduler of any kind.
///
/// `limit` is the maximum number of destinations per sort order. ZMailer's schedulers ignore it.
pub fn ask(scheduler: &mut Scheduler, limit: usize) -> Result<Overview, Failure> {
    match scheduler {
        Scheduler::Dump(lines) => classic::of_dump(lines),
        Scheduler::Session(session) => match of_session(session, limit) {
            // A scheduler that does not know the request denies it.
            Err(Failure::Denied(_)) => classic::of_session(session),
            other => other,
        },
    }
}

/// Asks a scheduler that knows the JSON requests.
pub fn of_session<S: Read + Write>(
    session: &mut Session<S>,
    limit: usize,
) -> Result<Overview, Failure> {
    let summary = source::one(session, Request::new("SHOW JSON SUMMARY", "QQ"))?;
    let mut threads = Vec::new();
    for sort in [Sort::Backlog, Sort::Attempts] {
        let request = format!("SHOW JSON THREADS limit={limit} sort={}", sort.word());
        let found: Vec<Thread> = source::all(session, Request::new(request, "TT"))?;
        let is_new =
            |thread: &Thread| !threads.iter().any(|old: &Thread| old.name() == thread.name());
        let new: Vec<Thread> = found.into_iter().filter(is_new).collect();
        threads.extend(new);
    }
    let rings = source::all(session, Request::new("SHOW JSON RINGS", "TT"))?;
    let agents = source::all(session, Request::new("SHOW JSON AGENTS", "TT"))?;
    Ok(Overview { summary, threads, rings, agents })
}

impl Overview {
    /// At most `most` destinations, those with most messages first.
    pub fn busiest(&self, most: usize) -> Vec<&Thread> {
        self.sorted(most, |thread| thread.messages, |thread| thread.messages > 0)
    }

    /// At most `most` destinations with a last text, most attempts first.
    pub fn most_troubled(&self, most: usize) -> Vec<&Thread> {
        let has_trouble = |thread: &Thread| {
            thread.attempts > 0 && thread.text().is_some_and(|text| !text.is_empty())
        };
        self.sorted(most, |thread| thread.attempts, has_trouble)
    }

    fn sorted(
        &self,
        most: usize,
        key: impl Fn(&Thread) -> u64,
        is_wanted: impl Fn(&Thread) -> bool,
    ) -> Vec<&Thread> {
        let mut threads: Vec<&Thread> = self.threads.iter().filter(|t| is_wanted(t)).collect();
        // The name breaks ties, so that rows keep their places from one refresh to the next.
        threads.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name().cmp(&b.name())));
        threads.truncate(most);
        threads
    }
}
