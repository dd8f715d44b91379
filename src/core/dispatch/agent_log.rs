//! Limited log lines about agents.
//!
//! What an agent writes outside or against the protocol goes to the log. The number of lines is
//! limited, so that one agent cannot fill the disk.

use crate::Scheduler;
use crate::dispatch::AgentId;
use crate::log_limiter::LogLimiter;
use log::Level;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Maximum number of log lines about an agent in each [`LOG_PERIOD`].
const MAX_LINES_PER_PERIOD: u32 = 100;
/// Period of the limit on log lines about an agent.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Maximum length of a stray line that is kept, in bytes.
const MAX_STRAY_LINE_LEN: usize = 200;

/// Returns the limiter of the log lines about an agent.
pub fn limiter() -> LogLimiter<Timestamp> {
    LogLimiter::new(MAX_LINES_PER_PERIOD, LOG_PERIOD)
}

impl Scheduler {
    /// Logs a line about an agent, up to the limit.
    pub(crate) fn log_about_agent(&mut self, agent: AgentId, level: Level, text: String) {
        let agent = &mut self.dispatch.agents[agent];
        if let Some(suppressed) = agent.log_limiter.permit(self.now) {
            self.log(level, format!("{text}{suppressed}"));
        }
    }

    /// Logs a line that is no part of the protocol.
    ///
    /// It is an agent's comment, or output of its child processes. `missing` names what a valid
    /// report would have.
    pub(crate) fn log_stray_line(&mut self, agent: AgentId, missing: Option<&str>, line: &[u8]) {
        let agent_ref = &mut self.dispatch.agents[agent];
        let shown =
            String::from_utf8_lossy(&line[..line.len().min(MAX_STRAY_LINE_LEN)]).into_owned();
        let pid = agent_ref.pid.unwrap_or_default();
        if !line.is_empty() {
            agent_ref.last_line = shown.as_bytes().into();
        }
        let text = match missing {
            None => format!("agent {pid} says: {shown}"),
            Some(missing) => format!("agent {pid} says what is no report ({missing}): {shown}"),
        };
        self.log_about_agent(agent, Level::Info, text);
    }

    /// Logs that an agent wrote a line that was `bytes` too long.
    pub(crate) fn long_line_skipped(&mut self, agent: AgentId, bytes: usize) {
        let Some(agent_ref) = self.dispatch.agents.get(agent) else {
            return;
        };
        let pid = agent_ref.pid.unwrap_or_default();
        let text = format!("agent {pid} wrote a line too long by {bytes} bytes, passed over");
        self.log_about_agent(agent, Level::Warn, text);
    }
}
