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
//! matched one clause are a *ring*. An *agent* is a process of a ring, and works on one thread at a
//! time. `docs/architecture.md` has the states of each.
//!
//! This crate makes all scheduling decisions. It must not know sockets, files,
//! processes, clocks, MAILQ or recordings. Begin with [`event`] and [`action`], then [`settle`],
//! then [`dispatch`].
//!
//! | module | decides |
//! |---|---|
//! | [`event`], [`action`], [`settings`] | nothing: what the core receives, what it returns, its options |
//! | [`queue`] | what is queued: messages, vertices, threads; when each is tried again, expires, and leaves the spool |
//! | [`dispatch`] | which agent gets which job: rings, agents, limits, fair shares, windows, preemption |
//! | [`outcome`] | what a report of an agent means, and the end of an agent |
//! | [`operator`] | what the orders of operators change: hold, release, retry, remove, limits, ETRN |
//! | [`bulk`] | which packet of a bulk job is cut next |
//! | [`admission`] | which mail is in memory: files to read, partial messages, paging |
//! | [`context`] | nothing: settings, time and random numbers come from it, actions and timers go to it |
//! | [`settle`] | what follows from a change: timers, ready threads, removals, agents |
//! | [`reload`], [`clock_step`] | what a new configuration changes, and a step of the clock |
//! | [`stepwise`], [`sweep`] | how much of the work on very many values is done in a turn |
//! | [`learned`] | nothing: state that the next process starts with |
//! | [`query`] | nothing: the `View` of all state, and the reason why mail waits |
//! | [`checkpoint`] | nothing: the complete state, to continue from later |
#![deny(clippy::disallowed_methods)]

// What goes in and what comes out.
mod action;
mod event;
mod settings;
mod context;

// The parts.
mod admission;
pub mod bulk;
mod dispatch;
mod operator;
mod outcome;
mod queue;

// What each event does, and what follows from it.
mod events;
mod settle;

// Events that concern everything, and work on it in steps.
mod clock_step;
mod reload;
mod stepwise;
mod sweep;

// What others see of the state.
mod checkpoint;
pub mod learned;
mod query;

// Building blocks.
mod invariants;
mod list;
mod pool;
mod recent;
mod serde_config;
mod timers;

#[cfg(test)]
mod tests;

pub use action::{
    Action, Attempt, Note, NoteTicket, SenderReportTicket, Statistics, StatusRecord, StatusVerdict,
    StopMode,
};
pub use admission::intake;
pub use admission::paged_message::{HostFilter, PagedMessage, PagedVertex};
pub use admission::partial::RecipientRoom;
pub use checkpoint::{Checkpoint, SavedState};
pub use context::Counters;
pub use dispatch::agent::{AgentId, AgentState};
pub use dispatch::fair_share::RING_TIME_SHARE;
pub use dispatch::ring_agents::Refusal;
pub use dispatch::suspended_ring::StartFailure;
pub use event::{AgentEnd, Backlog, Event, RereadResult};
pub use operator::order::{Effect, Order, OrderRefusal, OrderTicket, Target};
pub use operator::{dry_run, order, overrides, select};
pub use outcome::sender_reports;
pub use query::{age_survey, rank, thread_survey, view, why};
pub use queue::destination::Destination;
pub use queue::unreachable::{self, UnreachableReason};
pub use queue::vertex::AfterJob;
pub use settings::Settings;

use crate::query::view::{MessageFlag, View};
use admission::Admission;
use admission::intake::NumberState;
use bulk::BulkJobs;
use context::Context;
use dispatch::Dispatch;
use learned::LearnedState;
use operator::etrn::EarlyHosts;
use operator::order::PendingOrders;
use operator::overrides::Overrides;
use outcome::notes::Notes;
use outcome::sender_reports::SenderReports;
use queue::Queue;
use queue::vertex::VertexState;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;
use sweep::ThreadSweep;
use timers::Timer;
use zsched_config::Config;
use zsched_format::time::Timestamp;

/// The core. See the module's documentation.
///
/// It wires the parts together. Each part owns its state, and checks it.
#[derive(Serialize, Deserialize)]
pub struct Scheduler {
    cx: Context,
    queue: Queue,
    dispatch: Dispatch,
    /// Holds, limits, and removals that are not complete.
    overrides: Overrides,
    /// Orders that are not answered yet.
    orders: PendingOrders,
    early_hosts: EarlyHosts,
    admission: Admission,
    bulk: BulkJobs,
    notes: Notes,
    sender_reports: SenderReports,
    learned: LearnedState,
    /// Changes that are not applied to all threads yet.
    sweep: ThreadSweep,
}

impl Scheduler {
    /// Creates a scheduler with an empty queue.
    pub fn new(settings: Settings, config: Rc<Config>) -> Scheduler {
        Scheduler {
            queue: Queue::default(),
            dispatch: Dispatch::default(),
            overrides: Overrides::default(),
            orders: PendingOrders::default(),
            early_hosts: EarlyHosts::default(),
            admission: Admission::default(),
            bulk: BulkJobs::default(),
            notes: Notes::new(settings.failed_write),
            sender_reports: SenderReports::default(),
            learned: LearnedState::default(),
            sweep: ThreadSweep::default(),
            cx: Context::new(settings, config),
        }
    }

    /// Processes one event.
    pub fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        self.cx.begin(now);
        match event {
            Event::Arrived(arrival) => self.arrive(&arrival),
            Event::Learned(learned) => self.learned.import(&mut self.admission, learned),
            Event::InitialScanDone => self.initial_scan_done(),
            Event::ChangedOnDisk { number } => {
                self.admission.changed_on_disk(&mut self.queue, &mut self.cx, number)
            }
            Event::ReadAgain { number, outcome } => self.read_again(number, outcome),
            Event::Noted { ticket, outcome } => self.noted(ticket, outcome),
            Event::Reported { ticket, outcome } => self.reported(ticket, outcome),
            Event::Removed { number, outcome } => self.removed(number, outcome),
            Event::AgentStarted { agent, pid } => self.dispatch.agent_started(agent, pid),
            Event::AgentSaid { agent, line } => self.agent_said(agent, line),
            Event::LineSkipped { agent, bytes } => {
                self.dispatch.long_line_skipped(&self.queue, &mut self.cx, agent, bytes)
            }
            Event::AgentExitedMidJob { agent } => self.dispatch.agent_exited_mid_job(agent),
            Event::AgentEnded { agent, end } => self.agent_ended(agent, &end),
            Event::Configured(config) => self.apply_config(config),
            Event::Etrn(host) => {
                self.etrn(&[host]);
            }
            Event::Override(order) => self.overrides.restore_override(&mut self.cx, order),
            Event::Ordered { ticket, by, order } => self.execute_order(ticket, by, order),
            Event::OverridesStored { ticket, outcome } => {
                self.orders.overrides_stored(&mut self.cx, ticket, outcome)
            }
            Event::Drain => self.dispatch.drain(&mut self.cx),
            Event::ClockSet(step) => self.clock_set(step),
            Event::Tick => self.tick(),
            Event::Subscribed(has_subscribers) => self.cx.has_subscribers = has_subscribers,
            Event::Restored { number, record, wanted } => {
                self.admission.prepare_restore(&mut self.cx, number, record, wanted)
            }
            Event::BacklogChanged { waiting, reading } => {
                self.admission.set_first_chunks_being_read(reading);
                self.admission.backlog_changed(self.cx.now, waiting);
            }
            Event::Bulk(event) => self.bulk.event(&mut self.orders, &mut self.cx, event),
            Event::MoreRead { number, outcome } => self.more_read(number, outcome),
        }
        self.settle();
    }

    /// Returns the next action, in the order in which they were decided.
    pub fn poll(&mut self) -> Option<Action> {
        self.cx.next_action()
    }

    /// Actions that were not polled yet, in order.
    pub fn pending_actions(&self) -> &VecDeque<Action> {
        self.cx.actions()
    }

    /// Time by which [`Event::Tick`] must be sent, whatever other events come before.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.next_stepwise_work().into_iter().chain(self.cx.timers.next()).min()
    }

    fn tick(&mut self) {
        // Before the timers, which do a first step of what they start.
        self.continue_stepwise_work();
        // A hundred thousand threads may wake up at the same time. What is left stays due at once.
        let mut left = self.cx.settings.step();
        while left > 0
            && let Some(timer) = self.cx.timers.pop_due(self.cx.now)
        {
            match timer {
                Timer::Thread(thread) => {
                    left = left.saturating_sub(self.queue.thread(thread).step_cost());
                    self.thread_timer(thread);
                }
                Timer::Agent(agent) => self.dispatch.agent_timer(&self.queue, &mut self.cx, agent),
                Timer::Unclaimed => self.drop_unclaimed(),
                Timer::ForkRate => self.dispatch.retry_waitlists_soon(),
                Timer::Ring(ring) => self.queue.mark_ring(ring),
                Timer::Note(ticket) => self.notes.write_note_again(&mut self.cx, ticket),
                Timer::Removal(message) => self.queue.remove_again(&mut self.cx, message),
                Timer::Report(message) => {
                    self.sender_reports.report_timer(&mut self.queue, &mut self.cx, message)
                }
                Timer::ReadAgain(message) => self.queue.read_again_timer(&mut self.cx, message),
                Timer::Limits => self.limits_timer(),
                Timer::StoreOverrides => self.retry_store_overrides(),
                Timer::Bulk(job) => self.bulk.timer(job),
                Timer::Window(window) => self.dispatch.window_timer(window),
            }
        }
    }
}

impl<'s> View<'s> {
    /// Returns the state of a message number.
    ///
    /// A control file may be read only if its number is unknown.
    pub fn number_state(self, number: u64) -> NumberState {
        match self.message(number) {
            None => NumberState::Unknown,
            Some(message) if message.is(MessageFlag::Removing) => NumberState::Leaving,
            Some(_) => NumberState::Queued,
        }
    }

    /// Returns true if agents are left, idle ones included.
    pub fn has_agents(self) -> bool {
        !self.core.dispatch.agents().is_empty()
    }

    /// Returns true if an agent has jobs that are not finished.
    pub fn has_jobs(self, agent: AgentId) -> bool {
        let agent = self.core.dispatch.agents().get(agent);
        agent.is_some_and(|agent| {
            agent.jobs().any(|vertex| self.core.queue.vertex(vertex).state == VertexState::Fed)
        })
    }

    /// Returns true if notes or removals are not on disk yet.
    pub fn has_unwritten(self) -> bool {
        self.core.notes.has_unwritten()
            || self
                .core
                .queue
                .messages()
                .iter()
                .any(|(_, message)| message.is(MessageFlag::Removing))
    }
}
