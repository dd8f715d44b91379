//! `SHOW JSON THREADS`: one object per thread; all that match, or the top ones by a rank.
//!
//! `SHOW JSON AGES`: recipients by age, in all and for the destinations with most of them.

use super::wait::wait;
use super::{ago, line, seconds, text};
use crate::classic::state_word;
use crate::v2::arguments::{Arguments, SyntaxError};
use crate::v2::rows::Rows;
use crate::v2::selection::Selection;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::age_survey::{AgeCounts, AgeSurvey};
use zsched_core::overrides::DestinationPattern;
use zsched_core::thread_survey::{SurveyOrder, ThreadSurvey};
use zsched_core::view::{Agent, Thread};
use zsched_mailq_protocol::schema::{AGE_LIMITS, ActiveAgent, AgeStatus, ThreadStatus};

/// Maximum number of threads sorted.
pub(crate) const MAX_SORTED_THREADS: usize = 10_000;

fn active_agent(agent: &Agent) -> ActiveAgent {
    let (pid, state) = (agent.pid.unwrap_or_default(), state_word(agent.state()).to_string());
    ActiveAgent { pid, state, jobs: agent.jobs().count() as u64 }
}

/// Returns the status of a thread, and how many of its messages were examined for it.
fn status(context: &SessionContext<'_>, thread: &Thread) -> (ThreadStatus, usize) {
    let view = context.scheduler.view();
    let (oldest, examined) = view.oldest_of(thread);
    let (window, window_name) = view.window_of(thread);
    // Vertices with agents come first, then due ones.
    let first = view.waits_of(thread).next();
    let first = first.map(|mut first| {
        // Those with agents may be new, where others were deferred.
        first.text = first.text.or_else(|| view.last_text_of(thread));
        first
    });
    let status = ThreadStatus {
        channel: text(thread.destination.channel()),
        host: text(thread.destination.host()),
        ring: Some(view.ring_of(thread).pattern()),
        messages: thread.len() as u64,
        recipients: u64::from(thread.recipients),
        deferred: u64::from(thread.deferred),
        undelivered: u64::from(view.undelivered_of(thread)),
        attempts: u64::from(thread.attempts),
        due: thread.due.len() as u64,
        with_agents: thread.fed.len() as u64,
        waiting: thread.waiting.len() as u64,
        held_back: thread.held_back.len() as u64,
        agents: view.agents_of(thread).map(active_agent).collect(),
        wakeup: view.wakeup_of(thread).map(seconds),
        oldest: oldest.map(|oldest| ago(context.now, oldest)),
        held: thread.held,
        max_agents: u64::from(view.max_agents_of(thread)),
        window: window as u64,
        window_name: window_name.map(text),
        wait: first.map(|first| wait(context, &first, false)),
    };
    (status, examined)
}

/// Answers `SHOW JSON THREADS`.
pub(crate) fn threads(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?;
    let order = words.option("sort").map(|word| match word.text.as_str() {
        "backlog" => Ok(SurveyOrder::Backlog),
        "undelivered" => Ok(SurveyOrder::Undelivered),
        "oldest" => Ok(SurveyOrder::Oldest),
        _ => Err(word.error("sort= is backlog, oldest or undelivered")),
    });
    let destinations = destinations(words)?;
    let max = limit.unwrap_or(usize::MAX);
    let survey = ThreadSurvey::new(order.transpose()?, max.min(MAX_SORTED_THREADS), destinations);
    Ok(Reply::long_text(Rows::new(survey, max, |survey, context, thread, out| {
        let scheduler = context.scheduler;
        // The id may belong to another thread by now.
        let thread = scheduler.view().thread(thread).filter(|thread| survey.matches(thread))?;
        let (status, examined) = status(context, thread);
        line(out, &status);
        Some(examined)
    })))
}

/// Parses the rest of a request: a pattern of destinations, or nothing. `None` is everything.
pub(crate) fn destinations(
    mut words: Arguments,
) -> Result<Option<DestinationPattern>, SyntaxError> {
    let selection = Selection::take(&mut words)?;
    words.end()?;
    match selection.is_pattern_only() {
        true => Ok(selection.destinations.filter(|wanted| wanted.text() != "*/*")),
        false => Err(SyntaxError::new(0, "destinations are selected by channel/host only")),
    }
}

/// Parses `limit=N`, if it is given.
pub(crate) fn limit(words: &mut Arguments) -> Result<Option<usize>, SyntaxError> {
    let number = words.option("limit").map(|word| {
        let number = word.text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| word.error("limit= is a number above 0"))
    });
    number.transpose()
}

/// Maximum number of threads or vertices examined per turn for ages.
const MAX_SEARCHED_PER_TURN: usize = 20_000;
/// Number of destinations of which ages are shown without `limit=`.
const DEFAULT_LIMIT: usize = 1000;

/// Answers `SHOW JSON AGES`.
pub(crate) fn ages(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let max = limit(&mut words)?.unwrap_or(DEFAULT_LIMIT).min(MAX_SORTED_THREADS);
    let limits = AGE_LIMITS.iter().map(|minutes| *minutes as i64 * 60).collect();
    let mut survey = Some(AgeSurvey::new(context.now, limits, max, destinations(words)?));
    let mut rows = Vec::new().into_iter();
    Ok(Reply::long_text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        if let Some(current) = &mut survey
            && !current.advance(context.scheduler, MAX_SEARCHED_PER_TURN)
        {
            return Step::Pause;
        }
        if let Some(over) = survey.take() {
            let (total, found) = over.into_counts();
            line(out, &age_status(None, None, total));
            rows = found.into_iter();
        }
        let Some((destination, counts)) = rows.next() else {
            return Step::Done;
        };
        let (channel, host) = (text(destination.channel()), text(destination.host()));
        line(out, &age_status(Some(channel), Some(host), counts));
        Step::More
    }))
}

fn age_status(channel: Option<String>, host: Option<String>, counts: AgeCounts) -> AgeStatus {
    let AgeCounts { recipients, ages } = counts;
    AgeStatus { channel, host, recipients, minutes: AGE_LIMITS.to_vec(), ages }
}
