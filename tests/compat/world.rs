//! The scheduler's core with nothing around it: events go in, and what it wants done is kept.

use crate::support::{START, config};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::{
    Action, AgentEnd, AgentId, Effect, Event, Manner, Note, OrderTicket, Scheduler, Settings,
    Statistics,
};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;

pub struct World {
    pub core: Scheduler,
    config: Rc<Config>,
    pub now: Timestamp,
    /// Agents cannot be started for now, so that what arrives waits.
    pub is_barren: bool,
    /// The agents that run, and what each was told since anybody looked.
    pub agents: BTreeMap<AgentId, Told>,
    /// Control files that are to be read again.
    pub to_read_again: Vec<SpoolName>,
    /// What was to be noted in control files. It has been, as far as the core knows.
    pub notes: Vec<Note>,
    /// Messages that were to be taken out of the spool, and whether to `postman/`. They are gone.
    pub removed: Vec<(SpoolName, bool)>,
    pub statistics: Vec<Statistics>,
    /// Orders that were obeyed.
    pub obeyed: Vec<(OrderTicket, Effect)>,
}

/// What an agent was started for, and what it was told.
#[derive(Debug)]
pub struct Told {
    pub channel: String,
    pub text: String,
}

/// The pid of the first agent; the next one has the next number.
const FIRST_PID: u32 = 5000;

impl World {
    pub fn new(configuration: &str) -> World {
        World::with(Settings::default(), configuration)
    }

    /// A world under some settings; any number of agents may be started at once.
    pub fn with(settings: Settings, configuration: &str) -> World {
        let settings = Settings { fork_rate: u32::MAX, ..settings };
        let config = Rc::new(config(configuration));
        World {
            core: Scheduler::new(settings, config.clone()),
            config,
            now: START,
            is_barren: false,
            agents: BTreeMap::new(),
            to_read_again: Vec::new(),
            notes: Vec::new(),
            removed: Vec::new(),
            statistics: Vec::new(),
            obeyed: Vec::new(),
        }
    }

    /// Tells the core something, and does what it wants done.
    pub fn tell(&mut self, event: Event<'_>) {
        self.core.handle(self.now, event);
        self.core.check_invariants();
        while let Some(action) = self.core.poll() {
            self.perform(action);
        }
        self.core.check_invariants();
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartAgent { agent, .. } if self.is_barren => {
                let end = AgentEnd::NotStarted("not yet".to_string());
                self.tell(Event::AgentEnded { agent, end });
                // A new configuration ends the suspension of the ring: agents can be started later.
                self.tell(Event::Configured(self.config.clone()));
            }
            Action::StartAgent { agent, channel, .. } => {
                let channel = String::from_utf8(channel.to_vec()).expect("channels are text");
                self.agents.insert(agent, Told { channel, text: String::new() });
                let pid = FIRST_PID + agent.0 as u32;
                self.tell(Event::AgentStarted { agent, pid });
            }
            Action::Feed { agent, job } => {
                self.say(agent, std::str::from_utf8(&job).expect("recorded jobs are text"));
            }
            Action::SayIdle(agent) => self.say(agent, "#idle\n"),
            // That the shell says so is tested with the real programs.
            Action::StopAgent { agent, manner } => self.say(
                agent,
                match manner {
                    Manner::Retire => "\n",
                    Manner::Quit => "\n\n",
                    Manner::Kill => "(killed)",
                },
            ),
            Action::ReadAgain(name) => self.to_read_again.push(name),
            Action::Note(note) => {
                let ticket = note.ticket;
                self.notes.push(note);
                self.tell(Event::Noted { ticket, outcome: Ok(true) });
            }
            Action::Remove { name, aside } => {
                let number = name.number();
                self.removed.push((name, aside));
                self.tell(Event::Removed { number, outcome: Ok(()) });
            }
            // There is room for everything.
            Action::Rest { .. } | Action::ReadMore { .. } | Action::Awaken(_) => {}
            Action::Statistics(statistics) => self.statistics.push(statistics),
            Action::KeepStanding { ticket, .. } => {
                self.tell(Event::StandingKept { ticket, outcome: Ok(()) });
            }
            Action::Obeyed { ticket, effect } => self.obeyed.push((ticket, effect)),
            Action::ClearLocks { .. } | Action::Status(_) | Action::Log(..) => {}
        }
    }

    fn say(&mut self, agent: AgentId, text: &str) {
        self.agents.get_mut(&agent).expect("only those that run are told").text.push_str(text);
    }

    /// What an agent was told since this was asked last.
    pub fn told(&mut self, agent: AgentId) -> String {
        self.agents.get_mut(&agent).map(|told| std::mem::take(&mut told.text)).unwrap_or_default()
    }

    pub fn says(&mut self, agent: AgentId, line: &[u8]) {
        self.tell(Event::AgentSaid { agent, line });
    }

    pub fn ends(&mut self, agent: AgentId, end: AgentEnd) {
        self.agents.remove(&agent);
        self.tell(Event::AgentEnded { agent, end });
    }

    /// Lets time pass up to a point, waking the core whenever it wants to.
    pub fn pass(&mut self, since_start: Duration) {
        let until = START + since_start;
        while let Some(wakeup) = self.core.next_wakeup().filter(|wakeup| *wakeup <= until) {
            self.now = self.now.max(wakeup);
            self.tell(Event::Tick);
        }
        self.now = self.now.max(until);
    }
}
