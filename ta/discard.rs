//! `discard`: takes every message and does nothing with it.
//!
//! A null agent: to drain a channel, and to measure a scheduler. It never opens a message file, and
//! locks nothing, since to discard twice is to discard.

use clap::Parser;
use std::process::ExitCode;
use zsched_agent::{Outcome, ScopeOptions, Verdict};

/// Transport agent that discards messages
#[derive(Parser)]
#[command(name = "discard", disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    scope: ScopeOptions,
}

fn main() -> ExitCode {
    let options: Options = zsched_command_line::parse();
    zsched_agent::serve("discard", &options.scope.scope("discard"), |job| {
        job.settle(|_| Outcome::new(Verdict::Delivered, "2.0.0", 250, "discarded"));
        Ok(())
    })
}
