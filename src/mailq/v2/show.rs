//! `SHOW SNMP`, `SHOW QUEUE …` and `SHOW WHY`.

use super::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::mailq::report::{Form, ThreadReport};
use crate::mailq::why::{self, Subject};

/// The thread report in one of its forms.
struct Report(ThreadReport);

impl Text for Report {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let is_over = self.0.write(around.scheduler, around.now, around.started, out);
        if is_over { Step::Over } else { Step::More }
    }

    fn learn(&mut self, _findings: Findings) {}
}

fn report(form: Form) -> Reply {
    Reply::Text(Box::new(Report(ThreadReport::new(form))))
}

/// `SHOW SNMP`: totals.
pub fn totals(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    report(Form::Totals)
}

/// `SHOW QUEUE SHORT`: groups and totals.
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

/// Lines that are all there already.
struct Lines(std::vec::IntoIter<String>);

impl Text for Lines {
    fn write(&mut self, _around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let Some(line) = self.0.next() else {
            return Step::Over;
        };
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
        Step::More
    }

    fn learn(&mut self, _findings: Findings) {}
}

/// `SHOW WHY`: what something waits for.
pub fn why(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let subject = String::from_utf8_lossy(rest);
    let subject = subject.trim();
    let refuse = |why: String| Reply::Line(format!("-{why}\n"));
    let Some(parsed) = Subject::parse(subject) else {
        return refuse("give a channel/host, a spool id or the name of a control file".to_string());
    };
    match why::sentences(around.scheduler, around.now, &parsed) {
        Some(sentences) => Reply::Text(Box::new(Lines(sentences.into_iter()))),
        None => refuse(format!("nothing is queued for {}", subject.escape_debug())),
    }
}
