//! Command line handling common to all programs.
//!
//! It decides how help and errors of options are printed, and the exit status. It must not know the
//! options of any program. Begin with [`parse`].
#![warn(unreachable_pub)]

use clap::Parser;
use std::io::{self, Write};
use zsched_format::printable;

/// Exit status for a command line that cannot be used (`EX_USAGE` of `sysexits.h`).
pub const EX_USAGE: i32 = 64;

/// Parses the command line. Exits after printing help or an error.
pub fn parse<Options: Parser>() -> Options {
    Options::try_parse().unwrap_or_else(|error| refuse(&error))
}

/// Prints help or an error, and exits.
pub fn refuse(error: &clap::Error) -> ! {
    let status = if error.use_stderr() { EX_USAGE } else { 0 };
    // The text repeats arguments. These can be file names chosen by another user.
    let text = error.to_string();
    let text = printable::lines(&text);
    // If printing fails, only the status reports the error.
    drop(match error.use_stderr() {
        true => io::stderr().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    });
    std::process::exit(status)
}
