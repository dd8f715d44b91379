//! `reroute`: gives recipients back to the router.
//!
//! Each is resubmitted with its sender, headers and DSN parameters, and is done then. Recipients
//! with the same sender and headers share a submission.

use clap::{ArgAction, Parser};
use std::process::ExitCode;
use zsched_agent::{Delivery, Message, Outcome, ScopeOptions, Verdict};

/// Maximum number of recipients in a submission.
///
/// They are routed twice if the agent is killed at the wrong moment.
const MAX_RECIPIENTS: usize = 1000;

/// Transport agent that gives recipients back to the router
#[derive(Parser)]
#[command(name = "reroute", version, disable_version_flag = true, disable_help_flag = true)]
struct RerouteOptions {
    #[command(flatten)]
    scope: ScopeOptions,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

fn main() -> ExitCode {
    let options: RerouteOptions = zsched_command_line::parse();
    zsched_agent::serve("reroute", &options.scope.scope_of_all_channels(), |job| {
        let message = job.message()?;
        job.deliver_groups(
            |group, next| group.len() < MAX_RECIPIENTS && group[0].has_same_message(next),
            |group| resubmit(group, &message),
        )
    })
}

fn resubmit(group: &[Delivery<'_>], message: &Message) -> Outcome {
    match Delivery::resubmit_together(group, message) {
        Ok(number) => Outcome::new(Verdict::PassedOn, "2.2.0", 250, "given back to the router")
            .with_text(format!("given back to the router as {number}")),
        Err(error) => Outcome::system_error("cannot give back to the router", &error),
    }
}
