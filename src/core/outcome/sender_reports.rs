//! Reports to senders: when the report about a message is sent.
//!
//! A message owes a report as soon as its control file has a `d` line that the sender requested.
//! The report is sent when the message is complete, or `PARAMglobal-report-interval` after the
//! first such line, so that many failures within that time are one report. When a deadline of the
//! sender has passed, it is sent at once: later the notice might be wrong. The message stays known
//! until the router has the report. The shell composes reports; at most [`MAX_REPORTS_AT_WORK`] at
//! a time, so a hundred thousand failures at once delay neither delivery nor other writes.

use crate::Scheduler;
use crate::action::{Action, SenderReportTicket};
use crate::context::Context;
use crate::query::view::View;
use crate::queue::{MessageFlag, MessageId, Queue};
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::Duration;
use zsched_spool::report::UnreportedRest;

/// Maximum number of reports that the shell has at a time.
const MAX_REPORTS_AT_WORK: usize = 64;

/// What happens to the report of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SenderReportState {
    /// None is planned.
    #[default]
    None,
    /// It is sent when the interval is over or the message is complete.
    Planned,
    /// It waits for the shell, or the shell has it.
    Requested,
    /// It could not be sent, and is tried again later.
    Failed,
}

/// Messages whose reports are being sent.
#[derive(Default, Serialize, Deserialize)]
pub struct SenderReports {
    /// Messages whose reports wait for the cx.
    waiting: BTreeSet<MessageId>,
    /// Messages whose reports the shell has; none if the message was forgotten.
    at_work: BTreeMap<SenderReportTicket, Option<MessageId>>,
    /// Messages whose reports could not be sent.
    failed: BTreeSet<MessageId>,
    last_ticket: SenderReportTicket,
}

impl SenderReports {
    /// Forgets a message.
    pub fn forget(&mut self, message: MessageId) {
        self.waiting.remove(&message);
        self.failed.remove(&message);
        let mut at_work = self.at_work.values_mut();
        if let Some(entry) = at_work.find(|entry| **entry == Some(message)) {
            *entry = None;
        }
    }

    /// Panics if a message that owes a report waits for nothing.
    pub fn check(&self, queue: &Queue) {
        for (id, message) in queue.messages().iter() {
            let is_requested = message.report == SenderReportState::Requested;
            assert_eq!(self.has(id), is_requested, "{}: report", message.name());
            let has_failed = message.report == SenderReportState::Failed;
            assert_eq!(self.failed.contains(&id), has_failed, "{}", message.name());
            let is_done = message.is(MessageFlag::Removing) || message.is(MessageFlag::Forgotten);
            let is_idle =
                message.is(MessageFlag::OwesReport) && message.report == SenderReportState::None;
            assert!(is_done || !is_idle, "{}: owes a report that is not planned", message.name());
        }
    }

    fn has(&self, message: MessageId) -> bool {
        self.waiting.contains(&message) || self.at_work.values().any(|at| *at == Some(message))
    }

    /// Sends the report that a message owes before it is paged out. Returns true if that goes on.
    pub(crate) fn sends_report_now(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
    ) -> bool {
        let message_ref = queue.message(message);
        let is_owed = message_ref.is(MessageFlag::OwesReport)
            && matches!(message_ref.report, SenderReportState::None | SenderReportState::Planned);
        if is_owed {
            self.request_report(queue, cx, message);
        }
        queue.message(message).report != SenderReportState::None
    }

    /// The interval of a planned report is over, or a failed one is tried again.
    pub(crate) fn report_timer(&mut self, queue: &mut Queue, cx: &mut Context, message: MessageId) {
        // The message may be gone, and its number that of another one, which is reported early
        // then.
        let report = queue.messages().get(message).map(|message| message.report);
        if matches!(report, Some(SenderReportState::Planned | SenderReportState::Failed)) {
            self.request_report(queue, cx, message);
        }
    }

    fn request_report(&mut self, queue: &mut Queue, cx: &mut Context, message: MessageId) {
        let message_ref = queue.message_mut(message);
        message_ref.report = SenderReportState::Requested;
        // Lines that are written from now on may come too late for this report.
        message_ref.set(MessageFlag::OwesReport, false);
        self.failed.remove(&message);
        self.waiting.insert(message);
        self.start_reports(queue, cx);
    }

    fn start_reports(&mut self, queue: &Queue, cx: &mut Context) {
        while self.at_work.len() < MAX_REPORTS_AT_WORK
            && let Some(message) = self.waiting.pop_first()
        {
            self.last_ticket += 1;
            let ticket = self.last_ticket;
            self.at_work.insert(ticket, Some(message));
            let message = queue.message(message);
            let (name, is_finished) = (message.name(), message.is_finished());
            cx.act(Action::Report { ticket, name, is_finished });
        }
    }
}

impl Scheduler {
    /// Plans the report that a message owes, or requests it if the message is finished.
    pub(crate) fn settle_report(&mut self, message: MessageId) {
        let message_ref = self.queue.message(message);
        let is_finished = message_ref.is_finished();
        let is_owed = message_ref.is(MessageFlag::OwesReport)
            || (is_finished && message_ref.is(MessageFlag::HasUnnotedFailures));
        if !is_owed
            || message_ref.is(MessageFlag::Removing)
            || message_ref.is(MessageFlag::Forgotten)
        {
            return;
        }
        match message_ref.report {
            SenderReportState::None | SenderReportState::Planned if is_finished => {
                self.sender_reports.request_report(&mut self.queue, &mut self.cx, message);
            }
            SenderReportState::None => {
                let is_late = message_ref.notice_at().is_some_and(|time| time <= self.cx.now);
                let interval = match is_late {
                    true => Duration::ZERO,
                    false => self.cx.config.parameters.global_report_interval,
                };
                self.queue.message_mut(message).report = SenderReportState::Planned;
                self.cx.timers.add(self.cx.now + interval, Timer::Report(message));
            }
            SenderReportState::Planned
            | SenderReportState::Requested
            | SenderReportState::Failed => {}
        }
    }

    /// The shell has sent a report, or has failed.
    pub(crate) fn reported(
        &mut self,
        ticket: SenderReportTicket,
        outcome: Result<UnreportedRest, ErrorKind>,
    ) {
        let message = self.sender_reports.at_work.remove(&ticket).flatten();
        self.sender_reports.start_reports(&self.queue, &mut self.cx);
        let Some(message) = message else {
            return;
        };
        let name = self.queue.message(message).name();
        match outcome {
            Ok(left) => {
                self.notes.write_succeeded(name.number());
                let message = self.queue.message_mut(message);
                message.report = SenderReportState::None;
                message.set_if(MessageFlag::OwesReport, left.lines);
                message.set(MessageFlag::HasUnnotedFailures, left.unnoted_failures);
            }
            Err(ErrorKind::NotFound) => {
                let text = format!("{name}: the message is gone, and with it a report");
                self.cx.log(Level::Error, text);
                let message = self.queue.message_mut(message);
                message.report = SenderReportState::None;
                message.set(MessageFlag::HasUnnotedFailures, false);
            }
            Err(ErrorKind::InvalidData) => {
                let text =
                    format!("{name}: the control file is malformed now: no report can be sent");
                self.cx.log(Level::Error, text);
                let message = self.queue.message_mut(message);
                message.report = SenderReportState::None;
                message.set(MessageFlag::HasUndeliverableLines, true);
            }
            Err(error) => {
                let why = match error {
                    ErrorKind::NotADirectory => {
                        "POSTOFFICE/router is missing, or is no folder".into()
                    }
                    error => error.to_string(),
                };
                let text = format!("{name}: cannot put a report into router/: {why}");
                self.notes.write_failed(&mut self.cx, name.number(), text);
                self.sender_reports.failed.insert(message);
                let message_ref = self.queue.message_mut(message);
                message_ref.report = SenderReportState::Failed;
                message_ref.set(MessageFlag::OwesReport, true);
                self.cx
                    .timers
                    .add(self.cx.now + self.cx.settings.failed_write, Timer::Report(message));
            }
        }
    }
}

impl<'s> View<'s> {
    /// Number of messages whose reports are being sent, or wait for that.
    pub fn unsent_reports(self) -> usize {
        let SenderReports { waiting, at_work, failed, .. } = &self.core.sender_reports;
        waiting.len() + at_work.len() + failed.len()
    }
}
