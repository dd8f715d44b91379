//! `hold`: keeps messages until a time, then resubmits them.
//!
//! Routers send a recipient here if they cannot route it now. The host names the condition:
//! `timeout:2100000000` for a point in time, in seconds since 1970. Every attempt before that time
//! ends in a deferral. The first one after it resubmits the message for this recipient.

use clap::Parser;
use std::process::ExitCode;
use zsched_agent::{Delivery, Message, Outcome, ScopeOptions, Verdict};
use zsched_format::time::Timestamp;

/// Transport agent that holds messages until a given time
#[derive(Parser)]
#[command(name = "hold", version, disable_help_flag = true)]
struct HoldOptions {
    #[command(flatten)]
    scope: ScopeOptions,
}

fn main() -> ExitCode {
    let options: HoldOptions = zsched_command_line::parse();
    zsched_agent::serve("hold", &options.scope.scope("hold"), |job| {
        let message = job.message()?;
        job.deliver_each(|delivery| match release_time(delivery.host()) {
            Some(time) if Timestamp::now().seconds() >= time => release(delivery, &message),
            Some(_) => hold("waiting for its time"),
            None => hold("the host is not a condition that this agent supports"),
        })
    })
}

/// Parses the seconds since 1970 in a host of the form `timeout:<seconds>`.
fn release_time(host: &[u8]) -> Option<i64> {
    let (kind, time) = std::str::from_utf8(host).ok()?.split_once(':')?;
    if kind.eq_ignore_ascii_case("timeout") { time.parse().ok() } else { None }
}

fn hold(text: &'static str) -> Outcome {
    Outcome::new(Verdict::Deferred, "4.4.3", 466, "cannot be routed yet").with_text(text)
}

fn release(delivery: &Delivery<'_>, message: &Message) -> Outcome {
    match delivery.resubmit(message) {
        Ok(number) => Outcome::new(Verdict::PassedOn, "2.2.0", 250, "handed back to the router")
            .with_text(format!("handed back to the router as {number}")),
        Err(error) => Outcome::system_error("cannot hand back to the router", &error),
    }
}
