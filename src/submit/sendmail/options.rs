//! Command line of `sendmail`, with the options of the program that all systems call so.

use crate::times::TimeOptions;
use clap::{ArgAction, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Heading of the options that change nothing.
const WITHOUT_EFFECT: &str = "Accepted without effect";

/// Send a message, read from standard input
// The letters of help and version have other meanings here. As in sendmail, what follows the first
// recipient is a recipient, and the last of two options counts.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "sendmail",
    version,
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true
)]
pub struct SendmailOptions {
    /// Send it to the addresses in its To, Cc and Bcc headers, too
    #[arg(short = 't')]
    pub recipients_in_headers: bool,

    /// A line with only a dot does not end the message
    #[arg(short = 'i')]
    ignore_dots: bool,

    /// Sender address; `<>` or empty for the null sender
    #[arg(
        short = 'f',
        visible_short_alias = 'r',
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    pub sender: Option<String>,

    /// The sender's name, for the From header
    #[arg(short = 'F', value_name = "NAME", allow_hyphen_values = true)]
    pub full_name: Option<String>,

    /// Reports to the sender: NEVER, or any of SUCCESS, FAILURE, DELAY
    #[arg(short = 'N', value_name = "WHEN", allow_hyphen_values = true)]
    pub notify: Option<String>,

    /// What a report returns of the message: FULL, or HDRS for its headers
    #[arg(short = 'R', value_name = "PART", allow_hyphen_values = true)]
    pub return_mode: Option<String>,

    /// Envelope id for reports, in xtext
    #[arg(short = 'V', value_name = "ID", allow_hyphen_values = true)]
    pub envelope_id: Option<String>,

    /// Type of the body: 7BIT or 8BITMIME
    #[arg(short = 'B', value_name = "TYPE", allow_hyphen_values = true)]
    pub body_type: Option<String>,

    /// What to do: m takes a message, s speaks SMTP, p lists the queue, v tells where mail for
    /// recipients goes, i is for aliases
    #[arg(short = 'b', value_name = "MODE", allow_hyphen_values = true)]
    pub mode: Option<String>,

    /// As -bi
    #[arg(short = 'I')]
    pub build_aliases: bool,

    /// Exit at once, since the mail system tries again by itself
    #[arg(short = 'q', value_name = "WHAT", num_args = 0..=1)]
    queue_run: Option<Option<OsString>>,

    /// i is as -i; others are accepted without effect
    #[arg(short = 'o', value_name = "OPTION", allow_hyphen_values = true)]
    short_options: Vec<OsString>,

    /// IgnoreDots is as -i; others are accepted without effect
    #[arg(short = 'O', value_name = "OPTION=VALUE", allow_hyphen_values = true)]
    long_options: Vec<OsString>,

    /// Print the name under which the message is queued
    #[arg(short = 'v', action = ArgAction::Count)]
    verbosity: u8,

    /// Priority: 0 first, 9 last
    #[arg(long = "priority", value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    pub priority: Option<u8>,

    /// When it may be delivered.
    #[command(flatten)]
    pub times: TimeOptions,

    /// ZENV file, which names the spool
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    pub zenv: Option<PathBuf>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: (),

    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: (),

    #[command(flatten)]
    _ignored: IgnoredOptions,

    /// Recipient addresses
    #[arg(value_name = "RECIPIENT", trailing_var_arg = true)]
    pub recipients: Vec<String>,
}

/// Options of other programs with this name.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = WITHOUT_EFFECT)]
struct IgnoredOptions {
    /// Which configuration to use
    #[arg(short = 'A', value_name = "NAME", allow_hyphen_values = true)]
    _configuration: Option<OsString>,
    /// Configuration file
    #[arg(short = 'C', value_name = "FILE", allow_hyphen_values = true)]
    _file: Option<OsString>,
    /// How to report errors
    #[arg(short = 'e', value_name = "MODE", allow_hyphen_values = true)]
    _errors: Option<OsString>,
    /// Mail comes from a relay
    #[arg(short = 'G')]
    _gateway: bool,
    /// Number of hops
    #[arg(short = 'h', value_name = "NUMBER", allow_hyphen_values = true)]
    _hops: Option<OsString>,
    /// Name for log messages
    #[arg(short = 'L', value_name = "NAME", allow_hyphen_values = true)]
    _label: Option<OsString>,
    /// Send to oneself, too
    #[arg(short = 'm')]
    _me_too: bool,
    /// Use no aliases
    #[arg(short = 'n')]
    _no_aliases: bool,
    /// Protocol and host from which the message came
    #[arg(short = 'p', value_name = "PROTOCOL", allow_hyphen_values = true)]
    _protocol: Option<OsString>,
    /// Mail comes from its user
    #[arg(short = 'U')]
    _initial: bool,
    /// Log of the session
    #[arg(short = 'X', value_name = "FILE", allow_hyphen_values = true)]
    _log: Option<OsString>,
    /// An option of AIX
    #[arg(short = 'x')]
    _aix: bool,
}

impl SendmailOptions {
    /// Returns true if a line with only a dot ends the message.
    pub(crate) fn dot_ends_message(&self) -> bool {
        let is_ignore_dots = |option: &OsString| {
            let text = option.to_string_lossy();
            let (name, value) = text.split_once('=').unwrap_or((&text, "true"));
            let is_true = value.is_empty() || value.starts_with(['t', 'T', 'y', 'Y', '1']);
            name.trim().eq_ignore_ascii_case("IgnoreDots") && is_true
        };
        !self.ignore_dots
            && !self.short_options.iter().any(|option| option == "i")
            && !self.long_options.iter().any(is_ignore_dots)
    }

    /// Returns true if the caller asked to deliver what is queued.
    pub(crate) fn is_queue_run(&self) -> bool {
        self.queue_run.is_some()
    }

    /// Returns true if the caller wants to see what happens.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> SendmailOptions {
        let options = SendmailOptions::try_parse_from([&["sendmail"], arguments].concat());
        options.unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    #[test]
    fn calls_of_usual_programs_are_understood() {
        for arguments in [
            // cron, PHP, git, Mailman, mutt, s-nail, mailutils, logwatch, Nagios
            &["-FCronDaemon", "-i", "-odi", "-oem", "-oi", "-t", "-f", "root"][..],
            &["-t", "-i"],
            &["-t", "-i", "-fwww@example.org"],
            &["-i", "-f", "me@example.org", "you@example.org"],
            &["-oi", "-odb", "-f", "list-bounces@example.org", "a@x", "b@y"],
            &["-oem", "-oi", "-f", "me@x", "-N", "failure,delay", "-R", "hdrs", "--", "a@x"],
            &["-i", "-m", "-v", "a@x"],
            &["-oi", "-f", "me@x", "-r", "me@y", "a@x"],
            &["-G", "-i", "-B8BITMIME", "-L", "label", "-Am", "-U", "-x", "-n", "a@x"],
            &["-C/etc/x", "-X/dev/null", "-h5", "-eq", "-pESMTP:host", "-O", "X=y", "a@x"],
        ] {
            options(arguments);
        }
        let given = options(&["-f", "-x@y", "-F", "-", "a@b", "-t", "-f", "c"]);
        assert_eq!(given.sender.as_deref(), Some("-x@y"));
        assert_eq!(given.recipients, ["a@b", "-t", "-f", "c"], "options come first");
        assert_eq!(options(&["--", "-t", "--"]).recipients, ["-t", "--"]);
        assert_eq!(options(&["-fa", "-fb", "-rc"]).sender.as_deref(), Some("c"), "the last counts");
        for queue_run in [&["-q"][..], &["-q15m"], &["-qRexample.org"], &["-q", "-v"]] {
            assert!(options(queue_run).is_queue_run(), "{queue_run:?}");
        }
        for unknown in [&["-W"][..], &["--unknown"], &["-f"], &["-N"]] {
            let arguments = [&["sendmail"], unknown].concat();
            SendmailOptions::try_parse_from(arguments).expect_err("not an option");
        }
    }

    #[test]
    fn dot_ends_message_without_option() {
        for (arguments, expected) in [
            (&[][..], true),
            (&["-oem", "-odb"], true),
            (&["-O", "IgnoreDots=false"], true),
            (&["-O", "DeliveryMode=i"], true),
            (&["-i"], false),
            (&["-oi"], false),
            (&["-o", "i"], false),
            (&["-O", "ignoredots=True"], false),
            (&["-OIgnoreDots"], false),
            (&["-ti"], false),
        ] {
            assert_eq!(options(arguments).dot_ends_message(), expected, "{arguments:?}");
        }
    }
}
