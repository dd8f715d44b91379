//! `schedsim`: runs the core on virtual time, to explain the past and to compare configurations.
//!
//! This crate decides what to print about a recording and which world to simulate; the core decides
//! what happens in it. It must not know the daemon, sockets or real spools. Begin with
//! [`SchedsimOptions`], then with the file of the subcommand:
//!
//! | file | subcommand |
//! |---|---|
//! | [`replay`] | `replay`: decides a recording again and verifies each decision |
//! | [`what_if`], [`agent_model`], [`model_run`] | `replay --cf`: another configuration |
//! | [`explain`] | `explain`: the history of a subject |
//! | [`timeline`] | how it is collected |
//! | [`run`] | `run`: simulates configurations in a world that a file describes |
//! | [`statistics`], [`destination_results`], [`thread_samples`] | `replay --cf`, `run`: the counters |
//! | [`progress`] | the progress bar of all of them |

#![warn(unreachable_pub)]

pub mod replay;
mod what_if;

mod agent_model;

mod model_run;

mod progress;

mod destination_results;
mod statistics;
mod thread_samples;

pub mod explain;

mod timeline;

pub mod run;

use clap::{Parser, Subcommand};
use progress::Progress;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use zsched_config::Diagnostic;
use zsched_format::agent_protocol::AgentCommand;
use zsched_format::printable::{self, PrintableWriter};
use zsched_recorder::{Recording, Replay, ReplayObserver, ReplaySummary};
use zsched_spool::SpoolName;

/// What a scheduler did, would do, or would have done.
#[derive(Parser, Clone, Debug)]
#[command(name = "schedsim", version)]
pub struct SchedsimOptions {
    #[command(subcommand)]
    command: SchedsimCommand,
}

/// What is wanted.
#[derive(Subcommand, Clone, Debug)]
pub enum SchedsimCommand {
    /// Replay a recording and verify each decision
    Replay(replay::ReplayOptions),
    /// Print the history of a message or a destination from recordings
    Explain(explain::ExplainOptions),
    /// Simulate one configuration, or compare several, in a world of mail and hosts
    Run(run::RunOptions),
}

/// Runs the subcommand. Returns the exit status.
pub fn main(options: SchedsimOptions) -> i32 {
    let mut out = PrintableWriter::new(io::BufWriter::new(io::stdout().lock()));
    let result = match &options.command {
        SchedsimCommand::Replay(options) => replay::run(options, &mut out),
        SchedsimCommand::Explain(options) => explain::run(options, &mut out),
        SchedsimCommand::Run(options) => run::run(options, &mut out),
    };
    let result = result.and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => 0,
        // The reader has closed the pipe.
        Err(SchedsimError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            // Print the results so far first. If that fails, standard error may still work.
            drop(out.flush());
            printable::print_error("schedsim", error);
            1
        }
    }
}

/// Why a subcommand fails.
#[derive(Debug, thiserror::Error)]
pub enum SchedsimError {
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    /// Any other error, as text.
    #[error("{0}")]
    Other(String),
}

impl SchedsimError {
    /// A problem with a file.
    fn of(path: &Path, problem: impl fmt::Display) -> SchedsimError {
        SchedsimError::Other(format!("{}: {problem}", path.display()))
    }
}

/// Opens a recording, to be replayed.
fn open(path: &Path) -> Result<Replay<BufReader<File>>, SchedsimError> {
    let replay = Recording::open(path).and_then(Replay::new);
    replay.map_err(|error| SchedsimError::of(path, error))
}

/// Replays a recording to its end, or to the first difference. Shows the progress.
fn play(
    path: &Path,
    replay: &mut Replay<BufReader<File>>,
    observer: impl ReplayObserver,
) -> Result<ReplaySummary, SchedsimError> {
    let played = replay.run(&mut (observer, Progress::of_recording(path)));
    played.map_err(|failure| SchedsimError::of(path, failure))
}

/// Formats the errors of a configuration, one a line.
fn lines(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Returns the message number of a job line.
///
/// It also returns the host if the line names one.
fn parse_job(line: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    match AgentCommand::parse(line.trim_ascii_end()) {
        AgentCommand::Job { path, host, .. } => {
            Some((SpoolName::from_notified(path)?.number(), host))
        }
        AgentCommand::Exit | AgentCommand::Idle => None,
    }
}
