//! `SHOW SNMP` and `SHOW QUEUE …`.

use super::task::{Reply, ReplyResult, SessionContext};
use crate::queue_report::{QueueReport, ReportForm};

/// The queue report in one of its forms.
pub(super) fn report(form: ReportForm) -> ReplyResult {
    let mut report = QueueReport::new(form);
    let is_long = report.is_long();
    let task = move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        report.write(context.scheduler, context.now, context.process.started, out)
    };
    Ok(if is_long { Reply::long_text(task) } else { Reply::text(task) })
}
