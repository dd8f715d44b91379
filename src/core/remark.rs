//! What an agent says beside the protocol, or against it, goes to the log; but an agent that does
//! nothing else must not fill the disk.

use super::Scheduler;
use super::agent::AgentId;
use log::Level;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_format::time::Timestamp;

/// How many remarks about one agent are logged in each [`PERIOD`].
const REMARKS_LOGGED: u32 = 100;
/// How long an agent that was cut off has to wait until it is heard again.
const PERIOD: Duration = Duration::from_secs(60);
/// How much of a stray line is kept, in bytes.
const LAST_WORDS: usize = 200;

/// Counts the remarks about one agent.
#[derive(Serialize, Deserialize)]
pub struct Remarks {
    period_began: Timestamp,
    count: u32,
}

impl Remarks {
    /// None yet.
    pub fn new(now: Timestamp) -> Remarks {
        Remarks { period_began: now, count: 0 }
    }

    /// Begins a new period, if it is time to. Returns how many remarks of the last one were left out.
    fn begin_period(&mut self, now: Timestamp) -> u32 {
        if now.since(self.period_began) < PERIOD {
            return 0;
        }
        std::mem::replace(self, Remarks::new(now)).left_out()
    }

    /// How many remarks of this period were left out.
    pub fn left_out(&self) -> u32 {
        self.count.saturating_sub(REMARKS_LOGGED)
    }
}

impl Scheduler {
    /// Logs a remark about what an agent did, unless there were too many of late.
    pub(super) fn remark(&mut self, now: Timestamp, agent: AgentId, level: Level, text: String) {
        let agent = self.agents.get_mut(&agent).expect("remarks are made about living agents");
        let pid = agent.pid.unwrap_or_default();
        let left_out = agent.remarks.begin_period(now);
        agent.remarks.count = agent.remarks.count.saturating_add(1);
        let count = agent.remarks.count;
        if left_out > 0 {
            self.log_left_out(pid, left_out);
        }
        if count <= REMARKS_LOGGED {
            self.log(level, text);
        }
        if count == REMARKS_LOGGED {
            let minutes = PERIOD.as_secs() / 60;
            let text = format!("agent {pid}: no more remarks about it for {minutes} min");
            self.log(Level::Warn, text);
        }
    }

    /// Tells how many remarks the log does not have.
    pub(super) fn log_left_out(&mut self, pid: u32, count: u32) {
        self.log(Level::Warn, format!("agent {pid}: {count} remarks about it were left out"));
    }

    /// A line that is no part of the protocol: an agent's comment, or anything its children print.
    /// `missing` is what a report would have in it.
    pub(super) fn stray_line(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        missing: Option<&str>,
        line: &[u8],
    ) {
        let agent_ref = self.agents.get_mut(&agent).expect("agent_said has found it");
        let shown = String::from_utf8_lossy(&line[..line.len().min(LAST_WORDS)]).into_owned();
        let pid = agent_ref.pid.unwrap_or_default();
        if !line.is_empty() {
            agent_ref.last_words = shown.as_bytes().into();
        }
        let text = match missing {
            None => format!("agent {pid} says: {shown}"),
            Some(missing) => format!("agent {pid} says what is no report ({missing}): {shown}"),
        };
        self.remark(now, agent, Level::Info, text);
    }

    /// An agent wrote a line of which so many bytes were too much.
    pub(super) fn line_passed_over(&mut self, now: Timestamp, agent: AgentId, bytes: usize) {
        let Some(agent_ref) = self.agents.get(&agent) else {
            return;
        };
        let pid = agent_ref.pid.unwrap_or_default();
        let text = format!("agent {pid} wrote a line too long by {bytes} bytes, passed over");
        self.remark(now, agent, Level::Warn, text);
    }
}
