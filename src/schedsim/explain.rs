//! `schedsim explain`: the life of one message.

use super::Trouble;
use std::io::Write;
use std::path::PathBuf;

/// The command line of `schedsim explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Recordings, the oldest first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The message: its spool id, or its number
    #[arg(long = "spoolid", value_name = "ID")]
    message: String,

    /// Print JSON, one object a line
    #[arg(long = "json")]
    json: bool,
}

/// Tells the life of the message.
pub fn run(options: &Options, out: &mut impl Write) -> Result<(), Trouble> {
    Ok(writeln!(out, "{options:?}")?)
}
