//! `SHOW JSON THREADS`: one object per thread; all that match, or the top ones by a rank.

use super::why::wait;
use super::{MAX_THREADS_PER_TURN, ago, line, pair, seconds, text};
use crate::classic::state_word;
use crate::v2::arguments::{Arguments, SyntaxError};
use crate::v2::selection::Selection;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
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
pub(crate) fn answer(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?;
    let order = words.option("sort").map(|word| match word.text.as_str() {
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
    let mut left = limit.unwrap_or(usize::MAX);
    let mut source = match order.transpose()? {
        None => Source::All { next: 0, destinations },
        Some(order) => {
            Source::Survey(ThreadSurvey::new(order, left.min(MAX_SORTED_THREADS), destinations))
        }
    };
    // The thread indexes, and messages, examined in this turn.
    let (mut indexes, mut messages) = (0, 0);
    Ok(Reply::long_text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        if left == 0 {
            return Step::Done;
        }
        match source.next(context.scheduler, &mut indexes) {
            Err(step) => return step,
            Ok(None) => {}
            Ok(Some(thread)) => {
                if let Some((row, examined)) = context.scheduler.thread_row(thread) {
                    line(out, &status(context.scheduler, context.now, &row));
                    messages += examined;
                    left -= 1;
                }
            }
        }
        if messages < MAX_MESSAGES_PER_TURN && indexes < MAX_THREADS_PER_TURN {
            return Step::More;
        }
        (indexes, messages) = (0, 0);
        Step::Pause
    }))
}

/// Parses `limit=N`, if it is given.
pub fn limit(words: &mut Arguments) -> Result<Option<usize>, SyntaxError> {
    let number = words.option("limit").map(|word| {
        let number = word.text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| word.error("limit= is a number above 0"))
    });
    number.transpose()
}

/// The source of the threads to show.
enum Source {
    /// All threads from this index on.
    All { next: usize, destinations: Option<DestinationPattern> },
    /// The search for the top threads, not complete yet.
    Survey(ThreadSurvey),
    /// The top threads that were found.
    Found(vec::IntoIter<ThreadId>),
}

impl Source {
    /// Returns the next thread; `None` if the search goes on. `Err` is the step of the task if the
    /// search ends or pauses.
    fn next(
        &mut self,
        scheduler: &Scheduler,
        indexes: &mut usize,
    ) -> Result<Option<ThreadId>, Step> {
        match self {
            Source::Found(threads) => threads.next().map(Some).ok_or(Step::Done),
            Source::Survey(survey) => {
                if !survey.advance(scheduler, MAX_SEARCHED_PER_TURN) {
                    return Err(Step::Pause);
                }
                let none = ThreadSurvey::new(SurveyOrder::Backlog, 0, None);
                *self = Source::Found(std::mem::replace(survey, none).found().into_iter());
                Ok(None)
            }
            Source::All { next, destinations } => {
                let found = scheduler.thread_from(*next, MAX_THREADS_PER_TURN);
                let (index, thread) = found.ok_or(Step::Done)?;
                *indexes += index + 1 - *next;
                *next = index + 1;
                let fits = |thread: &ThreadId| {
                    let destination = scheduler.destination_of(*thread);
                    let wanted = destinations.as_ref();
                    wanted.is_none_or(|wanted| destination.is_some_and(|d| wanted.matches(d)))
                };
                Ok(thread.filter(fits))
            }
        }
    }
}
