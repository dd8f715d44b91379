//! `SHOW JSON RINGS`: one object per ring.

use super::{line, text};
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::view::{Ring, RingId, View};
use zsched_mailq_protocol::schema::RingStatus;

/// Maximum number of threads counted per turn.
const MAX_THREADS_PER_TURN: usize = 10_000;
/// Maximum number of threads counted per step.
const MAX_THREADS_PER_STEP: usize = 1000;

fn status(view: View<'_>, id: RingId, ring: &Ring, messages: usize) -> RingStatus {
    let (clause, of_ring) = (&ring.clause, view.ring_agents(id));
    RingStatus {
        pattern: ring.pattern(),
        channel: Some(text(&ring.channel)),
        host: ring.host.as_deref().map(text),
        line: Some(clause.location.to_string()),
        lines: clause.combined_lines.clone(),
        threads: ring.threads.len() as u64,
        messages: messages as u64,
        agents: of_ring.count as u64,
        idle: of_ring.idle.len() as u64,
        maxring: Some(view.max_ring_of(ring) as u64),
        maxthr: Some(u64::from(clause.max_thread)),
        overfeed: Some(u64::from(clause.overfeed)),
        command: clause.command.as_ref().map(ToString::to_string),
    }
}

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let mut rings = context.scheduler.view().ring_ids().into_iter();
    let mut current: Option<CountedRing> = None;
    let mut counted_in_turn = 0;
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let Some(CountedRing { ring: id, threads, messages }) = &mut current else {
            let next = rings.next();
            current = next.map(|ring| CountedRing { ring, threads: 0, messages: 0 });
            return if current.is_none() { Step::Done } else { Step::More };
        };
        let view = context.scheduler.view();
        let Some(ring) = view.ring(*id) else {
            current = None;
            return Step::More;
        };
        let left = ring.threads.get(*threads..).unwrap_or_default();
        let next = &left[..left.len().min(MAX_THREADS_PER_STEP)];
        *threads += next.len();
        *messages += view.count_vertices(next);
        counted_in_turn += next.len();
        if next.is_empty() {
            line(out, &status(view, *id, ring, *messages));
            current = None;
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
