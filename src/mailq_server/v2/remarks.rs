//! What else matters about a message: a deadline of its sender, and the report to its sender.

use super::json::seconds;
use super::task::SessionContext;
use zsched_core::Scheduler;
use zsched_core::sender_reports::SenderReportState;
use zsched_core::view::Message;
use zsched_explain::{clock, one_line};
use zsched_format::time::{ShortDuration, Timestamp};
use zsched_mailq_protocol::schema::MessageRemark;

/// The remarks about a message.
pub(super) fn remarks(
    context: &SessionContext<'_>,
    message: &Message,
) -> impl Iterator<Item = MessageRemark> + use<> {
    deadline(message, context.now).into_iter().chain(report(context.scheduler, message))
}

/// What happens at the deadline that the sender has set (RFC 2852).
fn deadline(message: &Message, now: Timestamp) -> Option<MessageRemark> {
    let deadline = message.deliver_by().filter(|_| message.pending > 0)?;
    let at = Timestamp::from_seconds(deadline.at.into());
    let time = clock(at, now);
    let sentence = match (deadline.returns, at > now) {
        (true, _) => format!("fails at {time}: its sender wants it delivered by then"),
        (false, true) => format!("its sender gets a report if it is not delivered by {time}"),
        (false, false) => return None,
    };
    Some(MessageRemark { why: "deadline".into(), at: Some(seconds(at)), sentence })
}

/// The report that the sender gets.
fn report(scheduler: &Scheduler, message: &Message) -> Option<MessageRemark> {
    let sentence = match message.report {
        SenderReportState::None => return None,
        SenderReportState::Planned => {
            let interval = scheduler.view().parameters().global_report_interval;
            let interval = ShortDuration(interval.as_secs() as i64);
            format!("its sender gets a report within {interval}")
        }
        SenderReportState::Requested => "a report to its sender is being written".to_string(),
        SenderReportState::Failed => {
            let failure = scheduler.view().write_failure();
            let why =
                failure.map_or(String::new(), |text| format!(": {}", one_line(text.as_bytes())));
            format!("a report to its sender waits for the spool{why}")
        }
    };
    Some(MessageRemark { why: "report".into(), at: None, sentence })
}
