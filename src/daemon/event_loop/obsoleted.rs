//! Ends messages that newer ones take the place of (`x` lines).

use super::Daemon;
use crate::logging::syslog;
use zsched_core::{Event, Order, Target};
use zsched_format::time::Timestamp;
use zsched_spool::obsoletes::Obsoleted;

impl Daemon {
    /// Ends the older message of a pair, as by an operator's order to delete it.
    ///
    /// One that is not in memory is read first.
    pub(super) fn end_obsoleted(&mut self, now: Timestamp, pair: &Obsoleted) {
        let Obsoleted { old, new } = pair;
        if self.core.query().view().has_message(*old) {
            log::info!("{old}: obsoleted by {new}");
            syslog::event(|| format!("{old}: obsoleted by {new}"));
            let order = Order::Delete(vec![Target::whole(old.number)]);
            let (ticket, by) = (self.clients.next_order(), format!("{new}, which obsoletes it"));
            return self.core.handle(now, Event::Ordered { ticket, by, order });
        }
        self.fetch(old.number);
        if self.intake.is_being_read(old.number) {
            self.unread_obsoleted.insert(old.number, *pair);
        }
    }
}
