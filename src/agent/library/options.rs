//! Command lines of agents.

use super::Scope;
use clap::{ArgAction, Args, Parser};
use std::process::ExitCode;

/// Exit status for a command line that makes no sense (`EX_USAGE` of `sysexits(3)`).
const USAGE: u8 = 64;

/// Options that all agents have. A program that flattens them sets `disable_help_flag`, because `-h`
/// is the host.
#[derive(Args, Debug)]
pub struct ScopeOptions {
    /// Deliver to the recipients of this channel
    #[arg(short, long, value_name = "CHANNEL")]
    channel: Option<String>,

    /// Deliver to the recipients of this host, where the jobs name none
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl ScopeOptions {
    /// What the options select; `channel` is what the agent delivers for if it is not told.
    pub fn scope(self, channel: &str) -> Scope {
        Scope::channel(self.channel.unwrap_or_else(|| channel.to_string())).with_host(self.host)
    }
}

/// Reads the command line. An error is printed, and its exit status returned.
pub fn parse_options<P: Parser>() -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        // Where this text cannot be printed there is nobody to complain to either.
        error.print().ok();
        if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
    })
}
