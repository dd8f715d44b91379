//! `SHOW SNMP` and `SHOW QUEUE …`: the queue report.
//!
//! `SHOW THREAD channel host`: each recipient of a thread, in ten fields separated by TABs.
//!
//! ```text
//! #smtpx/[127.0.0.66]/0  N=3   R=4   A=3  W=63s QA=54s
//! 10101217<TAB>0<TAB>games@zm.example.test<TAB>229<TAB>1795256133<TAB>1795256010<TAB>1795255936<TAB>3<TAB>retry in 1m3s<TAB>smtp; 500 (...)
//! ```
//!
//! The third field, the error address, is in the control file only. [`MAX_FILES_PER_LOOKUP`] files
//! are read ahead. A recipient that arrives or leaves meanwhile may or may not be shown; each line
//! is true when it is written.

use super::requests::next_word;
use super::task::{Answer, Lookup, LookupResult, Reply, ReplyResult, SessionContext, Step, Task};
use crate::classic::{LimitKind, limit_of, words_of_wait};
use crate::queue_report::{QueueReport, ReportForm, ShownThread, push};
use std::collections::VecDeque;
use std::vec;
use zsched_core::view::{QueuedVertex, VertexId};
use zsched_core::why::Reason;
use zsched_format::time::Timestamp;
use zsched_spool::{Offsets, SpoolName};

/// Maximum number of control files read per lookup.
const MAX_FILES_PER_LOOKUP: usize = 64;
/// Maximum number of lines written per step.
const MAX_LINES_PER_STEP: usize = 32;

/// The queue report in one of its forms.
pub(super) fn report(form: ReportForm) -> ReplyResult {
    let mut report = QueueReport::new(form);
    let is_long = report.is_long();
    let task = move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        report.write(context.scheduler, context.now, context.process.started, out)
    };
    Ok(if is_long { Reply::long_text(task) } else { Reply::text(task) })
}

/// Answers `SHOW THREAD`.
pub(super) fn thread(rest: &[u8], _context: &mut SessionContext<'_>) -> ReplyResult {
    let (channel, host) = next_word(rest);
    let (channel, host) = (channel.into(), host.into());
    let (vertices, asked, known) = (None, Vec::new(), VecDeque::new());
    Ok(Reply::long_text(ThreadText { channel, host, vertices, asked, known }))
}

struct ThreadText {
    channel: Box<[u8]>,
    host: Box<[u8]>,
    /// Vertices to be shown; `None` before the first step.
    vertices: Option<vec::IntoIter<VertexId>>,
    /// Vertices whose error addresses are being looked up.
    asked: Vec<VertexId>,
    /// Vertices that can be shown.
    known: VecDeque<KnownVertex>,
}

/// A vertex with its error address.
struct KnownVertex {
    vertex: VertexId,
    address: Vec<u8>,
    /// Offsets of the recipients that are still to be shown, once some have been.
    offsets: Option<<Offsets as IntoIterator>::IntoIter>,
    /// Number of recipients that have been shown.
    shown: usize,
}

impl Task for ThreadText {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let view = context.scheduler.view();
        let Some(thread) = view.thread_id(&self.channel, &self.host) else {
            return Step::Done;
        };
        let Some(vertices) = &mut self.vertices else {
            if let Some(thread) = view.thread(thread) {
                ShownThread::new(context.scheduler, context.now, thread).write_head(out);
            }
            self.vertices = Some(view.vertices_of_thread(thread).into_iter());
            return Step::More;
        };
        if let Some(mut known) = self.known.pop_front() {
            let queued = view.vertex_in_thread(thread, known.vertex);
            if queued.is_some_and(|queued| known.write(context, &queued, out)) {
                self.known.push_front(known);
            }
            return Step::More;
        }
        let there = |vertex| {
            let queued = view.vertex_in_thread(thread, vertex)?;
            Some((vertex, queued.message.name()))
        };
        let (asked, names): (_, Vec<SpoolName>) =
            vertices.filter_map(there).take(MAX_FILES_PER_LOOKUP).unzip();
        self.asked = asked;
        if names.is_empty() { Step::Done } else { Step::Lookup(Lookup::ErrorAddresses(names)) }
    }

    fn take_answer(&mut self, answer: Answer) {
        if let Answer::Lookup(LookupResult::ErrorAddresses(addresses)) = answer {
            let addresses = addresses.into_iter().chain(std::iter::repeat(None));
            let known = |(vertex, address): (_, Option<Box<[u8]>>)| KnownVertex {
                vertex,
                address: visible(address.as_deref().unwrap_or(b"(null)")),
                offsets: None,
                shown: 0,
            };
            self.known = self.asked.drain(..).zip(addresses).map(known).collect();
        }
    }
}

impl KnownVertex {
    /// Writes some recipients. Returns true if there are more.
    fn write(
        &mut self,
        context: &SessionContext<'_>,
        queued: &QueuedVertex<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let (view, vertex) = (context.scheduler.view(), queued.vertex);
        let seconds = |time: Option<Timestamp>| time.map_or(0, |t| t.seconds());
        let (expiry, wakeup) = (seconds(queued.expiry()), seconds(view.wakeup_of_vertex(queued)));
        let offsets = self.offsets.get_or_insert_with(|| vertex.pending_offsets().into_iter());
        for offset in offsets.by_ref().take(MAX_LINES_PER_STEP) {
            push(out, format_args!("{}\t{}\t", queued.message.name(), self.shown));
            out.extend_from_slice(&self.address);
            let (fed, tries) = (vertex.last_fed, vertex.reports);
            push(out, format_args!("\t{offset}\t{expiry}\t{wakeup}\t{fed}\t{tries}\t"));
            write_reason(context.now, view.reason_of(queued.id), out);
            out.push(b'\t');
            // A TAB would look like another field.
            let text = queued.text().unwrap_or_default().iter();
            out.extend(text.map(|byte| if matches!(byte, b'\t' | b'\n') { b' ' } else { *byte }));
            out.push(b'\n');
            self.shown += 1;
        }
        offsets.len() > 0
    }
}

/// Writes why it waits.
///
/// ZMailer writes `thread` also if there is no reason.
fn write_reason(now: Timestamp, reason: Reason, out: &mut Vec<u8>) {
    let is_due = matches!(reason, Reason::Retry(at) if at <= now);
    let words = words_of_wait(reason, now).filter(|_| !is_due);
    let words = words.as_deref().unwrap_or(match limit_of(reason) {
        Some(LimitKind::General) => "",
        Some(LimitKind::Channel) => "channel",
        _ => "thread",
    });
    out.extend_from_slice(words.as_bytes());
}

/// Makes an address a field that ends neither its line nor itself.
fn visible(address: &[u8]) -> Vec<u8> {
    address.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }).collect()
}
