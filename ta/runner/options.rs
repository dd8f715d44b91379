//! The command line of `runner`.

use crate::Runner;
use clap::{ArgAction, Parser};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_agent::ScopeOptions;
use zsched_agents::identity::Rights;

/// Transport agent that gives messages to a program that stays
#[derive(Parser)]
#[command(name = "runner", version, disable_version_flag = true, disable_help_flag = true)]
pub struct RunnerOptions {
    #[command(flatten)]
    pub scope: ScopeOptions,

    /// The program and its arguments; the last option, since it takes all words behind it
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true, required = true)]
    command: Vec<String>,

    /// Start the program for each message, instead of keeping it
    #[arg(long)]
    per_message: bool,

    /// Run the program as this user, even as root [default: the user in the recipient's privilege
    /// column, if the agent runs as root]
    #[arg(short, long, value_name = "NAME[:GROUP]")]
    user: Option<String>,

    /// Maximum time for a message
    #[arg(long, value_name = "SECONDS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,

    /// Maximum time for the answer to #ping
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20))]
    ping_timeout: u32,

    /// Functions of lists that the program serves
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    #[arg(default_value = "list,owner,request,majordomo")]
    functions: Vec<String>,

    /// Folder for the files with messages
    #[arg(long, value_name = "DIR", default_value = "/tmp")]
    directory: PathBuf,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

impl RunnerOptions {
    /// The program to run. An error is one of the command line.
    pub fn runner(self) -> Result<Runner, String> {
        let rights = match &self.user {
            Some(user) => Rights::named(user)?,
            None => Rights::OfRecipient,
        };
        let program = self.command.first().map(Path::new).unwrap_or(Path::new(""));
        let name = program.file_name().unwrap_or(program.as_os_str());
        let name = name.to_string_lossy().into_owned();
        Ok(Runner {
            name,
            command: self.command,
            rights,
            functions: self.functions,
            limit: Duration::from_secs(self.timeout.into()),
            ping_limit: Duration::from_secs(self.ping_timeout.into()),
            directory: self.directory,
            per_message: self.per_message,
            warm: None,
        })
    }
}
