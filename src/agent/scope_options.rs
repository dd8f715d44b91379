//! Command-line options of agents.

use crate::Scope;
use clap::{ArgAction, Args};

/// Options that all agents have: `-c CHANNEL`, `-h HOST` and `--help`.
///
/// A program that flattens them must set `disable_help_flag`, because `-h` is the host.
///
/// ```
/// use clap::Parser;
/// use zsched_agent::{Scope, ScopeOptions};
///
/// #[derive(Parser)]
/// #[command(name = "my-agent", disable_help_flag = true)]
/// struct Options {
///     #[command(flatten)]
///     scope: ScopeOptions,
/// }
///
/// let options = Options::parse_from(["my-agent", "-c", "fax"]);
/// assert_eq!(options.scope.scope("local"), Scope::channel("fax"));
/// ```
#[derive(Args, Clone, Debug)]
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
    /// The scope that the options select; `channel` is the default channel.
    pub fn scope(self, channel: &str) -> Scope {
        Scope::channel(self.channel.unwrap_or_else(|| channel.to_string())).with_host(self.host)
    }

    /// The scope that the options select; without `-c`, that is all channels.
    pub fn scope_of_all_channels(self) -> Scope {
        let scope = self.channel.map_or_else(Scope::all_channels, Scope::channel);
        scope.with_host(self.host)
    }
}
