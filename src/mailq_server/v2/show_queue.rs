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
use crate::classic::{HELD, LimitKind, limit_of};
use crate::queue_report::{QueueReport, ReportForm, ShownThread, push};
use std::collections::VecDeque;
use std::vec;
use zsched_core::Scheduler;
use zsched_core::view::{QueuedVertex, VertexId};
use zsched_core::why::Reason;
use zsched_format::time::{ShortDuration, Timestamp};
use zsched_spool::SpoolName;

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
    Ok(Reply::long_text(ThreadText {
        channel: channel.into(),
        host: host.into(),
        vertices: None,
        asked: VecDeque::new(),
        known: VecDeque::new(),
        current: None,
    }))
}

struct ThreadText {
    channel: Box<[u8]>,
    host: Box<[u8]>,
    /// Vertices to be shown; `None` before the first step.
    vertices: Option<vec::IntoIter<VertexId>>,
    /// Vertices whose error addresses are being looked up.
    asked: VecDeque<VertexId>,
    /// Vertices that can be shown, with their error addresses.
    known: VecDeque<(VertexId, Option<Box<[u8]>>)>,
    /// The vertex that is being shown.
    current: Option<PartialVertex>,
}

/// A vertex of which some recipients have been shown.
struct PartialVertex {
    vertex: VertexId,
    address: Vec<u8>,
    offsets: vec::IntoIter<u32>,
    index: usize,
}

impl Task for ThreadText {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let scheduler = context.scheduler;
        let Some(thread) = scheduler.view().thread_id(&self.channel, &self.host) else {
            return Step::Done;
        };
        let Some(vertices) = &mut self.vertices else {
            if let Some(thread) = scheduler.view().thread(thread) {
                ShownThread::new(scheduler, context.now, thread).write_head(out);
            }
            self.vertices = Some(scheduler.view().vertices_of_thread(thread).into_iter());
            return Step::More;
        };
        if let Some(current) = &mut self.current {
            let queued = scheduler.view().vertex_in_thread(thread, current.vertex);
            let has_more =
                queued.is_some_and(|queued| current.write(scheduler, context.now, &queued, out));
            if !has_more {
                self.current = None;
            }
            return Step::More;
        }
        if let Some((vertex, address)) = self.known.pop_front() {
            let queued = scheduler.view().vertex_in_thread(thread, vertex);
            self.current = queued.map(|queued| PartialVertex {
                vertex,
                address: visible(address.as_deref().unwrap_or(b"(null)")),
                offsets: queued.vertex.recipients.pending().into_iter(),
                index: 0,
            });
            return Step::More;
        }
        let there = |vertex| {
            let queued = scheduler.view().vertex_in_thread(thread, vertex)?;
            Some((vertex, queued.message.name.clone()))
        };
        let next = vertices.filter_map(there).take(MAX_FILES_PER_LOOKUP);
        let (asked, names): (VecDeque<VertexId>, Vec<SpoolName>) = next.unzip();
        self.asked = asked;
        if names.is_empty() { Step::Done } else { Step::Lookup(Lookup::ErrorAddresses(names)) }
    }

    fn take_answer(&mut self, answer: Answer) {
        let asked = std::mem::take(&mut self.asked);
        if let Answer::Lookup(LookupResult::ErrorAddresses(addresses)) = answer {
            let addresses = addresses.into_iter().chain(std::iter::repeat(None));
            self.known = asked.into_iter().zip(addresses).collect();
        }
    }
}

impl PartialVertex {
    /// Writes some recipients. Returns true if there are more.
    fn write(
        &mut self,
        scheduler: &Scheduler,
        now: Timestamp,
        queued: &QueuedVertex<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let seconds = |time: Option<Timestamp>| time.map_or(0, |t| t.seconds());
        let wakeup = seconds(scheduler.view().wakeup_of_vertex(queued));
        let (expiry, reason) = (seconds(queued.expiry()), scheduler.view().reason_of(queued.id));
        let (fed, tries) = (queued.vertex.last_fed, queued.vertex.reports);
        for offset in self.offsets.by_ref().take(MAX_LINES_PER_STEP) {
            push(out, format_args!("{}\t{}\t", queued.message.name, self.index));
            out.extend_from_slice(&self.address);
            push(out, format_args!("\t{offset}\t{expiry}\t{wakeup}\t{fed}\t{tries}\t"));
            write_reason(now, reason, out);
            out.push(b'\t');
            // A TAB would look like another field.
            let text = queued.text().unwrap_or_default();
            out.extend(
                text.iter().map(|byte| if matches!(byte, b'\t' | b'\n') { b' ' } else { *byte }),
            );
            out.push(b'\n');
            self.index += 1;
        }
        self.offsets.len() > 0
    }
}

/// Writes why it waits.
///
/// ZMailer writes `thread` also if there is no reason.
fn write_reason(now: Timestamp, reason: Reason, out: &mut Vec<u8>) {
    match (reason, limit_of(reason)) {
        (Reason::Held, _) => out.extend_from_slice(HELD.as_bytes()),
        (Reason::Retry(at), _) if at > now => {
            push(out, format_args!("retry in {}", ShortDuration(at.seconds_since(now))));
        }
        (Reason::Scheduled(at), _) => {
            push(
                out,
                format_args!("scheduled, in {}", ShortDuration(at.seconds_since(now).max(0))),
            );
        }
        (Reason::Kept, _) => out.extend_from_slice(b"kept, priority z"),
        (_, Some(LimitKind::General)) => {}
        (_, Some(LimitKind::Channel)) => out.extend_from_slice(b"channel"),
        _ => out.extend_from_slice(b"thread"),
    }
}

/// Makes an address a field that ends neither its line nor itself.
fn visible(address: &[u8]) -> Vec<u8> {
    address.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }).collect()
}
