//! `SHOW JSON RINGS` and `SHOW JSON AGENTS`: one object per ring or agent.

use super::{ago, line, seconds, text};
use crate::classic::state_word;
use crate::v2::rows::objects;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::view::{AgentRow, Ring, RingId, View};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::{AgentStatus, RingStatus};

/// Maximum number of threads counted per turn.
const MAX_THREADS_PER_TURN: usize = 10_000;
/// Maximum number of threads counted per step.
const MAX_THREADS_PER_STEP: usize = 1000;

fn ring_status(view: View<'_>, id: RingId, ring: &Ring, messages: usize) -> RingStatus {
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

/// Answers `SHOW JSON RINGS`.
pub(crate) fn rings(context: &SessionContext<'_>) -> ReplyResult {
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
            line(out, &ring_status(view, *id, ring, *messages));
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

fn agent_status(row: &AgentRow<'_>, now: Timestamp) -> AgentStatus {
    let AgentRow { agent, ring, destination } = row;
    AgentStatus {
        pid: agent.pid.unwrap_or_default(),
        channel: Some(text(&ring.channel)),
        ring: Some(ring.pattern()),
        thread: destination.map(ToString::to_string),
        state: state_word(agent.state()).to_string(),
        jobs: agent.jobs().count() as u64,
        born: Some(seconds(agent.started_at)),
        hungry: Some(ago(now, agent.hungry_at)),
        silent: agent.jobs().next().map(|_| ago(now, agent.progress_at)),
        fed: agent.fed_at.map(|fed| ago(now, fed)),
    }
}

/// Answers `SHOW JSON AGENTS`.
pub(crate) fn agents(context: &SessionContext<'_>) -> ReplyResult {
    let agents = context.scheduler.view().agents_after(None).map(|(id, _)| id);
    Ok(objects(agents, |context, id| {
        Some(agent_status(&context.scheduler.view().agent(id)?, context.now))
    }))
}
