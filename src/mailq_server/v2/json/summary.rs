//! `SHOW JSON SUMMARY`: the queue in numbers.

use super::{ago, seconds, single_object};
use crate::v2::task::{ReplyResult, SessionContext};
use zsched_mailq_protocol::schema::Summary;

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let waiting = context.backlog.waiting();
    let (scheduler, totals) = (context.scheduler, context.scheduler.totals());
    let counters = &totals.counters;
    Ok(single_object(&Summary {
        time: seconds(context.now),
        started: seconds(context.process.started),
        version: Some(env!("CARGO_PKG_VERSION").to_string()),
        pid: Some(context.process.pid),
        messages: totals.messages as u64,
        recipients: totals.recipients,
        threads: totals.threads as u64,
        held_threads: totals.held_threads as u64,
        held_messages: scheduler.overrides().messages.len() as u64,
        waiting: waiting.waiting_files as u64,
        resting: waiting.paged_out as u64,
        resting_recipients: scheduler.paged_recipients(),
        agents: totals.agents as u64,
        idle: totals.idle as u64,
        oldest: totals.oldest.map(|oldest| ago(context.now, oldest)),
        messages_in: counters.messages_in,
        messages_out: counters.messages_out,
        recipients_in: counters.recipients_in,
        recipients_out: counters.recipients_out,
        agents_started: counters.agents_started,
        loading: context.process.is_loading,
        draining: scheduler.is_draining(),
        frozen: scheduler.settings().frozen,
    }))
}
