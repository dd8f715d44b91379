//! `SHOW JSON AGENTS`: one object per agent.

use super::{ago, seconds, text};
use crate::classic::state_word;
use crate::v2::rows::objects;
use crate::v2::task::{ReplyResult, SessionContext};
use zsched_core::view::AgentRow;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::AgentStatus;

fn status(row: &AgentRow<'_>, now: Timestamp) -> AgentStatus {
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

/// Answers the request.
pub(crate) fn answer(context: &SessionContext<'_>) -> ReplyResult {
    let agents = context.scheduler.view().agents_after(None).map(|(id, _)| id);
    Ok(objects(agents, |context, id| {
        Some(status(&context.scheduler.view().agent(id)?, context.now))
    }))
}
