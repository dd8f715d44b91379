//! `SHOW SNMP`, `SHOW QUEUE …` and `SHOW WHY`.

use super::task::{Reply, ReplyResult, SessionContext, Step};
use crate::explain::{ExplainCursor, location, sentence};
use crate::report::{ReportForm, ThreadReport};
use zsched_core::intake::backlog_view::FileLocation;
use zsched_mailq_protocol::subject::Subject;

/// The thread report in one of its forms.
pub(super) fn report(form: ReportForm) -> ReplyResult {
    let mut report = ThreadReport::new(form);
    let is_long = report.is_long();
    let task = move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        report.write(context.scheduler, context.now, context.process.started, out)
    };
    Ok(if is_long { Reply::long_text(task) } else { Reply::text(task) })
}

/// What is known about the subject of a question.
pub(super) enum Known {
    /// Its wait reasons.
    Reasons(ExplainCursor),
    /// It is a message that is not in memory.
    OnDisk(FileLocation),
}

/// Finds the subject of `SHOW WHY`. `Err` is the reason of a refusal.
pub(super) fn find_subject(subject: &str, context: &SessionContext<'_>) -> Result<Known, String> {
    let Some(parsed) = Subject::parse(subject) else {
        return Err("give a channel/host, a spool id or the name of a control file".to_string());
    };
    let number = match parsed {
        Subject::Message(number, _) => Some(number),
        Subject::Thread(..) => None,
    };
    let known = ExplainCursor::new(context.scheduler, parsed).map(Known::Reasons);
    let on_disk = || number.and_then(|number| context.backlog.location(number)).map(Known::OnDisk);
    known.or_else(on_disk).ok_or_else(|| format!("no mail is queued for {subject}"))
}

/// `SHOW WHY`: what a thread or a message waits for, one sentence a line.
pub(super) fn why(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let subject = String::from_utf8_lossy(rest);
    Ok(match find_subject(subject.trim(), context) {
        Err(refusal) => Reply::refusal(refusal.replace('\t', " ")),
        Ok(Known::OnDisk(place)) => Reply::whole_text(location(place, context.now) + "\n"),
        Ok(Known::Reasons(mut cursor)) => {
            Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
                let (scheduler, now) = (context.scheduler, context.now);
                let is_over = cursor.next_reasons(scheduler, &mut |wait, of_message| {
                    out.extend_from_slice(sentence(scheduler, now, of_message, wait).as_bytes());
                    out.push(b'\n');
                });
                if is_over { Step::Done } else { Step::More }
            })
        }
    })
}
