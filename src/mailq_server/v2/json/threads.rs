//! `SHOW JSON THREADS`: one object per thread; all that match, or the top ones by a rank.

use super::why::wait;
use super::{MAX_THREADS_PER_TURN, ago, line, pair, seconds, text};
use crate::classic::state_word;
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use crate::v2::arguments::{Arguments, SyntaxError};
use crate::v2::selection::Selection;
use std::vec;
use zsched_core::Scheduler;
use zsched_core::overrides::DestinationPattern;
use zsched_core::records::ThreadId;
use zsched_core::thread_survey::{AgentRow, SurveyOrder, ThreadRow, ThreadSurvey};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::{ActiveAgent, ThreadStatus};

/// Maximum number of threads sorted.
const MAX_SORTED_THREADS: usize = 10_000;
/// Maximum number of vertices or threads examined per turn of a ranked search.
const MAX_SEARCHED_PER_TURN: usize = 50_000;
/// Approximate maximum number of messages examined per turn, for the age of threads.
const MAX_MESSAGES_PER_TURN: usize = 20_000;

fn active_agent(row: &AgentRow<'_>) -> ActiveAgent {
    ActiveAgent { pid: row.pid, state: state_word(row.state).to_string(), jobs: row.jobs as u64 }
}

fn status(scheduler: &Scheduler, now: Timestamp, row: &ThreadRow<'_>) -> ThreadStatus {
    let waits = row.wait.as_ref();
    ThreadStatus {
        channel: text(row.destination.channel()),
        host: text(row.destination.host()),
        ring: Some(pair(row.ring.0, row.ring.1)),
        messages: row.messages as u64,
        recipients: u64::from(row.recipients),
        attempts: u64::from(row.attempts),
        due: row.due as u64,
        with_agents: row.with_agents as u64,
        waiting: row.waiting as u64,
        held_back: row.held_back as u64,
        agents: row.agents.iter().map(active_agent).collect(),
        wakeup: row.wakeup.map(seconds),
        oldest: row.oldest.map(|oldest| ago(now, oldest)),
        held: row.is_held,
        max_agents: u64::from(row.max_agents),
        window: row.window as u64,
        window_name: row.window_name.map(text),
        wait: waits.map(|waits| wait(scheduler, now, waits, false)),
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
    destinations: Option<DestinationPattern>,
    limit: Option<usize>,
    rank: Option<SurveyOrder>,
}

impl Request {
    fn parse(rest: &[u8]) -> Result<Request, SyntaxError> {
        let mut words = Arguments::parse(rest)?;
        let limit = limit(&mut words)?;
        let rank = words.option("sort").map(|word| match word.text.as_str() {
            "backlog" => Ok(SurveyOrder::Backlog),
            "attempts" => Ok(SurveyOrder::Attempts),
            "oldest" => Ok(SurveyOrder::Oldest),
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
            Some(rank) => Source::ThreadSurvey(ThreadSurvey::new(
                rank,
                left.min(MAX_SORTED_THREADS),
                destinations,
            )),
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
    Places { next: usize, destinations: Option<DestinationPattern> },
    /// The search for the top threads, not complete yet.
    ThreadSurvey(ThreadSurvey),
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
            Source::ThreadSurvey(thread_survey) => {
                if !thread_survey.advance(scheduler, MAX_SEARCHED_PER_TURN) {
                    return Next::Pause;
                }
                let none = ThreadSurvey::new(SurveyOrder::Backlog, 0, None);
                *self = Source::Found(std::mem::replace(thread_survey, none).found().into_iter());
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
                    line(out, &status(context.scheduler, context.now, &row));
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
