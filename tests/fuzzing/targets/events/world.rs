//! The world around the core: it sends events, takes the actions, and checks them.

use super::configurations::configuration;
use super::model::{AgentInput, Model, ModelAgent, ModelMessage};
use zsched_config::Clause;
use zsched_core::intake::NumberState;
use zsched_core::{
    Action, AgentEnd, AgentId, Event, Note, Order, RereadResult, Scheduler, Settings, StatusRecord,
    StatusVerdict,
};
use zsched_format::agent_protocol::AgentLine;
use zsched_format::control_file::Tag;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v1::Dump;
use zsched_spool::note::OutcomeKind;
use zsched_spool::report::UnreportedRest;
use zsched_spool::{Arrival, SpoolName};

/// Maximum number of consecutive wake-ups at one time.
const MAX_TURNS: usize = 1000;

/// The core, and the model of the world.
pub struct World {
    pub core: Scheduler,
    pub now: Timestamp,
    pub model: Model,
    /// The core was told to stop, so it starts no agent.
    pub is_draining: bool,
    /// A client has subscribed to results of attempts.
    is_watched: bool,
    /// The core is checked after each event, which costs far more than the event.
    pub checks_each: bool,
    /// How agents start.
    start_behaviour: StartBehaviour,
}

/// How agents start.
#[derive(Clone, Copy)]
enum StartBehaviour {
    /// At once, as in the daemon.
    AtOnce,
    /// Every second agent cannot be started.
    EachOther,
    /// When the script starts them.
    Later,
    /// No agent can be started.
    Never,
}

/// A time in 2026.
pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

impl World {
    pub fn new(settings: Settings, birth: usize) -> World {
        let first = configuration(usize::from(settings.seed as u8));
        World {
            core: Scheduler::new(settings, first),
            now: START,
            model: Model::default(),
            is_draining: false,
            is_watched: false,
            checks_each: true,
            start_behaviour: [
                StartBehaviour::AtOnce,
                StartBehaviour::EachOther,
                StartBehaviour::Later,
                StartBehaviour::Never,
            ][birth],
        }
    }

    /// Sends an event, and carries out the core's actions.
    pub fn send_event(&mut self, event: Event<'_>) {
        self.is_draining |= matches!(event, Event::Drain);
        if let Event::Subscribed(is_watched) = event {
            self.is_watched = is_watched;
        }
        self.core.handle(self.now, event);
        if self.checks_each {
            self.core.check_invariants();
        }
        while let Some(action) = self.core.poll() {
            self.perform(action);
        }
        for (agent, puppet) in &self.model.agents {
            let waits = puppet.pending_input.is_empty() && !puppet.is_ending && !puppet.is_idle;
            assert!(!waits, "{agent:?} is not idle, but has nothing to do");
        }
        let is_idle = |puppet: &&ModelAgent| puppet.is_idle && !puppet.is_ending;
        let idle = self.model.agents.values().filter(is_idle).count();
        assert_eq!(
            self.core.view().totals().idle,
            idle,
            "idle agents, some of whom wait for nothing"
        );
    }

    /// Makes agents start at once from now on.
    pub fn end_trouble(&mut self) {
        self.start_behaviour = StartBehaviour::AtOnce;
    }

    /// Runs `act`, which sends many events, and checks the core once.
    pub fn check_once<T>(&mut self, act: impl FnOnce(&mut World) -> T) -> T {
        let checks_each = std::mem::replace(&mut self.checks_each, false);
        let result = act(self);
        self.checks_each = checks_each;
        self.core.check_invariants();
        result
    }

    /// Sets the time, forward or back.
    pub fn pass_to(&mut self, now: Timestamp) {
        self.now = now;
        // A new configuration is applied in several turns.
        for _ in 0..MAX_TURNS {
            self.send_event(Event::Tick);
            if self.core.next_wakeup().is_none_or(|next| next > now) {
                return;
            }
        }
        panic!("woken up again and again");
    }

    pub fn arrive(&mut self, arrival: Arrival) {
        let number = arrival.name.number();
        if self.core.view().number_state(number) == NumberState::Unknown {
            self.model.messages.insert(number, ModelMessage::new(arrival.clone()));
        }
        self.send_event(Event::Arrived(Box::new(arrival)));
    }

    /// Sends a line of an agent, and applies its effect to the model.
    pub fn agent_writes(&mut self, agent: AgentId, line: &[u8]) {
        match AgentLine::parse(line) {
            AgentLine::Hungry => {
                if let Some(puppet) = self.model.agents.get_mut(&agent) {
                    puppet.is_idle |= puppet.pending_input.pop_front() == Some(AgentInput::Idle);
                }
            }
            AgentLine::Report(report) if self.model.agents.contains_key(&agent) => {
                let is_final = report.status.tag() != Tag::Pending;
                if let Some(message) =
                    self.model.messages.get_mut(&report.number).filter(|_| is_final)
                {
                    message.open.remove(&report.offset);
                }
            }
            _ => {}
        }
        self.send_event(Event::AgentSaid { agent, line });
    }

    pub fn starts(&mut self, agent: AgentId, pid: u32) {
        if let Some(puppet) = self.model.agents.get_mut(&agent) {
            puppet.is_running = true;
        }
        self.send_event(Event::AgentStarted { agent, pid });
    }

    pub fn ends(&mut self, agent: AgentId, end: AgentEnd) {
        self.model.agents.remove(&agent);
        self.send_event(Event::AgentEnded { agent, end });
    }

    pub fn noted(&mut self, ticket: u64, outcome: Result<bool, std::io::ErrorKind>) {
        self.model.notes.retain(|other| *other != ticket);
        self.send_event(Event::Noted { ticket, outcome });
    }

    pub fn reported(&mut self, ticket: u64, outcome: Result<UnreportedRest, std::io::ErrorKind>) {
        self.model.reports.retain(|other| *other != ticket);
        self.send_event(Event::Reported { ticket, outcome });
    }

    pub fn order(&mut self, order: Order) {
        let ticket = self.model.given + 1;
        self.model.given = ticket;
        self.model.orders.insert(ticket);
        self.send_event(Event::Ordered { ticket, by: "root".to_string(), order });
    }

    /// Reports the result of all requests to store overrides.
    pub fn report_stored(&mut self, outcome: Result<(), std::io::ErrorKind>) {
        for ticket in std::mem::take(&mut self.model.unstored_overrides) {
            self.send_event(Event::OverridesStored { ticket, outcome });
        }
    }

    pub fn removed(&mut self, number: u64, outcome: Result<(), std::io::ErrorKind>) {
        self.model.removals.retain(|other| *other != number);
        if outcome.is_ok() && self.core.view().number_state(number) == NumberState::Leaving {
            self.model.forget(number);
        }
        self.send_event(Event::Removed { number, outcome });
    }

    pub fn read_again(&mut self, number: u64, outcome: RereadResult) {
        self.model.rereads.retain(|name| name.number() != number);
        if matches!(outcome, RereadResult::Gone | RereadResult::Malformed(_)) {
            self.model.forget(number);
            self.model.removals.retain(|other| *other != number);
        }
        self.send_event(Event::ReadAgain { number, outcome });
    }

    /// Returns the complete dump of MAILQ.
    pub fn dump(&self) -> Vec<u8> {
        let (mut dump, mut text) = (Dump::new(START, true), Vec::new());
        dump.write(&self.core, self.now, &mut text, usize::MAX);
        assert!(dump.is_over());
        text
    }

    fn perform(&mut self, action: Action) {
        match action {
            // Memory is not limited.
            Action::PageOut { .. }
            | Action::ReadMore { .. }
            | Action::RequestPagedHosts(_)
            | Action::RequestPagedMessages(_) => {}
            Action::Bulk(action) => unreachable!("no event is about a bulk job: {action:?}"),
            Action::StartAgent { agent, clause, channel, host } => {
                self.start(agent, &clause, &channel, &host);
            }
            Action::Feed { agent, job } => self.feed(agent, &job),
            Action::SendIdle(agent) => self.puppet(agent).pending_input.push_back(AgentInput::Idle),
            Action::StopAgent { agent, .. } => self.puppet(agent).is_ending = true,
            Action::ClearLocks { name, .. } => self.expect_message(&name),
            Action::ReadAgain(name) => {
                self.expect_message(&name);
                self.model.rereads.push(name);
            }
            Action::Note(note) => self.note(&note),
            Action::Report { ticket, name, .. } => {
                self.expect_message(&name);
                assert!(!self.model.reports.contains(&ticket), "a report is sent twice");
                self.model.reports.push(ticket);
            }
            Action::Remove { name, .. } => {
                self.expect_message(&name);
                let number = name.number();
                assert!(!self.model.removals.contains(&number), "{name} is removed twice");
                self.model.removals.push(number);
            }
            Action::StoreOverrides { ticket, .. } => self.model.unstored_overrides.push(ticket),
            Action::OrderDone { ticket, .. } => {
                let was_given = self.model.orders.remove(&ticket);
                assert!(was_given, "order {ticket} is answered, but was never given");
            }
            Action::Statistics(record) => {
                assert!(!record.state.is_empty());
                if self.core.view().settings().record_attempts {
                    let untold = "an end is in the statistics log, but not in the status log";
                    self.model.ends_in_status_log_only =
                        self.model.ends_in_status_log_only.checked_sub(1).expect(untold);
                }
            }
            Action::Status(record) => {
                let is_logged = self.core.view().settings().record_attempts;
                assert!((is_logged || self.is_watched) && !record.offsets.is_empty());
                self.expect_message(&record.name);
                if is_logged && is_counted_end(&record) {
                    self.model.ends_in_status_log_only += record.offsets.len();
                }
            }
            Action::Log(_, text) => assert!(text.len() < 10_000, "a log line of {}", text.len()),
        }
    }

    fn start(&mut self, agent: AgentId, clause: &Clause, channel: &[u8], host: &[u8]) {
        let command = clause.command.as_ref().expect("a clause with a command");
        let with_host = command.serves_one_host();
        let puppet = ModelAgent {
            channel: channel.into(),
            host: with_host.then(|| host.into()),
            is_running: false,
            is_ending: false,
            is_idle: false,
            pending_input: [AgentInput::Start].into(),
        };
        assert!(self.model.agents.insert(agent, puppet).is_none(), "an agent is born twice");
        self.check_limits(clause, channel);
        match self.start_behaviour {
            StartBehaviour::AtOnce => {}
            StartBehaviour::EachOther if agent.0.is_multiple_of(2) => {}
            StartBehaviour::Later => return,
            StartBehaviour::EachOther | StartBehaviour::Never => {
                self.model.agents.remove(&agent);
                let end = AgentEnd::NotStarted("no such file".to_string());
                // As in the daemon, the event comes while other actions are pending; none may be
                // lost.
                return self.core.handle(self.now, Event::AgentEnded { agent, end });
            }
        }
        self.puppet(agent).is_running = true;
        let pid = 1000 + agent.0 as u32;
        self.core.handle(self.now, Event::AgentStarted { agent, pid });
    }

    fn check_limits(&mut self, clause: &Clause, channel: &[u8]) {
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        let all = self.model.agents.len();
        let of_channel =
            self.model.agents.values().filter(|other| *other.channel == *channel).count();
        let settings = self.core.view().settings().clone();
        assert!(all <= limit(clause.max_agents).min(settings.max_agents), "maxta: {all}");
        assert!(of_channel <= limit(clause.max_channel), "maxchannel: {of_channel}");
        assert!(!settings.frozen, "an agent, although nothing is to be started");
        let started = self.model.count_start(self.now);
        assert!(started <= settings.fork_rate.max(1), "fork rate: {started}");
    }

    fn feed(&mut self, agent: AgentId, job: &[u8]) {
        let job = job.strip_suffix(b"\n").expect("a line");
        assert!(!job.contains(&b'\n'), "more than one line");
        let mut fields = job.split(|byte| *byte == b'\t');
        let name = SpoolName::from_notified(fields.next().unwrap_or_default()).expect("a name");
        let puppet = &self.model.agents[&agent];
        let host = puppet.host.as_deref().or(fields.next()).expect("a host");
        assert!(!puppet.is_ending, "a job for an agent that was told to end");
        let number = name.number();
        let told = AgentInput::Job(number, host.into());
        assert!(!self.model.is_with_another(agent, &told), "{name} is with two agents");
        let message = self.model.messages.get(&number).expect("a known message");
        let group = message.group(&puppet.channel, host).expect("a known destination");
        assert!(group.offsets.iter().any(|offset| message.open.contains(offset)), "{name} is over");
        let puppet = self.puppet(agent);
        puppet.is_idle = false;
        puppet.pending_input.push_back(told);
    }

    fn note(&mut self, note: &Note) {
        self.expect_message(&note.name);
        assert!(!note.offsets.is_empty(), "a note without recipients");
        assert!(!self.model.notes.contains(&note.ticket), "a note is written twice");
        self.model.notes.push(note.ticket);
        let is_new = note.ticket > self.model.last_ticket;
        self.model.last_ticket = note.ticket.max(self.model.last_ticket);
        let number = note.name.number();
        let by_agent = matches!(note.occasion, OutcomeKind::Success | OutcomeKind::Failure);
        if is_new && !by_agent {
            let message = self.model.messages.get_mut(&number).expect("it is known");
            for offset in &note.offsets {
                assert!(message.open.remove(offset), "{number}/{offset} has ended already");
            }
        }
    }

    fn puppet(&mut self, agent: AgentId) -> &mut ModelAgent {
        self.model.agents.get_mut(&agent).expect("a living agent")
    }

    fn expect_message(&self, name: &SpoolName) {
        assert!(self.model.messages.contains_key(&name.number()), "{name} is not known");
    }
}

/// Returns true if a record tells of ends that also go to the statistics log.
fn is_counted_end(record: &StatusRecord) -> bool {
    match record.verdict {
        StatusVerdict::Report(status) => status.tag() != Tag::Pending,
        StatusVerdict::Expired | StatusVerdict::Deleted | StatusVerdict::Rerouted => true,
        StatusVerdict::Unreported | StatusVerdict::FinishedElsewhere => false,
    }
}
