//! Overrides of operators, kept in `.scheduler.orders` in POSTOFFICE ([`journal`]).
//!
//! The writer appends changes and syncs the file. Changes that come meanwhile are stored with the
//! next write. If the file cannot be read at the start, it is not known what was held. Then
//! everything is held until an operator has examined the file.

mod journal;

pub(crate) use journal::OverridesJournal;

use crate::spool_io::{SpoolIo, WriteRequest};
use zsched_core::OrderTicket;
use zsched_core::overrides::OverrideChange;

/// Changes to be stored, and the orders waiting for them.
#[derive(Default)]
pub(crate) struct OverridesFile {
    /// Changes since the last request to the writer.
    changes: Vec<OverrideChange>,
    /// Orders waiting for these changes; `None` for a change without an order.
    wanted: Vec<Option<OrderTicket>>,
    /// Orders waiting for the present request.
    under_way: Option<Vec<Option<OrderTicket>>>,
}

impl OverridesFile {
    /// Adds changes to be stored, for an order if it has a ticket.
    pub(crate) fn add_changes(
        &mut self,
        ticket: Option<OrderTicket>,
        changes: Vec<OverrideChange>,
    ) {
        self.wanted.push(ticket);
        self.changes.extend(changes);
    }

    /// Requests the writer to store the changes, unless a request is under way.
    pub(crate) fn store_pending(&mut self, files: &mut SpoolIo) {
        if self.under_way.is_none() {
            self.finish(files);
        }
    }

    /// Requests the writer to store the changes, even if a request is under way.
    pub(crate) fn finish(&mut self, files: &mut SpoolIo) {
        if !self.wanted.is_empty() {
            self.under_way.get_or_insert_default().append(&mut self.wanted);
            files.write(WriteRequest::StoreOverrides(std::mem::take(&mut self.changes)));
        }
    }

    /// Ends the present request and returns the orders that waited for it.
    pub(crate) fn take_stored_orders(&mut self) -> Vec<Option<OrderTicket>> {
        self.under_way.take().unwrap_or_default()
    }
}
