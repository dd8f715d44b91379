//! `ETRN` and `KILL`: ZMailer's requests that change something.
//!
//! They are answered when the change is made.

use super::answer::{Next, Reply, SessionContext, Task};
use super::fetch::Fetch;
use super::requests::next_word;
use super::selection::MessageName;
use std::vec;
use zsched_core::records::VertexId;
use zsched_core::{Effect, Order, Target};

/// Maximum number of messages removed by one order.
const MAX_REMOVED_PER_ORDER: usize = 200;
/// ZMailer's answer for any message, queued or not.
///
/// The empty line is a part of it.
const KILLED: &str = "+OK; KILLed something.\n\n";
/// ZMailer's answer to any other KILL request.
const UNKNOWN: &str = "-Unknown request.\n\n";

fn next_order(order: Option<Order>) -> Next {
    order.map_or(Next::Over, Next::Order)
}

/// `ETRN host`: tries all mail for a host now.
///
/// ZMailer compares the host in capitals, and finds nothing.
pub(super) fn etrn(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    let (host, _) = next_word(rest);
    Reply::Task(Box::new(Etrn { host: Some(host.to_ascii_lowercase().into()), started: false }))
}

struct Etrn {
    host: Option<Box<[u8]>>,
    started: bool,
}

impl Task for Etrn {
    fn next(&mut self, _context: &mut SessionContext<'_>) -> Next {
        next_order(self.host.take().filter(|host| !host.is_empty()).map(Order::Turn))
    }

    fn order_done(&mut self, effect: &Effect) {
        self.started = effect.started;
    }

    fn tell(&self) -> String {
        let what = if self.started { "started something" } else { "didn't start anything" };
        format!("+OK; an ETRN {what}.\n")
    }
}

/// `KILL MSG id`: removes a message from the spool without a report.
pub(super) fn kill_message(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    let id = std::str::from_utf8(rest).unwrap_or_default();
    let fetch = Fetch::new(MessageName::parse(id).map(|name| name.number));
    Reply::Task(Box::new(KillMessage { id: Some(id.to_string()), fetch }))
}

struct KillMessage {
    /// The id in the request, until the order is given.
    id: Option<String>,
    fetch: Fetch,
}

impl Task for KillMessage {
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next {
        if let Some(step) = self.fetch.next(context) {
            return step;
        }
        let number = self.id.take().and_then(|id| context.scheduler.message_named(&id));
        let order = |number| Order::Delete(vec![Target::whole(number)]);
        next_order(number.map(order))
    }

    fn order_done(&mut self, _effect: &Effect) {}

    /// ZMailer's clients expect this answer, whatever happened to the message.
    fn tell(&self) -> String {
        KILLED.to_string()
    }
}

/// `KILL THREAD channel host`: removes all mail of a thread without reports.
///
/// ZMailer's manual describes it, but its program does not have it.
pub(super) fn kill_thread(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let (channel, host) = next_word(rest);
    let Some(thread) = context.scheduler.thread_id(channel, host) else {
        return Reply::Line(UNKNOWN.to_string());
    };
    let vertices = context.scheduler.vertices_of(thread).into_iter();
    let (channel, host) = (channel.into(), host.into());
    Reply::Task(Box::new(KillThread { channel, host, vertices }))
}

struct KillThread {
    channel: Box<[u8]>,
    host: Box<[u8]>,
    /// Vertices that are not removed yet. Mail that arrives meanwhile stays.
    vertices: vec::IntoIter<VertexId>,
}

impl Task for KillThread {
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next {
        let Some(thread) = context.scheduler.thread_id(&self.channel, &self.host) else {
            return Next::Over;
        };
        let there = |vertex| context.scheduler.target_of(thread, vertex);
        let targets: Vec<Target> =
            self.vertices.by_ref().filter_map(there).take(MAX_REMOVED_PER_ORDER).collect();
        next_order((!targets.is_empty()).then_some(Order::Delete(targets)))
    }

    fn order_done(&mut self, _effect: &Effect) {}

    fn tell(&self) -> String {
        KILLED.to_string()
    }
}

/// `KILL` with any other argument.
pub(super) fn kill_nothing(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    Reply::Line(UNKNOWN.to_string())
}
