//! `SHOW JSON SUMMARY`: the queue in numbers.

use super::warnings::Warnings;
use super::{ago, line, seconds};
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use std::time::Duration;
use zsched_core::thread_survey::ThreadSurvey;
use zsched_mailq_protocol::schema::{RecentCounts, Summary};

/// Maximum number of rings examined per step.
const MAX_RINGS_PER_STEP: usize = 1000;
/// Maximum number of threads examined per turn.
const MAX_THREADS_PER_STEP: usize = 20_000;
/// Spans of recent counts, in minutes, as those of a load average.
const RECENT_MINUTES: [u64; 3] = [1, 5, 15];

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let mut rings = context.scheduler.view().ring_ids().into_iter();
    let mut survey = ThreadSurvey::new(None, usize::MAX, None);
    let mut warnings = Warnings::default();
    let (mut undelivered, mut undelivered_threads) = (0, 0);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        for ring in rings.by_ref().take(MAX_RINGS_PER_STEP) {
            warnings.add(context.scheduler, ring);
        }
        if rings.len() > 0 {
            return Step::More;
        }
        if let Some(threads) = survey.advance(context.scheduler, MAX_THREADS_PER_STEP) {
            let threads = threads.into_iter().filter_map(|id| context.scheduler.view().thread(id));
            for thread in threads {
                warnings.add_thread(context.scheduler, thread);
                let recipients = u64::from(context.scheduler.view().undelivered_of(thread));
                undelivered += recipients;
                undelivered_threads += u64::from(recipients > 0);
            }
            return Step::Pause;
        }
        let warnings = std::mem::take(&mut warnings).with_process(context);
        let summary = summary(context);
        line(out, &Summary { undelivered, undelivered_threads, warnings, ..summary });
        Step::Done
    }))
}

fn summary(context: &SessionContext<'_>) -> Summary {
    let waiting = context.backlog.waiting();
    let (scheduler, totals) = (context.scheduler, context.scheduler.view().totals());
    let counters = &totals.counters;
    Summary {
        time: seconds(context.now),
        started: seconds(context.process.started),
        version: Some(env!("CARGO_PKG_VERSION").to_string()),
        pid: Some(context.process.pid),
        messages: totals.messages as u64,
        recipients: totals.recipients,
        threads: totals.threads as u64,
        held_threads: totals.held_threads as u64,
        held_messages: scheduler.view().overrides().messages.len() as u64,
        holds: scheduler.view().overrides().holds.len() as u64,
        undelivered: 0,
        undelivered_threads: 0,
        waiting: waiting.waiting_files as u64,
        resting: waiting.paged_out as u64,
        resting_recipients: scheduler.view().paged_recipients(),
        reports: scheduler.view().unsent_reports() as u64,
        agents: totals.agents as u64,
        idle: totals.idle as u64,
        oldest: totals.oldest.map(|oldest| ago(context.now, oldest)),
        messages_in: counters.messages_in,
        messages_out: counters.messages_out,
        recipients_in: counters.recipients_in,
        recipients_out: counters.recipients_out,
        agents_started: counters.agents_started,
        loading: context.process.is_loading,
        draining: scheduler.view().is_draining(),
        frozen: scheduler.view().settings().frozen,
        recent: RECENT_MINUTES.map(|minutes| recent(context, minutes)).to_vec(),
        log_level: context.process.set_log_level.map(|level| level.as_str().to_ascii_lowercase()),
        warnings: Vec::new(),
    }
}

fn recent(context: &SessionContext<'_>, minutes: u64) -> RecentCounts {
    let span = Duration::from_secs(60 * minutes);
    let (time, counted) = context.scheduler.counted_in_last(context.now, span);
    RecentCounts {
        minutes,
        seconds: time.as_secs_f64(),
        messages_in: counted.messages_in,
        messages_out: counted.messages_out,
        recipients_in: counted.recipients_in,
        recipients_out: counted.recipients_out,
    }
}
