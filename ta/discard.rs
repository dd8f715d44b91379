//! `discard`: accepts every message and discards it.
//!
//! A null agent, to drain a channel or to measure a scheduler. It never opens a message file. It
//! locks nothing, since discarding twice does no harm.

use clap::Parser;
use std::process::ExitCode;
use zsched_agent::{Outcome, ScopeOptions, Verdict};

/// Transport agent that discards messages
#[derive(Parser)]
#[command(name = "discard", version, disable_help_flag = true)]
struct DiscardOptions {
    #[command(flatten)]
    scope: ScopeOptions,
}

fn main() -> ExitCode {
    let options: DiscardOptions = zsched_command_line::parse();
    zsched_agent::serve("discard", &options.scope.scope("discard"), |job| {
        job.report_together(|_| Outcome::new(Verdict::Delivered, "2.0.0", 250, "discarded"));
        Ok(())
    })
}
