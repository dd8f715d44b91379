//! `SHOW JSON JOBS`: one object for each bulk job that is not finished.

use super::{seconds, text};
use crate::v2::arguments::Arguments;
use crate::v2::outcome::NO_JOB;
use crate::v2::rows::objects;
use crate::v2::task::{Reply, ReplyResult, SessionContext};
use zsched_bulk::{JobId, JobIdError};
use zsched_core::bulk::view::{JobState, JobView};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::{BulkJobStatus, FullDestination};

/// Maximum number of full destinations of a job that are listed.
const MAX_FULL_LISTED: usize = 100;
/// Minimum time for which a rate is counted, in seconds.
const MIN_RATE_TIME: i64 = 5;

/// Answers the request: all jobs, or the one that it names.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let Some(word) = words.next_word() else {
        let jobs = context.scheduler.bulk_jobs().map(|job| job.id);
        return Ok(objects(jobs, |context, id| {
            Some(status(&context.scheduler.bulk_job(id)?, context.now))
        }));
    };
    let id: JobId = word.text.parse().map_err(|error: JobIdError| word.error(error.to_string()))?;
    words.end()?;
    let Some(job) = context.scheduler.bulk_job(id) else {
        return Ok(Reply::refusal(NO_JOB));
    };
    let status = BulkJobStatus { full: full(&job), ..status(&job, context.now) };
    Ok(objects([status], |_, status| Some(status)))
}

fn status(job: &JobView<'_>, now: Timestamp) -> BulkJobStatus {
    let (state, until) = match job.state(now) {
        JobState::Running => ("running", None),
        JobState::Scheduled(time) => ("scheduled", Some(seconds(time))),
        JobState::Paused => ("paused", None),
        JobState::Ending => ("ending", None),
        JobState::Retrying(time) => ("retrying", Some(seconds(time))),
    };
    let counts = job.counts();
    let (packets, queued) = job.packets();
    let (since, ended) = job.progress();
    let time = now.seconds_since(since);
    let is_counted = ended > 0 && time >= MIN_RATE_TIME && state != "paused";
    let rate = is_counted.then(|| f64::from(ended) / time as f64);
    BulkJobStatus {
        id: job.id.to_string(),
        list: job.list().map(str::to_string),
        state: state.to_string(),
        until,
        recipients: counts.all.into(),
        delivered: counts.delivered.into(),
        failed: counts.failed.into(),
        aside: counts.aside.into(),
        dropped: counts.dropped.into(),
        pending: counts.pending.into(),
        queued: queued.into(),
        packets: packets as u64,
        packet_size: job.packet_size().into(),
        share: job.share().into(),
        per_minute: rate.map(|rate| (rate * 60.0).round()),
        expected_end: rate.map(|rate| seconds(now) + f64::from(counts.pending) / rate),
        full: Vec::new(),
    }
}

/// The full destinations with most recipients that are not cut.
fn full(job: &JobView<'_>) -> Vec<FullDestination> {
    let mut all: Vec<_> = job.full().collect();
    all.sort_by_key(|(_, left)| std::cmp::Reverse(*left));
    all.truncate(MAX_FULL_LISTED);
    let row = |(destination, left): (&zsched_core::Destination, u32)| FullDestination {
        channel: text(destination.channel()),
        host: text(destination.host()),
        recipients: left.into(),
    };
    all.into_iter().map(row).collect()
}
