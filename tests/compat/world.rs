//! The scheduler's core alone: it gets events, and its actions are recorded.

use crate::support::{START, config};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::{
    Action, AgentEnd, AgentId, Effect, Event, Note, OrderTicket, Scheduler, Settings, Statistics,
    StopMode,
};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;

pub struct World {
    pub core: Scheduler,
    config: Rc<Config>,
    pub now: Timestamp,
    /// Agents cannot be started at present, so arriving mail waits.
    pub cannot_assign_agents: bool,
    /// The running agents, and the input of each since the last look.
    pub agents: BTreeMap<AgentId, AgentInput>,
    /// Control files that the core wants to read again.
    pub to_read_again: Vec<SpoolName>,
    /// Notes that the core has requested. To the core they are written.
    pub notes: Vec<Note>,
    /// Messages that the core has removed, and true if to `postman/`. To the core they are gone.
    pub removed: Vec<(SpoolName, bool)>,
    pub statistics: Vec<Statistics>,
    /// Answers to orders.
    pub obeyed: Vec<(OrderTicket, Effect)>,
}

/// Clause and input of an agent.
#[derive(Debug)]
pub struct AgentInput {
    pub channel: String,
    pub text: String,
}

/// The pid of the first agent; the next one has the next number.
const FIRST_PID: u32 = 5000;

impl World {
    pub fn new(configuration: &str) -> World {
        World::with(Settings::default(), configuration)
    }

    /// Creates a world with these settings, without a limit on starts of agents.
    pub fn with(settings: Settings, configuration: &str) -> World {
        let settings = Settings { fork_rate: u32::MAX, ..settings };
        let config = Rc::new(config(configuration));
        World {
            core: Scheduler::new(settings, config.clone()),
            config,
            now: START,
            cannot_assign_agents: false,
            agents: BTreeMap::new(),
            to_read_again: Vec::new(),
            notes: Vec::new(),
            removed: Vec::new(),
            statistics: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// Sends an event to the core, and carries out its actions.
    pub fn send_event(&mut self, event: Event<'_>) {
        self.core.handle(self.now, event);
        self.core.check_invariants();
        while let Some(action) = self.core.poll() {
            self.perform(action);
        }
        self.core.check_invariants();
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartAgent { agent, .. } if self.cannot_assign_agents => {
                let end = AgentEnd::NotStarted("not yet".to_string());
                self.send_event(Event::AgentEnded { agent, end });
                // A new configuration ends the suspension of the ring: agents can be started later.
                self.send_event(Event::Configured(self.config.clone()));
            }
            Action::StartAgent { agent, channel, .. } => {
                let channel = String::from_utf8(channel.to_vec()).expect("channels are text");
                self.agents.insert(agent, AgentInput { channel, text: String::new() });
                let pid = FIRST_PID + agent.0 as u32;
                self.send_event(Event::AgentStarted { agent, pid });
            }
            Action::Feed { agent, job } => {
                self.write_to_agent(
                    agent,
                    std::str::from_utf8(&job).expect("recorded jobs are text"),
                );
            }
            Action::SendIdle(agent) => self.write_to_agent(agent, "#idle\n"),
            // Tests with the real programs check the lines that the shell writes.
            Action::StopAgent { agent, manner } => self.write_to_agent(
                agent,
                match manner {
                    StopMode::Retire => "\n",
                    StopMode::Quit => "\n\n",
                    StopMode::Kill => "(killed)",
                },
            ),
            Action::ReadAgain(name) => self.to_read_again.push(name),
            Action::Note(note) => {
                let ticket = note.ticket;
                self.notes.push(note);
                self.send_event(Event::Noted { ticket, outcome: Ok(true) });
            }
            Action::Remove { name, aside } => {
                let number = name.number();
                self.removed.push((name, aside));
                self.send_event(Event::Removed { number, outcome: Ok(()) });
            }
            // Memory is not limited.
            Action::PageOut { .. } | Action::ReadMore { .. } | Action::RequestPagedHosts(_) => {}
            Action::Statistics(statistics) => self.statistics.push(statistics),
            Action::StoreOverrides { ticket, .. } => {
                self.send_event(Event::OverridesStored { ticket, outcome: Ok(()) });
            }
            Action::OrderDone { ticket, effect } => self.obeyed.push((ticket, effect)),
            Action::ClearLocks { .. } | Action::Status(_) | Action::Log(..) => {}
        }
    }

    fn write_to_agent(&mut self, agent: AgentId, text: &str) {
        self.agents.get_mut(&agent).expect("only those that run are told").text.push_str(text);
    }

    /// Returns the input of an agent since the last call.
    pub fn take_input(&mut self, agent: AgentId) -> String {
        self.agents.get_mut(&agent).map(|told| std::mem::take(&mut told.text)).unwrap_or_default()
    }

    pub fn agent_writes(&mut self, agent: AgentId, line: &[u8]) {
        self.send_event(Event::AgentSaid { agent, line });
    }

    pub fn ends(&mut self, agent: AgentId, end: AgentEnd) {
        self.agents.remove(&agent);
        self.send_event(Event::AgentEnded { agent, end });
    }

    /// Passes time up to a point, and wakes the core at its wake-ups.
    pub fn pass(&mut self, since_start: Duration) {
        let until = START + since_start;
        while let Some(wakeup) = self.core.next_wakeup().filter(|wakeup| *wakeup <= until) {
            self.now = self.now.max(wakeup);
            self.send_event(Event::Tick);
        }
        self.now = self.now.max(until);
    }
}
