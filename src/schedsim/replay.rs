//! `schedsim replay`: has the core decide a recording again, and verifies each decision.

use super::SchedsimError;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zsched_core::{Action, Event, Scheduler};
use zsched_format::printable::{self, grouped};
use zsched_format::time::LongDuration;
use zsched_format::time::format_time;
use zsched_recorder::{RecordingEnd, ReplayObserver, ReplayedEvent};

/// The command line of `schedsim replay`.
#[derive(clap::Args, Clone, Debug)]
pub struct ReplayOptions {
    /// Recordings, each of which is replayed on its own
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Simulate another configuration on the same mail
    #[arg(long = "cf", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON
    #[arg(long = "json")]
    json: bool,
}

/// Replays all files.
pub fn run(options: &ReplayOptions, out: &mut impl Write) -> Result<(), SchedsimError> {
    for file in &options.files {
        match &options.config {
            None => verify(file, options.json, out)?,
            Some(config) => super::what_if::run(file, config, options.json, out)?,
        }
    }
    Ok(())
}

/// Counts of events and actions.
#[derive(Default)]
struct Counts {
    arrivals: u64,
    lines: u64,
    reloads: u64,
    agents: u64,
    jobs: u64,
    removals: u64,
}

impl ReplayObserver for Counts {
    fn before(&mut self, _: &ReplayedEvent, event: &Event<'_>, _: &Scheduler) {
        match event {
            Event::Arrived(_) => self.arrivals += 1,
            Event::AgentSaid { .. } => self.lines += 1,
            Event::Configured(_) => self.reloads += 1,
            _ => {}
        }
    }

    fn after(&mut self, _: &ReplayedEvent, decided: &[Action], _: &Scheduler) {
        for action in decided {
            match action {
                Action::StartAgent { .. } => self.agents += 1,
                Action::Feed { .. } => self.jobs += 1,
                Action::Remove { .. } => self.removals += 1,
                _ => {}
            }
        }
    }
}

fn verify(path: &Path, json: bool, out: &mut impl Write) -> Result<(), SchedsimError> {
    let mut replay = super::open(path)?;
    let queued = replay.core().view().totals().messages;
    let mut counts = Counts::default();
    let started = Instant::now();
    let played = super::play(path, &mut replay, &mut counts)?;
    let took = started.elapsed();
    let header = &replay.recording().header;
    let span = played.last.since(header.started);
    if json {
        let value = serde_json::json!({
            "file": path.to_string_lossy(),
            "version": header.version,
            "begun": format_time(header.started),
            "last": format_time(played.last),
            "seconds": span.as_secs_f64(),
            "lost_before": header.lost,
            "queued_at_begin": queued,
            "events": played.events,
            "decisions": played.decisions,
            "arrivals": counts.arrivals,
            "agent_lines": counts.lines,
            "reloads": counts.reloads,
            "agents_started": counts.agents,
            "jobs": counts.jobs,
            "removals": counts.removals,
            "ending": ending(played.ending),
        });
        writeln!(out, "{}", printable::json(&value.to_string()))?;
    } else {
        let (begun, last) = (format_time(header.started), format_time(played.last));
        let long = LongDuration(span.as_secs() as i64);
        writeln!(out, "{}: scheduler {}", path.display(), header.version)?;
        writeln!(out, "  time        {begun} to {last}, {long}")?;
        if header.lost > 0 {
            writeln!(out, "  missing     {} events before it", header.lost)?;
        }
        writeln!(out, "  at first    {} messages queued", grouped(queued as u64))?;
        let Counts { arrivals, lines, reloads, agents, jobs, removals } = counts;
        let [arrivals, lines, reloads, agents, jobs, removals] =
            [arrivals, lines, reloads, agents, jobs, removals].map(grouped);
        let [events, decisions] = [played.events, played.decisions].map(grouped);
        writeln!(
            out,
            "  events      {events}: {arrivals} arrivals, {lines} lines of agents, {reloads} new \
             configurations"
        )?;
        writeln!(
            out,
            "  decisions   {decisions}, all as recorded: {agents} agents started, {jobs} jobs, \
             {removals} removals"
        )?;
        writeln!(out, "  end         {}", ending(played.ending))?;
        writeln!(out, "  speed       {}", speed(played.events, span, took))?;
    }
    match played.ending {
        RecordingEnd::Damaged { offset } => {
            let problem = format!("it is damaged at offset {offset}, and was not read further");
            Err(SchedsimError::of(path, problem))
        }
        _ => Ok(()),
    }
}

fn ending(ending: RecordingEnd) -> String {
    match ending {
        RecordingEnd::Whole => "whole".to_string(),
        RecordingEnd::Torn { offset, bytes } => {
            format!(
                "cut off while it was written: the last {bytes} bytes, from {offset}, are unused"
            )
        }
        RecordingEnd::Damaged { offset } => format!("damaged at offset {offset}"),
    }
}

fn speed(events: u64, span: Duration, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    let rate = events as f64 / seconds;
    let factor = span.as_secs_f64() / seconds;
    let [rate, factor] = [rate, factor].map(|number| grouped(number as u64));
    format!("{rate} events/s, {factor} times as fast as it was")
}
