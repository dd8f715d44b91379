//! `SHOW JSON JOBS`: one object for each bulk job that is not finished.

use super::{seconds, text};
use crate::v2::arguments::Arguments;
use crate::v2::outcome::NO_JOB;
use crate::v2::rows::objects;
use crate::v2::task::{Reply, ReplyResult, SessionContext};
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::{JobId, JobIdError};
use zsched_core::bulk::view::{JobState, JobTotals, JobView, RestOfDestination};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::{BulkJobStatus, FullDestination};

/// Maximum number of full destinations of a job that are listed.
const MAX_FULL_LISTED: usize = 100;

/// Answers the request: all jobs, or the one that it names.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let Some(word) = words.next_word() else {
        let jobs = context.scheduler.view().bulk_jobs().map(|job| job.id);
        return Ok(objects(jobs, |context, id| {
            Some(status(&context.scheduler.view().bulk_job(id)?, context.now))
        }));
    };
    let id: JobId = word.text.parse().map_err(|error: JobIdError| word.error(error.to_string()))?;
    words.end()?;
    let Some(job) = context.scheduler.view().bulk_job(id) else {
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
        JobState::Kept => ("kept", None),
        JobState::Receiving => ("receiving", None),
        JobState::Retries => ("retries", None),
        JobState::Lost => ("lost", None),
        JobState::Cancelling => ("cancelling", None),
        JobState::DiskError(time) => ("disk-error", Some(seconds(time))),
    };
    let JobTotals { counts, packets, queued, deferred, at_work } = job.totals();
    let is_moving = matches!(state, "running" | "receiving" | "retries");
    let rate = job.rate(now).filter(|rate| is_moving && *rate > 0.0);
    BulkJobStatus {
        id: job.id.to_string(),
        list: job.list().map(str::to_string),
        state: state.to_string(),
        until,
        recipients: counts.all.into(),
        delivered: counts.delivered.into(),
        failed: counts.failed.into(),
        aside: counts.aside.into(),
        dropped: dropped(&counts).into(),
        lost: counts.lost.into(),
        deferred: deferred.into(),
        at_work: at_work.into(),
        pending: counts.pending.into(),
        queued: queued.into(),
        packets: packets.into(),
        priority: job.priority().into(),
        packet_size: job.packet_size().into(),
        share: job.share().into(),
        per_minute: rate.map(|rate| (rate * 60.0).round()),
        expected_end: rate.map(|rate| seconds(now) + f64::from(counts.pending) / rate),
        full: Vec::new(),
    }
}

/// Recipients that will not get the message, for a reason other than a failure.
fn dropped(counts: &RecipientCounts) -> u32 {
    counts.deleted + counts.rerouted + counts.cancelled + counts.too_late + counts.unknown
}

/// The destinations with most recipients that are not cut.
fn full(job: &JobView<'_>) -> Vec<FullDestination> {
    let mut all = job.rest();
    all.retain(|rest| rest.uncut > 0);
    all.sort_by_key(|rest| std::cmp::Reverse(rest.uncut));
    all.truncate(MAX_FULL_LISTED);
    let row = |rest: RestOfDestination<'_>| FullDestination {
        channel: text(rest.destination.channel()),
        host: text(rest.destination.host()),
        recipients: rest.uncut.into(),
    };
    all.into_iter().map(row).collect()
}
