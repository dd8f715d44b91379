//! The scheduler's core: it is told facts and asked for decisions, and does nothing else.
//!
//! It opens no file, reads no clock, starts no process, and draws chance only from a seed. The daemon,
//! the tests and the benchmarks all drive it the same way:
//!
//! ```text
//! scheduler.handle(now, event);                       // one fact
//! while let Some(action) = scheduler.poll() { .. }    // what is to be done about it
//! scheduler.next_wakeup();                            // when to send Event::Tick if nothing happens
//! ```
//!
//! The words: a *message* is one control file; its recipients for one channel and host are a
//! *vertex*; all vertices for one channel and host are a *thread*; all threads of a channel that
//! matched one clause are a *ring*; an *agent* is a process of a ring that works on one thread at a
//! time. Who does what:
//!
//! | file | decides |
//! |---|---|
//! | [`arrive`] | what becomes of a control file that was read |
//! | [`assign`] | which thread and ring recipients belong to |
//! | [`serve`] | which thread gets an agent: an idle one, a new one, or none and why |
//! | [`probe`] | when agents that cannot be started are tried again |
//! | [`starved`], [`share`] | which ring gets the next agent where limits leave too few, and from which ring |
//! | [`feed`] | what an agent that is hungry gets next |
//! | [`jobs`], [`work`] | the same, where work is chosen by message and not by thread |
//! | [`outcome`] | what a report means |
//! | [`window`] | how many agents may work on a destination, how often, and when it is dead |
//! | [`contact`] | whether a host answers, for all that its reports say |
//! | [`retry`], [`expiry`] | when something is tried again, and when no more |
//! | [`finish`] | when a message leaves the spool |
//! | [`order`], [`hold`], [`limit`], [`dispose`], [`ending`] | what operators order, and what comes of it |
//! | [`agent_end`], [`resync`], [`turn`], [`reload`], [`joining`], [`put_off`], [`clock`] | the rarer events, one each |
//! | [`batch`] | when more is read of a message that is in memory in part |
//! | [`rest`] | what leaves memory while others wait for room |
//! | [`learned`], [`standing`], [`change`] | nothing: what outlives the scheduler |
//! | [`status`] | nothing: what the status log is told |
//! | [`remark`] | how much of what agents do wrong is logged |
//! | [`view`], [`records`], [`survey`], [`entries`], [`why`], [`rank`], [`select`], [`inspect`] | nothing: it is what MAILQ may see, what something waits for, which mail an operator means, and who explains a recording |
//! | [`checkpoint`] | nothing: the state as a whole, to go on from later |
#![deny(clippy::disallowed_methods)]

mod action;
mod agent;
mod agent_end;
mod arrive;
mod assign;
mod batch;
pub mod change;
mod checkpoint;
mod clock;
mod contact;
mod destination;
mod dispose;
mod ending;
pub mod entries;
mod event;
mod expiry;
mod feed;
mod finish;
pub mod foresee;
mod hold;
mod inspect;
pub mod intake;
mod invariants;
mod jobs;
mod joining;
pub mod learned;
mod limit;
mod list;
mod message;
pub mod order;
mod outcome;
mod pool;
mod probe;
mod put_off;
pub mod rank;
pub mod records;
mod reload;
mod remark;
mod rest;
pub mod rested;
mod resync;
mod retry;
mod review;
mod ring;
pub mod select;
mod serde_config;
mod serve;
mod settings;
mod share;
pub mod standing;
mod starved;
mod status;
pub mod survey;
mod thread;
mod timers;
mod turn;
pub mod unreachable;
mod vertex;
pub mod view;
mod waves;
pub mod why;
mod window;
mod work;

#[cfg(test)]
mod tests;

pub use action::{Action, Attempt, Manner, Note, NoteTicket, Statistics, StatusRecord, Verdict};
pub use agent::AgentId;
pub use batch::Capacity;
pub use checkpoint::{Checkpoint, Kept};
pub use destination::Destination;
pub use event::{AgentEnd, Crowd, Event, Reread};
pub use inspect::{Inspected, Rest};
pub use order::{Effect, Order, OrderRefusal, OrderTicket, Target};
pub use probe::StartFailure;
pub use rested::{Rested, RestedVertex, Wanted};
pub use ring::Refusal;
pub use settings::Settings;
pub use share::RING_TURN;
pub use unreachable::Block;
pub use vertex::Fate;

use agent::Agents;
use message::Messages;
use pool::Pool;
use ring::{RingId, Rings};
use serde::{Deserialize, Serialize};
use serve::ForkRate;
use starved::Starved;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use thread::Threads;
use timers::{Timer, Timers};
use vertex::Vertex;
use zsched_config::Config;
use zsched_format::time::Timestamp;

/// A part of some work on the whole queue, as much as one turn allows.
type Step = fn(&mut Scheduler, Timestamp);

/// The core. See the module's documentation.
#[derive(Serialize, Deserialize)]
pub struct Scheduler {
    settings: Settings,
    // A recording has it as text.
    #[serde(skip, default = "Config::none")]
    config: Rc<Config>,
    messages: Messages,
    vertices: Pool<Vertex>,
    threads: Threads,
    windows: window::Windows,
    rings: Rings,
    agents: Agents,
    /// Agents in the pools of all rings.
    idle_agents: usize,
    /// How many agents there are, as limits count them.
    census: share::Census,
    /// Rings in which a thread may be able to get an agent now.
    unserved: VecDeque<RingId>,
    /// Rings that were refused an agent for the sake of others, in the order of their turn.
    starved: Starved,
    fork_rate: ForkRate,
    /// Notes that are not on disk yet.
    notes: BTreeMap<NoteTicket, Note>,
    timers: Timers,
    // Empty whenever a checkpoint is written.
    #[serde(skip)]
    actions: VecDeque<Action>,
    #[serde(with = "checkpoint::random")]
    random: fastrand::Rng,
    counters: Counters,
    /// What operators have ordered until further notice.
    standing: standing::StandingOrders,
    pending_orders: order::PendingOrders,
    /// When the log last said that something cannot be written, and how often it kept silent since.
    write_trouble: Option<(Timestamp, u32)>,
    /// What the former scheduler has left, until everything that was there is loaded.
    memory: Option<learned::Memory>,
    lessons: u64,
    /// What rests on disk, because there is no room for it.
    rests: rest::Rests,
    /// Messages that are in memory in part.
    batches: batch::Batches,
    /// Threads that are being compared with the orders in force.
    review: review::Review,
    /// While threads are left that the present configuration is still to be applied to: where in their
    /// pool the first of them may be.
    swept: Option<usize>,
    /// Threads that have come to rings with jobs, and of which some has not joined these yet.
    joining: joining::Joining,
    putting_off: put_off::PuttingOff,
    expiring: expiry::Expiring,
    last_step: clock::LastStep,
    /// When it was told something last.
    told_at: Timestamp,
    next_agent: u64,
    next_ticket: NoteTicket,
    /// The initial scan is not over, and `-S` was given.
    is_holding: bool,
    /// Agents are being told to end, no new ones are started.
    is_draining: bool,
    /// Somebody wants to know how attempts end.
    is_watched: bool,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Control files taken in.
    pub messages_in: u64,
    /// Messages that left the spool.
    pub messages_out: u64,
    /// Recipients taken in.
    pub recipients_in: u64,
    /// Recipients that were finished.
    pub recipients_out: u64,
    /// Agents started.
    pub agents_started: u64,
}

impl Scheduler {
    /// A scheduler with nothing in its queue.
    pub fn new(settings: Settings, config: Rc<Config>) -> Scheduler {
        Scheduler {
            random: fastrand::Rng::with_seed(settings.seed),
            is_holding: settings.wait_for_initial_scan,
            settings,
            config,
            messages: Messages::new(),
            vertices: Pool::new(),
            threads: Threads::new(),
            windows: window::Windows::new(),
            rings: Rings::new(),
            agents: Agents::new(),
            idle_agents: 0,
            census: share::Census::default(),
            unserved: VecDeque::new(),
            starved: Starved::default(),
            fork_rate: ForkRate::default(),
            notes: BTreeMap::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            counters: Counters::default(),
            standing: standing::StandingOrders::default(),
            pending_orders: order::PendingOrders::default(),
            write_trouble: None,
            memory: None,
            lessons: 0,
            rests: rest::Rests::default(),
            batches: batch::Batches::default(),
            review: review::Review::default(),
            swept: None,
            joining: joining::Joining::default(),
            putting_off: put_off::PuttingOff::default(),
            expiring: expiry::Expiring::default(),
            last_step: clock::LastStep::default(),
            told_at: Timestamp::EPOCH,
            next_agent: 1,
            next_ticket: 1,
            is_draining: false,
            is_watched: false,
        }
    }

    /// Tells one fact.
    pub fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        self.told_at = now;
        match event {
            Event::Arrived(arrival) => self.arrive(now, arrival),
            Event::Learned(learned) => self.remember(learned),
            Event::InitialScanDone => self.end_hold(now),
            Event::ReadAgain { number, outcome } => self.read_again(now, number, outcome),
            Event::Noted { ticket, outcome } => self.noted(now, ticket, outcome),
            Event::Removed { number, outcome } => self.removed(now, number, outcome),
            Event::AgentStarted { agent, pid } => self.agent_started(agent, pid),
            Event::AgentSaid { agent, line } => self.agent_said(now, agent, line),
            Event::LinePassedOver { agent, bytes } => self.line_passed_over(now, agent, bytes),
            Event::AgentLingers { agent } => self.agent_lingers(agent),
            Event::AgentEnded { agent, end } => self.agent_ended(now, agent, &end),
            Event::Configured(config) => self.reconfigure(now, config),
            Event::Turn(host) => {
                self.turn(now, &[host]);
            }
            Event::Standing(order) => self.remember_order(order),
            Event::Ordered { ticket, by, order } => self.obey(now, ticket, by, order),
            Event::StandingKept { ticket, outcome } => self.standing_kept(now, ticket, outcome),
            Event::Drain => self.drain(now),
            Event::ClockSet(step) => self.clock_set(now, step),
            Event::Tick => self.tick(now),
            Event::Watched(is_watched) => self.is_watched = is_watched,
            Event::Recalled { number, rested, wanted } => self.recalled(number, rested, wanted),
            Event::Outside { crowd, reading } => {
                self.reserve(reading);
                self.crowded(now, crowd);
            }
            Event::MoreRead { number, outcome } => self.more_read(now, number, outcome),
        }
        self.serve_all(now);
    }

    /// One thing to do, in the order in which they were decided.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What is to be done, and was not polled yet, in the order in which it was decided.
    pub fn decided(&self) -> &VecDeque<Action> {
        &self.actions
    }

    /// When to send [`Event::Tick`], if nothing else happens before.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Whether the message of a number is being taken out of the spool; `None` if there is none of
    /// this number, so that its control file may be read.
    pub fn is_leaving(&self, number: u64) -> Option<bool> {
        Some(self.messages[self.messages.find(number)?].removing)
    }

    /// Whether the core has asked for the control file of a message to be read again.
    pub fn is_reading_again(&self, number: u64) -> bool {
        self.messages.find(number).is_some_and(|id| self.messages[id].rereading)
    }

    /// Whether [`Event::ReadAgain`] may come unasked for a message: it is in memory as a whole, and stays.
    pub fn may_be_read_again(&self, number: u64) -> bool {
        let message = self.messages.find(number).map(|id| &self.messages[id]);
        message.is_some_and(|m| !m.rereading && !m.removing && !m.partial)
    }

    /// Whether agents are left, idle ones included.
    pub fn has_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Whether an agent has jobs that are not finished.
    pub fn has_jobs(&self, agent: AgentId) -> bool {
        let agent = self.agents.get(&agent);
        agent.is_some_and(|agent| {
            agent.jobs().any(|vertex| self.vertices[vertex].place == vertex::Place::Fed)
        })
    }

    /// Whether notes or removals are under way that should be on disk before the daemon ends.
    pub fn has_unwritten(&self) -> bool {
        !self.notes.is_empty() || self.messages.iter().any(|(_, message)| message.removing)
    }

    fn tick(&mut self, now: Timestamp) {
        let mut steps = Vec::new();
        // A hundred thousand threads may wake up at the same time. What is left is due at once.
        let mut left = self.settings.step();
        while left > 0
            && let Some(timer) = self.timers.pop_due(now)
        {
            if let Timer::Thread(thread) = timer {
                left = left.saturating_sub(self.threads[thread].step_cost());
            }
            match timer {
                Timer::Thread(thread) => self.thread_timer(now, thread),
                Timer::Agent(agent) => self.agent_timer(now, agent),
                Timer::Memory => self.memory_timer(now),
                Timer::ForkRate => self.fork_rate_timer(now),
                Timer::Ring(ring) => self.serve_later(ring),
                Timer::Note(ticket) => self.write_note_again(ticket),
                Timer::Removal(message) => self.remove_again(message),
                Timer::Limits => self.limits_timer(now),
                Timer::KeepOrders => self.store_again(),
                Timer::Sweep
                | Timer::Review
                | Timer::Rest
                | Timer::Batches
                | Timer::Members
                | Timer::Expiry
                | Timer::PutOff
                | Timer::Clock => steps.push(timer),
                Timer::Window(window) => self.window_timer(window),
            }
        }
        // These set their timers again, for the next turn.
        let all: [(Timer, Step); 8] = [
            (Timer::Sweep, Scheduler::sweep),
            (Timer::Review, Scheduler::review_on),
            (Timer::Rest, Scheduler::rest_on),
            (Timer::Batches, Scheduler::batches_on),
            (Timer::Members, Scheduler::go_on_rounds),
            (Timer::Expiry, Scheduler::expire_on),
            (Timer::PutOff, Scheduler::put_off_on),
            (Timer::Clock, Scheduler::go_on_telling_of_clock),
        ];
        for (timer, step) in all {
            if steps.contains(&timer) {
                step(self, now);
            }
        }
    }

    fn thread_timer(&mut self, now: Timestamp, thread: thread::ThreadId) {
        self.threads[thread].timer = None;
        self.settle(now, thread);
        let thread_ref = &mut self.threads[thread];
        let wakes = thread_ref.wakeup().is_some_and(|wakeup| wakeup <= now);
        if thread_ref.expiry_check.is_some_and(|check| check <= now) {
            self.expire_thread(now, thread);
        }
        if wakes && self.threads.get(thread).is_some() {
            self.wake_waves(now, thread);
        }
        if self.threads.get(thread).is_some() {
            self.set_thread_timer(thread);
        }
    }

    /// Sets the timer of a thread to what comes first: its wake-up, or the next expiry.
    fn set_thread_timer(&mut self, thread: thread::ThreadId) {
        let thread_ref = &mut self.threads[thread];
        let wanted = thread_ref.next_look();
        let former = std::mem::replace(&mut thread_ref.timer, wanted);
        if former == wanted {
            return;
        }
        let knows_step = self.knows_step(thread);
        self.timers.change_thread(thread, knows_step, [former, wanted]);
    }

    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn log(&mut self, level: log::Level, text: String) {
        self.act(Action::Log(level, text));
    }
}
