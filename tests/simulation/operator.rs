//! Operators: what they order in a simulated world, what is in force because of it, and what may not
//! happen then.

use crate::world::{CHANNELS, HOSTS};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_config::Config;
use zsched_core::select::{Cursor, Selector};
use zsched_core::standing::{Destinations, LimitName, Scope, Standing};
use zsched_core::{Destination, Effect, Order, OrderTicket, Scheduler, Target};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// What operators have in mind: each knows of one message, or of some.
const LIMITS: [LimitName; 3] = [LimitName::MaxRing, LimitName::MaxThr, LimitName::Overfeed];

/// What operators have ordered, as they know it themselves.
#[derive(Default)]
pub struct Operators {
    /// Orders that are not obeyed yet.
    given: BTreeMap<OrderTicket, Order>,
    /// Holds among them that were released, or whose message left, before they were answered.
    overtaken: BTreeSet<OrderTicket>,
    /// What is held for sure.
    held: Vec<Scope>,
    /// Holds that were answered as stored: they must be there after a kill.
    stored: Vec<Scope>,
    /// What a scheduler was told when it started, until it has heard everything.
    recalled: Option<Vec<Scope>>,
    /// The highest `maxthr` that was ever set.
    max_thread: u32,
}

impl Operators {
    /// Somebody orders something.
    pub fn gives(&mut self, ticket: OrderTicket, order: &Order) {
        match order {
            // From now on nobody knows when exactly it is free.
            Order::Release(scope) => self.release(|held| held == scope),
            Order::ReleaseAll => self.release(|_| true),
            Order::ReleaseMessages(ids) => self.release(|held| is_one_of(held, ids)),
            Order::Set { limit: LimitName::MaxThr, value, .. } => {
                self.max_thread = self.max_thread.max(*value);
            }
            _ => {}
        }
        let former = self.given.insert(ticket, order.clone());
        assert!(former.is_none(), "a ticket is given twice");
    }

    /// An order was obeyed. Returns the numbers of messages that were put away by it.
    pub fn obeyed(&mut self, ticket: OrderTicket, effect: &Effect) -> Vec<u64> {
        let order = self.given.remove(&ticket);
        let order = order.unwrap_or_else(|| panic!("order {ticket} is obeyed, and nobody gave it"));
        match order {
            Order::Hold { .. } if self.overtaken.remove(&ticket) => {}
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

    /// What somebody wants held is not any more, whatever is answered.
    fn forget_ordered(&mut self, is_meant: impl Fn(&Scope) -> bool) {
        let is_overtaken =
            |order: &Order| matches!(order, Order::Hold { scope, .. } if is_meant(scope));
        let overtaken = self.given.iter().filter(|(_, order)| is_overtaken(order));
        self.overtaken.extend(overtaken.map(|(ticket, _)| *ticket));
        for order in self.given.values_mut() {
            if let Order::HoldMessages { messages, .. } = order {
                messages.retain(|id| !is_meant(&Scope::Message(*id)));
            }
        }
    }

    /// A message has left, or has come under a number that another one had.
    pub fn message_goes(&mut self, number: u64) {
        let is_other = |scope: &Scope| !matches!(scope, Scope::Message(id) if id.number == number);
        self.held.retain(is_other);
        self.stored.retain(is_other);
        if let Some(recalled) = &mut self.recalled {
            recalled.retain(is_other);
        }
        self.forget_ordered(|scope| !is_other(scope));
    }

    /// A message has arrived. A hold of the one that had its number before may have been told from disk.
    pub fn message_comes(&mut self, present: SpoolId) {
        let is_former = |scope: &Scope| matches!(scope, Scope::Message(id) if id.number == present.number && *id != present);
        self.held.retain(|scope| !is_former(scope));
    }

    /// The scheduler is gone, and with it what it had not stored.
    pub fn scheduler_ends(&mut self) {
        self.given.clear();
        self.overtaken.clear();
        self.held.clear();
        self.recalled = None;
    }

    /// A scheduler starts.
    pub fn scheduler_starts(&mut self) {
        self.recalled = Some(Vec::new());
    }

    /// A scheduler that starts is told what the former one was ordered.
    pub fn recalls(&mut self, order: &Standing) {
        if let (Some(recalled), Standing::Hold(hold)) = (&mut self.recalled, order) {
            recalled.push(hold.scope.clone());
        }
    }

    /// A scheduler has been told everything that was stored.
    pub fn is_told_more(&mut self) {
        let Some(recalled) = self.recalled.take() else {
            return;
        };
        for scope in &self.stored {
            assert!(recalled.contains(scope), "the hold of {scope} was stored, and is forgotten");
        }
        self.held = recalled;
    }

    /// Nothing that is held is given to an agent.
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

    /// How many agents there may be at one destination, at most, if the configuration says `configured`.
    pub fn most_agents(&self, configured: u32) -> u32 {
        configured.max(self.max_thread)
    }

    /// Whether something may be held: it is, or somebody has ordered it, or a release of it is under way.
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
        !self.held.is_empty() || self.given.values().any(is_about_holds)
    }

    /// Nobody waits for an answer.
    pub fn check_over(&self) {
        assert!(self.have_answers(), "nobody was told of {:?}", self.given);
    }

    /// Whether all orders are obeyed.
    pub fn have_answers(&self) -> bool {
        self.given.is_empty()
    }
}

/// Something that an operator may want of a scheduler.
pub fn order(random: &mut Rng, core: &Scheduler, now: Timestamp) -> Order {
    match random.u8(0..16) {
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
        _ => Order::RetireAgent(random.u32(1000..1100)),
    }
}

fn ids(random: &mut Rng, core: &Scheduler) -> Vec<SpoolId> {
    some_messages(random, core).into_iter().map(|selected| selected.id).collect()
}

fn is_one_of(scope: &Scope, ids: &[SpoolId]) -> bool {
    matches!(scope, Scope::Message(id) if ids.contains(id))
}

/// Orders that undo everything that is in force.
pub fn undo(core: &Scheduler) -> Vec<Order> {
    if core.standing_orders().is_empty() {
        return Vec::new();
    }
    let limits = core.standing_orders().limits.iter();
    let unset = |set: &zsched_core::standing::SetLimit| Order::Unset {
        scope: set.scope.clone(),
        limit: set.limit,
    };
    limits.map(unset).chain([Order::ReleaseAll]).collect()
}

fn release(random: &mut Rng, core: &Scheduler) -> Order {
    let orders = core.standing_orders();
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

fn pattern(random: &mut Rng) -> Destinations {
    let one = destination(random);
    let text = one.to_string();
    let text = match random.u8(0..8) {
        0 => "*/*".to_string(),
        1 => format!("{}/*", String::from_utf8_lossy(one.channel())),
        2 => format!("*/{}", String::from_utf8_lossy(one.host())),
        _ => text,
    };
    Destinations::parse(&text).expect("a pattern")
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
        all.extend(core.select(&Selector::default(), &mut cursor, 100));
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
