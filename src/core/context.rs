//! What every decision depends on besides the mail, and where decisions go.

use crate::action::Action;
use crate::operator::order::OrderTicket;
use crate::recent::RecentCounters;
use crate::settings::Settings;
use crate::timers::Timers;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;
use zsched_config::Config;
use zsched_format::time::Timestamp;

/// Settings, configuration, time and random numbers; actions, timers and totals.
#[derive(Serialize, Deserialize)]
pub struct Context {
    pub settings: Settings,
    // A recording stores it as text.
    #[serde(skip, default = "Config::empty")]
    pub config: Rc<Config>,
    /// The initial scan is not complete, and `-S` was given.
    pub awaits_initial_scan: bool,
    /// The scheduler is ending.
    ///
    /// Agents are stopped and no new ones are started.
    pub is_draining: bool,
    /// The event feed has a subscriber that needs the results of attempts.
    pub has_subscribers: bool,
    /// Time of the present event, or of the last one.
    pub now: Timestamp,
    #[serde(with = "crate::checkpoint::random")]
    pub random: fastrand::Rng,
    /// The order of an operator that is being carried out.
    // None between two events.
    #[serde(skip)]
    pub present_order: Option<PresentOrder>,
    /// When the core must be called again.
    pub timers: Timers,
    pub counters: Counters,
    /// Grows with each change of what the next process should know ([`crate::learned`]).
    pub learned_revision: u64,
    // For people; no decision depends on it.
    #[serde(skip)]
    pub recent: RecentCounters,
    /// Actions in the order in which they were decided.
    // Empty whenever a checkpoint is written.
    #[serde(skip)]
    actions: VecDeque<Action>,
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

/// An order that is being carried out.
pub struct PresentOrder {
    pub ticket: OrderTicket,
    /// Number of its parts that are still to be stored.
    pub parts: u32,
}

impl Context {
    pub fn new(settings: Settings, config: Rc<Config>) -> Context {
        Context {
            config,
            awaits_initial_scan: settings.wait_for_initial_scan,
            is_draining: false,
            has_subscribers: false,
            now: Timestamp::EPOCH,
            random: fastrand::Rng::with_seed(settings.seed),
            present_order: None,
            timers: Timers::default(),
            counters: Counters::default(),
            learned_revision: 0,
            recent: RecentCounters::default(),
            actions: VecDeque::new(),
            settings,
        }
    }

    /// Begins an event.
    pub fn begin(&mut self, now: Timestamp) {
        self.now = now;
        self.recent.record(now, &self.counters);
    }

    /// Adds a part to the present order, if there is one: it is answered after that.
    ///
    /// Returns the order.
    pub fn add_order_part(&mut self) -> Option<OrderTicket> {
        let order = self.present_order.as_mut()?;
        order.parts += 1;
        Some(order.ticket)
    }

    pub fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub fn log(&mut self, level: Level, text: String) {
        self.act(Action::Log(level, text));
    }

    /// Takes the next action.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Actions that were not taken yet, in order.
    pub fn actions(&self) -> &VecDeque<Action> {
        &self.actions
    }
}
