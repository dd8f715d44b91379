//! Orders of operators: what they are and when they are answered.
//!
//! What they do is in [`crate::operator::hold`], [`crate::operator::limit`] and
//! [`crate::operator::message_orders`].
//!
//! An order is answered when its changes are on disk: an operator's "+OK" means stored. An order
//! about much mail comes in parts, so that none takes long: the session selects messages with
//! [`crate::operator::select`] and sends an order for some at a time.

use crate::Scheduler;
use crate::action::Action;
use crate::bulk::BulkOrder;
use crate::context::{Context, PresentOrder};
use crate::operator::overrides::{Author, LimitName, Overrides, Scope};
use crate::outcome::notes::Notes;
use crate::queue::{AfterJob, Destination, Queue, ThreadId};
use crate::sweep::{SweptChange, ThreadSweep};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use zsched_bulk::JobId;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// Names an order until it is answered.
pub type OrderTicket = u64;

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Give these no agent. Agents finish the jobs they have.
    Hold {
        /// What to hold.
        scope: Scope,
        /// Reason; may be empty.
        reason: String,
    },
    /// Undo the hold with exactly this scope.
    Release(Scope),
    /// Undo all holds, those of single messages included.
    ReleaseAll,
    /// Hold each of these messages, unless it is held already.
    HoldMessages {
        /// The messages.
        messages: Vec<SpoolId>,
        /// Reason; may be empty.
        reason: String,
    },
    /// Set the priority of these messages.
    SetPriority {
        /// The messages.
        messages: Vec<SpoolId>,
        /// 0 to 9, or [`zsched_format::priority::KEPT_PRIORITY`].
        priority: u8,
    },
    /// Undo the holds of these messages.
    ReleaseMessages(Vec<SpoolId>),
    /// Try everything queued for a host now (ETRN).
    ///
    /// The host is in lower case.
    Turn(#[serde(with = "zsched_format::serde_bytes")] Box<[u8]>),
    /// Try these threads now.
    RetryThreads(Vec<Destination>),
    /// Try these now.
    Retry(Vec<Target>),
    /// Give these up: they fail, and their senders get a report.
    Expire(Vec<Target>),
    /// Remove these without a report.
    Delete(Vec<Target>),
    /// Return these to the router.
    Reroute(Vec<Target>),
    /// Override a limit.
    Set {
        /// Where it applies.
        scope: Scope,
        /// Which.
        limit: LimitName,
        /// The new value.
        value: u32,
        /// End of the override; `None` is until it is undone.
        until: Option<Timestamp>,
    },
    /// Use the limit of the configuration again.
    Unset {
        /// Where the override applies.
        scope: Scope,
        /// Which.
        limit: LimitName,
    },
    /// End the agent with this process id.
    ///
    /// It finishes its present job.
    RetireAgent(u32),
    /// Change a bulk job.
    Bulk {
        /// The job.
        job: JobId,
        /// What to change.
        order: BulkOrder,
    },
    /// Log the results of recipients and messages, or not.
    LogFinishedMessages(bool),
}

/// Recipients of one message: those for one destination, or all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Number of the message.
    pub number: u64,
    /// The destination; `None` is all.
    pub destination: Option<Destination>,
    /// Part of an order about the whole message.
    ///
    /// The order includes recipients that are not loaded.
    pub is_whole: bool,
}

impl Target {
    /// Creates a target for a whole message.
    pub fn whole(number: u64) -> Target {
        Target { number, destination: None, is_whole: true }
    }
}

/// What an order has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Threads that it applied to.
    pub threads: u32,
    /// Messages that it applied to.
    pub messages: u32,
    /// Recipients that it changed.
    pub recipients: u32,
    /// Recipients that agents have.
    ///
    /// The order is carried out for them when the agent has ended the job, unless they were
    /// finished in it.
    pub busy: u32,
    /// Recipients and threads that are held.
    ///
    /// Their next try has to wait.
    pub held: u32,
    /// A thread got an agent at once.
    pub started: bool,
    /// Agents that were told to end.
    pub agents: u32,
    /// Bulk jobs that it changed.
    pub jobs: u32,
    /// Why it could not be stored.
    ///
    /// It is in force all the same, and the write is tried again.
    #[serde(with = "zsched_format::serde_error_kind::of_option")]
    pub unstored: Option<ErrorKind>,
    /// Why nothing was done.
    pub refusal: Option<OrderRefusal>,
}

/// Why an order is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderRefusal {
    /// The thing that it names does not exist.
    NotFound,
    /// The state is already as ordered.
    Already,
    /// The maximum number of overrides is reached.
    TooMany,
    /// This limit applies to rings, not to threads.
    OfRings,
    /// The value is out of range.
    BadValue,
    /// The bulk job is cancelled.
    JobCancelled,
    /// No recipients of the bulk job are lost.
    NothingLost,
}

/// Orders that are not stored on disk yet.
#[derive(Default, Serialize, Deserialize)]
pub struct PendingOrders {
    /// The effect of each, and the number of its parts that are not stored.
    orders: BTreeMap<OrderTicket, (Effect, u32)>,
    /// The order carried out in this event, and the threads that it has woken.
    #[serde(skip)]
    carried_out: Option<(OrderTicket, Vec<ThreadId>)>,
}

impl Scheduler {
    /// Carries out an order of `by`.
    ///
    /// It is answered when all of it is stored.
    pub(crate) fn execute_order(&mut self, ticket: OrderTicket, by: String, order: Order) {
        self.orders.begin(&mut self.cx, ticket);
        let by = Author { name: by, since: self.cx.now };
        let mut woken = Vec::new();
        let effect = match order {
            Order::Hold { scope, reason } => self.hold(scope, by, reason),
            Order::HoldMessages { messages, reason } => self.hold_messages(&messages, &by, &reason),
            Order::SetPriority { messages, priority } => {
                self.set_priority(&messages, priority, &by)
            }
            Order::ReleaseMessages(messages) => {
                self.queue.release_messages(&mut self.overrides, &mut self.cx, &messages)
            }
            Order::Release(scope) => self.release(&scope),
            Order::ReleaseAll => self.release_all(),
            Order::Turn(host) => {
                woken = self.etrn(&[host]);
                Effect { threads: woken.len() as u32, ..Effect::default() }
            }
            Order::RetryThreads(threads) => {
                woken = self.queue.threads_of(&threads);
                self.admission
                    .request_paged_hosts(&mut self.cx, threads.iter().map(Destination::host));
                self.retry_threads(&woken)
            }
            Order::Retry(targets) => self.retry(&targets, &mut woken),
            Order::Expire(targets) => self.end_targets(&targets, (AfterJob::Expire, &by)),
            Order::Delete(targets) => self.end_targets(&targets, (AfterJob::Delete, &by)),
            Order::Reroute(targets) => self.end_targets(&targets, (AfterJob::Reroute, &by)),
            Order::Set { scope, limit, value, until } => {
                self.set_limit(scope, limit, value, until, by)
            }
            Order::Unset { scope, limit } => self.unset_limit(&scope, limit),
            Order::RetireAgent(pid) => self.dispatch.retire_agent_of(&mut self.cx, pid),
            Order::Bulk { job, order } => self.bulk.order(&mut self.cx, job, order, &by.name),
            Order::LogFinishedMessages(log) => {
                self.cx.settings.log_finished_messages = log;
                Effect::default()
            }
        };
        self.orders.store_changed_overrides(&mut self.overrides, &mut self.cx);
        self.orders.end(&mut self.cx, effect, woken);
    }

    /// Applies the changed overrides to every thread.
    ///
    /// The present order is answered after that, with the changes.
    pub(crate) fn sweep_overrides(&mut self) {
        let order = self.cx.add_order_part();
        self.start_sweep(SweptChange::Overrides(order));
    }
}

impl PendingOrders {
    fn begin(&mut self, cx: &mut Context, ticket: OrderTicket) {
        cx.present_order = Some(PresentOrder { ticket, parts: 0 });
        self.orders.insert(ticket, (Effect::default(), 0));
    }

    /// Ends the present order, which is answered at the end of the event or later.
    fn end(&mut self, cx: &mut Context, effect: Effect, woken: Vec<ThreadId>) {
        let Some(PresentOrder { ticket, parts }) = cx.present_order.take() else {
            return;
        };
        if let Some((sum, left)) = self.orders.get_mut(&ticket) {
            sum.add(&effect);
            *left = parts + 1;
        }
        self.carried_out = Some((ticket, woken));
    }

    /// Answers the order carried out in this event, if all of it is stored.
    pub(crate) fn answer(&mut self, queue: &Queue, cx: &mut Context) {
        let Some((ticket, woken)) = self.carried_out.take() else {
            return;
        };
        let started = woken.iter().any(|thread| queue.has_agents_now(*thread));
        self.add_order_effect(Some(ticket), &Effect { started, ..Effect::default() });
        self.finish_order_part(cx, ticket, None);
    }

    /// Stores the changed overrides; the present order is answered after that.
    pub(crate) fn store_overrides(&mut self, overrides: &mut Overrides, cx: &mut Context) {
        let ticket = cx.add_order_part();
        let changes = std::mem::take(&mut overrides.changes);
        cx.act(Action::StoreOverrides { ticket, changes });
    }

    /// Stores the overrides if they have changed.
    pub(crate) fn store_changed_overrides(&mut self, overrides: &mut Overrides, cx: &mut Context) {
        if !overrides.changes.is_empty() {
            self.store_overrides(overrides, cx);
        }
    }

    pub(crate) fn finish_order_part(
        &mut self,
        cx: &mut Context,
        ticket: OrderTicket,
        error: Option<ErrorKind>,
    ) {
        let Some((effect, left)) = self.orders.get_mut(&ticket) else {
            return;
        };
        effect.unstored = effect.unstored.or(error);
        if let Some(order) = cx.present_order.as_mut().filter(|order| order.ticket == ticket) {
            order.parts -= 1;
            return;
        }
        *left -= 1;
        if *left == 0 {
            let effect = *effect;
            self.orders.remove(&ticket);
            cx.act(Action::OrderDone { ticket, effect });
        }
    }

    /// Panics if an order has ended before its parts.
    ///
    /// None may be in the middle of being carried out.
    pub(crate) fn check(&self, notes: &Notes, sweep: &ThreadSweep) {
        assert!(self.carried_out.is_none(), "an order is being carried out");
        let mut parts: BTreeMap<OrderTicket, u32> = BTreeMap::new();
        let tickets = notes.orders();
        for ticket in tickets.chain(sweep.override_orders().flatten()) {
            *parts.entry(ticket).or_default() += 1;
        }
        for (ticket, known) in parts {
            let left = self.orders.get(&ticket).map_or(0, |(_, left)| *left);
            assert!(left >= known, "order {ticket} waits for {left} parts, but {known} are left");
        }
        let is_over = self.orders.values().any(|(_, left)| *left == 0);
        assert!(!is_over, "an order is complete, but not answered");
    }

    /// Adds to the effect of an order.
    pub(crate) fn add_order_effect(&mut self, ticket: Option<OrderTicket>, effect: &Effect) {
        let order = ticket.and_then(|ticket| self.orders.get_mut(&ticket));
        if let Some((sum, _)) = order {
            sum.add(effect);
        }
    }
}

impl Effect {
    /// Adds the effect of another order, or of another part of it.
    pub fn add(&mut self, other: &Effect) {
        self.threads += other.threads;
        self.messages += other.messages;
        self.recipients += other.recipients;
        self.busy += other.busy;
        self.held += other.held;
        self.started |= other.started;
        self.agents += other.agents;
        self.jobs += other.jobs;
        self.unstored = self.unstored.or(other.unstored);
        self.refusal = self.refusal.or(other.refusal);
    }

    /// The effect of an order that is refused.
    pub(crate) fn refused(refusal: OrderRefusal) -> Effect {
        Effect { refusal: Some(refusal), ..Effect::default() }
    }
}
