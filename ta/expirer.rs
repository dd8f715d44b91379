//! `expirer`: ends recipients as expired, on the order of an operator.
//!
//! It fails all recipients that it is given, with a `d` line for each, so that their senders get
//! reports. It never opens a message file. The recipients are locked first: one that another agent
//! is delivering to is left alone.

use clap::{ArgAction, Parser};
use std::path::PathBuf;
use std::process::ExitCode;
use zsched_agent::{Outcome, ScopeOptions, Verdict};
use zsched_format::status_code::enhanced_code;

/// Transport agent that expires recipients on the order of an operator
#[derive(Parser)]
#[command(name = "expirer", version, disable_version_flag = true, disable_help_flag = true)]
struct ExpirerOptions {
    #[command(flatten)]
    scope: ScopeOptions,

    /// Text for the sender and the log
    #[arg(short, long, value_name = "TEXT", default_value = "expired by the administrator")]
    message: String,

    /// Status code of RFC 3463, of class 5
    #[arg(long, value_name = "CODE", default_value = "5.4.7", value_parser = failure_code)]
    status: String,

    /// Remove the recipients without a report to the sender
    #[arg(short, long)]
    silent: bool,

    /// Has no effect: a log file of ZMailer's expirer
    #[arg(short = 'l', value_name = "LOGFILE")]
    _log: Option<PathBuf>,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

fn main() -> ExitCode {
    let options: ExpirerOptions = zsched_command_line::parse();
    let failure = Outcome::new(Verdict::Failed, options.status, 554, options.message);
    let outcome = if options.silent { failure.without_report() } else { failure };
    zsched_agent::serve("expirer", &options.scope.scope_of_all_channels(), |job| {
        job.lock()?;
        job.report_together(|_| outcome.clone());
        Ok(())
    })
}

/// Parses a status code of a failure.
fn failure_code(text: &str) -> Result<String, &'static str> {
    match enhanced_code(text.as_bytes(), b"5") {
        Some(code) if code == text => Ok(text.to_string()),
        _ => Err("not a status code such as 5.4.7"),
    }
}
