//! The scheduler's core in a world that is only computed: virtual time, a spool in memory, agents and
//! hosts that behave as one likes. The same seed gives the same run.
//!
//! What is real: the core, the intake of the daemon, the parser and composer of control files, the marks
//! in them, the diagnostics, the decisions of `spool`, the codec of the agents' lines. What is made up:
//! time, disks, processes, sockets, hosts.
//!
//! | file | what |
//! |---|---|
//! | this one | what happens next: the loop |
//! | [`shell`] | a running scheduler: the core, and what the daemon does around it |
//! | [`agent`], [`habits`] | agents, and what they do wrong |
//! | [`hosts`] | where they deliver to |
//! | [`disk`], [`memory_file`], [`outbox`], [`parsed`] | the spool |
//! | [`agenda`], [`clock`] | virtual time |
//! | [`observer`] | who watches |
//!
//! It is driven from outside: [`submit`](Simulation::submit) messages, let time
//! [pass](Simulation::run_until), kill, restart, reload. `tests/simulation/` does so with an oracle
//! watching; `schedsim run` with a statistician.

mod agenda;
mod agent;
mod clock;
pub mod disk;
pub mod habits;
pub mod hosts;
pub mod observer;
mod outbox;
pub mod parsed;
mod shell;

use agenda::Agenda;
use agent::{Agent, Around, Next};
use clock::Clock;
use disk::Disk;
use habits::Habits;
use hosts::Hosts;
use observer::{At, Observer};
use shell::{How, Shell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::learned::{Learned, Lessons, Resting};
use zsched_core::{AgentEnd, Event, Manner, Order, OrderTicket, Scheduler, Settings};
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::read::Found;
use zsched_spool::{HashLevel, SpoolName};

/// So many steps without time going on mean that something goes round in circles.
const STEPS_AT_ONE_TIME: u64 = 3_000_000;

/// How long things take; each by chance up to twice as long, unless it is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// A notice of a router.
    pub notice: Duration,
    /// Reading a control file.
    pub read: Duration,
    /// Writing to the spool.
    pub write: Duration,
    /// What an agent writes, until it is read.
    pub pipe: Duration,
    /// Starting an agent.
    pub start: Duration,
    /// Finding out that an agent has ended.
    pub reap: Duration,
}

/// How a simulation is made up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of everything that is left to chance.
    pub seed: u64,
    /// When it begins, by the wall clock.
    pub start: Timestamp,
    /// What each scheduler is told when it starts, but for the seed.
    pub settings: Settings,
    /// The pid of the first agent; the next one has the next. Control files have room for six digits.
    pub first_pid: u32,
    /// How many levels of letter folders the spool has.
    pub level: HashLevel,
    /// How long things take.
    pub delays: Delays,
    /// What agents do wrong.
    pub habits: Habits,
    /// Part of all turns of the scheduler's loop in which more than one thing is heard, 0 to 1.
    pub crowded_turns: f64,
    /// What agents write comes in pieces.
    pub pieces: bool,
    /// The spool is scanned again and again, not only at the start.
    pub scans: bool,
}

/// Something that is to happen.
enum Happening {
    /// A notice of a router comes.
    Notice(SpoolName),
    /// The scanner lists the spool.
    Scan { life: u64 },
    /// The reader reads a control file.
    Read { life: u64, name: SpoolName, how: How },
    /// The loop hears what was read.
    Found { life: u64, name: SpoolName, found: Box<Found>, how: How },
    /// The writer does the first thing in its line.
    Write { life: u64 },
    /// The loop hears of something that was written.
    Written { life: u64, event: Box<Written> },
    /// An agent goes on.
    Agent(u32),
    /// The scheduler reads what an agent wrote.
    Hear(u32),
    /// The scheduler finds out that an agent has ended.
    Reap(u32),
    /// Time passes.
    Tick,
}

/// What the writer tells the loop.
enum Written {
    Noted { ticket: u64, outcome: Result<bool, std::io::ErrorKind> },
    Removed { number: u64, outcome: Result<(), std::io::ErrorKind> },
    Kept { ticket: Option<OrderTicket>, outcome: Result<(), std::io::ErrorKind> },
}

/// A simulated world with a scheduler in it.
pub struct Simulation<O> {
    /// The file of what was learned.
    learned: Vec<Learned>,
    clock: Clock,
    agenda: Agenda<Happening>,
    /// What happens at once, in this order.
    soon: VecDeque<Happening>,
    random: fastrand::Rng,
    setup: Setup,
    config: Rc<Config>,
    /// The spool.
    pub disk: Disk,
    /// The hosts.
    pub hosts: Hosts,
    /// All agents there have ever been, by pid.
    agents: Vec<Option<Box<Agent>>>,
    shell: Option<Shell>,
    lives: u64,
    /// The scheduler is killed after so many further decisions.
    fuse: Option<u32>,
    /// The scheduler is killed while it writes the end of recipients.
    dies_ending: bool,
    steps: u64,
    steps_at_this_time: u64,
    /// Who watches.
    pub observer: O,
}

impl<O: Observer> Simulation<O> {
    /// A world with an empty spool and no scheduler.
    pub fn new(setup: Setup, hosts: Hosts, config: Rc<Config>, observer: O) -> Simulation<O> {
        let mut random = fastrand::Rng::with_seed(setup.seed);
        Simulation {
            learned: Vec::new(),
            clock: Clock::new(setup.start),
            agenda: Agenda::new(),
            soon: VecDeque::new(),
            disk: Disk::new(random.u64(..), setup.level),
            random,
            setup,
            config,
            hosts,
            agents: Vec::new(),
            shell: None,
            lives: 0,
            fuse: None,
            dies_ending: false,
            steps: 0,
            steps_at_this_time: 0,
            observer,
        }
    }

    /// When it is.
    pub fn at(&self) -> At {
        At { now: self.clock.now(), wall: self.clock.wall(), step: self.steps }
    }

    /// The core of the running scheduler.
    pub fn core(&self) -> Option<&Scheduler> {
        self.shell.as_ref().map(|shell| &shell.core)
    }

    /// What agents do wrong.
    pub fn habits_mut(&mut self) -> &mut Habits {
        &mut self.setup.habits
    }

    /// What each scheduler is told that is started from now on, but for the seed.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.setup.settings
    }

    /// Agents whose processes live, whoever started them.
    pub fn living_agents(&self) -> usize {
        self.agents.iter().flatten().filter(|agent| agent.end.is_none()).count()
    }

    /// A router puts a message into the spool; `has_message`: with its message file. With a notice the
    /// scheduler hears of it, without one it has to look.
    pub fn submit(&mut self, name: SpoolName, text: Vec<u8>, has_message: bool, notice: bool) {
        let file = self.disk.put(self.clock.wall(), &name, text, has_message);
        let at = self.at();
        self.observer.submitted(at, name.number(), &file);
        if notice && self.shell.is_some() {
            self.after(self.setup.delays.notice, Happening::Notice(name));
        }
    }

    /// Starts a scheduler, if none runs.
    pub fn start(&mut self) {
        if self.shell.is_some() {
            return;
        }
        self.disk.finish_removal();
        let recovered = self.disk.recover_outbox();
        self.tell_rerouted();
        if recovered.is_err() {
            // It does not start.
            return;
        }
        self.lives += 1;
        let settings = Settings { seed: self.random.u64(..), ..self.setup.settings.clone() };
        let at = self.at();
        self.observer.started(at, &self.config, &settings);
        self.shell = Some(Shell::new(settings, self.config.clone(), self.lives));
        for order in self.disk.take_orders() {
            if let Some(shell) = &mut self.shell {
                shell.orders.apply(order.clone().into());
            }
            self.tell(Event::Standing(order));
        }
        for learned in self.learned.clone() {
            self.tell(Event::Learned(learned));
        }
        self.soon.push_back(Happening::Tick);
    }

    /// What a scheduler that ends has written of what it has learned: all of it, what it had written
    /// earlier, or some of it, as a damaged file has.
    pub(crate) fn keep_lessons(&mut self, core: &Scheduler, resting: &dyn Resting) {
        let is_written = self.random.bool();
        if is_written {
            self.learned.clear();
            let mut lessons = Lessons::default();
            while !lessons.are_over() {
                lessons.tell(core, resting, 100, |learned| self.learned.push(learned));
            }
        }
        if self.random.u8(..10) == 0 {
            let random = &mut self.random;
            self.learned.retain(|_| random.bool());
        }
    }

    /// Kills the scheduler, if one runs. Its agents finish the job at hand, or all they have.
    pub fn kill(&mut self) {
        let is_writing = self.random.bool();
        self.kill_while(is_writing);
    }

    fn kill_while(&mut self, is_writing: bool) {
        (self.fuse, self.dies_ending) = (None, false);
        let Some(shell) = self.shell.take() else {
            return;
        };
        self.keep_lessons(&shell.core, &shell.intake);
        if is_writing {
            self.write_half(shell);
        }
        self.orphan_agents();
    }

    /// Kills the scheduler when it next writes that recipients have ended without an agent, in the midst of it.
    pub fn kill_when_it_ends_recipients(&mut self) {
        self.dies_ending = true;
    }

    /// Kills the scheduler when it has carried out so many further decisions.
    pub fn kill_after(&mut self, decisions: u32) {
        self.fuse = Some(decisions);
    }

    fn orphan_agents(&mut self) {
        let at = self.at();
        self.observer.stopped(at);
        for pid in self.pids() {
            let quits = self.random.bool();
            let waits = self.living(pid).is_some_and(|agent| agent.hang_up(quits));
            if waits {
                self.plan_agent(pid, Duration::ZERO);
            }
        }
    }

    /// Somebody asks for a host's mail (ETRN).
    pub fn turn(&mut self, host: &[u8]) {
        self.tell(Event::Turn(host));
        self.end_turn();
    }

    /// An operator orders something; the observer is told when it is obeyed.
    pub fn order(&mut self, ticket: OrderTicket, order: Order) {
        self.tell(Event::Ordered { ticket, by: "operator".to_string(), order });
        self.end_turn();
    }

    /// The scheduler, and all that come, use another configuration.
    pub fn reload(&mut self, config: Rc<Config>) {
        self.config = config.clone();
        if let Some(shell) = &mut self.shell {
            shell.configured(&config);
        }
        self.tell(Event::Configured(config));
        self.end_turn();
    }

    /// The scheduler is to end as soon as its agents have.
    pub fn drain(&mut self) {
        if let Some(shell) = &mut self.shell {
            shell.is_draining = true;
        }
        self.tell(Event::Drain);
        self.end_turn();
    }

    /// Somebody sets the wall clock forward.
    pub fn set_clock_forward(&mut self, by: Duration) {
        self.clock.set_forward(by);
        self.clock_was_set(ClockStep::Forward(by));
        self.end_turn();
    }

    /// Somebody sets the wall clock back.
    pub fn set_clock_back(&mut self, by: Duration) {
        self.clock.set_back(by);
        self.clock_was_set(ClockStep::Back(by));
        self.end_turn();
    }

    fn clock_was_set(&mut self, step: ClockStep) {
        if let Some(shell) = &mut self.shell {
            shell.clock_set(step);
        }
        self.tell(Event::ClockSet(step));
    }

    /// All agents that live die.
    pub fn kill_agents(&mut self) {
        for pid in self.pids() {
            self.kill_agent(pid);
        }
    }

    /// Lets time pass until `until` by the clock that only goes on.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.step(until) {}
        self.clock.go_on_to(until);
    }

    /// Lets the next thing happen, if that is not later than `until`. Tells whether there was one.
    pub fn step(&mut self, until: Timestamp) -> bool {
        let Some(happening) = self.next_happening(until) else {
            return false;
        };
        self.steps += 1;
        self.steps_at_this_time += 1;
        assert!(self.steps_at_this_time < STEPS_AT_ONE_TIME, "time stands still");
        self.happen(happening);
        let crowded = self.setup.crowded_turns;
        let goes_on = crowded > 0.0 && self.random.f64() < crowded;
        if goes_on {
            self.soon.push_back(Happening::Tick);
        } else {
            self.end_turn();
        }
        let at = self.at();
        let core = self.shell.as_ref().map(|shell| &shell.core);
        self.observer.step_over(at, core, &self.disk, !goes_on);
        true
    }

    fn next_happening(&mut self, until: Timestamp) -> Option<Happening> {
        if let Some(happening) = self.soon.pop_front() {
            return Some(happening);
        }
        let wakeup = self.shell.as_ref().and_then(|shell| shell.next_wakeup(&self.setup));
        let wakeup = wakeup.map(|wall| self.clock.when(wall));
        let planned = self.agenda.next();
        let time = match (wakeup, planned) {
            (Some(wakeup), Some(planned)) => wakeup.min(planned),
            (wakeup, planned) => wakeup.or(planned)?,
        };
        if time > until {
            return None;
        }
        if time > self.clock.now() {
            self.steps_at_this_time = 0;
        }
        self.clock.go_on_to(time);
        if planned.is_some_and(|planned| planned <= time) {
            self.agenda.pop()
        } else {
            Some(Happening::Tick)
        }
    }

    /// Lets something happen after a delay, at most twice as long by chance.
    fn after(&mut self, delay: Duration, happening: Happening) {
        self.after_time(self.clock.now(), delay, happening);
    }

    /// The same, not before a certain time. Returns when.
    fn after_time(&mut self, from: Timestamp, delay: Duration, happening: Happening) -> Timestamp {
        if delay.is_zero() {
            self.soon.push_back(happening);
            return self.clock.now();
        }
        let time = from.max(self.clock.now()) + delay.mul_f64(1.0 + self.random.f64());
        self.agenda.add(time, happening);
        time
    }

    fn happen(&mut self, happening: Happening) {
        let life = self.lives;
        match happening {
            Happening::Notice(name) => self.hear_notice(name),
            Happening::Scan { life: of } if of == life => self.scan(),
            Happening::Read { life: of, name, how } if of == life => self.read(name, how),
            Happening::Found { life: of, name, found, how } if of == life => {
                self.hear_found(name, *found, how);
            }
            Happening::Write { life: of } if of == life => self.write(),
            Happening::Written { life: of, event } if of == life => self.hear_written(&event),
            Happening::Agent(pid) => self.agent_turn(pid),
            Happening::Hear(pid) => self.hear_agent(pid),
            Happening::Reap(pid) => self.reap(pid),
            // A tick is told at the end of each turn; the others are of a scheduler that is gone.
            _ => {}
        }
    }

    fn pids(&self) -> Vec<u32> {
        (self.setup.first_pid..)
            .zip(&self.agents)
            .filter(|(_, agent)| agent.is_some())
            .map(|(p, _)| p)
            .collect()
    }

    fn slot(&mut self, pid: u32) -> Option<&mut Option<Box<Agent>>> {
        let index = pid.checked_sub(self.setup.first_pid)?;
        self.agents.get_mut(index as usize)
    }

    fn living(&mut self, pid: u32) -> Option<&mut Agent> {
        self.slot(pid)?.as_deref_mut().filter(|agent| agent.end.is_none())
    }

    fn plan_agent(&mut self, pid: u32, delay: Duration) {
        let Some(agent) = self.living(pid) else {
            return;
        };
        if !std::mem::replace(&mut agent.is_planned, true) {
            self.plan_agent_at(pid, delay);
        }
    }

    fn plan_agent_at(&mut self, pid: u32, delay: Duration) {
        if delay.is_zero() {
            self.soon.push_back(Happening::Agent(pid));
        } else {
            self.agenda.add(self.clock.now() + delay, Happening::Agent(pid));
        }
    }

    fn agent_turn(&mut self, pid: u32) {
        let Some(mut agent) = self.slot(pid).and_then(Option::take) else {
            return;
        };
        agent.is_planned = false;
        if agent.end.is_none() {
            let next = agent.turn(&mut self.around());
            match next {
                Next::After(delay) => {
                    agent.is_planned = true;
                    self.plan_agent_at(pid, delay);
                }
                Next::WhenTold => {}
                Next::Ended(end) => self.mark_ended(&mut agent, end),
            }
            self.plan_hearing(&mut agent);
        }
        self.put_back(agent);
    }

    fn put_back(&mut self, agent: Box<Agent>) {
        let pid = agent.pid;
        if let Some(slot) = self.slot(pid) {
            *slot = Some(agent);
        }
    }

    fn around(&mut self) -> Around<'_> {
        Around {
            at: At { now: self.clock.now(), wall: self.clock.wall(), step: self.steps },
            disk: &mut self.disk,
            hosts: &mut self.hosts,
            random: &mut self.random,
            habits: &self.setup.habits,
            observer: &mut self.observer,
        }
    }

    fn mark_ended(&mut self, agent: &mut Agent, end: AgentEnd) {
        agent.end = Some(end);
        self.after(self.setup.delays.reap, Happening::Reap(agent.pid));
    }

    fn kill_agent(&mut self, pid: u32) {
        let Some(mut agent) = self.slot(pid).and_then(Option::take) else {
            return;
        };
        if agent.end.is_none() {
            agent.die(&mut self.around());
            self.mark_ended(&mut agent, AgentEnd::Signalled(9));
        }
        self.put_back(agent);
    }

    /// Sees to it that what an agent wrote is read.
    fn plan_hearing(&mut self, agent: &mut Agent) {
        if !agent.outbox.is_empty() && !std::mem::replace(&mut agent.is_being_heard, true) {
            self.after(self.setup.delays.pipe, Happening::Hear(agent.pid));
        }
    }

    /// The scheduler reads what an agent has written, or a piece of it.
    fn hear_agent(&mut self, pid: u32) {
        let Some(mut agent) = self.slot(pid).and_then(Option::take) else {
            return;
        };
        agent.is_being_heard = false;
        let length = agent.outbox.len();
        let piece = if self.setup.pieces { self.random.usize(0..=length) } else { length };
        self.hear_bytes(&mut agent, piece);
        self.plan_hearing(&mut agent);
        self.put_back(agent);
    }

    fn hear_bytes(&mut self, agent: &mut Agent, count: usize) {
        let rest = agent.outbox.split_off(count);
        let said = std::mem::replace(&mut agent.outbox, rest);
        let at = self.at();
        let Some(shell) = self.shell.as_mut().filter(|shell| shell.life == agent.life) else {
            return;
        };
        let (id, observer) = (agent.id, &mut self.observer);
        let too_long = agent.lines.take_in(&said, |line| {
            let event = Event::AgentSaid { agent: id, line };
            observer.told(at, &event);
            shell.core.handle(at.wall, event);
        });
        if too_long > 0 {
            self.tell(Event::LinePassedOver { agent: id, bytes: too_long });
        }
    }

    /// The scheduler finds out that an agent has ended, and reads what it wrote last.
    fn reap(&mut self, pid: u32) {
        let Some(mut agent) = self.slot(pid).and_then(Option::take) else {
            return;
        };
        let everything = agent.outbox.len();
        self.hear_bytes(&mut agent, everything);
        if self.shell.as_ref().is_some_and(|shell| shell.life == agent.life)
            && let Some(end) = agent.end.clone()
        {
            if let Some(shell) = &mut self.shell {
                shell.pids.remove(&agent.id);
            }
            self.tell(Event::AgentEnded { agent: agent.id, end });
        }
    }

    /// The scheduler tells an agent something.
    fn tell_agent(&mut self, pid: u32, text: &[u8]) {
        if self.living(pid).is_some_and(|agent| agent.tell(text)) {
            self.plan_agent(pid, Duration::ZERO);
        }
    }

    fn stop_agent(&mut self, pid: u32, manner: Manner) {
        if manner == Manner::Kill {
            return self.kill_agent(pid);
        }
        self.tell_agent(pid, b"\n");
        let waits = self.living(pid).is_some_and(|agent| agent.hang_up(manner == Manner::Quit));
        if waits {
            self.plan_agent(pid, Duration::ZERO);
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        let at = self.at();
        if let Some(shell) = &mut self.shell {
            self.observer.told(at, &event);
            shell.core.handle(at.wall, event);
        }
    }
}
