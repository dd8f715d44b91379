//! `SHOW SNMP`, `SHOW QUEUE …` and `SHOW WHY`.

use super::show_why::{self, WhyForm};
use super::task::{Reply, ReplyResult, SessionContext};
use crate::explain::{location, sentence};
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

/// `SHOW WHY`: what something waits for, one sentence a line.
pub(super) fn why(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let form = WhyForm {
        write: |scheduler, now, wait, is_of_message, out| {
            out.extend_from_slice(sentence(scheduler, now, is_of_message, wait).as_bytes());
            out.push(b'\n');
        },
        remark: |remark, out| {
            out.extend_from_slice(remark.sentence.as_bytes());
            out.push(b'\n');
        },
        on_disk: |place, now| Reply::whole_text(location(place, now) + "\n"),
        more: Some(|more, out| out.extend_from_slice(format!("... and {more}\n").as_bytes())),
    };
    show_why::answer(rest, context, form)
}
