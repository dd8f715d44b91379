//! `SHOW JSON SUMMARY`: the queue in numbers.

use super::{SingleObject, ago, seconds};
use crate::v2::answer::{Reply, SessionContext};
use serde::Serialize;

/// The queue in numbers.
#[derive(Serialize)]
pub struct Summary {
    /// Time of the summary.
    time: f64,
    /// When the scheduler was started.
    started: f64,
    version: &'static str,
    /// The scheduler's process.
    pid: u32,
    messages: usize,
    /// Recipients that are not finished.
    recipients: u64,
    threads: usize,
    held_threads: usize,
    /// Messages held one by one.
    held_messages: usize,
    /// Control files that are to be read when there is room in memory.
    waiting: usize,
    /// Messages paged out until their next try.
    resting: usize,
    /// Recipients of paged-out messages.
    resting_recipients: u64,
    /// All agents, including idle ones.
    agents: usize,
    idle: usize,
    /// Age of the oldest message in seconds; `null` if there is none.
    oldest: Option<i64>,
    /// Totals since the start: control files taken in.
    messages_in: u64,
    messages_out: u64,
    recipients_in: u64,
    recipients_out: u64,
    agents_started: u64,
    /// Mail that was in the spool at the start is still being loaded.
    loading: bool,
    /// The scheduler ends as soon as its agents have ended.
    draining: bool,
    /// No agents are started (`-F`).
    frozen: bool,
}

/// Answers the request.
pub fn answer(_rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let waiting = context.backlog.waiting();
    let summary = context.scheduler.summary();
    let (totals, counters) = (&summary.totals, &summary.totals.counters);
    SingleObject::reply(Summary {
        time: seconds(context.now),
        started: seconds(context.process.started),
        version: env!("CARGO_PKG_VERSION"),
        pid: context.process.pid,
        messages: totals.messages,
        recipients: totals.recipients,
        threads: totals.threads,
        held_threads: summary.held_threads,
        held_messages: summary.held_messages,
        waiting: waiting.waiting_files,
        resting: waiting.resting,
        resting_recipients: context.scheduler.resting_recipients(),
        agents: totals.agents,
        idle: totals.idle,
        oldest: summary.oldest.map(|oldest| ago(context.now, oldest)),
        messages_in: counters.messages_in,
        messages_out: counters.messages_out,
        recipients_in: counters.recipients_in,
        recipients_out: counters.recipients_out,
        agents_started: counters.agents_started,
        loading: context.process.is_loading,
        draining: summary.is_draining,
        frozen: summary.is_frozen,
    })
}
