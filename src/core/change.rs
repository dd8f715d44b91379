//! Changes of the orders in force, one by one: the shell stores these, not all orders for each of them.

use super::standing::{Ending, Hold, LimitName, Scope, SetLimit, Standing, StandingOrders};
use serde::{Deserialize, Serialize};

/// One change of the orders in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Something is held.
    Hold(Hold),
    /// A limit is set, in the place of a former one of the same scope.
    Limit(SetLimit),
    /// A message ends as soon as that can be done.
    Ending(Ending),
    /// A hold is over.
    Released(Scope),
    /// A limit is that of the configuration again.
    Unset {
        /// Whose limit.
        scope: Scope,
        /// Which limit.
        limit: LimitName,
    },
    /// No message of this number is held, or is to end.
    Dropped(u64),
    /// No message of this number is to end.
    Forgotten(u64),
    /// Nothing is held any more.
    Cleared {},
}

impl From<Standing> for Change {
    fn from(order: Standing) -> Change {
        match order {
            Standing::Hold(hold) => Change::Hold(hold),
            Standing::Limit(limit) => Change::Limit(limit),
            Standing::Ending(ending) => Change::Ending(ending),
        }
    }
}

impl StandingOrders {
    /// Makes a change, which is to be stored.
    pub(super) fn change(&mut self, change: Change) {
        self.apply(change.clone());
        self.changes.push(change);
    }

    /// Makes a change.
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
            Change::Ending(ending) => drop(self.endings.insert(ending.message.number, ending)),
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
