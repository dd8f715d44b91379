//! `SHOW SNMP`, `SHOW QUEUE …` and `SHOW WHY`.

use super::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::report::{Form, Progress, ThreadReport};
use crate::why::{Pending, location, sentence};
use zsched_format::printable;
use zsched_mailq_protocol::subject::Subject;

/// The thread report in one of its forms.
struct Report(ThreadReport);

impl Text for Report {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        match self.0.write(around.scheduler, around.now, around.process.started, out) {
            Progress::More => Step::More,
            Progress::Pause => Step::Pause,
            Progress::Over => Step::Over,
        }
    }

    fn learn(&mut self, _findings: Findings) {}

    fn is_long(&self) -> bool {
        self.0.is_long()
    }
}

fn report(form: Form) -> Reply {
    Reply::Text(Box::new(Report(ThreadReport::new(form))))
}

/// `SHOW SNMP`: totals.
pub fn totals(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    report(Form::Totals)
}

/// `SHOW QUEUE SHORT`: rings and totals.
pub fn short(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    report(Form::Short)
}

/// `SHOW QUEUE THREADS`: everything.
pub fn full(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    report(Form::Full)
}

/// `SHOW QUEUE THREADS2`: threads, for programs.
pub fn threads(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    report(Form::Threads)
}

/// Wait reasons, one sentence a line.
struct Sentences(Pending);

impl Text for Sentences {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let (scheduler, now) = (around.scheduler, around.now);
        let is_over = self.0.go_on(scheduler, &mut |wait, of_message| {
            out.extend_from_slice(sentence(scheduler, now, of_message, wait).as_bytes());
            out.push(b'\n');
        });
        if is_over { Step::Over } else { Step::More }
    }

    fn learn(&mut self, _findings: Findings) {}
}

/// Returns the number of the message that the text names.
pub fn parsed_number(subject: &str) -> Option<u64> {
    match Subject::parse(subject)? {
        Subject::Message(number, _) => Some(number),
        Subject::Thread(..) => None,
    }
}

/// A text of one line.
struct Sentence(String);

impl Text for Sentence {
    fn write(&mut self, _around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(self.0.as_bytes());
        out.push(b'\n');
        Step::Over
    }

    fn learn(&mut self, _findings: Findings) {}
}

/// `SHOW WHY`: what a thread or a message waits for.
pub fn why(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let subject = String::from_utf8_lossy(rest);
    let subject = subject.trim();
    let refuse = |why: String| Reply::Line(format!("-{why}\n"));
    let Some(parsed) = Subject::parse(subject) else {
        return refuse("give a channel/host, a spool id or the name of a control file".to_string());
    };
    match Pending::new(around.scheduler, parsed) {
        Some(pending) => Reply::Text(Box::new(Sentences(pending))),
        None => match parsed_number(subject).and_then(|n| around.elsewhere.location(n)) {
            Some(place) => Reply::Text(Box::new(Sentence(location(place, around.now)))),
            None => refuse(format!(
                "nothing is queued for {}",
                printable::line(subject).replace('\t', " ")
            )),
        },
    }
}
