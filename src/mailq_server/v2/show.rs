//! `SHOW SNMP`, `SHOW QUEUE …` and `SHOW WHY`.

use super::answer::{LookupResult, Reply, SessionContext, Step, Text};
use crate::explain::{ExplainCursor, location, sentence};
use crate::report::{Progress, ReportForm, ThreadReport};
use zsched_format::printable;
use zsched_mailq_protocol::subject::Subject;

/// The thread report in one of its forms.
struct Report(ThreadReport);

impl Text for Report {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        match self.0.write(context.scheduler, context.now, context.process.started, out) {
            Progress::More => Step::More,
            Progress::Pause => Step::Pause,
            Progress::Over => Step::Over,
        }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}

    fn is_long(&self) -> bool {
        self.0.is_long()
    }
}

fn report(form: ReportForm) -> Reply {
    Reply::Text(Box::new(Report(ThreadReport::new(form))))
}

/// `SHOW SNMP`: totals.
pub(super) fn totals(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    report(ReportForm::Totals)
}

/// `SHOW QUEUE SHORT`: rings and totals.
pub(super) fn short(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    report(ReportForm::Short)
}

/// `SHOW QUEUE THREADS`: everything.
pub(super) fn full(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    report(ReportForm::Full)
}

/// `SHOW QUEUE THREADS2`: threads, for programs.
pub(super) fn threads(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    report(ReportForm::Threads)
}

/// Wait reasons, one sentence a line.
struct Sentences(ExplainCursor);

impl Text for Sentences {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let (scheduler, now) = (context.scheduler, context.now);
        let is_over = self.0.next_reasons(scheduler, &mut |wait, of_message| {
            out.extend_from_slice(sentence(scheduler, now, of_message, wait).as_bytes());
            out.push(b'\n');
        });
        if is_over { Step::Over } else { Step::More }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}

/// Returns the number of the message that the text names.
pub(super) fn message_number(subject: &str) -> Option<u64> {
    match Subject::parse(subject)? {
        Subject::Message(number, _) => Some(number),
        Subject::Thread(..) => None,
    }
}

/// A text of one line.
struct Sentence(String);

impl Text for Sentence {
    fn write(&mut self, _context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(self.0.as_bytes());
        out.push(b'\n');
        Step::Over
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}

/// `SHOW WHY`: what a thread or a message waits for.
pub(super) fn why(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let subject = String::from_utf8_lossy(rest);
    let subject = subject.trim();
    let refuse = |why: String| Reply::Line(format!("-{why}\n"));
    let Some(parsed) = Subject::parse(subject) else {
        return refuse("give a channel/host, a spool id or the name of a control file".to_string());
    };
    match ExplainCursor::new(context.scheduler, parsed) {
        Some(pending) => Reply::Text(Box::new(Sentences(pending))),
        None => match message_number(subject).and_then(|n| context.backlog.location(n)) {
            Some(place) => Reply::Text(Box::new(Sentence(location(place, context.now)))),
            None => refuse(format!(
                "no mail is queued for {}",
                printable::line(subject).replace('\t', " ")
            )),
        },
    }
}
