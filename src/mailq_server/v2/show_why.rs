//! `SHOW WHY` and `SHOW JSON WHY`: what a destination, a message or selected mail waits for.

use super::arguments::Arguments;
use super::json::threads::limit;
use super::search::Search;
use super::selection::Selection;
use super::task::{Answer, Reply, ReplyResult, SessionContext, Step, Task};
use crate::explain::{ExplainCursor, MessageRemark, remarks};
use std::ops::ControlFlow;
use zsched_core::Scheduler;
use zsched_core::intake::backlog_view::FileLocation;
use zsched_core::select::Selected;
use zsched_core::thread_survey::ThreadSurvey;
use zsched_core::view::ThreadId;
use zsched_core::why::Wait;
use zsched_format::printable::count;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::subject::Subject;

/// Maximum number of destinations or messages that are explained, unless `limit=` is given.
const MAX_EXPLAINED: usize = 100;
/// Maximum number of threads examined per step.
const MAX_THREADS_PER_STEP: usize = 10_000;
/// Maximum number of messages explained per step.
const MAX_MESSAGES_PER_STEP: usize = 8;

/// Writes one wait reason; the `bool` is true for that of a single message.
type WriteWait = fn(&Scheduler, Timestamp, &Wait<'_>, bool, &mut Vec<u8>);

/// A form of the answer: text or JSON.
#[derive(Clone, Copy)]
pub(super) struct WhyForm {
    /// Writes a wait reason.
    pub write: WriteWait,
    /// Writes a remark about a message.
    pub remark: fn(&MessageRemark, &mut Vec<u8>),
    /// Answers for a message that is not in memory.
    pub on_disk: fn(FileLocation, Timestamp) -> Reply,
    /// Writes how much more matches, beyond the default limit.
    pub more: Option<fn(&str, &mut Vec<u8>)>,
}

/// Answers the request in this form.
///
/// Its subject is `channel/host`, the id of a message, or a selection.
pub(super) fn answer(rest: &[u8], context: &SessionContext<'_>, form: WhyForm) -> ReplyResult {
    let words = String::from_utf8_lossy(rest);
    let subject = words.trim();
    let parsed = Subject::parse(subject);
    let number = match parsed {
        Some(Subject::Message(number, _)) => Some(number),
        _ => None,
    };
    let known = parsed.and_then(|parsed| ExplainCursor::new(context.scheduler, parsed));
    if let Some(mut cursor) = known {
        return Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
            let (scheduler, now) = (context.scheduler, context.now);
            let write = |wait: &Wait<'_>, is_of_message| {
                (form.write)(scheduler, now, wait, is_of_message, out);
            };
            if !cursor.next_reasons(scheduler, write) {
                return Step::More;
            }
            let message = cursor.message(scheduler);
            let remarks = message.map(|message| remarks(scheduler, message, now));
            remarks.into_iter().flatten().for_each(|remark| (form.remark)(&remark, out));
            Step::Done
        }));
    }
    if let Some(place) = number.and_then(|number| context.backlog.location(number)) {
        return Ok((form.on_disk)(place, context.now));
    }
    match number {
        None if is_selection(subject) => of_selection(rest, context, form),
        None if !subject.contains('/') => {
            let expected = "give a channel/host, a spool id or the name of a control file";
            Ok(Reply::refusal(expected))
        }
        // A TAB separates reasons.
        _ => {
            let subject = subject.replace('\t', " ");
            Ok(Reply::refusal(format!("no matching mail now: {subject}")))
        }
    }
}

/// Returns true if a subject selects mail: by a pattern, or by options.
fn is_selection(subject: &str) -> bool {
    subject.contains(['*', '?', '[', '{', '=', '"'])
}

fn of_selection(rest: &[u8], context: &SessionContext<'_>, form: WhyForm) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?;
    let left = limit.unwrap_or(MAX_EXPLAINED);
    let form = WhyForm { more: form.more.filter(|_| limit.is_none()), ..form };
    let selection = Selection::take(&mut words)?;
    words.end()?;
    selection.require(rest.len())?;
    if selection.is_pattern_only() {
        let survey = ThreadSurvey::new(None, usize::MAX, selection.destinations);
        let found = Vec::new().into_iter();
        return Ok(Reply::long_text(DestinationsWhy { survey, found, left, more: 0, form }));
    }
    let is_countable = !selection.files.is_given();
    let search = Search::new(selection, context.now, false);
    let found = Vec::new().into_iter();
    Ok(Reply::long_text(MessagesWhy { search, found, left, is_countable, more: 0, form }))
}

/// Explains the destinations that match a pattern.
struct DestinationsWhy {
    survey: ThreadSurvey,
    found: std::vec::IntoIter<ThreadId>,
    /// How many more may be explained.
    left: usize,
    /// Number of those beyond the limit.
    more: usize,
    form: WhyForm,
}

impl Task for DestinationsWhy {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let scheduler = context.scheduler;
        if self.left == 0 {
            if self.form.more.is_none() {
                return Step::Done;
            }
            self.more += std::mem::take(&mut self.found).len();
        }
        let Some(thread) = self.found.next() else {
            let Some(found) = self.survey.advance(scheduler, MAX_THREADS_PER_STEP) else {
                if let Some(write_more) = self.form.more.filter(|_| self.more > 0) {
                    write_more(&count(self.more as u64, "more destination"), out);
                }
                return Step::Done;
            };
            self.found = found.into_iter();
            return Step::Pause;
        };
        // Its id may belong to another thread by now.
        if let Some(thread) = scheduler.view().thread(thread).filter(|it| self.survey.matches(it)) {
            self.left -= 1;
            for wait in scheduler.view().waits_of(thread) {
                (self.form.write)(scheduler, context.now, &wait, false, out);
            }
        }
        Step::More
    }
}

/// Explains the mail of a search, one message and destination after the other.
struct MessagesWhy {
    search: Search,
    /// Found, and not explained yet.
    found: std::vec::IntoIter<Selected>,
    /// How many more may be explained.
    left: usize,
    /// False if the rest would have to be looked for in files.
    is_countable: bool,
    /// Number of those beyond the limit.
    more: usize,
    form: WhyForm,
}

impl Task for MessagesWhy {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let write_more = match self.form.more {
            None if self.left == 0 => return Step::Done,
            form => form.filter(|_| self.left == 0),
        };
        if self.found.len() == 0 {
            match (self.search.next(context), write_more) {
                (ControlFlow::Continue(found), _) => self.found = found.into_iter(),
                (ControlFlow::Break(Step::Done), Some(write_more)) if self.more > 0 => {
                    write_more(&count(self.more as u64, "more row"), out);
                    return Step::Done;
                }
                (ControlFlow::Break(step), _) => return step,
            }
        }
        if let Some(write_more) = write_more {
            self.more += std::mem::take(&mut self.found).len();
            if self.is_countable || self.more == 0 {
                return Step::Pause;
            }
            write_more("more", out);
            return Step::Done;
        }
        for found in self.found.by_ref().take(self.left.min(MAX_MESSAGES_PER_STEP)) {
            let queued = found.vertex.and_then(|vertex| {
                context.scheduler.view().vertex_in_message(found.target.number, vertex)
            });
            if let Some(queued) = queued {
                self.left -= 1;
                let wait = context.scheduler.view().why_vertex(&queued);
                (self.form.write)(context.scheduler, context.now, &wait, true, out);
            }
        }
        Step::Pause
    }

    fn take_answer(&mut self, answer: Answer) {
        self.search.take_answer(answer);
    }
}
