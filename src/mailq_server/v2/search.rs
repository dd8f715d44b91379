//! Searches the mail of a selection in steps: in the core, then in files for addresses and sizes.

use super::rows::{MAX_COST_PER_TURN, RowSource};
use super::selection::Selection;
use super::task::{Answer, Candidate, Lookup, LookupResult, SessionContext, Step};
use std::ops::ControlFlow;
use zsched_core::select::{Cursor, MailFilter, Selected};
use zsched_format::time::Timestamp;

/// Maximum number of entries examined per step, and in one order.
///
/// An entry is the recipients of a message for one destination.
pub(super) const MAX_ENTRIES_PER_STEP: usize = 500;
/// The same if files must be read or examined: other clients need the disk, too.
const MAX_FILES_PER_STEP: usize = 64;

/// Maximum number of steps per turn.
const MAX_STEPS_PER_TURN: usize = 20;

/// A search and its progress.
pub(super) struct Search {
    selection: Selection,
    filter: MailFilter,
    cursor: Cursor,
    /// Entries that are being compared with their files.
    asked: Vec<Selected>,
    /// Entries of these that match.
    matching: Vec<Selected>,
}

impl Search {
    /// Begins a search.
    ///
    /// `held` restricts it to messages that are held one by one.
    pub(super) fn new(selection: Selection, now: Timestamp, held: bool) -> Search {
        let filter = MailFilter { held, ..selection.filter(now) };
        let cursor = Cursor::default();
        Search { selection, filter, cursor, asked: Vec::new(), matching: Vec::new() }
    }

    /// Takes the next step.
    ///
    /// Returns the matching entries, which may be none. `Break` is the step of the task if the
    /// search ends, or needs a lookup first.
    pub(super) fn next(
        &mut self,
        context: &SessionContext<'_>,
    ) -> ControlFlow<Step, Vec<Selected>> {
        let matching = std::mem::take(&mut self.matching);
        if !matching.is_empty() {
            // The message may have left since, and its number may belong to another one.
            let is_there = |found: &Selected| context.scheduler.view().has_message(found.id);
            return ControlFlow::Continue(matching.into_iter().filter(is_there).collect());
        }
        if self.cursor.is_over() {
            return ControlFlow::Break(Step::Done);
        }
        let reads = self.selection.files.is_given();
        let count = if reads { MAX_FILES_PER_STEP } else { MAX_ENTRIES_PER_STEP };
        let mut found = context.scheduler.view().select(&self.filter, &mut self.cursor, count);
        found.retain(|found| self.selection.matches_name(found));
        if self.selection.files.addresses.is_given() {
            // An entry that is not in memory has no destination to look for.
            found.retain(|found| found.target.destination.is_some());
        }
        if found.is_empty() || !reads {
            return ControlFlow::Continue(found);
        }
        let candidates = found.iter().map(|found| {
            let destination = found.target.destination.as_ref();
            let destination = destination.map_or_else(Box::default, |name| name.as_bytes().into());
            Candidate { name: found.name.clone(), destination }
        });
        let candidates = candidates.collect();
        self.asked = found;
        let criteria = self.selection.files.clone();
        ControlFlow::Break(Step::Lookup(Lookup::MatchFiles(criteria, candidates)))
    }

    /// Takes the result of the lookup.
    pub(super) fn take_answer(&mut self, answer: Answer) {
        let asked = std::mem::take(&mut self.asked);
        if let Answer::Lookup(LookupResult::MatchFiles(fits)) = answer {
            let fits = asked.into_iter().zip(fits);
            self.matching = fits.filter_map(|(found, fits)| fits.then_some(found)).collect();
        }
    }
}

impl RowSource for Search {
    type Found = Selected;
    const MORE: &str = "more row";
    const COST: usize = MAX_COST_PER_TURN / MAX_STEPS_PER_TURN;

    fn search(&mut self, context: &SessionContext<'_>) -> ControlFlow<Step, Vec<Selected>> {
        self.next(context)
    }

    fn take_answer(&mut self, answer: Answer) {
        Search::take_answer(self, answer);
    }

    fn is_fast(&self) -> bool {
        !self.selection.files.is_given()
    }
}
