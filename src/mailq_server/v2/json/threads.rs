//! `SHOW JSON THREADS`: one object per thread; all that match, or the top ones by a rank.

use super::why::WaitJson;
use super::{MAX_THREADS_PER_TURN, ago, line, pair, seconds, text};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use crate::v2::arguments::{Arguments, SyntaxError};
use crate::v2::selection::Selection;
use serde::Serialize;
use std::vec;
use zsched_core::Scheduler;
use zsched_core::records::ThreadId;
use zsched_core::standing::Destinations;
use zsched_core::survey::{AgentRow, Rank, Survey, ThreadRow};
use zsched_format::time::Timestamp;

/// Maximum number of threads sorted.
const MAX_SORTED_THREADS: usize = 10_000;
/// Maximum number of vertices or threads examined per turn of a ranked search.
const MAX_SEARCHED_PER_TURN: usize = 50_000;
/// Approximate maximum number of messages examined per turn, for the age of threads.
const MAX_MESSAGES_PER_TURN: usize = 20_000;

/// A thread.
#[derive(Serialize)]
pub struct Thread {
    channel: String,
    host: String,
    /// Pattern of the clause that serves it.
    ring: String,
    messages: usize,
    recipients: u32,
    /// Number of reports about its recipients so far.
    attempts: u32,
    /// Messages that are due.
    due: usize,
    with_agents: usize,
    /// Messages that wait for the wake-up.
    waiting: usize,
    /// Messages held one by one.
    held_back: usize,
    /// Agents that work on it, the newest first.
    agents: Vec<AgentJson>,
    /// When its waiting messages become due.
    wakeup: Option<f64>,
    /// Age of its oldest message, in seconds.
    oldest: Option<i64>,
    /// True if it is held as a whole.
    held: bool,
    max_agents: u32,
    /// How many agents may work on it now.
    window: usize,
    /// The name of its window, if it may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_name: Option<String>,
    #[serde(flatten)]
    waits: Option<WaitJson>,
}

/// An agent that works on the thread.
#[derive(Serialize)]
struct AgentJson {
    pid: u32,
    state: &'static str,
    jobs: usize,
}

impl From<&AgentRow<'_>> for AgentJson {
    fn from(row: &AgentRow<'_>) -> AgentJson {
        AgentJson { pid: row.pid, state: row.state, jobs: row.jobs }
    }
}

impl Thread {
    fn new(scheduler: &Scheduler, now: Timestamp, row: &ThreadRow<'_>) -> Thread {
        let wait = row.wait.as_ref();
        Thread {
            channel: text(row.destination.channel()),
            host: text(row.destination.host()),
            ring: pair(row.ring.0, row.ring.1),
            messages: row.messages,
            recipients: row.recipients,
            attempts: row.attempts,
            due: row.due,
            with_agents: row.with_agents,
            waiting: row.waiting,
            held_back: row.held_back,
            agents: row.agents.iter().map(AgentJson::from).collect(),
            wakeup: row.wakeup.map(seconds),
            oldest: row.oldest.map(|oldest| ago(now, oldest)),
            held: row.is_held,
            max_agents: row.max_agents,
            window: row.window,
            window_name: row.window_name.map(text),
            waits: wait.map(|wait| WaitJson::new(scheduler, now, wait, false)),
        }
    }
}

/// Answers the request.
pub fn answer(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    match Request::parse(rest) {
        Ok(request) => Reply::Text(Box::new(request.text())),
        Err(error) => Reply::SyntaxError(error),
    }
}

struct Request {
    destinations: Option<Destinations>,
    limit: Option<usize>,
    rank: Option<Rank>,
}

impl Request {
    fn parse(rest: &[u8]) -> Result<Request, SyntaxError> {
        let mut words = Arguments::parse(rest)?;
        let limit = limit(&mut words)?;
        let rank = words.option("sort").map(|word| match word.text.as_str() {
            "backlog" => Ok(Rank::Backlog),
            "attempts" => Ok(Rank::Attempts),
            "oldest" => Ok(Rank::Oldest),
            _ => Err(word.error("sort= is backlog, oldest or attempts")),
        });
        let selection = Selection::take(&mut words)?;
        words.end()?;
        if !selection.is_pattern_only() {
            return Err(SyntaxError::new(0, "destinations are selected by channel/host only"));
        }
        let destinations = selection.destinations.filter(|wanted| wanted.text() != "*/*");
        Ok(Request { destinations, limit, rank: rank.transpose()? })
    }

    fn text(self) -> ThreadsText {
        let Request { destinations, limit, rank } = self;
        let left = limit.unwrap_or(usize::MAX);
        let source = match rank {
            None => Source::Places { next: 0, destinations },
            Some(rank) => {
                Source::Survey(Survey::new(rank, left.min(MAX_SORTED_THREADS), destinations))
            }
        };
        ThreadsText { source, left, looked_at: 0, indexes_examined: 0 }
    }
}

/// Parses `limit=N`, if it is given.
pub fn limit(words: &mut Arguments) -> Result<Option<usize>, SyntaxError> {
    let number = words.option("limit").map(|word| {
        let number = word.text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| word.error("limit= is a number above 0"))
    });
    number.transpose()
}

struct ThreadsText {
    source: Source,
    /// How many more may be shown.
    left: usize,
    /// Messages examined in this turn; `indexes_examined` counts thread indexes.
    looked_at: usize,
    indexes_examined: usize,
}

/// The source of the threads to show.
enum Source {
    /// All threads from this index on.
    Places { next: usize, destinations: Option<Destinations> },
    /// The search for the top threads, not complete yet.
    Survey(Survey),
    /// The top threads that were found.
    Found(vec::IntoIter<ThreadId>),
}

/// The result of one step of a source.
enum Next {
    Thread(ThreadId),
    Nothing,
    Pause,
    Over,
}

impl Source {
    fn next(&mut self, scheduler: &Scheduler, indexes_examined: &mut usize) -> Next {
        match self {
            Source::Found(threads) => threads.next().map_or(Next::Over, Next::Thread),
            Source::Survey(survey) => {
                if !survey.go_on(scheduler, MAX_SEARCHED_PER_TURN) {
                    return Next::Pause;
                }
                let none = Survey::new(Rank::Backlog, 0, None);
                *self = Source::Found(std::mem::replace(survey, none).found().into_iter());
                Next::Nothing
            }
            Source::Places { next, destinations } => {
                let Some((place, thread)) = scheduler.thread_from(*next, MAX_THREADS_PER_TURN)
                else {
                    return Next::Over;
                };
                *indexes_examined += place + 1 - *next;
                *next = place + 1;
                let fits = |thread: &ThreadId| {
                    let destination = scheduler.destination_of(*thread);
                    let wanted = destinations.as_ref();
                    wanted.is_none_or(|wanted| destination.is_some_and(|d| wanted.matches(d)))
                };
                thread.filter(fits).map_or(Next::Nothing, Next::Thread)
            }
        }
    }
}

impl Text for ThreadsText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        if self.left == 0 {
            return Step::Over;
        }
        match self.source.next(context.scheduler, &mut self.indexes_examined) {
            Next::Over => return Step::Over,
            Next::Pause => return Step::Pause,
            Next::Nothing => {}
            Next::Thread(thread) => {
                if let Some((row, looked_at)) = context.scheduler.thread_row(thread) {
                    line(out, &Thread::new(context.scheduler, context.now, &row));
                    self.looked_at += looked_at;
                    self.left -= 1;
                }
            }
        }
        if self.looked_at < MAX_MESSAGES_PER_TURN && self.indexes_examined < MAX_THREADS_PER_TURN {
            return Step::More;
        }
        (self.looked_at, self.indexes_examined) = (0, 0);
        Step::Pause
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}

    fn is_long(&self) -> bool {
        true
    }
}
