//! What is wrong with the scheduler as a whole, in sentences for people.

use super::text;
use crate::v2::task::{NoticedStep, SessionContext};
use zsched_core::view::{RingId, Thread};
use zsched_core::{Scheduler, UnreachableReason};
use zsched_format::printable::count;
use zsched_format::time::ClockStep;

/// Maximum number of rings, and of destinations, that are named.
const MAX_NAMED: usize = 3;

/// Sentences about the rings that cannot serve their mail, and about dying agents.
#[derive(Default)]
pub(super) struct Warnings {
    sentences: Vec<String>,
    /// Rings beyond those that are named.
    others: usize,
    /// Destinations over which agents die, those that are named and their number.
    deaths: Vec<String>,
    with_deaths: usize,
}

impl Warnings {
    /// Adds a ring that has mail, and no agent for it.
    pub(super) fn add(&mut self, scheduler: &Scheduler, id: RingId) {
        let Some(ring) = scheduler.view().ring(id) else { return };
        let destinations = ring.threads.len();
        if destinations == 0 {
            return;
        }
        let (pattern, line) = (ring.pattern(), &ring.clause.location);
        let sentence =
            match (&ring.clause.command, &scheduler.view().ring_agents(id).starts.failure) {
                (None, _) => format!(
                    "no command for {pattern} ({line}): mail for {} stays queued",
                    count(destinations as u64, "destination")
                ),
                (_, Some(failure)) => format!(
                    "no agent of {pattern} ({line}) works after {}: the last one {}",
                    count(failure.count.into(), "start"),
                    text(failure.reason.as_bytes())
                ),
                (Some(_), None) => return,
            };
        match self.sentences.len() < MAX_NAMED {
            true => self.sentences.push(sentence),
            false => self.others += 1,
        }
    }

    /// Adds a destination, if agents die over it.
    pub(super) fn add_thread(&mut self, scheduler: &Scheduler, thread: &Thread) {
        let unreachable = thread.retry.unreachable.as_deref();
        // A ring without any agent has a sentence of its own.
        let has_agents = scheduler.view().ring_agents(thread.ring).starts.failure.is_none();
        let Some(known) = unreachable.filter(|_| has_agents) else {
            return;
        };
        if known.reason != UnreachableReason::AgentsDie {
            return;
        }
        self.with_deaths += 1;
        if self.deaths.len() < MAX_NAMED {
            let line = &scheduler.view().ring_of(thread).clause.location;
            let cause = known.cause.as_deref().and_then(|cause| cause.diagnosis.as_ref());
            let cause =
                cause.map_or(String::new(), |text| format!(": {}", self::text(&text.message)));
            self.deaths.push(format!("{} ({line}){cause}", thread.destination));
        }
    }

    /// All warnings: those of the process, then those about rings and destinations.
    pub(super) fn with_process(self, context: &SessionContext<'_>) -> Vec<String> {
        let unreadable = context.backlog.waiting().unreadable;
        let files = (unreadable > 0).then(|| {
            format!("{} cannot be read, see the log", count(unreadable as u64, "control file"))
        });
        let failure = context.scheduler.view().write_failure();
        let failure = failure.map(|failure| format!("the spool cannot be written: {failure}"));
        let clock = context.process.clock_step.map(clock_warning);
        let others = (self.others > 0)
            .then(|| format!("{} more without agents", count(self.others as u64, "ring")));
        let process = [failure, files, clock].into_iter().flatten();
        let deaths = (self.with_deaths > 0).then(|| {
            let (number, named) = (self.with_deaths as u64, self.deaths.join("; "));
            format!("agents fail for {}: {named}", count(number, "destination"))
        });
        process.chain(self.sentences).chain(others).chain(deaths).collect()
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
