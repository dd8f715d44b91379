//! The orders in force, kept in `.scheduler.orders` in POSTOFFICE ([`journal`]).
//!
//! The writer appends what changes and syncs it; changes that come while it is at it are stored with the next
//! ones. If the file cannot be read at the start, nobody knows what was held: then everything is, until an
//! operator has looked at it.

mod journal;

pub use journal::Journal;

use super::files::{Files, WriteRequest};
use zsched_core::OrderTicket;
use zsched_core::change::Change;

/// Changes that are to be stored, and the orders that wait for them.
#[derive(Default)]
pub struct OrdersFile {
    /// Changes since the last request.
    changes: Vec<Change>,
    /// The orders that wait for these; `None` is for no order in particular.
    wanted: Vec<Option<OrderTicket>>,
    /// The orders that wait for the present request.
    under_way: Option<Vec<Option<OrderTicket>>>,
}

impl OrdersFile {
    /// Takes changes that are to be stored.
    pub fn keep(&mut self, ticket: Option<OrderTicket>, changes: Vec<Change>) {
        self.wanted.push(ticket);
        self.changes.extend(changes);
    }

    /// Asks the writer to store them, unless it is at it.
    pub fn write_on(&mut self, files: &mut Files) {
        if self.under_way.is_none() {
            self.finish(files);
        }
    }

    /// The same, whatever it is at.
    pub fn finish(&mut self, files: &mut Files) {
        if !self.wanted.is_empty() {
            self.under_way.get_or_insert_default().append(&mut self.wanted);
            files.write(WriteRequest::KeepOrders(std::mem::take(&mut self.changes)));
        }
    }

    /// The writer is done; returns the orders that wait for that.
    pub fn kept(&mut self) -> Vec<Option<OrderTicket>> {
        self.under_way.take().unwrap_or_default()
    }
}
