//! `SHOW JSON SUMMARY`: the queue in numbers, and what is wrong with the scheduler as a whole.

use super::{ago, duration_seconds, line, seconds, text};
use crate::v2::task::{NoticedStep, Reply, ReplyResult, SessionContext, Step};
use std::time::Duration;
use zsched_core::thread_survey::ThreadSurvey;
use zsched_core::view::{RingId, Thread};
use zsched_core::{Scheduler, UnreachableReason};
use zsched_format::printable::count;
use zsched_format::time::ClockStep;
use zsched_mailq_protocol::schema::{RecentCounts, Summary};

/// Maximum number of rings examined per step.
const MAX_RINGS_PER_STEP: usize = 1000;
/// Maximum number of threads examined per turn.
const MAX_THREADS_PER_STEP: usize = 20_000;
/// Spans of recent counts, in minutes, as those of a load average.
const RECENT_MINUTES: [u64; 3] = [1, 5, 15];

/// Answers the request.
pub(crate) fn summary(context: &SessionContext<'_>) -> ReplyResult {
    let mut rings = context.scheduler.view().ring_ids().into_iter();
    let mut survey = ThreadSurvey::new(None, usize::MAX, None);
    let mut warnings = Warnings::default();
    let (mut undelivered, mut undelivered_threads) = (0, 0);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        for ring in rings.by_ref().take(MAX_RINGS_PER_STEP) {
            warnings.add(context.scheduler, ring);
        }
        if rings.len() > 0 {
            return Step::More;
        }
        if let Some(threads) = survey.advance(context.scheduler, MAX_THREADS_PER_STEP) {
            let threads = threads.into_iter().filter_map(|id| context.scheduler.view().thread(id));
            for thread in threads {
                warnings.add_thread(context.scheduler, thread);
                let recipients = u64::from(context.scheduler.view().undelivered_of(thread));
                undelivered += recipients;
                undelivered_threads += u64::from(recipients > 0);
            }
            return Step::Pause;
        }
        let warnings = std::mem::take(&mut warnings).with_process(context);
        line(out, &Summary { undelivered, undelivered_threads, warnings, ..counts(context) });
        Step::Done
    }))
}

fn counts(context: &SessionContext<'_>) -> Summary {
    let waiting = context.backlog.waiting();
    let (scheduler, totals) = (context.scheduler, context.scheduler.view().totals());
    let counters = &totals.counters;
    Summary {
        time: seconds(context.now),
        started: seconds(context.process.started),
        version: Some(env!("CARGO_PKG_VERSION").to_string()),
        pid: Some(context.process.pid),
        messages: totals.messages as u64,
        recipients: totals.recipients,
        threads: totals.threads as u64,
        held_threads: totals.held_threads as u64,
        held_messages: scheduler.view().overrides().messages.len() as u64,
        holds: scheduler.view().overrides().holds.len() as u64,
        undelivered: 0,
        undelivered_threads: 0,
        waiting: waiting.waiting_files as u64,
        resting: waiting.paged_out as u64,
        resting_recipients: scheduler.view().paged_recipients(),
        reports: scheduler.view().unsent_reports() as u64,
        agents: totals.agents as u64,
        idle: totals.idle as u64,
        oldest: totals.oldest.map(|oldest| ago(context.now, oldest)),
        messages_in: counters.messages_in,
        messages_out: counters.messages_out,
        recipients_in: counters.recipients_in,
        recipients_out: counters.recipients_out,
        agents_started: counters.agents_started,
        loading: context.process.is_loading,
        draining: scheduler.view().is_draining(),
        frozen: scheduler.view().settings().frozen,
        recent: RECENT_MINUTES.map(|minutes| recent(context, minutes)).to_vec(),
        log_level: context.process.set_log_level.map(|level| level.as_str().to_ascii_lowercase()),
        warnings: Vec::new(),
    }
}

fn recent(context: &SessionContext<'_>, minutes: u64) -> RecentCounts {
    let span = Duration::from_secs(60 * minutes);
    let (time, counted) = context.scheduler.counted_in_last(context.now, span);
    RecentCounts {
        minutes,
        seconds: duration_seconds(time),
        messages_in: counted.messages_in,
        messages_out: counted.messages_out,
        recipients_in: counted.recipients_in,
        recipients_out: counted.recipients_out,
    }
}

/// Maximum number of rings, and of destinations, that are named.
const MAX_NAMED: usize = 3;

/// Sentences about the rings that cannot serve their mail, and about dying agents.
#[derive(Default)]
struct Warnings {
    sentences: Vec<String>,
    /// Rings beyond those that are named.
    others: usize,
    /// Destinations over which agents die, those that are named and their number.
    deaths: Vec<String>,
    with_deaths: usize,
}

impl Warnings {
    /// Adds a ring that has mail, and no agent for it.
    fn add(&mut self, scheduler: &Scheduler, id: RingId) {
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
    fn add_thread(&mut self, scheduler: &Scheduler, thread: &Thread) {
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
    fn with_process(self, context: &SessionContext<'_>) -> Vec<String> {
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
