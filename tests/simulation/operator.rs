//! Orders of operators in a simulated world: the orders, the overrides in force, and their
//! invariants.

use crate::world::{CHANNELS, HOSTS};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_bulk::JobId;
use zsched_config::Config;
use zsched_core::bulk::BulkOrder;
use zsched_core::bulk::view::JobState;
use zsched_core::overrides::{DestinationPattern, LimitName, OverrideChange, Scope};
use zsched_core::select::{Cursor, MailFilter};
use zsched_core::{Destination, Effect, Order, OrderTicket, Scheduler, Target};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// Limits that operators set.
const LIMITS: [LimitName; 3] = [LimitName::MaxRing, LimitName::MaxThr, LimitName::Overfeed];

/// Orders and overrides, as operators know them.
#[derive(Default)]
pub struct OperatorChecks {
    /// Orders without an answer so far.
    unanswered: BTreeMap<OrderTicket, Order>,
    /// Holds among them that were released, or whose message left, before the answer.
    overtaken_holds: BTreeSet<OrderTicket>,
    /// Holds that are certainly in force.
    held: Vec<Scope>,
    /// Holds that were answered as stored; they must survive a kill.
    stored: Vec<Scope>,
    /// Holds that a new scheduler has read from disk, until it has read everything.
    restored: Option<Vec<Scope>>,
    /// Maximum of all `maxthr` limits that were ever set.
    max_thread: u32,
}

impl OperatorChecks {
    /// Records a new order.
    pub fn record_order(&mut self, ticket: OrderTicket, order: &Order) {
        match order {
            // The release happens between this moment and the answer.
            Order::Release(scope) => self.release(|held| held == scope),
            Order::ReleaseAll => self.release(|_| true),
            Order::ReleaseMessages(ids) => self.release(|held| is_one_of(held, ids)),
            Order::Set { limit: LimitName::MaxThr, value, .. } => {
                self.max_thread = self.max_thread.max(*value);
            }
            _ => {}
        }
        let former = self.unanswered.insert(ticket, order.clone());
        assert!(former.is_none(), "a ticket is given twice");
    }

    /// Records the answer to an order. Returns the numbers of the messages that the order removed.
    pub fn order_answered(&mut self, ticket: OrderTicket, effect: &Effect) -> Vec<u64> {
        let order = self.unanswered.remove(&ticket);
        let order =
            order.unwrap_or_else(|| panic!("order {ticket} is answered, but was never given"));
        match order {
            Order::Hold { .. } if self.overtaken_holds.remove(&ticket) => {}
            Order::Hold { scope, .. } if effect.refusal.is_none() => {
                if effect.unstored.is_none() {
                    self.stored.push(scope.clone());
                }
                self.held.push(scope);
            }
            Order::HoldMessages { messages, .. } => {
                for id in messages {
                    let scope = Scope::Message(id);
                    if effect.unstored.is_none() {
                        self.stored.push(scope.clone());
                    }
                    self.held.push(scope);
                }
            }
            Order::Delete(targets) if effect.unstored.is_none() => {
                return targets.iter().map(|target| target.number).collect();
            }
            _ => {}
        }
        Vec::new()
    }

    fn release(&mut self, is_meant: impl Fn(&Scope) -> bool) {
        self.held.retain(|held| !is_meant(held));
        self.stored.retain(|held| !is_meant(held));
        self.forget_ordered(is_meant);
    }

    /// Drops ordered holds that are overtaken by a release, whatever their answer is.
    fn forget_ordered(&mut self, is_meant: impl Fn(&Scope) -> bool) {
        let is_overtaken =
            |order: &Order| matches!(order, Order::Hold { scope, .. } if is_meant(scope));
        let overtaken = self.unanswered.iter().filter(|(_, order)| is_overtaken(order));
        self.overtaken_holds.extend(overtaken.map(|(ticket, _)| *ticket));
        for order in self.unanswered.values_mut() {
            if let Order::HoldMessages { messages, .. } = order {
                messages.retain(|id| !is_meant(&Scope::Message(*id)));
            }
        }
    }

    /// Drops holds of a message that has left.
    ///
    /// Its number may also have been given to another message.
    pub fn message_left(&mut self, number: u64) {
        let is_other = |scope: &Scope| !matches!(scope, Scope::Message(id) if id.number == number);
        self.held.retain(is_other);
        self.stored.retain(is_other);
        if let Some(restored) = &mut self.restored {
            restored.retain(is_other);
        }
        self.forget_ordered(|scope| !is_other(scope));
    }

    /// Drops holds of the message that had the number before; they may have been read from disk.
    pub fn message_arrived(&mut self, present: SpoolId) {
        let is_former = |scope: &Scope| matches!(scope, Scope::Message(id) if id.number == present.number && *id != present);
        self.held.retain(|scope| !is_former(scope));
    }

    /// Drops everything that the scheduler had not stored when it ended.
    pub fn scheduler_ended(&mut self) {
        self.unanswered.clear();
        self.overtaken_holds.clear();
        self.held.clear();
        self.restored = None;
    }

    /// Prepares for a scheduler that starts.
    pub fn scheduler_started(&mut self) {
        self.restored = Some(Vec::new());
    }

    /// Records an override that a new scheduler has read from disk.
    pub fn restore(&mut self, order: &OverrideChange) {
        if let (Some(restored), OverrideChange::Hold(hold)) = (&mut self.restored, order) {
            restored.push(hold.scope.clone());
        }
    }

    /// Checks that a new scheduler has read all stored holds from disk.
    pub fn check_restored(&mut self) {
        let Some(restored) = self.restored.take() else {
            return;
        };
        for scope in &self.stored {
            assert!(restored.contains(scope), "the hold of {scope} was stored, and is forgotten");
        }
        self.held = restored;
    }

    /// Checks that no held mail is given to an agent.
    pub fn check_feed(&self, config: &Config, number: u64, channel: &[u8], host: &[u8]) {
        let destination = Destination::new(channel, host);
        let clause = config.select(channel, host);
        for scope in &self.held {
            let is_held = match scope {
                Scope::Destinations(all) => all.matches(&destination),
                Scope::Ring(pattern) => clause.as_ref().is_some_and(|clause| {
                    *pattern == format!("{}/{}", clause.channel_pattern, clause.host_pattern)
                }),
                Scope::Message(id) => id.number == number,
            };
            assert!(!is_held, "{destination} gets {number}, but {scope} is held");
        }
    }

    /// Returns the maximum number of agents at one destination, for a configured limit.
    pub fn max_agents_at_destination(&self, configured: u32) -> u32 {
        configured.max(self.max_thread)
    }

    /// Returns true if mail may be held: by a hold, an unanswered hold, or an unanswered release.
    pub fn may_hold(&self) -> bool {
        let is_about_holds = |order: &Order| {
            matches!(
                order,
                Order::Hold { .. }
                    | Order::HoldMessages { .. }
                    | Order::Release(_)
                    | Order::ReleaseAll
                    | Order::ReleaseMessages(_)
            )
        };
        !self.held.is_empty() || self.unanswered.values().any(is_about_holds)
    }

    /// Checks that all orders were answered.
    pub fn check_all_answered(&self) {
        assert!(self.all_answered(), "orders without an answer: {:?}", self.unanswered);
    }

    /// Returns true if all orders were answered.
    pub fn all_answered(&self) -> bool {
        self.unanswered.is_empty()
    }
}

/// Returns a random order that an operator could give.
pub fn order(random: &mut Rng, core: &Scheduler, now: Timestamp) -> Order {
    match random.u8(0..19) {
        0..=2 => Order::Hold { scope: scope(random, core), reason: String::new() },
        3 | 4 => release(random, core),
        5 => Order::ReleaseAll,
        6 => Order::Retry(targets(random, core)),
        7 => Order::RetryThreads(vec![destination(random)]),
        8 => Order::Expire(targets(random, core)),
        9 => Order::Delete(targets(random, core)),
        10 => Order::Reroute(targets(random, core)),
        11 => {
            let until = now + Duration::from_secs(random.u64(1..5000));
            let (scope, limit) = limit(random);
            let value = random.u32(0..5);
            Order::Set { scope, limit, value, until: random.bool().then_some(until) }
        }
        12 => {
            let (scope, limit) = limit(random);
            Order::Unset { scope, limit }
        }
        13 => {
            let messages = ids(random, core);
            Order::HoldMessages { messages, reason: String::new() }
        }
        14 => Order::ReleaseMessages(ids(random, core)),
        16..=18 => job_order(random, core),
        _ => Order::RetireAgent(random.u32(1000..1100)),
    }
}

fn job_order(random: &mut Rng, core: &Scheduler) -> Order {
    let jobs: Vec<JobId> = core.view().bulk_jobs().map(|job| job.id).collect();
    let job = match jobs.len() {
        0 => JobId::of_key("unknown", 0),
        count => jobs[random.usize(0..count)],
    };
    let order = match random.u8(0..10) {
        0 | 1 => BulkOrder::Pause,
        2 | 3 => BulkOrder::Resume,
        4 => BulkOrder::Cancel,
        5 => BulkOrder::PacketSize(random.u32(1..20)),
        6 | 7 => BulkOrder::Share(random.u8(1..=100)),
        8 => BulkOrder::Priority(random.u8(0..=10)),
        _ => BulkOrder::Lost { are_sent: random.bool() },
    };
    Order::Bulk { job, order }
}

/// Returns the orders without which jobs would wait indefinitely.
pub fn go_on(core: &Scheduler, now: Timestamp, random: &mut Rng) -> Vec<Order> {
    let mut orders = Vec::new();
    for job in core.view().bulk_jobs() {
        let order = match job.state(now) {
            JobState::Paused => BulkOrder::Resume,
            JobState::Kept => BulkOrder::Priority(5),
            JobState::Lost => BulkOrder::Lost { are_sent: random.bool() },
            _ => continue,
        };
        orders.push(Order::Bulk { job: job.id, order });
    }
    orders
}

fn ids(random: &mut Rng, core: &Scheduler) -> Vec<SpoolId> {
    some_messages(random, core).into_iter().map(|selected| selected.id).collect()
}

fn is_one_of(scope: &Scope, ids: &[SpoolId]) -> bool {
    matches!(scope, Scope::Message(id) if ids.contains(id))
}

/// Returns the orders that undo all overrides.
pub fn undo(core: &Scheduler) -> Vec<Order> {
    if core.view().overrides().is_empty() {
        return Vec::new();
    }
    let limits = core.view().overrides().limits.iter();
    let unset = |set: &zsched_core::overrides::LimitOverride| Order::Unset {
        scope: set.scope.clone(),
        limit: set.limit,
    };
    limits.map(unset).chain([Order::ReleaseAll]).collect()
}

fn release(random: &mut Rng, core: &Scheduler) -> Order {
    let orders = core.view().overrides();
    let held: Vec<Scope> =
        orders.holds.iter().chain(orders.messages.values()).map(|h| h.scope.clone()).collect();
    match held.len() {
        0 => Order::Release(scope(random, core)),
        count => Order::Release(held[random.usize(0..count)].clone()),
    }
}

fn scope(random: &mut Rng, core: &Scheduler) -> Scope {
    match random.u8(0..6) {
        0 => Scope::Ring("smtp/*".to_string()),
        1..=3 => {
            let all = some_messages(random, core);
            match all.first() {
                Some(selected) => Scope::Message(selected.id),
                None => Scope::Ring("local/*".to_string()),
            }
        }
        _ => Scope::Destinations(pattern(random)),
    }
}

fn pattern(random: &mut Rng) -> DestinationPattern {
    let one = destination(random);
    let text = one.to_string();
    let text = match random.u8(0..8) {
        0 => "*/*".to_string(),
        1 => format!("{}/*", String::from_utf8_lossy(one.channel())),
        2 => format!("*/{}", String::from_utf8_lossy(one.host())),
        _ => text,
    };
    DestinationPattern::parse(&text).expect("a pattern")
}

fn limit(random: &mut Rng) -> (Scope, LimitName) {
    match random.bool() {
        true => (Scope::Ring("smtp/*".to_string()), LIMITS[random.usize(0..LIMITS.len())]),
        false => (Scope::Destinations(pattern(random)), LimitName::MaxThr),
    }
}

fn destination(random: &mut Rng) -> Destination {
    let channel = CHANNELS[random.usize(0..CHANNELS.len())];
    let host = HOSTS[random.usize(0..HOSTS.len())];
    Destination::new(channel.as_bytes(), host.as_bytes())
}

fn some_messages(random: &mut Rng, core: &Scheduler) -> Vec<zsched_core::select::Selected> {
    let mut all = Vec::new();
    let mut cursor = Cursor::default();
    while !cursor.is_over() {
        all.extend(core.view().select(&MailFilter::default(), &mut cursor, 100));
    }
    random.shuffle(&mut all);
    all.truncate(random.usize(0..5));
    all
}

fn targets(random: &mut Rng, core: &Scheduler) -> Vec<Target> {
    let (all, is_whole) = (random.bool(), random.bool());
    let selected = some_messages(random, core).into_iter().map(|selected| selected.target);
    let target = |target: Target| Target {
        destination: target.destination.filter(|_| !all),
        is_whole,
        ..target
    };
    selected.map(target).collect()
}
