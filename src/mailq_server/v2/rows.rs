//! Answers with a row for each thing that is listed, or that a search finds.

use super::json::line;
use super::show_why::OutputFormat;
use super::task::{Answer, Reply, SessionContext, Step, Task};
use serde::Serialize;
use std::ops::ControlFlow;
use std::vec;
use zsched_core::thread_survey::ThreadSurvey;
use zsched_core::view::ThreadId;
use zsched_format::printable::count;

/// Maximum number of rows written per step.
pub(super) const MAX_ROWS_PER_STEP: usize = 32;
/// Maximum cost of searches and rows per turn. The unit is a message that is examined.
pub(super) const MAX_COST_PER_TURN: usize = 20_000;
/// Maximum number of threads, or of vertices, examined per turn of a survey.
const MAX_SEARCHED_PER_TURN: usize = 50_000;

/// Replies with an object for each of these ids whose `row` still exists.
pub(super) fn objects<I: 'static, T: Serialize>(
    ids: impl IntoIterator<Item = I>,
    row: impl Fn(&SessionContext<'_>, I) -> Option<T> + 'static,
) -> Reply {
    let mut ids = Vec::from_iter(ids).into_iter();
    Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let some = ids.by_ref().take(MAX_ROWS_PER_STEP);
        some.filter_map(|id| row(context, id)).for_each(|row| line(out, &row));
        if ids.len() == 0 { Step::Done } else { Step::More }
    })
}

/// A search whose results are rows.
pub(super) trait RowSource {
    /// A thing that is found. It may be gone when its row is written.
    type Found;
    /// What a row beyond the limit is called.
    const MORE: &str;
    /// Cost of a step of the search.
    const COST: usize;

    /// Takes a step of the search. `Break` is the step of the task if it ends or needs a lookup.
    fn search(&mut self, context: &SessionContext<'_>) -> ControlFlow<Step, Vec<Self::Found>>;

    /// Takes the answer to a lookup.
    fn take_answer(&mut self, _answer: Answer) {}

    /// Returns true if the search reads no files.
    fn is_fast(&self) -> bool {
        true
    }
}

impl RowSource for ThreadSurvey {
    type Found = ThreadId;
    const MORE: &str = "more destination";
    const COST: usize = MAX_COST_PER_TURN;

    fn search(&mut self, context: &SessionContext<'_>) -> ControlFlow<Step, Vec<ThreadId>> {
        let found = self.advance(context.scheduler, MAX_SEARCHED_PER_TURN);
        found.map_or(ControlFlow::Break(Step::Done), ControlFlow::Continue)
    }
}

/// A task that writes a row for each thing that is found, up to a limit.
pub(super) struct Rows<S: RowSource, W> {
    source: S,
    /// Found, and not written yet.
    found: vec::IntoIter<S::Found>,
    /// Number of rows that may still be written.
    left: usize,
    /// Number of rows beyond the limit, if a line is to name it, and its form.
    beyond: Option<(usize, OutputFormat)>,
    write: W,
    /// Cost of this turn.
    cost: usize,
}

impl<S, W> Rows<S, W>
where
    S: RowSource,
    W: FnMut(&S, &SessionContext<'_>, S::Found, &mut Vec<u8>) -> Option<usize>,
{
    /// Creates a task with at most `limit` rows.
    ///
    /// `write` writes a row and returns its cost, or `None` if the thing is gone.
    pub(super) fn new(source: S, limit: usize, write: W) -> Rows<S, W> {
        let found = Vec::new().into_iter();
        Rows { source, found, left: limit, beyond: None, write, cost: 0 }
    }

    /// Ends the answer with a line about the rows beyond the limit, if there are any.
    ///
    /// `None` stands for no such line.
    pub(super) fn with_line_about_more(self, format: Option<OutputFormat>) -> Rows<S, W> {
        Rows { beyond: format.map(|format| (0, format)), ..self }
    }
}

impl<S, W> Task for Rows<S, W>
where
    S: RowSource,
    W: FnMut(&S, &SessionContext<'_>, S::Found, &mut Vec<u8>) -> Option<usize>,
{
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        if self.left == 0 {
            let Some((beyond, format)) = &mut self.beyond else { return Step::Done };
            *beyond += std::mem::take(&mut self.found).len();
            if *beyond > 0 && !self.source.is_fast() {
                format.write_more("more", out);
                return Step::Done;
            }
        }
        if self.found.len() == 0 {
            match (self.source.search(context), self.beyond) {
                (ControlFlow::Continue(found), _) => self.found = found.into_iter(),
                (ControlFlow::Break(Step::Done), Some((beyond @ 1.., format))) => {
                    format.write_more(&count(beyond as u64, S::MORE), out);
                    return Step::Done;
                }
                (ControlFlow::Break(step), _) => return step,
            }
            self.cost += S::COST;
        }
        let mut rows = 0..self.left.min(MAX_ROWS_PER_STEP);
        while self.cost < MAX_COST_PER_TURN
            && rows.next().is_some()
            && let Some(found) = self.found.next()
        {
            if let Some(cost) = (self.write)(&self.source, context, found, out) {
                self.left -= 1;
                self.cost += cost;
            }
        }
        match self.cost < MAX_COST_PER_TURN {
            true => Step::More,
            false => {
                self.cost = 0;
                Step::Pause
            }
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        self.source.take_answer(answer);
    }
}
