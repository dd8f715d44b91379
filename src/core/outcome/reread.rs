//! Comparison of the state in memory with a control file that was read again.
//!
//! Agents and tools mark recipients on disk. Recipients that are finished there become finished
//! here. Recipients that were added take the place of failed ones ([`super::alternatives`]).

use crate::Scheduler;
use crate::action::{Action, StatusVerdict};
use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::AgentId;
use crate::event::RereadResult;
use crate::queue::attempt_records::StatusChange;
use crate::queue::{MessageFlag, MessageId, Queue, VertexId, VertexState};
use foldhash::HashSet;
use log::Level;
use std::io;
use zsched_spool::Arrival;

impl Scheduler {
    /// Processes `#resync`: an agent has found nothing to deliver in a control file.
    ///
    /// If it is about the present job, the file is read when the job is over. Until then the
    /// agent's reports count.
    pub(crate) fn agent_found_nothing(&mut self, agent: AgentId, path: &[u8]) {
        let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let digits = base.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&base[..digits]).ok().and_then(|text| text.parse().ok());
        let Some(message) = number.and_then(|number| self.queue.messages().find(number)) else {
            return;
        };
        let present: Option<VertexId> = self.dispatch.agents()[agent].jobs().next();
        let is_present = present.is_some_and(|vertex| {
            self.queue.vertex(vertex).state != VertexState::Finished
                && self.queue.vertex(vertex).message == message
        });
        if is_present {
            self.dispatch.found_nothing(agent);
        } else {
            self.admission.request_reread(&mut self.queue, &mut self.cx, message);
        }
    }

    pub(crate) fn read_again(&mut self, number: u64, outcome: RereadResult) {
        let is_awaited =
            |message: &MessageId| self.queue.message(*message).is(MessageFlag::Rereading);
        let Some(message) = self.queue.messages().find(number).filter(is_awaited) else {
            return;
        };
        self.queue.message_mut(message).set(MessageFlag::Rereading, false);
        match self.check_reread(message, outcome) {
            None => {}
            Some(Ok(arrival)) => self.reconcile_with_disk(message, arrival),
            Some(Err(error)) => {
                let id = self.queue.message(message).spool_id();
                let text = format!("{id}: cannot read the control file again: {error}");
                self.cx.log(Level::Error, text);
                self.queue.retry_alternatives(&mut self.cx, message);
            }
        }
    }

    /// Returns the new content of a message's control file.
    ///
    /// The error is why it cannot be read for now.
    ///
    /// If the message no longer exists, forgets it and returns `None`.
    pub(crate) fn check_reread(
        &mut self,
        message: MessageId,
        outcome: RereadResult,
    ) -> Option<Result<Arrival, io::ErrorKind>> {
        let (level, text) = match outcome {
            // The files were deleted, and a router has used the number again.
            RereadResult::Read(arrival)
                if arrival.modified != self.queue.message_mut(message).modified =>
            {
                let text = "another message has its number now; forgotten, the other will be found";
                (Level::Warn, text.to_string())
            }
            RereadResult::Read(arrival) => return Some(Ok(*arrival)),
            RereadResult::Gone => (Level::Warn, "the control file is gone; forgotten".to_string()),
            RereadResult::Malformed(error) => {
                (Level::Error, format!("the control file is malformed now: {error}"))
            }
            RereadResult::Failed(error) => return Some(Err(error)),
        };
        let id = self.queue.message(message).spool_id();
        self.cx.log(level, format!("{id}: {text}"));
        self.forget(message);
        None
    }

    fn reconcile_with_disk(&mut self, message: MessageId, arrival: Arrival) {
        self.queue.message_mut(message).set_if(MessageFlag::OwesReport, arrival.report_due);
        self.queue
            .message_mut(message)
            .set_if(MessageFlag::HasUndeliverableLines, arrival.first_undeliverable.is_some());
        let offsets = arrival.groups.iter().flat_map(|group| &group.offsets);
        let unfinished: HashSet<u32> = offsets.chain(&arrival.locked).copied().collect();
        let (mut finished, mut unreported) = (0, 0);
        for vertex in self.queue.vertices_of(message) {
            let mut gone = self.queue.vertex(vertex).pending_offsets();
            gone.retain(|offset| !unfinished.contains(offset));
            // The agent that has it will report.
            if self.queue.vertex(vertex).state == VertexState::Fed {
                unreported += gone.len() as u32;
                continue;
            }
            let text = b"found finished in the control file";
            self.queue.status(
                &mut self.cx,
                vertex,
                StatusChange::without_attempt(&gone, StatusVerdict::FinishedElsewhere, text),
            );
            finished += gone.len();
            for offset in gone {
                self.queue.drop_recipient(&mut self.cx, vertex, offset);
            }
        }
        // Failures of which the notes were not written yet are not in the file. Those that are not
        // reported yet count when they are.
        let failed = &mut self.queue.message_mut(message).failed;
        *failed = arrival.failed.saturating_sub(unreported).max(*failed);
        let (id, left) =
            (self.queue.message(message).spool_id(), self.queue.message(message).pending);
        let text = format!("{id}: read again: recipients finished: {finished}, left: {left}");
        let level = if finished > 0 { Level::Info } else { Level::Debug };
        self.cx.log(level, text);
        self.queue_alternatives(message, arrival);
    }
}

impl Admission {
    /// Requests another read of a message's control file.
    ///
    /// An agent has found something else in it.
    pub(crate) fn request_reread(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
    ) {
        if self.restart_reading(queue, message) {
            return;
        }
        let message = queue.message_mut(message);
        if !message.is(MessageFlag::Rereading) && !message.is(MessageFlag::Removing) {
            message.set(MessageFlag::Rereading, true);
            let name = message.name();
            cx.act(Action::ReadAgain(name));
        }
    }

    /// Processes a change of a control file by an agent of an earlier scheduler.
    ///
    /// A partial message is read on when its recipients have their turn.
    pub(crate) fn changed_on_disk(&mut self, queue: &mut Queue, cx: &mut Context, number: u64) {
        if let Some(message) = queue.messages().find(number)
            && !queue.message(message).is(MessageFlag::Partial)
        {
            self.request_reread(queue, cx, message);
        }
    }
}
