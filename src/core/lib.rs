//! The scheduler's core, a state machine: events go in, actions come out.
//!
//! It opens no file, reads no clock, starts no process, and takes random numbers only from a seed.
//! The daemon, the tests and the benchmarks all drive it the same way:
//!
//! ```text
//! scheduler.handle(now, event);                       // one event
//! while let Some(action) = scheduler.poll() { .. }    // the actions that follow from it
//! scheduler.next_wakeup();                            // time of the next Event::Tick
//! ```
//!
//! The words: a *message* is one control file. Its recipients for one channel and host are a
//! *vertex*. All vertices for one channel and host are a *thread*. All threads of a channel that
//! matched one clause are a *ring*. An *agent* is a process of a ring that works on one thread at a
//! time.
//!
//! | file | decides |
//! |---|---|
//! | [`arrive`] | what happens with a control file that was read |
//! | [`assign`] | which thread and ring recipients belong to |
//! | [`serve`] | which thread gets an agent: an idle one, a new one, or none and why |
//! | [`probe`] | when a ring whose agents cannot be started tries again |
//! | [`starved`] | which ring gets the next agent when limits leave too few |
//! | [`share`] | which ring gives an agent up for another one |
//! | [`feed`] | what a hungry agent gets next |
//! | [`jobs`], [`work`] | the same, in rings that choose work by message and not by thread |
//! | [`outcome`] | what a report means |
//! | [`window`] | how many agents may work on a destination, how often, and when it is dead |
//! | [`contact`] | whether a host answers, according to its reports |
//! | [`retry`], [`expiry`] | when something is tried again, and when it expires |
//! | [`finish`] | when a message leaves the spool |
//! | [`order`], [`hold`], [`limit`] | what the orders of operators change |
//! | [`dispose`], [`ending`] | how operators remove mail from the queue |
//! | [`agent_end`], [`resync`] | what the end of an agent changes, and its `#resync` |
//! | [`turn`], [`clock`] | what ETRN changes, and a step of the clock |
//! | [`reload`], [`joining`] | what a new configuration changes |
//! | [`put_off`] | when due vertices of a destination are deferred together |
//! | [`batch`] | when the next chunk of a partial message is read |
//! | [`rest`] | which messages are paged out while others wait for room |
//! | [`learned`], [`standing`], [`change`] | nothing: state that outlives the process |
//! | [`status`] | nothing: records for the status log |
//! | [`remark`] | how many log lines about one agent are written |
//! | [`view`], [`records`], [`survey`], [`entries`] | nothing: read-only views of the queue |
//! | [`why`], [`rank`] | nothing: the reasons for which mail waits |
//! | [`select`] | nothing: the search for mail that an operator selects |
//! | [`inspect`] | nothing: the views that replays of recordings use |
//! | [`checkpoint`] | nothing: the complete state, to continue from later |
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

pub use action::{Action, Attempt, Note, NoteTicket, Statistics, StatusRecord, StopMode, Verdict};
pub use agent::AgentId;
pub use batch::RecipientRoom;
pub use checkpoint::{Checkpoint, SavedState};
pub use destination::Destination;
pub use event::{AgentEnd, Backlog, Event, RereadResult};
pub use inspect::{VertexInspection, VertexStatus};
pub use order::{Effect, Order, OrderRefusal, OrderTicket, Target};
pub use probe::StartFailure;
pub use rested::{HostFilter, PagedMessage, PagedVertex};
pub use ring::Refusal;
pub use settings::Settings;
pub use share::RING_TURN;
pub use unreachable::UnreachableReason;
pub use vertex::AfterJob;
use vertex::VertexState;

use agent::Agents;
use message::Messages;
use pool::Pool;
use ring::{RingId, Rings};
use serde::{Deserialize, Serialize};
use serve::ForkRate;
use starved::AgentWaitlists;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use thread::Threads;
use timers::{Timer, Timers};
use vertex::Vertex;
use zsched_config::Config;
use zsched_format::time::Timestamp;

/// One turn's part of work on the whole queue.
type SweepStep = fn(&mut Scheduler, Timestamp);

/// The core. See the module's documentation.
#[derive(Serialize, Deserialize)]
pub struct Scheduler {
    settings: Settings,
    // A recording stores it as text.
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
    /// Numbers of agents, as limits count them.
    agent_counts: share::AgentCounts,
    /// Rings in which a thread may be able to get an agent now.
    rings_to_serve: VecDeque<RingId>,
    /// Waitlists of rings that need an agent, in order.
    ///
    /// Limits that they share with others leave too few.
    waitlists: AgentWaitlists,
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
    /// Overrides of operators.
    ///
    /// They are holds and limits, and removals that are not complete.
    standing: standing::Overrides,
    unstored_orders: order::PendingOrders,
    /// Log limiter for failed writes.
    ///
    /// Time of the last log line, and number of lines suppressed since.
    write_failure_log: Option<(Timestamp, u32)>,
    /// State that the previous process left, until the initial scan is loaded.
    unclaimed: Option<learned::Unclaimed>,
    learned_revision: u64,
    /// What the core keeps about messages that are paged out.
    paging: rest::PagingState,
    /// Partial messages: only some of their recipients are in memory.
    partials: batch::PartialMessages,
    /// Progress of reapplying the overrides to all threads.
    review: review::ReapplyState,
    /// Position of the sweep after a reload, in slots of threads.
    ///
    /// The present configuration is applied to all threads before it.
    ///
    /// `None` when it is applied to all threads.
    reload_cursor: Option<usize>,
    /// Threads whose due vertices are still to be enqueued in jobs.
    joining: joining::Backfill,
    deferrals: put_off::Deferrals,
    expirations: expiry::Expiring,
    last_step: clock::LastClockStep,
    /// Time of the last event.
    last_event_at: Timestamp,
    next_agent: u64,
    next_ticket: NoteTicket,
    /// The initial scan is not complete, and `-S` was given.
    awaits_initial_scan: bool,
    /// The scheduler is ending.
    ///
    /// Agents are stopped and no new ones are started.
    is_draining: bool,
    /// The event feed has a subscriber that needs the results of attempts.
    has_subscribers: bool,
}

/// Totals since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Control files that were loaded.
    pub messages_in: u64,
    /// Messages that left the spool.
    pub messages_out: u64,
    /// Recipients that were loaded.
    pub recipients_in: u64,
    /// Recipients that were finished.
    pub recipients_out: u64,
    /// Agents started.
    pub agents_started: u64,
}

impl Scheduler {
    /// Creates a scheduler with an empty queue.
    pub fn new(settings: Settings, config: Rc<Config>) -> Scheduler {
        Scheduler {
            random: fastrand::Rng::with_seed(settings.seed),
            awaits_initial_scan: settings.wait_for_initial_scan,
            settings,
            config,
            messages: Messages::new(),
            vertices: Pool::new(),
            threads: Threads::new(),
            windows: window::Windows::new(),
            rings: Rings::new(),
            agents: Agents::new(),
            idle_agents: 0,
            agent_counts: share::AgentCounts::default(),
            rings_to_serve: VecDeque::new(),
            waitlists: AgentWaitlists::default(),
            fork_rate: ForkRate::default(),
            notes: BTreeMap::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            counters: Counters::default(),
            standing: standing::Overrides::default(),
            unstored_orders: order::PendingOrders::default(),
            write_failure_log: None,
            unclaimed: None,
            learned_revision: 0,
            paging: rest::PagingState::default(),
            partials: batch::PartialMessages::default(),
            review: review::ReapplyState::default(),
            reload_cursor: None,
            joining: joining::Backfill::default(),
            deferrals: put_off::Deferrals::default(),
            expirations: expiry::Expiring::default(),
            last_step: clock::LastClockStep::default(),
            last_event_at: Timestamp::EPOCH,
            next_agent: 1,
            next_ticket: 1,
            is_draining: false,
            has_subscribers: false,
        }
    }

    /// Processes one event.
    pub fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        self.last_event_at = now;
        match event {
            Event::Arrived(arrival) => self.arrive(now, arrival),
            Event::Learned(learned) => self.import_learned(learned),
            Event::InitialScanDone => self.initial_scan_done(now),
            Event::ReadAgain { number, outcome } => self.read_again(now, number, outcome),
            Event::Noted { ticket, outcome } => self.noted(now, ticket, outcome),
            Event::Removed { number, outcome } => self.removed(now, number, outcome),
            Event::AgentStarted { agent, pid } => self.agent_started(agent, pid),
            Event::AgentSaid { agent, line } => self.agent_said(now, agent, line),
            Event::LineSkipped { agent, bytes } => self.long_line_skipped(now, agent, bytes),
            Event::AgentExitedMidJob { agent } => self.agent_exited_mid_job(agent),
            Event::AgentEnded { agent, end } => self.agent_ended(now, agent, &end),
            Event::Configured(config) => self.apply_config(now, config),
            Event::Etrn(host) => {
                self.etrn(now, &[host]);
            }
            Event::Override(order) => self.restore_override(order),
            Event::Ordered { ticket, by, order } => self.execute_order(now, ticket, by, order),
            Event::OverridesStored { ticket, outcome } => {
                self.overrides_stored(now, ticket, outcome)
            }
            Event::Drain => self.drain(now),
            Event::ClockSet(step) => self.clock_set(now, step),
            Event::Tick => self.tick(now),
            Event::Subscribed(has_subscribers) => self.has_subscribers = has_subscribers,
            Event::Restored { number, rested, wanted } => {
                self.prepare_restore(number, rested, wanted)
            }
            Event::BacklogChanged { crowd, reading } => {
                self.reserve(reading);
                self.backlog_changed(now, crowd);
            }
            Event::MoreRead { number, outcome } => self.more_read(now, number, outcome),
        }
        self.serve_all(now);
    }

    /// Returns the next action, in the order in which they were decided.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Actions that were not polled yet, in order.
    pub fn pending_actions(&self) -> &VecDeque<Action> {
        &self.actions
    }

    /// Time at which to send [`Event::Tick`] if no other event comes before.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Returns true if a message is being removed from the spool.
    ///
    /// `None` if there is no message of this number, so that its control file may be read.
    pub fn is_being_removed(&self, number: u64) -> Option<bool> {
        Some(self.messages[self.messages.find(number)?].is_removing)
    }

    /// Returns true if a message's control file is to be read again.
    pub fn is_reading_again(&self, number: u64) -> bool {
        self.messages.find(number).is_some_and(|id| self.messages[id].is_rereading)
    }

    /// Returns true if the message accepts an [`Event::ReadAgain`] that was not requested.
    ///
    /// Its recipients must all be in memory, and it must not be leaving the spool.
    pub fn accepts_reread(&self, number: u64) -> bool {
        let message = self.messages.find(number).map(|id| &self.messages[id]);
        message.is_some_and(|m| !m.is_rereading && !m.is_removing && !m.is_partial)
    }

    /// Returns true if agents are left, idle ones included.
    pub fn has_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Returns true if an agent has jobs that are not finished.
    pub fn has_jobs(&self, agent: AgentId) -> bool {
        let agent = self.agents.get(&agent);
        agent.is_some_and(|agent| {
            agent.jobs().any(|vertex| self.vertices[vertex].place == VertexState::Fed)
        })
    }

    /// Returns true if notes or removals are not on disk yet.
    ///
    /// The daemon waits for them before it ends.
    pub fn has_unwritten(&self) -> bool {
        !self.notes.is_empty() || self.messages.iter().any(|(_, message)| message.is_removing)
    }

    fn tick(&mut self, now: Timestamp) {
        let mut steps = Vec::new();
        // A hundred thousand threads may wake up at the same time. What is left stays due at once.
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
                Timer::Unclaimed => self.drop_unclaimed(now),
                Timer::ForkRate => self.fork_rate_timer(now),
                Timer::Ring(ring) => self.serve_later(ring),
                Timer::Note(ticket) => self.write_note_again(ticket),
                Timer::Removal(message) => self.remove_again(message),
                Timer::Limits => self.limits_timer(now),
                Timer::StoreOverrides => self.retry_store_overrides(),
                Timer::Reload
                | Timer::Reapply
                | Timer::PageOut
                | Timer::ReadMore
                | Timer::WindowRounds
                | Timer::Expiry
                | Timer::Defer
                | Timer::Clock => steps.push(timer),
                Timer::Window(window) => self.window_timer(window),
            }
        }
        // Each step sets its timer again for the next turn.
        let all: [(Timer, SweepStep); 8] = [
            (Timer::Reload, Scheduler::sweep),
            (Timer::Reapply, Scheduler::reapply_some),
            (Timer::PageOut, Scheduler::evict_some),
            (Timer::ReadMore, Scheduler::continue_partial_checks),
            (Timer::WindowRounds, Scheduler::continue_rounds),
            (Timer::Expiry, Scheduler::continue_expiry),
            (Timer::Defer, Scheduler::defer_some),
            (Timer::Clock, Scheduler::continue_clock_step),
        ];
        for (timer, step) in all {
            if steps.contains(&timer) {
                step(self, now);
            }
        }
    }

    fn thread_timer(&mut self, now: Timestamp, thread: thread::ThreadId) {
        self.threads[thread].timer = None;
        self.reassign_ring(now, thread);
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

    /// Sets the timer of a thread.
    ///
    /// It is set to the wake-up or the next expiry, whichever is earlier.
    fn set_thread_timer(&mut self, thread: thread::ThreadId) {
        let thread_ref = &mut self.threads[thread];
        let wanted = thread_ref.next_timer();
        let former = std::mem::replace(&mut thread_ref.timer, wanted);
        if former == wanted {
            return;
        }
        let is_shifted = self.is_shifted(thread);
        self.timers.change_thread(thread, is_shifted, [former, wanted]);
    }

    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn log(&mut self, level: log::Level, text: String) {
        self.act(Action::Log(level, text));
    }
}
