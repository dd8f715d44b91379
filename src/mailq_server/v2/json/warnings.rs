//! What is wrong with the scheduler as a whole, in sentences for people.

use super::text;
use crate::v2::task::{NoticedStep, SessionContext};
use zsched_core::view::Ring;
use zsched_format::printable::count;
use zsched_format::time::ClockStep;

/// Maximum number of rings that are named for each kind of trouble.
const MAX_NAMED_RINGS: usize = 3;

/// Sentences about the rings that cannot serve their mail.
#[derive(Default)]
pub(super) struct RingWarnings {
    sentences: Vec<String>,
    /// Rings beyond those that are named.
    others: usize,
}

impl RingWarnings {
    /// Adds a ring that has mail, and no agent for it.
    pub(super) fn add(&mut self, ring: &Ring) {
        let destinations = ring.threads.len();
        if destinations == 0 {
            return;
        }
        let (pattern, line) = (ring.pattern(), &ring.clause.location);
        let sentence = match (&ring.clause.command, &ring.starts.failure) {
            (None, _) => format!(
                "no command for {pattern} ({line}): mail for {} stays queued",
                count(destinations as u64, "destination")
            ),
            (_, Some(failure)) => format!(
                "agents of {pattern} ({line}) cannot be started, {}: {}",
                count(failure.count.into(), "failure"),
                text(failure.reason.as_bytes())
            ),
            (Some(_), None) => return,
        };
        match self.sentences.len() < MAX_NAMED_RINGS {
            true => self.sentences.push(sentence),
            false => self.others += 1,
        }
    }

    /// All warnings: those of the process, then those about rings.
    pub(super) fn with_process(self, context: &SessionContext<'_>) -> Vec<String> {
        let unreadable = context.backlog.waiting().unreadable;
        let files = (unreadable > 0).then(|| {
            format!("{} cannot be read, see the log", count(unreadable as u64, "control file"))
        });
        let failure = context.scheduler.write_failure();
        let failure = failure.map(|failure| format!("the spool cannot be written: {failure}"));
        let clock = context.process.clock_step.map(clock_warning);
        let others = (self.others > 0)
            .then(|| format!("{} more without agents", count(self.others as u64, "ring")));
        let process = [failure, files, clock].into_iter().flatten();
        process.chain(self.sentences).chain(others).collect()
    }
}

fn clock_warning(NoticedStep { step, is_believed }: NoticedStep) -> String {
    let direction = match step {
        ClockStep::Forward(_) => "forward",
        ClockStep::Back(_) => "back",
    };
    let seconds = step.length().as_secs();
    let follows = match is_believed {
        true => "less than an hour ago",
        false => "the step is ignored unless it lasts",
    };
    format!("the clock was set {direction} by {seconds} s, {follows}")
}
