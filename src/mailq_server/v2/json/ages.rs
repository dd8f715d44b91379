//! `SHOW JSON AGES`: recipients by age, in all and for the destinations with most of them.

use super::threads::{MAX_SORTED_THREADS, destinations, limit};
use super::{line, text};
use crate::v2::arguments::Arguments;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::age_survey::{AgeCounts, AgeSurvey};
use zsched_mailq_protocol::schema::{AGE_LIMITS, AgeStatus};

/// Maximum number of threads or vertices examined per turn.
const MAX_SEARCHED_PER_TURN: usize = 20_000;
/// Number of destinations without `limit=`.
const DEFAULT_LIMIT: usize = 1000;

/// Answers the request.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
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
            line(out, &status(None, None, total));
            rows = found.into_iter();
        }
        let Some((destination, counts)) = rows.next() else {
            return Step::Done;
        };
        let (channel, host) = (text(destination.channel()), text(destination.host()));
        line(out, &status(Some(channel), Some(host), counts));
        Step::More
    }))
}

fn status(channel: Option<String>, host: Option<String>, counts: AgeCounts) -> AgeStatus {
    let AgeCounts { recipients, ages } = counts;
    AgeStatus { channel, host, recipients, minutes: AGE_LIMITS.to_vec(), ages }
}
