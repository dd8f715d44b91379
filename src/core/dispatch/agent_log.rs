//! Log lines about agents. They name the process, its destination, and the clause.
//!
//! What an agent writes outside or against the protocol goes to the log. The number of lines is
//! limited, so that one agent cannot fill the disk.

use crate::context::Context;
use crate::dispatch::{Agent, AgentId, Dispatch};
use crate::query::view::View;
use crate::queue::Queue;
use log::Level;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_format::log_limiter::LogLimiter;
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

/// Words of lines that name an error, in lower case.
const ERROR_WORDS: [&str; 16] = [
    "error",
    "fail",
    "cannot",
    "can't",
    "could not",
    "unable",
    "no such",
    "not found",
    "denied",
    "refused",
    "invalid",
    "missing",
    "fatal",
    "panic",
    "exception",
    "abort",
];

/// What is kept of the lines of an agent that are no part of the protocol.
///
/// The reason of its end is usually the first line that names an error; hints may follow, and
/// other output may come before.
#[derive(Default, Serialize, Deserialize)]
pub struct StrayLines {
    /// The first line that names an error, else the first line.
    cause: Box<str>,
    /// The last line.
    last: Box<str>,
}

impl StrayLines {
    fn add(&mut self, line: &str) {
        if self.cause.is_empty() || (!names_error(&self.cause) && names_error(line)) {
            self.cause = line.into();
        }
        self.last = line.into();
    }

    /// What the agent said, in parentheses; empty if that is nothing.
    pub fn in_parentheses(&self) -> String {
        match (&*self.cause, &*self.last) {
            ("", _) => String::new(),
            (cause, last) if cause == last => format!(" (it said: {cause})"),
            (cause, last) => format!(" (it said: {cause}; and at last: {last})"),
        }
    }
}

fn names_error(line: &str) -> bool {
    let line = line.to_lowercase();
    ERROR_WORDS.iter().any(|word| line.contains(word))
}

impl Dispatch {
    pub(crate) fn name_of_agent(&self, queue: &Queue, agent: &Agent) -> String {
        let process = agent.pid.map_or("an agent".to_string(), |pid| format!("agent {pid}"));
        let Some(thread) = agent.thread else {
            return format!("{process} of {}", self.ring_name(queue, agent.ring));
        };
        let destination = &queue.thread(thread).destination;
        let location = &queue.ring(agent.ring).clause.location;
        format!("{process} of {destination} ({location})")
    }

    /// Logs what an agent does, up to the limit. `text` begins with a verb.
    pub(crate) fn log_about_agent(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        level: Level,
        text: String,
    ) {
        if let Some(suppressed) = self.agents[agent].log_limiter.permit(cx.now) {
            let name = self.name_of_agent(queue, &self.agents[agent]);
            cx.log(level, format!("{name} {text}{suppressed}"));
        }
    }

    /// Logs a line that is no part of the protocol.
    ///
    /// It is an agent's comment, or output of its child processes. `missing` names what a valid
    /// report would have.
    pub(crate) fn log_stray_line(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        missing: Option<&str>,
        line: &[u8],
    ) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let shown = String::from_utf8_lossy(&line[..line.len().min(MAX_STRAY_LINE_LEN)]);
        self.agents[agent].stray_lines.add(&shown);
        let text = match missing {
            None => format!("says: {shown}"),
            Some(missing) => format!("writes a line that is no report ({missing}): {shown}"),
        };
        self.log_about_agent(queue, cx, agent, Level::Info, text);
    }

    /// Logs that an agent wrote a line that was `bytes` too long.
    pub(crate) fn long_line_skipped(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        bytes: usize,
    ) {
        if self.agents.get(agent).is_some() {
            let text = format!("wrote a line too long by {bytes} bytes, passed over");
            self.log_about_agent(queue, cx, agent, Level::Warn, text);
        }
    }
}

impl<'s> View<'s> {
    /// Name of an agent in the log: its process, destination and clause.
    ///
    /// One without a destination is named by the pattern of its ring.
    pub fn agent_name(self, id: AgentId) -> String {
        let agent = self.core.dispatch.agents.get(id);
        agent.map_or_else(
            || "an agent".to_string(),
            |agent| self.core.dispatch.name_of_agent(&self.core.queue, agent),
        )
    }
}
