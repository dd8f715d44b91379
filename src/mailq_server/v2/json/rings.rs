//! `SHOW JSON RINGS`: one object per ring.

use super::{MAX_THREADS_PER_TURN, line, pair, text};
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::thread_survey::RingRow;
use zsched_core::view::RingId;
use zsched_mailq_protocol::schema::RingStatus;

/// Maximum number of threads counted per step.
const MAX_THREADS_PER_STEP: usize = 1000;

fn status(row: &RingRow<'_>, messages: usize) -> RingStatus {
    let clause = row.clause;
    RingStatus {
        pattern: pair(&clause.channel_pattern, &clause.host_pattern),
        channel: Some(text(row.channel)),
        host: row.host.map(text),
        line: Some(clause.location.to_string()),
        threads: row.threads as u64,
        messages: messages as u64,
        agents: row.agents as u64,
        idle: row.idle as u64,
        maxring: Some(row.max_ring as u64),
        maxthr: Some(u64::from(clause.max_thread)),
        overfeed: Some(u64::from(clause.overfeed)),
        command: clause.command.as_ref().map(ToString::to_string),
    }
}

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let mut rings = context.scheduler.ring_ids().into_iter();
    let mut current: Option<CountedRing> = None;
    let mut counted_in_turn = 0;
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let Some(CountedRing { ring, threads, messages }) = &mut current else {
            let next = rings.next();
            current = next.map(|ring| CountedRing { ring, threads: 0, messages: 0 });
            return if current.is_none() { Step::Done } else { Step::More };
        };
        let scheduler = context.scheduler;
        match scheduler.vertices_in_ring(*ring, *threads, MAX_THREADS_PER_STEP) {
            Some((more_threads, more_messages)) => {
                *threads += more_threads;
                *messages += more_messages;
                counted_in_turn += more_threads;
            }
            None => {
                if let Some(row) = scheduler.ring_row(*ring) {
                    line(out, &status(&row, *messages));
                }
                current = None;
            }
        }
        if counted_in_turn < MAX_THREADS_PER_TURN {
            return Step::More;
        }
        counted_in_turn = 0;
        Step::Pause
    }))
}

/// A ring whose messages are being counted.
struct CountedRing {
    ring: RingId,
    threads: usize,
    messages: usize,
}
