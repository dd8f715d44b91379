//! `SHOW JSON AGENTS`: one object per agent.

use super::{MAX_OBJECTS_PER_STEP, ago, line, pair, seconds, text};
use crate::classic::state_word;
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use zsched_core::AgentId;
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
pub fn answer(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    Reply::Text(Box::new(AgentsText { last: None }))
}

struct AgentsText {
    /// The last agent shown.
    last: Option<AgentId>,
}

impl Text for AgentsText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let before = self.last;
        for (id, row) in context.scheduler.agents_after(before).take(MAX_OBJECTS_PER_STEP) {
            line(out, &status(&row, context.now));
            self.last = Some(id);
        }
        if self.last == before { Step::Over } else { Step::More }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
