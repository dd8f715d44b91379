//! Worker that sends reports to senders.
//!
//! A report takes several syncs. So reports have a worker of their own, which delays no other
//! write, and those of several messages are made in parallel.

use super::parallel::{MAX_WORKERS, for_each_in_parallel};
use super::{Completion, CompletionSender};
use crate::logging::mail_log::ReportLines;
use crate::logging::syslog;
use crate::reports::{ReportComposer, ReportPolicy};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use zsched_bulk::PacketNumber;
use zsched_core::SenderReportTicket;
use zsched_spool::report::{self, OwedReports, SendResult, UnreportedRest};
use zsched_spool::submit::notify;
use zsched_spool::{HashLevel, Spool, SpoolId, SpoolName};

/// Request for the reports that a message owes.
pub(crate) struct ReportRequest {
    /// Identifies it in the answer.
    pub(crate) ticket: SenderReportTicket,
    /// The message.
    pub(crate) name: SpoolName,
    /// All of its recipients are final.
    pub(crate) is_finished: bool,
    /// The parameters in force.
    pub(crate) policy: ReportPolicy,
}

/// State of the worker.
pub(super) struct Reporter {
    pub(super) spool: Spool,
    pub(super) level: HashLevel,
    pub(super) composer: ReportComposer,
    /// Where the router receives notices.
    pub(super) router_socket: PathBuf,
    pub(super) lines: ReportLines,
    pub(super) completions: CompletionSender,
}

impl Reporter {
    /// Carries out requests until the loop has ended.
    pub(super) fn run(self, requests: &Receiver<ReportRequest>) {
        self.take_up_owed();
        while let Ok(first) = requests.recv() {
            let batch: Vec<ReportRequest> =
                std::iter::once(first).chain(requests.try_iter()).collect();
            let composer = self.composer.with_forms();
            for_each_in_parallel(&batch, MAX_WORKERS, |request| {
                let ReportRequest { ticket, name, is_finished, policy } = request;
                // The result of a bulk job takes the place of reports to senders.
                let packet = PacketNumber::of_message(name.number());
                if packet.is_some_and(|packet| !self.is_exported(packet)) {
                    let none_left = Ok(UnreportedRest::default());
                    self.completions.send(vec![Completion::Reported(*ticket, none_left)]);
                    return;
                }
                let mut compose =
                    |contents: &report::ReportContents<'_>| composer.compose(contents, *policy);
                let options = self.composer.options(*policy);
                let sent = report::send(&self.spool, name, *is_finished, options, &mut compose);
                if let Ok(result) = &sent {
                    self.announce(name, result);
                }
                let left = sent.map(|result| result.left);
                self.completions.send(vec![Completion::Reported(*ticket, left)]);
            });
        }
    }

    /// Returns true if the job of a packet is over: the packet is an ordinary message.
    fn is_exported(&self, packet: PacketNumber) -> bool {
        matches!(zsched_bulk::is_open(&self.spool, packet.job), Ok(false))
    }

    /// Puts messages back that former versions have kept in `postman/`: the next scan finds them.
    fn take_up_owed(&self) {
        match report::take_up(&self.spool, self.level) {
            Ok(found) if found == OwedReports::default() => {}
            Ok(OwedReports { taken, left }) => log::info!(
                "postman/: {taken} messages that owe a report are back in the queue, {left} cannot \
                 be put back"
            ),
            Err(error) => log::error!("{}: {error}", self.spool.postman().display()),
        }
    }

    /// Logs the reports, and notifies the router of them.
    fn announce(&self, name: &SpoolName, result: &SendResult) {
        self.lines.push(name, result);
        for report in &result.sent {
            // ZMailer's scheduler has one form for all of them.
            let id = SpoolId { number: name.number(), modified: result.modified };
            syslog::event(|| {
                format!("{id}: Created 'delivery' report on spoolid: {}", report.id.number)
            });
            // Without a notice the router finds the report by its next scan.
            let notice = format!("NEW router {}", report.id.number);
            if let Err(error) = notify(&self.router_socket, &notice) {
                log::debug!("{}: {error}", self.router_socket.display());
            }
        }
    }
}
