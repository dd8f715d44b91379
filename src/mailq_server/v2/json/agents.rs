//! `SHOW JSON AGENTS`: one object per agent.

use super::{MAX_OBJECTS_PER_STEP, ago, line, pair, seconds, text};
use crate::classic::state_word;
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use zsched_core::thread_survey::AgentRow;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::AgentStatus;

fn status(row: &AgentRow<'_>, now: Timestamp) -> AgentStatus {
    AgentStatus {
        pid: row.pid,
        channel: Some(text(row.channel)),
        ring: Some(pair(row.ring.0, row.ring.1)),
        thread: row.thread.map(ToString::to_string),
        state: state_word(row.state).to_string(),
        jobs: row.jobs as u64,
        born: Some(seconds(row.born)),
        hungry: Some(ago(now, row.hungry)),
        fed: row.fed.map(|fed| ago(now, fed)),
    }
}

/// Answers the request.
pub(crate) fn answer() -> ReplyResult {
    let mut last = None;
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let before = last;
        for (id, row) in context.scheduler.agents_after(before).take(MAX_OBJECTS_PER_STEP) {
            line(out, &status(&row, context.now));
            last = Some(id);
        }
        if last == before { Step::Done } else { Step::More }
    }))
}
