//! The lines that agents write, and the ends of their jobs.

use crate::Scheduler;
use crate::context::Context;
use crate::dispatch::{AgentId, Owed};
use crate::queue::attempt_records::present_attempt;
use crate::queue::{Queue, VertexId, VertexState};
use log::Level;
use zsched_format::agent_protocol::AgentLine;

impl Scheduler {
    pub(crate) fn agent_said(&mut self, agent: AgentId, line: &[u8]) {
        if self.dispatch.agents().get(agent).is_none() {
            return;
        }
        match AgentLine::parse(line) {
            AgentLine::Hungry => self.agent_is_hungry(agent),
            AgentLine::Resync(path) => self.agent_found_nothing(agent, path),
            AgentLine::Report(report) => self.agent_reported(agent, &report),
            AgentLine::Comment(text) => {
                self.dispatch.log_stray_line(&self.queue, &mut self.cx, agent, None, text)
            }
            AgentLine::Malformed(missing, text) => {
                self.dispatch.log_stray_line(&self.queue, &mut self.cx, agent, Some(missing), text)
            }
        }
    }

    fn agent_is_hungry(&mut self, agent: AgentId) {
        let Some(answered) = self.dispatch.take_answer(self.cx.now, agent) else {
            let text = "says #hungry once too often".to_string();
            return self.log_about_agent(agent, Level::Warn, text);
        };
        match answered {
            Owed::Start => self.dispatch.agent_proven(&mut self.queue, &mut self.cx, agent),
            Owed::Job(vertex) => self.end_job(agent, vertex),
            Owed::Idle => {}
        }
        self.dispatch.asks_for_work(&mut self.queue, &mut self.cx, agent);
    }

    /// Ends a job: what is not finished waits for its next try.
    fn end_job(&mut self, agent: AgentId, vertex: VertexId) {
        let message = self.queue.vertex(vertex).message;
        self.bulk.packet_tried(&self.queue, self.cx.now, message);
        self.dispatch.update_window(&mut self.queue, &mut self.cx, agent, vertex);
        let found_nothing = self.dispatch.take_found_nothing(agent);
        if !self.queue.release_job(vertex) {
            return;
        }
        let missing = match (found_nothing, self.queue.vertex(vertex).reported) {
            (true, _) => {
                Some("the agent found nothing to do in the control file, which is read again")
            }
            (false, false) => {
                self.queue.count_attempt(vertex);
                Some("the agent ended the job without a word about this recipient")
            }
            (false, true) => None,
        };
        if let Some(text) = missing {
            let agent_ref = &self.dispatch.agents()[agent];
            let text = format!("{text}{}", agent_ref.stray_lines.in_parentheses());
            self.queue.status_unreported(&mut self.cx, present_attempt(agent_ref), vertex, &text);
            self.queue.set_diagnosis(vertex, &text);
        }
        match found_nothing {
            true => {
                let message = self.queue.vertex(vertex).message;
                self.admission.request_reread(&mut self.queue, &mut self.cx, message);
            }
            false => self.queue.record_failed_job(
                &mut self.cx,
                self.dispatch.agents()[agent].pid,
                vertex,
            ),
        }
        self.defer(vertex, Queue::wait_after_try);
    }

    /// Makes a vertex wait that an agent has given back, by `wait`.
    pub(crate) fn defer(&mut self, vertex: VertexId, wait: fn(&mut Queue, &mut Context, VertexId)) {
        match self.queue.message(self.queue.vertex(vertex).message).is_kept() {
            true => self.queue.set_state(self.cx.now, vertex, VertexState::Held),
            false => wait(&mut self.queue, &mut self.cx, vertex),
        }
        self.cx.learned_revision += 1;
        self.apply_after_job(vertex);
    }

    /// Logs what an agent does, up to the limit. `text` begins with a verb.
    pub(crate) fn log_about_agent(&mut self, agent: AgentId, level: Level, text: String) {
        self.dispatch.log_about_agent(&self.queue, &mut self.cx, agent, level, text);
    }
}
