//! The command line of `scheduler`.

use crate::logging::mail_log::MailLines;
use crate::spool_io::ScanLimits;
use crate::timeouts::parse_scale;
use clap::{ArgAction, Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use zsched_format::selection::Selection;
use zsched_service::InstallationOptions;

/// Settings that `scheduler -t` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShownSettings {
    /// All effective settings, with defaults and inherited ones.
    All,
    /// Those that the file sets.
    Set,
    /// None: only warnings, errors and the verdict.
    None,
}

/// A mail queue scheduler: takes messages from the spool and has transport agents deliver them.
#[derive(Parser, Clone, Debug)]
#[command(name = "scheduler", disable_version_flag = true)]
pub struct SchedulerOptions {
    /// Run as a daemon: the default, unless -i or -v is given; then this one wins
    #[arg(short = 'd', long = "daemon")]
    pub daemon: bool,

    /// Stay in the foreground
    #[arg(short = 'i', long = "interactive")]
    pub interactive: bool,

    /// Increase log detail; repeatable. Stays in the foreground
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count)]
    pub verbose: u8,

    /// Increase log detail only after the messages found at start are loaded
    #[arg(short = 'W', long = "verbose-after-load")]
    pub verbose_after_load: bool,

    /// Print the version and exit
    #[arg(short = 'V', long = "version")]
    pub version: bool,

    /// Check the configuration, print it, say if it can be used, and exit
    #[arg(short = 't', long = "check")]
    pub check: bool,

    /// What -t prints: all effective settings, only those that the file sets, or none
    #[arg(long = "show", value_name = "SETTINGS", default_value = "all", requires = "check")]
    pub show: ShownSettings,

    /// Make the folders of a spool in this folder, those that are missing, and exit
    #[arg(long = "init", value_name = "FOLDER", conflicts_with_all = ["check", "quick_start"])]
    pub init: Option<PathBuf>,

    /// Make a spool, mailboxes and configurations under this folder if there are none, and run
    /// with them, a router and an SMTP server in the foreground
    #[arg(long = "quick-start", value_name = "FOLDER", num_args = 0..=1, default_missing_value = "var")]
    pub quick_start: Option<PathBuf>,

    /// The configuration; by default scheduler.cf in $MAILSHARE
    #[arg(short = 'f', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where the files of the installation are.
    #[command(flatten)]
    pub installation: InstallationOptions,

    /// The log; by default scheduler in $LOGDIR for a daemon, else standard error
    #[arg(short = 'L', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// The statistics log, one line for each recipient; none by default
    #[arg(short = 'l', long = "statistics", value_name = "FILE")]
    pub statistics: Option<PathBuf>,

    /// The status log, one JSON object for each attempt at a recipient; by default $STATUSLOG, else
    /// none
    #[arg(long = "status-log", value_name = "FILE")]
    pub status_log: Option<PathBuf>,

    /// Lines about mail in the log: arrivals of messages and final outcomes of recipients, all
    /// outcomes, or none
    #[arg(long = "mail-lines", value_name = "LINES", default_value = "final")]
    pub mail_lines: MailLines,

    /// New messages (40000) and seconds (5, from 2 to 15) after which a scan pauses
    #[arg(short = 'E', long = "scan-limit", value_name = "MESSAGES[,SECONDS]", value_parser = parse_scan_limits)]
    pub(crate) scan_limits: Option<ScanLimits>,

    /// Load and show the queue, but start no agent
    #[arg(short = 'F', long = "freeze")]
    pub freeze: bool,

    /// Version of the MAILQ protocol, 1 or 2
    #[arg(short = 'M', long = "mailq-version", value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub mailq_version: Option<u8>,

    /// Maximum number of open files of each agent; values below 10 mean 32
    #[arg(short = 'N', long = "agent-files", value_name = "COUNT", default_value_t = 32)]
    pub agent_files: u64,

    /// Return only the headers in reports, unless the sender requested otherwise
    #[arg(short = 'n', long = "headers-only", action = ArgAction::Count)]
    pub headers_only: u8,

    /// Serve only this destination; either part may be *
    #[arg(short = 'p', long = "only", value_name = "CHANNEL/HOST", value_parser = parse_selection)]
    pub selection: Option<Selection>,

    /// Leave single messages out of what MAILQ version 1 shows
    #[arg(short = 'Q', long = "short-mailq")]
    pub short_mailq: bool,

    /// Where SIGUSR2 writes a dump of the queue; by default $RENDEZVOUS
    #[arg(short = 'q', long = "rendezvous", value_name = "FILE")]
    pub rendezvous: Option<PathBuf>,

    /// Maximum number of agents started per second
    #[arg(short = 'R', long = "fork-rate", value_name = "COUNT", default_value_t = 30)]
    pub fork_rate: u32,

    /// Record all events, so that `schedsim` can replay and explain them
    #[arg(long = "record", value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Begin a new recording at this size; the last one is FILE.1 then, and so on
    #[arg(long = "record-size", value_name = "BYTES", default_value_t = 256 << 20, requires = "record")]
    pub record_size: u64,

    /// Number of older recordings to keep
    #[arg(long = "record-keep", value_name = "COUNT", default_value_t = 3, requires = "record")]
    pub record_keep: u32,

    /// Load all queued mail before the first agent is started
    #[arg(short = 'S', long = "synchronous")]
    pub synchronous: bool,

    /// Factor for the timeouts of the scheduler; for its tests
    #[arg(
        long = "timeouts-scale",
        value_name = "FACTOR",
        default_value = "1",
        value_parser = parse_scale,
        hide = true,
        overrides_with = "timeouts_scale"
    )]
    pub timeouts_scale: f64,
}

impl SchedulerOptions {
    /// Returns true if the scheduler runs in the background.
    pub fn is_daemon(&self) -> bool {
        let wants_foreground = self.interactive || self.verbose > 0 || self.quick_start.is_some();
        self.daemon || !wants_foreground
    }

    /// Maximum number of descriptors of each agent.
    pub fn agent_file_limit(&self) -> u64 {
        if self.agent_files < 10 { 32 } else { self.agent_files }
    }

    /// Limits after which a scan pauses.
    pub(crate) fn scan_limits(&self) -> ScanLimits {
        let default = ScanLimits { new_names: 40_000, time: Duration::from_secs(5) };
        self.scan_limits.unwrap_or(default)
    }
}

fn parse_scan_limits(text: &str) -> Result<ScanLimits, String> {
    let (names, seconds) = text.split_once(',').unwrap_or((text, "5"));
    let number =
        |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
    Ok(ScanLimits {
        new_names: number(names)?.max(10) as usize,
        time: Duration::from_secs(number(seconds)?.clamp(2, 15)),
    })
}

fn parse_selection(text: &str) -> Result<Selection, String> {
    Selection::parse(text).ok_or_else(|| "it has the form channel/host".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> SchedulerOptions {
        let words = std::iter::once("scheduler").chain(arguments.split_ascii_whitespace());
        SchedulerOptions::try_parse_from(words).expect("good options")
    }

    #[test]
    fn command_line_definition_is_consistent() {
        use clap::CommandFactory;
        SchedulerOptions::command().debug_assert();
    }

    #[test]
    fn options_repeated_are_counted() {
        assert_eq!(options("").installation.hash, 0);
        assert_eq!(options("-H").installation.hash, 1);
        assert_eq!(options("-HH").installation.hash, 2);
        assert_eq!(options("-HHH").installation.hash, 3);
        assert_eq!(options("-vv").verbose, 2);
    }

    #[test]
    fn daemon_mode_follows_from_options() {
        assert!(options("").is_daemon());
        assert!(!options("-i").is_daemon());
        assert!(!options("-v").is_daemon());
        assert!(options("-vd").is_daemon());
        assert!(!options("--quick-start").is_daemon());
    }

    #[test]
    fn option_values_out_of_range_are_clamped() {
        let limits = |text: &str| {
            let limits = options(text).scan_limits();
            (limits.new_names, limits.time.as_secs())
        };
        assert_eq!(limits(""), (40_000, 5));
        assert_eq!(limits("-E 100"), (100, 5));
        assert_eq!(limits("-E 1,1"), (10, 2));
        assert_eq!(limits("-E 1000,60"), (1000, 15));
        assert_eq!(options("-N 5").agent_file_limit(), 32);
        assert_eq!(options("-N 64").agent_file_limit(), 64);
    }
}
