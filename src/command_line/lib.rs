//! What all our programs do with a command line.

use clap::Parser;
use std::io::{self, Write};
use zsched_format::printable;

/// Exit status for a command line that cannot be used (`EX_USAGE` of `sysexits.h`).
pub const USAGE: i32 = 64;

/// The options of this process. Prints help or what is wrong, and exits, where that is called for.
pub fn parse<Options: Parser>() -> Options {
    Options::try_parse().unwrap_or_else(|error| refuse(&error))
}

/// Prints help or what is wrong, and exits.
pub fn refuse(error: &clap::Error) -> ! {
    let status = if error.use_stderr() { USAGE } else { 0 };
    // It repeats arguments, which can be file names that another user has chosen.
    let text = error.to_string();
    let text = printable::lines(&text);
    // If even that cannot be printed, the status must do.
    drop(match error.use_stderr() {
        true => io::stderr().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    });
    std::process::exit(status)
}
