//! Looking for the mail that a selection means: some at a time, in the core, and where addresses are given in
//! the control files, too.

use super::answer::{Candidate, Findings, Inquiry, Surroundings};
use super::selection::Selection;
use zsched_core::select::{Cursor, Selected, Selector};
use zsched_format::time::Timestamp;

/// So many recipients of a message for a destination are looked at in a step, and are what one order is about at
/// the most.
pub const LOOKED_AT: usize = 500;
/// The same where control files are to be read: others ask for something that is on a disk, too.
const READ_AT_A_TIME: usize = 64;

/// A search, and how far it is.
pub struct Search {
    selection: Selection,
    selector: Selector,
    cursor: Cursor,
    /// What is being compared with the control files.
    asked: Vec<Selected>,
    /// What of it fits.
    fitting: Vec<Selected>,
}

/// What the next step of a search brings.
pub enum Found {
    /// Some of what is meant.
    Some(Vec<Selected>),
    /// Something is to be found out first.
    Needs(Inquiry),
    /// Nothing, but there is more to be looked at.
    More,
    /// That was all.
    Over,
}

impl Search {
    /// Begins a search. What is `held` can be all that is meant: messages that are held one by one.
    pub fn new(selection: Selection, now: Timestamp, held: bool) -> Search {
        let selector = Selector { held, ..selection.selector(now) };
        let cursor = Cursor::default();
        Search { selection, selector, cursor, asked: Vec::new(), fitting: Vec::new() }
    }

    /// The next step.
    pub fn next(&mut self, around: &Surroundings<'_>) -> Found {
        let fitting = std::mem::take(&mut self.fitting);
        if !fitting.is_empty() {
            // It may have left since, and its number may be that of another.
            let is_there = |found: &Selected| around.scheduler.has_message(found.id);
            return Found::Some(fitting.into_iter().filter(is_there).collect());
        }
        if self.cursor.is_over() {
            return Found::Over;
        }
        let reads = self.selection.addresses.are_given();
        let count = if reads { READ_AT_A_TIME } else { LOOKED_AT };
        let mut found = around.scheduler.select(&self.selector, &mut self.cursor, count);
        found.retain(|found| self.selection.is_called(found));
        if reads {
            // What is not in memory has no destination to be looked for.
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
        Found::Needs(Inquiry::Fitting(self.selection.addresses.clone(), candidates))
    }

    /// Takes what was found out.
    pub fn learn(&mut self, findings: Findings) {
        let asked = std::mem::take(&mut self.asked);
        if let Findings::Fitting(fits) = findings {
            let fits = asked.into_iter().zip(fits);
            self.fitting = fits.filter_map(|(found, fits)| fits.then_some(found)).collect();
        }
    }
}
