//! Searches the mail of a selection in steps: in the core, and for addresses in the control files.

use super::answer::{Candidate, Lookup, LookupResult, SessionContext};
use super::selection::Selection;
use zsched_core::select::{Cursor, MailFilter, Selected};
use zsched_format::time::Timestamp;

/// Maximum number of entries examined per step, and in one order.
///
/// An entry is the recipients of a message for one destination.
pub(super) const MAX_ENTRIES_PER_STEP: usize = 500;
/// The same if control files must be read: other clients need the disk, too.
const MAX_FILES_PER_STEP: usize = 64;

/// A search and its progress.
pub(super) struct Search {
    selection: Selection,
    selector: MailFilter,
    cursor: Cursor,
    /// Entries that are being compared with their control files.
    asked: Vec<Selected>,
    /// Entries of these that match.
    matching: Vec<Selected>,
}

/// The result of a step.
pub(super) enum Found {
    /// Some matching entries.
    Some(Vec<Selected>),
    /// A lookup is needed first.
    Needs(Lookup),
    /// No match in this step, but the search is not complete.
    More,
    /// The search is complete.
    Over,
}

impl Search {
    /// Begins a search.
    ///
    /// `held` restricts it to messages that are held one by one.
    pub(super) fn new(selection: Selection, now: Timestamp, held: bool) -> Search {
        let selector = MailFilter { held, ..selection.selector(now) };
        let cursor = Cursor::default();
        Search { selection, selector, cursor, asked: Vec::new(), matching: Vec::new() }
    }

    /// Takes the next step.
    pub(super) fn next(&mut self, context: &SessionContext<'_>) -> Found {
        let matching = std::mem::take(&mut self.matching);
        if !matching.is_empty() {
            // The message may have left since, and its number may belong to another one.
            let is_there = |found: &Selected| context.scheduler.has_message(found.id);
            return Found::Some(matching.into_iter().filter(is_there).collect());
        }
        if self.cursor.is_over() {
            return Found::Over;
        }
        let reads = self.selection.addresses.is_given();
        let count = if reads { MAX_FILES_PER_STEP } else { MAX_ENTRIES_PER_STEP };
        let mut found = context.scheduler.select(&self.selector, &mut self.cursor, count);
        found.retain(|found| self.selection.matches_name(found));
        if reads {
            // An entry that is not in memory has no destination to look for.
            found.retain(|found| found.target.destination.is_some());
        }
        if found.is_empty() {
            return Found::More;
        }
        if !reads {
            return Found::Some(found);
        }
        let candidates = found.iter().filter_map(|found| {
            let destination = found.target.destination.as_ref()?.as_bytes().into();
            Some(Candidate { name: found.name.clone(), destination })
        });
        let candidates = candidates.collect();
        self.asked = found;
        Found::Needs(Lookup::MatchAddresses(self.selection.addresses.clone(), candidates))
    }

    /// Accepts the result of a lookup.
    pub(super) fn lookup_done(&mut self, result: LookupResult) {
        let asked = std::mem::take(&mut self.asked);
        if let LookupResult::MatchAddresses(fits) = result {
            let fits = asked.into_iter().zip(fits);
            self.matching = fits.filter_map(|(found, fits)| fits.then_some(found)).collect();
        }
    }
}
