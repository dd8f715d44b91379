//! Command line handling common to all programs.
//!
//! It decides how help and errors of options are printed, the exit status, and how [`table`]s fit a
//! terminal. It must not know the options of any program. Begin with [`parse`].
#![warn(unreachable_pub)]

pub mod sysexits;
pub mod table;

use clap::error::ContextKind;
use clap::{Arg, Command, Parser, ValueEnum, value_parser};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io::{self, Write};
use sysexits::EX_USAGE;
use zsched_format::printable;

/// Name of the option that prints completions.
const COMPLETIONS: &str = "completions";

/// Parses the command line. Exits after printing help, completions or an error.
///
/// Each program has the option `--completions`.
pub fn parse<Options: Parser>() -> Options {
    let completions = Arg::new(COMPLETIONS)
        .long(COMPLETIONS)
        .value_name("SHELL")
        .value_parser(value_parser!(Shell))
        .exclusive(true)
        .help("Print completions of the command line for a shell");
    let mut command = Options::command().arg(completions);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // The parser would ask for a subcommand or an operand, too.
    if let [_, option, shell] = &arguments[..]
        && option == "--completions"
        && let Some(shell) = shell.to_str().and_then(|shell| Shell::from_str(shell, true).ok())
    {
        print_completions(shell, &mut command);
        std::process::exit(0);
    }
    let parsed = command.try_get_matches_from_mut(arguments);
    let parsed = parsed.and_then(|matches| Options::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| refuse(error.format(&mut command)))
}

/// Prints completions of a command line for a shell.
pub fn print_completions(shell: Shell, command: &mut Command) {
    let (mut script, name) = (Vec::new(), command.get_name().to_string());
    clap_complete::generate(shell, command, name, &mut script);
    // If standard output is closed, nothing is lost.
    drop(io::stdout().write_all(&script));
}

/// Prints help or an error, and exits.
pub fn refuse(mut error: clap::Error) -> ! {
    // The hint to put `--` before an unknown option never helps.
    error.remove(ContextKind::Suggested);
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
