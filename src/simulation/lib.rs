//! Simulates the scheduler: the real core with virtual time, and simulated spool, agents and hosts.
//!
//! This crate decides what happens when in a simulated world, and which faults occur. The same seed
//! gives the same run. It must not know what the core should do: the observer checks that. Begin
//! with [`Simulation`], then read `shell`, the counterpart of the daemon.
//!
//! These parts are real: the core with its intake, the parser and composer of control files, the
//! marks in them, the diagnostics, the decisions of `spool` and `bulk`, and the agent protocol.
//! These are simulated: time, disks, processes, sockets, hosts.
//!
//! | file | contents |
//! |---|---|
//! | this one | the loop that runs the next event |
//! | [`shell`] | a running scheduler: the core, and the parts of the daemon around it |
//! | [`agent`], [`faults`] | agents and their faults |
//! | [`hosts`], [`recorded`] | the hosts that they deliver to; or the outcomes of a recording |
//! | [`disk`], [`outbox`], [`parsed`] | the spool |
//! | [`jobs`], [`bulk_worker`] | the files of bulk jobs, and what makes packets from them |
//! | [`event_queue`], [`clock`] | event queue and virtual time |
//! | [`observer`] | the observer of a simulation |
//!
//! The caller drives it: it [submits](Simulation::submit) messages, lets time
//! [pass](Simulation::run_until), kills, restarts and reloads. `tests/simulation/` does so with an
//! oracle as the observer, `schedsim run` with a collector of statistics.

#![warn(unreachable_pub)]

// The scheduler and its observer.
pub mod observer;
mod shell;

// Agents and hosts.
mod agent;
pub mod faults;
pub mod hosts;
pub mod recorded;

// The spool.
pub mod disk;
mod outbox;
pub mod parsed;

// Bulk jobs.
mod bulk_worker;
pub mod jobs;

// Time.
mod clock;
mod event_queue;

use agent::{Agent, AgentEnvironment, NextTurn};
use bulk_worker::{BulkAnswer, BulkRequest};
use clock::Clock;
use disk::Disk;
use event_queue::EventQueue;
use faults::AgentFaults;
use hosts::Hosts;
use observer::{SimTime, SimulationObserver};
use shell::{ReadMode, Shell, memory_limit};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::learned::{Learned, LearnedExport, PagedOutSource};
use zsched_core::{AgentEnd, AgentId, Event, Order, OrderTicket, Scheduler, Settings, StopMode};
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::load::LoadResult;
use zsched_spool::{HashLevel, SpoolName};

/// Maximum number of steps at one time. More of them indicate an endless loop.
const MAX_STEPS_AT_ONE_TIME: u64 = 3_000_000;

/// Durations. Each is multiplied by a random factor of up to two, unless it is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delays {
    /// Until a router's notice arrives.
    pub notice: Duration,
    /// Reading a control file.
    pub read: Duration,
    /// Writing to the spool.
    pub write: Duration,
    /// Until an agent's output is read.
    pub pipe: Duration,
    /// Until a decided start of an agent is carried out.
    pub turn: Duration,
    /// Until a started agent asks for work.
    pub start: Duration,
    /// Until the end of an agent is noticed.
    pub reap: Duration,
}

/// The parameters of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulationSetup {
    /// Seed of all randomness.
    pub seed: u64,
    /// Start time of the wall clock.
    pub start: Timestamp,
    /// Settings of each scheduler, except for the seed.
    pub settings: Settings,
    /// The pid of the first agent; later ones count up. Control files have room for six digits.
    pub first_pid: u32,
    /// Number of levels of hash folders in the spool.
    pub level: HashLevel,
    /// How long things take.
    pub delays: Delays,
    /// Faults of agents.
    pub agent_faults: AgentFaults,
    /// Share of turns of the scheduler's loop with more than one event, 0 to 1.
    pub multi_event_turns: f64,
    /// True if agents' output is read in pieces.
    pub pieces: bool,
    /// True if the spool is scanned repeatedly, not only at the start.
    pub scans: bool,
}

impl SimulationSetup {
    /// Creates the setup of a simulation without delays and faults. The spool is scanned once.
    pub fn new(seed: u64, start: Timestamp, settings: Settings) -> SimulationSetup {
        SimulationSetup { seed, start, settings, first_pid: 1000, ..SimulationSetup::default() }
    }
}

/// A planned event.
enum SimEvent {
    /// A router's notice arrives.
    Notice(SpoolName),
    /// The notice of a new bulk job arrives.
    JobNotice,
    /// Something happens in the scheduler of this life, unless it has ended.
    InScheduler(u64, ShellEvent),
    /// An agent continues its work.
    Agent(u32),
    /// The scheduler reads an agent's output.
    ReadOutput(u32),
    /// The scheduler notices that an agent has ended.
    Reap(u32),
    /// Time passes.
    Tick,
}

impl SimEvent {
    /// Returns true if it happens in the scheduler's loop: not in another thread or process.
    fn is_in_loop(&self) -> bool {
        use ShellEvent::{Bulk, Read, Report, Write};
        let is_elsewhere = matches!(
            self,
            SimEvent::Agent(_) | SimEvent::InScheduler(_, Bulk | Read(..) | Report | Write)
        );
        !is_elsewhere
    }
}

/// An event in a running scheduler.
enum ShellEvent {
    /// The loop starts a new agent.
    StartAgent(AgentId),
    /// The scanner lists the spool.
    Scan,
    /// The reader reads a control file.
    Read(SpoolName, ReadMode),
    /// The loop receives the result of a read.
    Loaded(SpoolName, ReadMode, LoadResult),
    /// The loop receives the news that an agent of an earlier scheduler has changed a file.
    ChangedOnDisk(u64),
    /// The writer processes its first request.
    Write,
    /// The reporter processes its first request.
    Report,
    /// The loop receives the result of a write, for the core.
    Written(Vec<Event<'static>>),
    /// The worker for bulk jobs processes its next request.
    Bulk,
    /// The loop receives an answer of that worker.
    BulkDone(Box<BulkAnswer>),
}

/// A simulated system with a scheduler.
pub struct Simulation<O> {
    /// The file of learned state.
    learned: Vec<Learned>,
    clock: Clock,
    events: EventQueue<SimEvent>,
    /// Events that happen immediately, in this order.
    immediate: VecDeque<SimEvent>,
    random: fastrand::Rng,
    /// The parameters. Changes of faults and settings take effect from then on.
    pub setup: SimulationSetup,
    config: Rc<Config>,
    /// The spool.
    pub disk: Disk,
    /// The hosts.
    pub hosts: Hosts,
    /// The agents whose end has not been noticed, by pid; `None` during a call of `with_agent`.
    agents: BTreeMap<u32, Option<Box<Agent>>>,
    /// Number of agents so far.
    agents_started: u32,
    shell: Option<Shell>,
    lives: u64,
    /// Number of decisions after which the scheduler is killed.
    decisions_until_kill: Option<u32>,
    /// True if the scheduler is killed while it writes the end of recipients.
    kill_while_finishing: bool,
    /// True if the present turn of the scheduler's loop has further events.
    turn_goes_on: bool,
    steps: u64,
    steps_at_this_time: u64,
    /// The observer.
    pub observer: O,
}

impl<O: SimulationObserver> Simulation<O> {
    /// Creates a system with an empty spool and without a scheduler.
    pub fn new(
        setup: SimulationSetup,
        hosts: Hosts,
        config: Rc<Config>,
        observer: O,
    ) -> Simulation<O> {
        let mut random = fastrand::Rng::with_seed(setup.seed);
        Simulation {
            learned: Vec::new(),
            clock: Clock::new(setup.start),
            events: EventQueue::new(),
            immediate: VecDeque::new(),
            disk: Disk::new(random.u64(..), setup.level),
            random,
            setup,
            config,
            hosts,
            agents: BTreeMap::new(),
            agents_started: 0,
            shell: None,
            lives: 0,
            decisions_until_kill: None,
            kill_while_finishing: false,
            turn_goes_on: false,
            steps: 0,
            steps_at_this_time: 0,
            observer,
        }
    }

    /// The present time.
    pub fn at(&self) -> SimTime {
        SimTime { now: self.clock.now(), wall: self.clock.wall(), step: self.steps }
    }

    /// The core of the running scheduler.
    pub fn core(&self) -> Option<&Scheduler> {
        self.shell.as_ref().map(|shell| &shell.core)
    }

    /// The same, and the observer.
    pub fn core_and_observer(&mut self) -> Option<(&Scheduler, &mut O)> {
        let shell = self.shell.as_ref()?;
        Some((&shell.core, &mut self.observer))
    }

    /// Puts a message into the spool as a router does.
    ///
    /// It has a message file if `has_message`.
    ///
    /// Without `notice`, the scheduler finds it only by a scan.
    pub fn submit(&mut self, name: SpoolName, text: Vec<u8>, has_message: bool, notice: bool) {
        let file = self.disk.put(self.clock.wall(), &name, text, has_message);
        let at = self.at();
        self.observer.submitted(at, name.number(), &file);
        if notice && self.shell.is_some() {
            self.after(self.setup.delays.notice, SimEvent::Notice(name));
        }
    }

    /// Starts a scheduler, if none runs.
    pub fn start(&mut self) {
        if self.shell.is_some() {
            return;
        }
        self.disk.finish_removals();
        let recovered = self.disk.recover_outbox();
        self.observe_published();
        self.finish_packets();
        if recovered.is_err() {
            // The scheduler does not start.
            return;
        }
        self.lives += 1;
        let settings = Settings { seed: self.random.u64(..), ..self.setup.settings.clone() };
        let at = self.at();
        self.observer.started(at, &self.config, &settings);
        self.shell = Some(Shell::new(settings, self.config.clone()));
        for order in self.disk.take_orders() {
            self.in_shell(|shell| shell.orders.apply(order.clone()));
            self.send(Event::Override(order));
        }
        for learned in self.learned.clone() {
            self.send(Event::Learned(learned));
        }
        self.immediate.push_back(SimEvent::Tick);
    }

    /// Stores the learned state of a scheduler that ends.
    ///
    /// It is complete, or that of an earlier time, or only a part as in a damaged file.
    pub(crate) fn store_learned_state(&mut self, core: &Scheduler, paged_out: &dyn PagedOutSource) {
        let is_written = self.random.bool();
        if is_written {
            self.learned.clear();
            let mut cursor = LearnedExport::default();
            while !cursor.is_done() {
                cursor.export(core, paged_out, 100, |learned| self.learned.push(learned));
            }
        }
        if self.random.u8(..10) == 0 {
            let random = &mut self.random;
            self.learned.retain(|_| random.bool());
        }
    }

    /// Kills the scheduler, if one runs. Its agents finish the current job, or all of theirs.
    pub fn kill(&mut self) {
        let is_writing = self.random.bool();
        self.kill_while(is_writing);
    }

    fn kill_while(&mut self, is_writing: bool) {
        (self.decisions_until_kill, self.kill_while_finishing) = (None, false);
        let Some(shell) = self.shell.take() else {
            return;
        };
        self.store_learned_state(&shell.core, &shell.intake.backlog);
        if is_writing {
            self.write_partially(shell);
        } else {
            self.bulk_partially(shell.bulk);
        }
        self.orphan_agents();
    }

    /// Kills the scheduler during its next report or write.
    ///
    /// The write finishes recipients without an agent, or adds some.
    pub fn kill_during_write_or_report(&mut self) {
        self.kill_while_finishing = true;
    }

    /// Kills the scheduler after it has executed this number of further decisions.
    pub fn kill_after(&mut self, decisions: u32) {
        self.decisions_until_kill = Some(decisions);
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

    /// Requests a host's mail (ETRN).
    pub fn etrn(&mut self, host: &[u8]) {
        self.send(Event::Etrn(host));
        self.end_turn();
    }

    /// Gives an operator's order. The observer is notified when it is executed.
    pub fn order(&mut self, ticket: OrderTicket, order: Order) {
        self.send(Event::Ordered { ticket, by: "operator".to_string(), order });
        self.end_turn();
    }

    /// Reloads another configuration, for this scheduler and later ones.
    pub fn reload(&mut self, config: Rc<Config>) {
        self.config = config.clone();
        self.in_shell(|shell| shell.intake.set_max_messages(memory_limit(&config)));
        self.send(Event::Configured(config));
        self.end_turn();
    }

    /// Ends the scheduler as soon as its agents have ended.
    pub fn drain(&mut self) {
        self.in_shell(|shell| shell.is_draining = true);
        self.send(Event::Drain);
        self.end_turn();
    }

    /// Sets the wall clock.
    pub fn set_clock(&mut self, step: ClockStep) {
        self.clock.set(step);
        self.in_shell(|shell| shell.intake.backlog.shift(step));
        self.send(Event::ClockSet(step));
        self.end_turn();
    }

    /// Kills all living agents.
    pub fn kill_agents(&mut self) {
        for pid in self.pids() {
            self.kill_agent(pid);
        }
    }

    /// Runs until `until` by the monotonic clock.
    pub fn run_until(&mut self, until: Timestamp) {
        while self.step(until) {}
        self.clock.advance_to(until);
    }

    /// Runs the next event, if it is not later than `until`. Returns true if there was one.
    pub fn step(&mut self, until: Timestamp) -> bool {
        let Some(happening) = self.next_event(until) else {
            return false;
        };
        self.steps += 1;
        self.steps_at_this_time += 1;
        assert!(
            self.steps_at_this_time < MAX_STEPS_AT_ONE_TIME,
            "too many steps without progress of time"
        );
        let is_in_loop = happening.is_in_loop();
        self.process_event(happening);
        if is_in_loop {
            let crowded = self.setup.multi_event_turns;
            self.turn_goes_on = crowded > 0.0 && self.random.f64() < crowded;
            if self.turn_goes_on {
                self.immediate.push_back(SimEvent::Tick);
            } else {
                self.end_turn();
            }
        }
        let at = self.at();
        let core = self.shell.as_ref().map(|shell| &shell.core);
        self.observer.step_over(at, core, &self.disk, !self.turn_goes_on);
        true
    }

    fn next_event(&mut self, until: Timestamp) -> Option<SimEvent> {
        if let Some(happening) = self.immediate.pop_front() {
            return Some(happening);
        }
        let wakeup = self.shell.as_ref().and_then(|shell| shell.next_wakeup(&self.setup));
        let wakeup = wakeup.map(|wall| self.clock.monotonic_time_of(wall));
        let planned = self.events.next();
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
        self.clock.advance_to(time);
        if planned.is_some_and(|planned| planned <= time) {
            self.events.pop()
        } else {
            Some(SimEvent::Tick)
        }
    }

    /// Plans an event after a delay, which randomness may double.
    fn after(&mut self, delay: Duration, happening: SimEvent) {
        self.after_time(self.clock.now(), delay, happening);
    }

    /// The same, but not before a certain time. Returns the time.
    fn after_time(&mut self, from: Timestamp, delay: Duration, happening: SimEvent) -> Timestamp {
        if delay.is_zero() {
            self.immediate.push_back(happening);
            return self.clock.now();
        }
        let time = from.max(self.clock.now()) + delay.mul_f64(1.0 + self.random.f64());
        self.events.add(time, happening);
        time
    }

    /// Plans an event in the running scheduler after a delay, which randomness may double.
    fn in_shell_after(&mut self, delay: Duration, event: ShellEvent) {
        self.after(delay, SimEvent::InScheduler(self.lives, event));
    }

    fn process_event(&mut self, happening: SimEvent) {
        match happening {
            SimEvent::Notice(name) => self.receive_notice(name),
            SimEvent::JobNotice => self.request_bulk(BulkRequest::Find),
            SimEvent::InScheduler(life, event) if life == self.lives => match event {
                ShellEvent::StartAgent(agent) => self.start_new_agent(agent),
                ShellEvent::Scan => self.scan(),
                ShellEvent::Read(name, how) => self.read(name, how),
                ShellEvent::Loaded(name, how, found) => {
                    self.receive_load_result(name, how, found);
                }
                ShellEvent::ChangedOnDisk(number) => self.send(Event::ChangedOnDisk { number }),
                ShellEvent::Write => self.write(),
                ShellEvent::Report => self.report(),
                ShellEvent::Written(events) => {
                    events.into_iter().for_each(|event| self.receive_write_result(event));
                }
                ShellEvent::Bulk => self.bulk_turn(),
                ShellEvent::BulkDone(answer) => self.receive_bulk_answer(*answer),
            },
            // The scheduler has ended.
            SimEvent::InScheduler(..) => {}
            SimEvent::Agent(pid) => self.agent_turn(pid),
            SimEvent::ReadOutput(pid) => self.read_agent_output(pid),
            SimEvent::Reap(pid) => self.reap(pid),
            // A tick is passed on at the end of each turn.
            SimEvent::Tick => {}
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.agents.keys().copied().collect()
    }

    fn living(&mut self, pid: u32) -> Option<&mut Agent> {
        self.agents.get_mut(&pid)?.as_deref_mut().filter(|agent| agent.end.is_none())
    }

    /// Runs `act` on an agent, with the rest of the world.
    ///
    /// The end of the agent has not been noticed.
    fn with_agent(&mut self, pid: u32, act: impl FnOnce(&mut Self, &mut Agent)) {
        if let Some(mut agent) = self.agents.get_mut(&pid).and_then(Option::take) {
            act(self, &mut agent);
            self.agents.insert(pid, Some(agent));
        }
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
            self.immediate.push_back(SimEvent::Agent(pid));
        } else {
            self.events.add(self.clock.now() + delay, SimEvent::Agent(pid));
        }
    }

    fn agent_turn(&mut self, pid: u32) {
        self.with_agent(pid, |world, agent| {
            agent.is_planned = false;
            if agent.end.is_none() {
                let changed = agent.message().filter(|_| agent.life != world.lives);
                if let Some(number) = changed.filter(|_| world.random.bool()) {
                    let delay = world.setup.delays.read;
                    world.in_shell_after(delay, ShellEvent::ChangedOnDisk(number));
                }
                match agent.step(&mut world.environment()) {
                    NextTurn::After(delay) => {
                        agent.is_planned = true;
                        world.plan_agent_at(pid, delay);
                    }
                    NextTurn::OnOrder => {}
                    NextTurn::Ended(end) => world.mark_ended(agent, end),
                }
                world.plan_agent_read(agent);
            }
        });
    }

    fn environment(&mut self) -> AgentEnvironment<'_> {
        AgentEnvironment {
            at: SimTime { now: self.clock.now(), wall: self.clock.wall(), step: self.steps },
            disk: &mut self.disk,
            hosts: &mut self.hosts,
            random: &mut self.random,
            agent_faults: &self.setup.agent_faults,
            observer: &mut self.observer,
        }
    }

    fn mark_ended(&mut self, agent: &mut Agent, end: AgentEnd) {
        agent.end = Some(end);
        self.disk.alive.remove(&agent.pid);
        self.after(self.setup.delays.reap, SimEvent::Reap(agent.pid));
    }

    fn kill_agent(&mut self, pid: u32) {
        self.with_agent(pid, |world, agent| {
            if agent.end.is_none() {
                agent.disconnect(&mut world.environment());
                world.mark_ended(agent, AgentEnd::Signalled(9));
            }
        });
    }

    /// Plans the reading of an agent's output.
    fn plan_agent_read(&mut self, agent: &mut Agent) {
        if !agent.outbox.is_empty() && !std::mem::replace(&mut agent.is_read_planned, true) {
            self.after(self.setup.delays.pipe, SimEvent::ReadOutput(agent.pid));
        }
    }

    /// Reads an agent's output, or a piece of it.
    fn read_agent_output(&mut self, pid: u32) {
        self.with_agent(pid, |world, agent| {
            agent.is_read_planned = false;
            let length = agent.outbox.len();
            let piece = if world.setup.pieces { world.random.usize(0..=length) } else { length };
            world.read_agent_bytes(agent, piece);
            world.plan_agent_read(agent);
        });
    }

    fn read_agent_bytes(&mut self, agent: &mut Agent, count: usize) {
        let at = self.at();
        let mut too_long = 0;
        if let Some(shell) = self.shell.as_mut().filter(|_| agent.life == self.lives) {
            let (id, observer) = (agent.id, &mut self.observer);
            too_long = agent.lines.push(&agent.outbox[..count], |line| {
                let event = Event::AgentSaid { agent: id, line };
                observer.event_sent(at, &event);
                shell.core.handle(at.wall, event);
            });
        }
        agent.outbox.drain(..count);
        if too_long > 0 {
            self.send(Event::LineSkipped { agent: agent.id, bytes: too_long });
        }
    }

    /// Notices that an agent has ended, and reads its last output.
    fn reap(&mut self, pid: u32) {
        let Some(mut agent) = self.agents.remove(&pid).flatten() else {
            return;
        };
        let everything = agent.outbox.len();
        self.read_agent_bytes(&mut agent, everything);
        if let Some(shell) = self.shell.as_mut().filter(|_| agent.life == self.lives)
            && let Some(end) = agent.end
        {
            shell.pids.remove(&agent.id);
            self.send(Event::AgentEnded { agent: agent.id, end });
        }
    }

    /// Sends a line to an agent.
    fn send_to_agent(&mut self, agent: AgentId, text: &[u8]) {
        if let Some(pid) = self.pid(agent)
            && self.living(pid).is_some_and(|agent| agent.send(text))
        {
            self.plan_agent(pid, Duration::ZERO);
        }
    }

    fn stop_agent(&mut self, agent: AgentId, manner: StopMode) {
        if let Some(new) = self.shell.as_mut().and_then(|shell| shell.new_agents.get_mut(&agent)) {
            new.stop = Some(manner);
            return;
        }
        let Some(pid) = self.pid(agent) else {
            return;
        };
        if manner == StopMode::Kill {
            return self.kill_agent(pid);
        }
        self.send_to_agent(agent, b"\n");
        if self.living(pid).is_some_and(|agent| agent.hang_up(manner == StopMode::Quit)) {
            self.plan_agent(pid, Duration::ZERO);
        }
    }

    /// Runs `act` on the scheduler, if one runs.
    fn in_shell(&mut self, act: impl FnOnce(&mut Shell)) {
        if let Some(shell) = &mut self.shell {
            act(shell);
        }
    }

    fn send(&mut self, event: Event<'_>) {
        let at = self.at();
        if let Some(shell) = &mut self.shell {
            self.observer.event_sent(at, &event);
            shell.core.handle(at.wall, event);
        }
    }
}
