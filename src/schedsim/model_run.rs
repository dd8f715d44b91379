//! Simulates the mail of a recording under a configuration.
//!
//! The core runs on virtual time, with agents in memory. Their attempts take as long, and have the
//! same outcomes, as those in the recording.

use super::agent_model::{AgentModel, Attempt, Outcome};
use super::run_counters::RunCounters;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::{Action, AgentEnd, AgentId, Event, RereadResult, Scheduler, Settings, StopMode};
use zsched_format::agent_protocol::HUNGRY;
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};

/// Duration of a disk operation.
const DISK_DELAY: Duration = Duration::from_millis(1);

/// A planned event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlannedEvent {
    /// The message of this index arrives.
    Mail(usize),
    /// The host of this index has its mail requested (ETRN).
    Etrn(usize),
    /// An agent has completed its current step.
    Agent(AgentId),
    /// A stopped agent has ended.
    End(AgentId),
    /// A message was removed from the spool.
    Removed(u64),
    /// A note is on disk.
    Noted(u64),
    /// A control file was read again.
    RereadResult(u64),
}

/// A simulated agent.
struct Agent {
    channel: Rc<[u8]>,
    /// The host that it was started for; used if a job names none.
    host: Rc<[u8]>,
    /// Jobs received and not begun: message number and host; `None` is `#idle`.
    orders: VecDeque<Option<(u64, Vec<u8>)>>,
    /// The step that it completes next.
    step: AgentStep,
    /// True if it ends when it has no more jobs.
    stops: bool,
}

enum AgentStep {
    Nothing,
    /// It starts or completes a job, and then writes `#hungry`.
    Hungry,
    /// An attempt: message, recipient and outcome; and the recipients after it.
    Attempt(u64, u32, Outcome, VecDeque<u32>),
}

/// A simulation in progress.
pub(crate) struct ModelRun<'b> {
    core: Scheduler,
    now: Timestamp,
    model: &'b AgentModel,
    /// Number of attempts made, by message and recipient.
    used: HashMap<(u64, u32), usize>,
    agents: BTreeMap<AgentId, Agent>,
    event_queue: BinaryHeap<Reverse<(Timestamp, u64, PlannedEvent)>>,
    sequence: u64,
    counters: RunCounters,
    events: u64,
    /// Attempts whose outcome is not in the recording.
    pub guessed: u64,
}

/// Simulates the model until `end`.
///
/// Returns the results and the number of outcomes made up.
pub(crate) fn run(
    settings: Settings,
    config: Rc<Config>,
    model: &AgentModel,
    end: Timestamp,
) -> (RunCounters, u64) {
    let mut run = ModelRun {
        core: Scheduler::new(settings, config),
        now: Timestamp::EPOCH,
        model,
        used: HashMap::new(),
        agents: BTreeMap::new(),
        event_queue: BinaryHeap::new(),
        sequence: 0,
        counters: RunCounters::default(),
        events: 0,
        guessed: 0,
    };
    for (index, mail) in model.mail.iter().enumerate() {
        run.plan(mail.time, PlannedEvent::Mail(index));
    }
    for (index, (time, _)) in model.etrn_requests.iter().enumerate() {
        run.plan(*time, PlannedEvent::Etrn(index));
    }
    run.run_until(end);
    run.counters.end(&run.core);
    (run.counters, run.guessed)
}

impl ModelRun<'_> {
    fn run_until(&mut self, end: Timestamp) {
        if let Some(Reverse((first, ..))) = self.event_queue.peek() {
            self.now = *first;
        }
        self.handle(Event::InitialScanDone);
        loop {
            let planned = self.event_queue.peek().map(|Reverse((time, ..))| *time);
            let next = planned.into_iter().chain(self.core.next_wakeup()).min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.now = self.now.max(next);
            if planned == Some(next)
                && let Some(Reverse((_, _, due))) = self.event_queue.pop()
            {
                self.run_event(due);
            }
            self.handle(Event::Tick);
        }
    }

    fn plan(&mut self, time: Timestamp, due: PlannedEvent) {
        // Events of the same time happen in the order in which they were planned.
        self.sequence += 1;
        self.event_queue.push(Reverse((time, self.sequence, due)));
    }

    fn plan_in(&mut self, wait: Duration, due: PlannedEvent) {
        self.plan(self.now + wait, due);
    }

    fn handle(&mut self, event: Event<'_>) {
        self.events += 1;
        let told = ReplayedEvent { number: self.events, offset: 0, time: self.now };
        self.counters.before(&told, &event, &self.core);
        self.core.handle(self.now, event);
        let decided: Vec<Action> = std::iter::from_fn(|| self.core.poll()).collect();
        self.counters.after(&told, &decided, &self.core);
        decided.into_iter().for_each(|action| self.execute(action));
    }

    fn run_event(&mut self, due: PlannedEvent) {
        match due {
            PlannedEvent::Mail(index) => {
                let arrival = self.model.mail[index].arrival.clone();
                self.handle(Event::Arrived(arrival));
            }
            PlannedEvent::Etrn(index) => {
                let host = self.model.etrn_requests[index].1.clone();
                self.handle(Event::Etrn(&host));
            }
            PlannedEvent::Agent(agent) => self.agent_is_done(agent),
            PlannedEvent::End(agent) => self.end_agent(agent, AgentEnd::Exited(0)),
            PlannedEvent::Removed(number) => {
                self.handle(Event::Removed { number, outcome: Ok(()) })
            }
            PlannedEvent::Noted(ticket) => self.handle(Event::Noted { ticket, outcome: Ok(false) }),
            PlannedEvent::RereadResult(number) => {
                let found = self.core.arrivals().find(|arrival| arrival.name.number() == number);
                let outcome = found.map_or(RereadResult::Gone, RereadResult::Read);
                self.handle(Event::ReadAgain { number, outcome });
            }
        }
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::StartAgent { agent, channel, host, .. } => {
                let orders = VecDeque::new();
                let step = AgentStep::Hungry;
                self.agents.insert(agent, Agent { channel, host, orders, step, stops: false });
                self.plan_in(self.model.start.value(), PlannedEvent::Agent(agent));
                self.handle(Event::AgentStarted { agent, pid: agent.0 as u32 });
            }
            Action::Feed { agent, job } => {
                let mut fields = job.trim_ascii_end().split(|byte| *byte == b'\t');
                let path = fields.next().and_then(|path| std::str::from_utf8(path).ok());
                let number = path.and_then(|path| path.parse().ok()).unwrap_or_default();
                let host = fields.next().map(<[u8]>::to_vec);
                self.order(agent, |agent| {
                    Some((number, host.unwrap_or_else(|| agent.host.to_vec())))
                });
            }
            Action::SendIdle(agent) => self.order(agent, |_| None),
            Action::StopAgent { agent, manner } => {
                if manner == StopMode::Kill {
                    self.plan_in(DISK_DELAY, PlannedEvent::End(agent));
                } else if let Some(known) = self.agents.get_mut(&agent) {
                    known.stops = true;
                    if matches!(known.step, AgentStep::Nothing) {
                        self.plan_in(DISK_DELAY, PlannedEvent::End(agent));
                    }
                }
            }
            Action::Remove { name, .. } => {
                self.plan_in(DISK_DELAY, PlannedEvent::Removed(name.number()))
            }
            Action::Note(note) => self.plan_in(DISK_DELAY, PlannedEvent::Noted(note.ticket)),
            Action::ReadAgain(name) => {
                self.plan_in(DISK_DELAY, PlannedEvent::RereadResult(name.number()))
            }
            Action::StoreOverrides { ticket, .. } => {
                self.handle(Event::OverridesStored { ticket, outcome: Ok(()) });
            }
            // There is room for all messages: the core is not told that it lacks memory.
            Action::PageOut { .. } | Action::RequestPagedHosts(_) | Action::ReadMore { .. } => {}
            Action::OrderDone { .. } => {}
            Action::ClearLocks { .. }
            | Action::Statistics(_)
            | Action::Status(_)
            | Action::Log(..) => {}
        }
    }

    fn order(&mut self, id: AgentId, order: impl FnOnce(&Agent) -> Option<(u64, Vec<u8>)>) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let order = order(agent);
        agent.orders.push_back(order);
        if matches!(agent.step, AgentStep::Nothing) {
            self.begin_next(id);
        }
    }

    /// An agent begins its next job.
    fn begin_next(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.step = AgentStep::Nothing;
        match agent.orders.pop_front() {
            None if agent.stops => self.plan_in(DISK_DELAY, PlannedEvent::End(id)),
            None => {}
            Some(None) => {
                agent.step = AgentStep::Hungry;
                self.plan_in(Duration::ZERO, PlannedEvent::Agent(id));
            }
            Some(Some((number, host))) => {
                let channel = agent.channel.clone();
                let vertices = self.core.inspect(number).unwrap_or_default();
                let is_it = |v: &&zsched_core::VertexInspection| {
                    v.channel == channel && *v.host == host[..]
                };
                let offsets = vertices.iter().find(is_it).map(|vertex| vertex.offsets.clone());
                self.attempt_next(id, number, offsets.unwrap_or_default().into());
            }
        }
    }

    /// An agent begins the next recipient of its job, or completes the job.
    fn attempt_next(&mut self, id: AgentId, number: u64, mut left: VecDeque<u32>) {
        let (step, took) = match left.pop_front() {
            None => (AgentStep::Hungry, self.model.between.value()),
            Some(offset) => {
                let Attempt { outcome, took } = self.outcome_of(number, offset);
                (AgentStep::Attempt(number, offset, outcome, left), took)
            }
        };
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.step = step;
            self.plan_in(took, PlannedEvent::Agent(id));
        }
    }

    /// Returns the outcome of the next attempt for a recipient.
    fn outcome_of(&mut self, number: u64, offset: u32) -> Attempt {
        let used = self.used.entry((number, offset)).or_default();
        *used += 1;
        let index = usize::try_from(number).unwrap_or_default().wrapping_sub(1);
        let known = self.model.mail.get(index);
        let attempts = known.and_then(|mail| mail.attempts.get(&offset));
        let Some(attempts) = attempts else {
            self.guessed += 1;
            let outcome = Outcome::Report(b"\tok3 not in the recording".as_slice().into());
            return Attempt { outcome, took: self.model.attempt.value() };
        };
        let attempt = attempts.get(*used - 1).or(attempts.back());
        self.guessed += u64::from(*used > attempts.len());
        attempt.expect("it is there because there was an attempt").clone()
    }

    fn agent_is_done(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        match std::mem::replace(&mut agent.step, AgentStep::Nothing) {
            AgentStep::Nothing => {}
            AgentStep::Hungry => {
                // Before it is fed, so that it does not begin twice.
                self.handle(Event::AgentSaid { agent: id, line: HUNGRY.as_bytes() });
                if self
                    .agents
                    .get(&id)
                    .is_some_and(|agent| matches!(agent.step, AgentStep::Nothing))
                {
                    self.begin_next(id);
                }
            }
            AgentStep::Attempt(_, _, Outcome::Death(end), _) => self.end_agent(id, end),
            AgentStep::Attempt(number, offset, Outcome::Report(text), left) => {
                let name = format!("{number}/{offset}\t");
                let line = [name.as_bytes(), &text[..]].concat();
                if let Some(agent) = self.agents.get_mut(&id) {
                    // The agent is busy; a job that arrives meanwhile must wait.
                    agent.step = AgentStep::Hungry;
                }
                self.handle(Event::AgentSaid { agent: id, line: &line });
                self.attempt_next(id, number, left);
            }
        }
    }

    fn end_agent(&mut self, agent: AgentId, end: AgentEnd) {
        if self.agents.remove(&agent).is_some() {
            self.handle(Event::AgentEnded { agent, end });
        }
    }
}
