//! `ETRN` and `KILL`: ZMailer's requests that change something.
//!
//! They are answered when the change is made.

use super::requests::next_word;
use super::selection::MessageName;
use super::task::{Answer, Reply, ReplyResult, SessionContext, Step, Task};
use zsched_core::{Order, Target};

/// Maximum number of messages removed by one order.
const MAX_REMOVED_PER_ORDER: usize = 200;
/// ZMailer's answer for any message, queued or not.
///
/// The empty line is a part of it.
const KILLED: &[u8] = b"+OK; KILLed something.\n\n";
/// ZMailer's answer to any other KILL request.
const UNKNOWN: &str = "-Unknown request.\n\n";

/// `ETRN host`: tries all mail for a host now.
///
/// ZMailer compares the host in capitals, and finds nothing.
pub(super) fn etrn(rest: &[u8]) -> ReplyResult {
    let (host, _) = next_word(rest);
    let host = (!host.is_empty()).then(|| host.to_ascii_lowercase().into());
    Ok(Reply::change(Etrn { host, started: false }))
}

struct Etrn {
    /// The host, until the order is given.
    host: Option<Box<[u8]>>,
    started: bool,
}

impl Task for Etrn {
    fn step(&mut self, _context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        if let Some(host) = self.host.take() {
            return Step::Order(Order::Turn(host));
        }
        let what = if self.started { "started something" } else { "didn't start anything" };
        out.extend_from_slice(format!("+OK; an ETRN {what}.\n").as_bytes());
        Step::Done
    }

    fn take_answer(&mut self, answer: Answer) {
        self.started = matches!(answer, Answer::Order(effect) if effect.started);
    }
}

/// `KILL MSG id`: removes a message from the spool without a report.
///
/// ZMailer's clients expect the same answer, whatever happened to the message.
pub(super) fn kill_message(rest: &[u8]) -> ReplyResult {
    let mut id = Some(String::from_utf8(rest.to_vec()).unwrap_or_default());
    let mut to_load = id.as_deref().and_then(MessageName::parse).map(|name| name.number);
    Ok(Reply::change(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        if let Some(step) = to_load.take().and_then(|number| context.step_to_load(number)) {
            return step;
        }
        match id.take().and_then(|id| context.scheduler.view().message_named(&id)) {
            Some(number) => Step::Order(Order::Delete(vec![Target::whole(number)])),
            None => killed(out),
        }
    }))
}

/// `KILL THREAD channel host`: removes all mail of a thread without reports.
///
/// ZMailer's manual describes it, but its program does not have it. Mail that arrives meanwhile
/// stays.
pub(super) fn kill_thread(rest: &[u8], context: &SessionContext<'_>) -> ReplyResult {
    let (channel, host) = next_word(rest);
    let Some(thread) = context.scheduler.view().thread_id(channel, host) else {
        return kill_unknown();
    };
    let mut vertices = context.scheduler.view().vertices_of_thread(thread).into_iter();
    let (channel, host) = (channel.to_vec(), host.to_vec());
    Ok(Reply::change(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let Some(thread) = context.scheduler.view().thread_id(&channel, &host) else {
            return killed(out);
        };
        let there =
            |vertex| Some(context.scheduler.view().vertex_in_thread(thread, vertex)?.target());
        let targets: Vec<Target> =
            vertices.by_ref().filter_map(there).take(MAX_REMOVED_PER_ORDER).collect();
        match targets.is_empty() {
            true => killed(out),
            false => Step::Order(Order::Delete(targets)),
        }
    }))
}

fn killed(out: &mut Vec<u8>) -> Step {
    out.extend_from_slice(KILLED);
    Step::Done
}

/// `KILL` with any other argument.
pub(super) fn kill_unknown() -> ReplyResult {
    Ok(Reply::Line(UNKNOWN.to_string()))
}
