//! `SHOW WHY` and `SHOW JSON WHY`: what a destination, a message or selected mail waits for.

use super::arguments::Arguments;
use super::json::threads::limit;
use super::json::wait::wait_line;
use super::json::{line, seconds};
use super::remarks::remarks;
use super::rows::{MAX_COST_PER_TURN, Rows};
use super::search::Search;
use super::selection::Selection;
use super::task::{Reply, ReplyResult, SessionContext, Step};
use crate::queue_report::push;
use zsched_core::Scheduler;
use zsched_core::intake::backlog_view::FileLocation;
use zsched_core::thread_survey::ThreadSurvey;
use zsched_core::view::VertexId;
use zsched_core::why::Wait;
use zsched_explain::{location, sentence};
use zsched_mailq_protocol::schema::MessageRemark;
use zsched_mailq_protocol::subject::Subject;

/// Maximum number of destinations or messages that are explained, unless `limit=` is given.
const MAX_EXPLAINED: usize = 100;
/// Maximum number of vertices explained per turn.
const MAX_VERTICES_PER_TURN: usize = 8;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Objects, for programs.
    Json,
    /// Sentences, for people.
    Text,
}

impl OutputFormat {
    /// Writes what mail waits for.
    fn write_wait(
        self,
        context: &SessionContext<'_>,
        wait: &Wait<'_>,
        of_message: bool,
        out: &mut Vec<u8>,
    ) {
        match self {
            OutputFormat::Json => line(out, &wait_line(context, wait, of_message)),
            OutputFormat::Text => {
                let sentence = sentence(context.scheduler, context.now, of_message, wait);
                push(out, format_args!("{sentence}\n"));
            }
        }
    }

    /// Writes what else is known about a message.
    pub(super) fn write_remark(self, remark: &MessageRemark, out: &mut Vec<u8>) {
        match self {
            OutputFormat::Json => line(out, remark),
            OutputFormat::Text => push(out, format_args!("{}\n", remark.sentence)),
        }
    }

    /// Writes how much more matches than the answer has.
    pub(super) fn write_more(self, what: &str, out: &mut Vec<u8>) {
        match self {
            OutputFormat::Json => {
                let sentence = format!("{what}, which the answer leaves out");
                self.write_remark(&MessageRemark { why: "more".into(), at: None, sentence }, out);
            }
            OutputFormat::Text => push(out, format_args!("... and {what}\n")),
        }
    }
}

/// Answers the request.
///
/// Its subject is `channel/host`, the id of a message, or a selection.
pub(super) fn answer(
    rest: &[u8],
    format: OutputFormat,
    context: &SessionContext<'_>,
) -> ReplyResult {
    let words = String::from_utf8_lossy(rest);
    let subject = words.trim();
    let view = context.scheduler.view();
    let number = match Subject::parse(subject) {
        Some(Subject::Thread(channel, host)) if view.thread_id(&channel, &host).is_some() => {
            return Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
                let waits = context.scheduler.view().why_thread(&channel, &host);
                let waits = waits.unwrap_or_default();
                waits.iter().for_each(|wait| format.write_wait(context, wait, false, out));
                Step::Done
            }));
        }
        Some(Subject::Message(number, id)) => {
            let is_meant = |it: &str| id.as_ref().is_none_or(|id| id == it);
            if view.message(number).is_some_and(|it| is_meant(&it.spool_id().to_string())) {
                return Ok(of_message(number, format, context.scheduler));
            }
            Some(number)
        }
        _ => None,
    };
    if let Some(place) = number.and_then(|number| context.backlog.location(number)) {
        let at = match place {
            FileLocation::PagedOut(until) => until.map(seconds),
            FileLocation::Queued | FileLocation::Loading => None,
        };
        let sentence = location(place, context.now);
        let mut text = Vec::new();
        format.write_remark(&MessageRemark { why: "on-disk".into(), at, sentence }, &mut text);
        return Ok(Reply::whole_text(text));
    }
    match number {
        // A pattern, or options.
        None if subject.contains(['*', '?', '[', '{', '=', '"']) => {
            of_selection(rest, format, context)
        }
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

/// Explains what the vertices of a message wait for.
fn of_message(number: u64, format: OutputFormat, scheduler: &Scheduler) -> Reply {
    let message = scheduler.view().message(number);
    let vertices = message.into_iter().flat_map(|message| scheduler.view().vertices_of(message));
    let mut vertices = Vec::from_iter(vertices.map(|queued| queued.id)).into_iter();
    Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let view = context.scheduler.view();
        let some = vertices.by_ref().take(MAX_VERTICES_PER_TURN);
        for queued in some.filter_map(|vertex: VertexId| view.vertex_in_message(number, vertex)) {
            format.write_wait(context, &view.why_vertex(&queued), true, out);
        }
        if vertices.len() > 0 {
            return Step::More;
        }
        let message = view.message(number).into_iter();
        message
            .flat_map(|message| remarks(context, message))
            .for_each(|remark| format.write_remark(&remark, out));
        Step::Done
    })
}

fn of_selection(rest: &[u8], format: OutputFormat, context: &SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = limit(&mut words)?;
    let max = limit.unwrap_or(MAX_EXPLAINED);
    let selection = Selection::take(&mut words)?;
    words.end()?;
    selection.require(rest.len())?;
    let of_more = limit.is_none().then_some(format);
    if selection.is_pattern_only() {
        let survey = ThreadSurvey::new(None, usize::MAX, selection.destinations);
        let rows = Rows::new(survey, max, move |survey, context, thread, out| {
            let view = context.scheduler.view();
            // The id may belong to another thread by now.
            let thread = view.thread(thread).filter(|thread| survey.matches(thread))?;
            view.waits_of(thread).for_each(|wait| format.write_wait(context, &wait, false, out));
            Some(0)
        });
        return Ok(Reply::long_text(rows.with_line_about_more(of_more)));
    }
    let search = Search::new(selection, context.now, false);
    let rows = Rows::new(search, max, move |_, context, found, out| {
        let view = context.scheduler.view();
        let queued = view.vertex_in_message(found.target.number, found.vertex?)?;
        format.write_wait(context, &view.why_vertex(&queued), true, out);
        Some(MAX_COST_PER_TURN / MAX_VERTICES_PER_TURN)
    });
    Ok(Reply::long_text(rows.with_line_about_more(of_more)))
}
