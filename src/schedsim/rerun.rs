//! Simulates the mail of a recording under a configuration.
//!
//! The core runs on virtual time, with agents in memory. Their attempts take as long, and have the
//! same outcomes, as those in the recording.

use super::behaviour::{Attempt, Behaviour, Outcome};
use super::tally::Tally;
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
const DISK: Duration = Duration::from_millis(1);

/// A planned event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The message of this index arrives.
    Mail(usize),
    /// The host of this index has its mail requested (ETRN).
    Turn(usize),
    /// An agent has completed its current step.
    Agent(AgentId),
    /// A stopped agent has ended.
    End(AgentId),
    /// A message was removed from the spool.
    Removed(u64),
    /// A note is on disk.
    Noted(u64),
    /// A control file was read again.
    Reread(u64),
}

/// A simulated agent.
struct Agent {
    channel: Rc<[u8]>,
    /// The host that it was started for; used if a job names none.
    host: Rc<[u8]>,
    /// Jobs received and not begun: message number and host; `None` is `#idle`.
    orders: VecDeque<Option<(u64, Vec<u8>)>>,
    /// The step that it completes next.
    doing: Doing,
    /// True if it ends when it has no more jobs.
    stops: bool,
}

enum Doing {
    Nothing,
    /// It starts or completes a job, and then writes `#hungry`.
    Hungry,
    /// An attempt: message, recipient and outcome; and the recipients after it.
    Attempt(u64, u32, Outcome, VecDeque<u32>),
}

/// A simulation in progress.
pub struct Rerun<'b> {
    core: Scheduler,
    now: Timestamp,
    behaviour: &'b Behaviour,
    /// Number of attempts made, by message and recipient.
    used: HashMap<(u64, u32), usize>,
    agents: BTreeMap<AgentId, Agent>,
    agenda: BinaryHeap<Reverse<(Timestamp, u64, Due)>>,
    sequence: u64,
    tally: Tally,
    events: u64,
    /// Attempts whose outcome is not in the recording.
    pub made_up: u64,
}

/// Simulates the model until `end`.
///
/// Returns the results and the number of outcomes made up.
pub fn run(
    settings: Settings,
    config: Rc<Config>,
    behaviour: &Behaviour,
    end: Timestamp,
) -> (Tally, u64) {
    let mut rerun = Rerun {
        core: Scheduler::new(settings, config),
        now: Timestamp::EPOCH,
        behaviour,
        used: HashMap::new(),
        agents: BTreeMap::new(),
        agenda: BinaryHeap::new(),
        sequence: 0,
        tally: Tally::default(),
        events: 0,
        made_up: 0,
    };
    for (index, mail) in behaviour.mail.iter().enumerate() {
        rerun.plan(mail.time, Due::Mail(index));
    }
    for (index, (time, _)) in behaviour.turns.iter().enumerate() {
        rerun.plan(*time, Due::Turn(index));
    }
    rerun.run_until(end);
    rerun.tally.end(&rerun.core);
    (rerun.tally, rerun.made_up)
}

impl Rerun<'_> {
    fn run_until(&mut self, end: Timestamp) {
        if let Some(Reverse((first, ..))) = self.agenda.peek() {
            self.now = *first;
        }
        self.tell(Event::InitialScanDone);
        loop {
            let planned = self.agenda.peek().map(|Reverse((time, ..))| *time);
            let next = planned.into_iter().chain(self.core.next_wakeup()).min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.now = self.now.max(next);
            if planned == Some(next)
                && let Some(Reverse((_, _, due))) = self.agenda.pop()
            {
                self.happen(due);
            }
            self.tell(Event::Tick);
        }
    }

    fn plan(&mut self, time: Timestamp, due: Due) {
        // Events of the same time happen in the order in which they were planned.
        self.sequence += 1;
        self.agenda.push(Reverse((time, self.sequence, due)));
    }

    fn plan_in(&mut self, wait: Duration, due: Due) {
        self.plan(self.now + wait, due);
    }

    fn tell(&mut self, event: Event<'_>) {
        self.events += 1;
        let told = ReplayedEvent { number: self.events, offset: 0, time: self.now };
        self.tally.before(&told, &event, &self.core);
        self.core.handle(self.now, event);
        let decided: Vec<Action> = std::iter::from_fn(|| self.core.poll()).collect();
        self.tally.after(&told, &decided, &self.core);
        decided.into_iter().for_each(|action| self.perform(action));
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Mail(index) => {
                let arrival = self.behaviour.mail[index].arrival.clone();
                self.tell(Event::Arrived(arrival));
            }
            Due::Turn(index) => {
                let host = self.behaviour.turns[index].1.clone();
                self.tell(Event::Etrn(&host));
            }
            Due::Agent(agent) => self.agent_is_done(agent),
            Due::End(agent) => self.end_agent(agent, AgentEnd::Exited(0)),
            Due::Removed(number) => self.tell(Event::Removed { number, outcome: Ok(()) }),
            Due::Noted(ticket) => self.tell(Event::Noted { ticket, outcome: Ok(false) }),
            Due::Reread(number) => {
                let found = self.core.arrivals().find(|arrival| arrival.name.number() == number);
                let outcome = found.map_or(RereadResult::Gone, RereadResult::Read);
                self.tell(Event::ReadAgain { number, outcome });
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartAgent { agent, channel, host, .. } => {
                let orders = VecDeque::new();
                let doing = Doing::Hungry;
                self.agents.insert(agent, Agent { channel, host, orders, doing, stops: false });
                self.plan_in(self.behaviour.start.value(), Due::Agent(agent));
                self.tell(Event::AgentStarted { agent, pid: agent.0 as u32 });
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
                    self.plan_in(DISK, Due::End(agent));
                } else if let Some(known) = self.agents.get_mut(&agent) {
                    known.stops = true;
                    if matches!(known.doing, Doing::Nothing) {
                        self.plan_in(DISK, Due::End(agent));
                    }
                }
            }
            Action::Remove { name, .. } => self.plan_in(DISK, Due::Removed(name.number())),
            Action::Note(note) => self.plan_in(DISK, Due::Noted(note.ticket)),
            Action::ReadAgain(name) => self.plan_in(DISK, Due::Reread(name.number())),
            Action::StoreOverrides { ticket, .. } => {
                self.tell(Event::OverridesStored { ticket, outcome: Ok(()) });
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
        if matches!(agent.doing, Doing::Nothing) {
            self.begin_next(id);
        }
    }

    /// An agent begins its next job.
    fn begin_next(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.doing = Doing::Nothing;
        match agent.orders.pop_front() {
            None if agent.stops => self.plan_in(DISK, Due::End(id)),
            None => {}
            Some(None) => {
                agent.doing = Doing::Hungry;
                self.plan_in(Duration::ZERO, Due::Agent(id));
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
        let (doing, took) = match left.pop_front() {
            None => (Doing::Hungry, self.behaviour.between.value()),
            Some(offset) => {
                let Attempt { outcome, took } = self.outcome_of(number, offset);
                (Doing::Attempt(number, offset, outcome, left), took)
            }
        };
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.doing = doing;
            self.plan_in(took, Due::Agent(id));
        }
    }

    /// Returns the outcome of the next attempt for a recipient.
    fn outcome_of(&mut self, number: u64, offset: u32) -> Attempt {
        let used = self.used.entry((number, offset)).or_default();
        *used += 1;
        let index = usize::try_from(number).unwrap_or_default().wrapping_sub(1);
        let known = self.behaviour.mail.get(index);
        let attempts = known.and_then(|mail| mail.attempts.get(&offset));
        let Some(attempts) = attempts else {
            self.made_up += 1;
            let outcome = Outcome::Report(b"\tok3 nobody knows".as_slice().into());
            return Attempt { outcome, took: self.behaviour.attempt.value() };
        };
        let attempt = attempts.get(*used - 1).or(attempts.back());
        self.made_up += u64::from(*used > attempts.len());
        attempt.expect("it is there because there was an attempt").clone()
    }

    fn agent_is_done(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        match std::mem::replace(&mut agent.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Hungry => {
                // Before it is fed, so that it does not begin twice.
                self.tell(Event::AgentSaid { agent: id, line: HUNGRY.as_bytes() });
                if self.agents.get(&id).is_some_and(|agent| matches!(agent.doing, Doing::Nothing)) {
                    self.begin_next(id);
                }
            }
            Doing::Attempt(_, _, Outcome::Death(end), _) => self.end_agent(id, end),
            Doing::Attempt(number, offset, Outcome::Report(text), left) => {
                let name = format!("{number}/{offset}\t");
                let line = [name.as_bytes(), &text[..]].concat();
                if let Some(agent) = self.agents.get_mut(&id) {
                    // The agent is busy; a job that arrives meanwhile must wait.
                    agent.doing = Doing::Hungry;
                }
                self.tell(Event::AgentSaid { agent: id, line: &line });
                self.attempt_next(id, number, left);
            }
        }
    }

    fn end_agent(&mut self, agent: AgentId, end: AgentEnd) {
        if self.agents.remove(&agent).is_some() {
            self.tell(Event::AgentEnded { agent, end });
        }
    }
}
