//! Overrides: holds, limits and removals that operators have ordered.
//!
//! They outlive the process: the shell keeps them in a file (`daemon/state/overrides/`), and passes
//! them to the core before the first message.

use crate::Scheduler;
use crate::action::Action;
use crate::context::Context;
use crate::operator::order::PendingOrders;
use crate::query::view::View;
use crate::queue::{AfterJob, Destination, Ring};
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use zsched_config::{Name, Pattern};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

/// Maximum number of messages that are held individually.
///
/// An operator who wants more can hold a destination.
pub const MAX_HELD_MESSAGES: usize = 50_000;
/// Maximum number of holds of destinations and rings, and of limits.
///
/// Each new destination is compared with all of them.
pub const MAX_OVERRIDES: usize = 1000;

/// One change of the overrides.
///
/// The shell stores the changes, instead of all overrides for each of them. `Hold`, `Limit` and
/// `Removal` contain the override that they add; [`Overrides::iter`] returns each override as one
/// of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverrideChange {
    /// Adds a hold.
    Hold(Hold),
    /// Sets a limit, and replaces the former one of its scope.
    Limit(LimitOverride),
    /// Orders the removal of a message, as soon as that is possible.
    #[serde(rename = "ending")]
    Removal(PendingRemoval),
    /// Sets the priority of a message.
    Priority(PriorityOverride),
    /// Ends a hold.
    Released(Scope),
    /// Resets a limit to that of the configuration.
    Unset {
        /// Scope of the limit.
        scope: Scope,
        /// Name of the limit.
        limit: LimitName,
    },
    /// Drops the hold and the removal of a message that has left, by its number.
    #[serde(rename = "dropped")]
    MessageLeft(u64),
    /// Drops the removal of the message of this number, to make room for another one.
    #[serde(rename = "forgotten")]
    RemovalDropped(u64),
    /// Drops all holds.
    Cleared {},
}

/// A scope that gets no agent until it is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What is held.
    pub scope: Scope,
    /// Operator and time of the order.
    pub author: Author,
    /// Reason that the operator gave; may be empty.
    pub reason: String,
}

/// Operator and time of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// User name in the session.
    pub name: String,
    /// Time of the order.
    pub since: Timestamp,
}

/// A limit that was set at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOverride {
    /// Where it applies.
    pub scope: Scope,
    /// Which.
    pub limit: LimitName,
    /// The present value.
    pub value: u32,
    /// When the limit of the configuration applies again.
    ///
    /// `None` is when an operator undoes it.
    pub until: Option<Timestamp>,
    /// Operator and time of the order.
    pub author: Author,
}

/// Removal of a whole message.
///
/// Parts of it are with agents or not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRemoval {
    /// The message.
    #[serde(with = "spool_id")]
    pub message: SpoolId,
    /// How it is removed.
    #[serde(rename = "fate")]
    pub after_job: AfterJob,
    /// Operator and time of the order.
    pub author: Author,
}

/// The priority of a message that an operator has set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityOverride {
    /// The message.
    #[serde(with = "spool_id")]
    pub message: SpoolId,
    /// The priority, as in [`crate::queue::Message::priority`].
    pub priority: u8,
    /// Operator and time of the order.
    pub author: Author,
}

/// A limit that can be set at run time.
///
/// Its name is the keyword in `scheduler.cf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitName {
    /// `maxta`
    MaxTa,
    /// `maxchannel`
    MaxChannel,
    /// `maxring`
    MaxRing,
    /// `maxthr`
    MaxThr,
    /// `overfeed`
    Overfeed,
}

impl LimitName {
    /// All of them.
    pub const ALL: [LimitName; 5] = [
        LimitName::MaxTa,
        LimitName::MaxChannel,
        LimitName::MaxRing,
        LimitName::MaxThr,
        LimitName::Overfeed,
    ];

    /// The keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            LimitName::MaxTa => "maxta",
            LimitName::MaxChannel => "maxchannel",
            LimitName::MaxRing => "maxring",
            LimitName::MaxThr => "maxthr",
            LimitName::Overfeed => "overfeed",
        }
    }

    /// The limit that a keyword sets.
    pub fn of_keyword(keyword: &str) -> Option<LimitName> {
        Self::ALL.into_iter().find(|limit| limit.keyword() == keyword)
    }
}

/// What an order applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All threads whose channel and host match, future ones included.
    Destinations(DestinationPattern),
    /// All threads of the clause with this pattern: `channel/host`, as in `scheduler.cf`.
    Ring(String),
    /// One message.
    #[serde(with = "spool_id")]
    Message(SpoolId),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Destinations(destinations) => f.write_str(destinations.text()),
            Scope::Ring(pattern) => write!(f, "ring {pattern}"),
            Scope::Message(id) => write!(f, "{id}"),
        }
    }
}

/// A pattern of destinations: `channel/host`, in lower case.
///
/// The language is that of `scheduler.cf`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DestinationPattern {
    text: String,
    pattern: Box<Pattern>,
}

impl DestinationPattern {
    /// Parses a pattern. The error is a text for the operator.
    pub fn parse(text: &str) -> Result<DestinationPattern, String> {
        let text = text.to_lowercase();
        match Pattern::parse(&text, &mut Vec::new()) {
            Ok(pattern) => Ok(DestinationPattern { text, pattern: Box::new(pattern) }),
            Err(error) => Err(format!("{text}: {}", error.message)),
        }
    }

    /// The pattern as text, in lower case.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the pattern is `*/*`, which matches every destination.
    pub fn matches_all(&self) -> bool {
        self.text == "*/*"
    }

    /// Returns true if a destination matches.
    pub fn matches(&self, destination: &Destination) -> bool {
        let (channel, host) = (destination.channel(), destination.host());
        self.pattern.matches(&Name::new(channel), &Name::new(host))
    }
}

impl PartialEq for DestinationPattern {
    fn eq(&self, other: &DestinationPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for DestinationPattern {}

impl TryFrom<String> for DestinationPattern {
    type Error = String;

    fn try_from(text: String) -> Result<DestinationPattern, String> {
        DestinationPattern::parse(&text)
    }
}

impl From<DestinationPattern> for String {
    fn from(destinations: DestinationPattern) -> String {
        destinations.text
    }
}

/// All overrides.
#[derive(Default, Serialize, Deserialize)]
pub struct Overrides {
    /// Holds of destinations and rings, in the order in which they were ordered.
    pub holds: Vec<Hold>,
    /// Held messages, by their number.
    pub messages: BTreeMap<u64, Hold>,
    /// Limits, the newest last.
    pub limits: Vec<LimitOverride>,
    /// Messages to be removed, by their number.
    #[serde(rename = "endings")]
    pub removals: BTreeMap<u64, PendingRemoval>,
    /// Priorities of messages, by their number.
    pub priorities: BTreeMap<u64, PriorityOverride>,
    // Empty between two events.
    #[serde(skip)]
    pub(crate) changes: Vec<OverrideChange>,
    /// Number of changes of the limits: rings have the limits of a certain number.
    pub(crate) limits_version: u32,
}

impl Overrides {
    /// Applies a change, and queues it to be stored.
    pub(crate) fn change(&mut self, change: OverrideChange) {
        self.apply(change.clone());
        self.changes.push(change);
    }

    /// Applies a change.
    pub fn apply(&mut self, change: OverrideChange) {
        match change {
            OverrideChange::Hold(hold) => match hold.scope {
                Scope::Message(id) => drop(self.messages.insert(id.number, hold)),
                _ => self.holds.push(hold),
            },
            OverrideChange::Limit(set) => {
                self.limits.retain(|old| old.scope != set.scope || old.limit != set.limit);
                self.limits.push(set);
            }
            OverrideChange::Removal(removal) => {
                drop(self.removals.insert(removal.message.number, removal))
            }
            OverrideChange::Priority(set) => drop(self.priorities.insert(set.message.number, set)),
            OverrideChange::Released(Scope::Message(id)) => drop(self.messages.remove(&id.number)),
            OverrideChange::Released(scope) => self.holds.retain(|hold| hold.scope != scope),
            OverrideChange::Unset { scope, limit } => {
                self.limits.retain(|set| set.scope != scope || set.limit != limit);
            }
            OverrideChange::MessageLeft(number) => {
                self.messages.remove(&number);
                self.removals.remove(&number);
                self.priorities.remove(&number);
            }
            OverrideChange::RemovalDropped(number) => drop(self.removals.remove(&number)),
            OverrideChange::Cleared {} => {
                self.holds.clear();
                self.messages.clear();
            }
        }
    }

    /// The hold that applies to a thread of a ring.
    pub fn hold_of(&self, destination: &Destination, ring: &Ring) -> Option<&Hold> {
        if self.holds.is_empty() {
            return None;
        }
        let (channel, host) = (Name::new(destination.channel()), Name::new(destination.host()));
        self.holds.iter().find(|hold| hold.scope.contains_named(&channel, &host, ring))
    }

    /// Returns true if there is a hold with exactly this scope.
    pub fn is_held(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Message(id) => self.hold_of_message(*id).is_some(),
            scope => self.holds.iter().any(|hold| hold.scope == *scope),
        }
    }

    /// The hold of a message.
    pub fn hold_of_message(&self, id: SpoolId) -> Option<&Hold> {
        self.messages.get(&id.number).filter(|hold| hold.scope == Scope::Message(id))
    }

    /// The removal that was ordered for a message.
    pub fn removal_of(&self, id: SpoolId) -> Option<&PendingRemoval> {
        self.removals.get(&id.number).filter(|removal| removal.message == id)
    }

    /// The priority that was set for a message.
    pub fn priority_of(&self, id: SpoolId) -> Option<u8> {
        let set = self.priorities.get(&id.number).filter(|set| set.message == id)?;
        Some(set.priority)
    }

    /// Drops the oldest removal, to make room for another one.
    pub(crate) fn drop_oldest_removal(&mut self) {
        let oldest = self.removals.iter().min_by_key(|(_, removal)| removal.author.since);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.change(OverrideChange::RemovalDropped(number));
        }
    }

    /// Drops the overrides with a message's number.
    ///
    /// Returns true if there were any.
    pub(crate) fn drop_message(&mut self, number: u64) -> bool {
        let is_known = self.messages.contains_key(&number)
            || self.removals.contains_key(&number)
            || self.priorities.contains_key(&number);
        if is_known {
            self.change(OverrideChange::MessageLeft(number));
        }
        is_known
    }

    /// All overrides.
    pub fn iter(&self) -> impl Iterator<Item = OverrideChange> {
        let holds =
            self.holds.iter().chain(self.messages.values()).cloned().map(OverrideChange::Hold);
        let limits = self.limits.iter().cloned().map(OverrideChange::Limit);
        let priorities = self.priorities.values().cloned().map(OverrideChange::Priority);
        let removals = self.removals.values().cloned().map(OverrideChange::Removal);
        holds.chain(limits).chain(removals).chain(priorities)
    }

    /// Number of overrides.
    pub fn len(&self) -> usize {
        let of_messages = self.messages.len() + self.removals.len() + self.priorities.len();
        self.holds.len() + self.limits.len() + of_messages
    }

    /// Number of overrides that each thread is compared with.
    pub(crate) fn compared_per_thread(&self) -> usize {
        self.holds.len() + self.limits.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Panics if an override is in the wrong list.
    ///
    /// Each change must be on its way to the disk.
    pub fn check(&self) {
        assert!(self.changes.is_empty(), "changed overrides are not stored");
        for hold in &self.holds {
            let is_of_message = matches!(hold.scope, Scope::Message(_));
            assert!(!is_of_message, "{}: among the holds of destinations", hold.scope);
        }
        for (number, hold) in &self.messages {
            let is_own = matches!(hold.scope, Scope::Message(id) if id.number == *number);
            assert!(is_own, "{}: held as {number}", hold.scope);
        }
        for (number, removal) in &self.removals {
            assert_eq!(removal.message.number, *number, "removal of another message");
        }
        for (number, set) in &self.priorities {
            assert_eq!(set.message.number, *number, "priority of another message");
        }
        for (index, set) in self.limits.iter().enumerate() {
            let is_same =
                |other: &LimitOverride| other.scope == set.scope && other.limit == set.limit;
            let is_twice = self.limits[..index].iter().any(is_same);
            assert!(!is_twice, "{}: {} is set twice", set.scope, set.limit.keyword());
        }
    }

    /// Adds an override from before the start. This comes before any arrival.
    pub(crate) fn restore_override(&mut self, cx: &mut Context, order: OverrideChange) {
        if let OverrideChange::Limit(LimitOverride { until: Some(until), .. }) = order {
            cx.timers.add(until, Timer::Limits);
        }
        self.apply(order);
    }
}

impl Scope {
    /// The scope in the words of a request of MAILQ.
    pub fn words(&self) -> String {
        match self {
            Scope::Destinations(destinations) => destinations.text().to_string(),
            Scope::Ring(pattern) => format!("ring={pattern}"),
            Scope::Message(id) => format!("id={id}"),
        }
    }

    /// Returns true if a thread of a ring is in the scope.
    pub fn contains(&self, destination: &Destination, ring: &Ring) -> bool {
        let (channel, host) = (Name::new(destination.channel()), Name::new(destination.host()));
        self.contains_named(&channel, &host, ring)
    }

    fn contains_named(&self, channel: &Name<'_>, host: &Name<'_>, ring: &Ring) -> bool {
        match self {
            Scope::Destinations(destinations) => destinations.pattern.matches(channel, host),
            Scope::Ring(pattern) => ring.has_pattern(pattern),
            Scope::Message(_) => false,
        }
    }
}

impl Ring {
    /// Returns true if its clause has this pattern.
    ///
    /// The form is `channel/host`; `channel` alone is `channel/*`.
    pub fn has_pattern(&self, pattern: &str) -> bool {
        let (channel, host) = pattern.split_once('/').unwrap_or((pattern, "*"));
        self.clause.channel_pattern == channel && self.clause.host_pattern == host
    }
}

impl Scheduler {
    /// Tries again to store what could not be stored.
    pub(crate) fn retry_store_overrides(&mut self) {
        self.cx.act(Action::StoreOverrides { ticket: None, changes: Vec::new() });
    }
}

impl PendingOrders {
    /// Processes the result of storing the overrides.
    pub(crate) fn overrides_stored(
        &mut self,
        cx: &mut Context,
        ticket: Option<crate::OrderTicket>,
        outcome: Result<(), std::io::ErrorKind>,
    ) {
        if outcome.is_err() {
            cx.timers.add(cx.now + cx.settings.failed_write, Timer::StoreOverrides);
        }
        if let Some(ticket) = ticket {
            self.finish_order_part(cx, ticket, outcome.err());
        }
    }
}

impl<'s> View<'s> {
    /// Returns true if a clause of the configuration has this pattern, `channel/host`.
    pub fn has_clause(self, pattern: &str) -> bool {
        self.core.cx.config.has_pattern(pattern)
    }

    /// The overrides.
    pub fn overrides(self) -> &'s Overrides {
        &self.core.overrides
    }
}

/// Serializes a spool id as the pair of number and modification time.
mod spool_id {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use zsched_format::time::Timestamp;
    use zsched_spool::SpoolId;

    pub fn serialize<S: Serializer>(id: &SpoolId, out: S) -> Result<S::Ok, S::Error> {
        (id.number, id.modified).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<SpoolId, D::Error> {
        let (number, modified) = <(u64, Timestamp)>::deserialize(input)?;
        Ok(SpoolId { number, modified })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_match_like_configuration_patterns() {
        let destinations = DestinationPattern::parse("SMTP/*.Test").expect("a pattern");
        let matches = |channel: &str, host: &str| {
            destinations.matches(&Destination::new(channel.as_bytes(), host.as_bytes()))
        };
        assert!(matches("smtp", "mx.test"));
        assert!(!matches("smtp", "test"));
        assert!(!matches("local", "mx.test"));
        assert!(DestinationPattern::parse("/x").is_err());
        assert!(DestinationPattern::parse("smtp/[").is_err());
    }

    #[test]
    fn standing_json_round_trip_keeps_orders() {
        let author = Author { name: "root".to_string(), since: Timestamp::from_seconds(5) };
        let id = SpoolId { number: 7, modified: Timestamp::from_parts(8, 9) };
        for scope in [
            Scope::Destinations(DestinationPattern::parse("smtp/*").expect("a pattern")),
            Scope::Ring("smtp/*.fi".to_string()),
            Scope::Message(id),
        ] {
            let hold = Hold { scope: scope.clone(), author: author.clone(), reason: "x".into() };
            let limit = LimitOverride {
                scope,
                limit: LimitName::MaxThr,
                value: 3,
                until: None,
                author: author.clone(),
            };
            let removal =
                PendingRemoval { message: id, after_job: AfterJob::Delete, author: author.clone() };
            for order in [
                OverrideChange::Hold(hold),
                OverrideChange::Limit(limit),
                OverrideChange::Removal(removal),
            ] {
                let text = serde_json::to_string(&order).expect("JSON");
                let read: OverrideChange = serde_json::from_str(&text).expect("the same");
                assert_eq!(read, order, "{text}");
            }
        }
    }
}
