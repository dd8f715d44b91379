//! Changes of the overrides, one by one.
//!
//! The shell stores the changes, instead of all overrides for each of them.

use crate::operator::overrides::{
    Hold, LimitName, LimitOverride, Override, Overrides, PendingRemoval, Scope,
};
use serde::{Deserialize, Serialize};

/// One change of the overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Adds a hold.
    Hold(Hold),
    /// Sets a limit, and replaces the former one of its scope.
    Limit(LimitOverride),
    /// Orders the removal of a message, as soon as that is possible.
    #[serde(rename = "ending")]
    Removal(PendingRemoval),
    /// Ends a hold.
    Released(Scope),
    /// Resets a limit to that of the configuration.
    Unset {
        /// Scope of the limit.
        scope: Scope,
        /// Name of the limit.
        limit: LimitName,
    },
    /// Drops the hold and the removal of the message of this number.
    Dropped(u64),
    /// Drops the removal of the message of this number.
    Forgotten(u64),
    /// Drops all holds.
    Cleared {},
}

impl From<Override> for Change {
    fn from(order: Override) -> Change {
        match order {
            Override::Hold(hold) => Change::Hold(hold),
            Override::Limit(limit) => Change::Limit(limit),
            Override::Removal(ending) => Change::Removal(ending),
        }
    }
}

impl Overrides {
    /// Applies a change, and queues it to be stored.
    pub(crate) fn change(&mut self, change: Change) {
        self.apply(change.clone());
        self.changes.push(change);
    }

    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Hold(hold) => match hold.scope {
                Scope::Message(id) => drop(self.messages.insert(id.number, hold)),
                _ => self.holds.push(hold),
            },
            Change::Limit(set) => {
                self.limits.retain(|old| old.scope != set.scope || old.limit != set.limit);
                self.limits.push(set);
            }
            Change::Removal(ending) => drop(self.endings.insert(ending.message.number, ending)),
            Change::Released(Scope::Message(id)) => drop(self.messages.remove(&id.number)),
            Change::Released(scope) => self.holds.retain(|hold| hold.scope != scope),
            Change::Unset { scope, limit } => {
                self.limits.retain(|set| set.scope != scope || set.limit != limit);
            }
            Change::Dropped(number) => {
                self.messages.remove(&number);
                self.endings.remove(&number);
            }
            Change::Forgotten(number) => drop(self.endings.remove(&number)),
            Change::Cleared {} => {
                self.holds.clear();
                self.messages.clear();
            }
        }
    }
}
