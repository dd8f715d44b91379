//! `SHOW JSON AGENTS`: one object per agent.

use super::{MAX_OBJECTS_PER_STEP, ago, line, pair, seconds, text};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use serde::Serialize;
use zsched_core::AgentId;
use zsched_core::survey::AgentRow;
use zsched_format::time::Timestamp;

/// An agent.
#[derive(Serialize)]
pub struct AgentJson {
    /// Process id; 0 if it has none yet.
    pid: u32,
    channel: String,
    /// Pattern of the clause that it serves.
    ring: String,
    /// Its current destination, `channel/host`.
    thread: Option<String>,
    /// `LARVA`, `STUFF`, `IDLE`, `FINISH` or `ERROR`, as in ZMailer's reports.
    state: &'static str,
    /// Jobs that it has not completed.
    jobs: usize,
    /// When it was started.
    born: f64,
    /// Seconds since it last asked for work, or was started.
    hungry: i64,
    /// Seconds since it was last given a job.
    fed: Option<i64>,
}

impl AgentJson {
    fn new(row: &AgentRow<'_>, now: Timestamp) -> AgentJson {
        AgentJson {
            pid: row.pid,
            channel: text(row.channel),
            ring: pair(row.ring.0, row.ring.1),
            thread: row.thread.map(ToString::to_string),
            state: row.state,
            jobs: row.jobs,
            born: seconds(row.born),
            hungry: ago(now, row.hungry),
            fed: row.fed.map(|fed| ago(now, fed)),
        }
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
            line(out, &AgentJson::new(&row, context.now));
            self.last = Some(id);
        }
        if self.last == before { Step::Over } else { Step::More }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
