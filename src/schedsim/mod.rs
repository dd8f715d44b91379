//! The program `schedsim`: asks the scheduler's core what it would do.
//!
//! | file | subcommand |
//! |---|---|
//! | [`run`] | `run`: simulates configurations in a world that a file describes |

pub mod run;

use clap::{Parser, Subcommand};

/// Ask the scheduler what it would do, without doing it
#[derive(Parser, Clone, Debug)]
#[command(name = "schedsim", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Simulate one configuration, or compare several, in a world of mail and hosts
    Run(run::Options),
}

/// Runs the program. Returns the exit status.
pub fn main(options: Options) -> i32 {
    let outcome = match options.command {
        Command::Run(options) => run::main(&options),
    };
    match outcome {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("schedsim: {reason}");
            1
        }
    }
}
