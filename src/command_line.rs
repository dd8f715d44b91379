//! What all our programs do with a command line.

use clap::Parser;

/// Exit status for a command line that cannot be used (`EX_USAGE` of `sysexits.h`).
pub const USAGE: i32 = 64;

/// The options of this process. Prints help or what is wrong, and exits, where that is called for.
pub fn parse<Options: Parser>() -> Options {
    Options::try_parse().unwrap_or_else(|error| refuse(&error))
}

/// Prints help or what is wrong, and exits.
pub fn refuse(error: &clap::Error) -> ! {
    let status = if error.use_stderr() { USAGE } else { 0 };
    // If even that cannot be printed, the status must do.
    drop(error.print());
    std::process::exit(status)
}
