//! The commands of the command line.

use super::arguments::{OrderOptions, SelectionArgs, interval};
use super::check::Thresholds;
use super::views::View;
use crate::format::span_argument;
use crate::message::cat::CatOptions;
use crate::stats;
use crate::trace;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::time::Duration;

/// Commands, besides the output of ZMailer's `mailq`.
#[derive(Subcommand, Clone, Debug)]
pub enum MailqCommand {
    /// A view of the queue.
    #[command(flatten)]
    View(View),
    /// Show the queue live, with keys to explain, hold, release and retry
    Top {
        /// Seconds between refreshes
        #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
        interval: Duration,
    },
    /// Show events as they happen
    ///
    /// An arrival has sender, recipients, size and subject, an attempt its recipient. They are read
    /// from the spool, as in list -m. In JSON, both have all of them.
    Events {
        /// Only those of a destination, a host, or a message by its id
        what: Option<String>,
        /// Print the scheduler's JSON, one object per line
        #[arg(long)]
        json: bool,
        /// Maximum line length
        ///
        /// By default, lines fit the terminal. Elsewhere their length has no limit.
        #[arg(long, value_name = "COLUMNS")]
        width: Option<usize>,
    },
    /// Check the queue for a monitoring program: one line and an exit status
    ///
    /// The exit status is 0 if nothing is wrong, 1 for a warning, 2 if it is critical or no
    /// scheduler can be reached, 3 if the state is unknown, as with a wrong command line. Without
    /// thresholds it warns of destinations that have no agents, because their clause has no
    /// command or agents cannot be started; of control files that cannot be read; of a spool that
    /// cannot be written; of a step of the clock; and of a configuration on disk that cannot be
    /// used, or is not in force. On the host of the scheduler it also warns of
    /// malformed messages in postman/, of files that have been in router/ for ten minutes, or that
    /// no router takes, and of message files in queue/ without a control file for ten minutes. That
    /// search ends after 200,000 files or two seconds. Holds in force are named, also those without
    /// mail, and are no reason for a warning. The line has performance data for monitoring
    /// programs.
    Check(CheckArgs),
    /// Put mail on hold: it is not tried until it is released
    ///
    /// A hold on a destination includes mail that arrives later. Messages are chosen by an id,
    /// --sender, --recipient, --older, --larger or --smaller; only messages that are in the queue
    /// now are held.
    Hold {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        args: OrderArgs,
        /// Reason, shown with the hold
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Release mail from hold
    ///
    /// A hold of destinations or of a ring is released under the name that orders lists. Messages
    /// that were held one by one can be released by any selection.
    Release {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        args: OrderArgs,
        /// Release everything
        #[arg(long)]
        all: bool,
    },
    /// Set the priority of queued messages
    ///
    /// In rings with job-order or slot-cost, a message with another priority takes its new place
    /// at once, and keeps it after a restart of the scheduler. What agents have is left to them.
    /// With z the message is not delivered until it has another priority. Only messages that are
    /// in the queue now get it.
    #[command(allow_missing_positional = true)]
    Priority {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        args: OrderArgs,
        /// 0, which goes first, to 9; z keeps the message
        #[arg(value_name = "PRIORITY", required = true, value_parser = priority_level)]
        level: u8,
    },
    /// Retry mail now, whatever it waits for, unless it is on hold
    Retry {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        args: OrderArgs,
        /// Retry everything
        #[arg(long, conflicts_with = "what")]
        all: bool,
    },
    /// Expire mail now: it fails, and its senders get a report
    Expire(OrderArgs),
    /// Delete mail, without reports
    Delete(OrderArgs),
    /// Return mail to the router
    Reroute(OrderArgs),
    /// Set limits, permanently or for a time
    ///
    /// LIMIT is maxta, maxchannel, maxring, maxthr or overfeed, followed by "=" and a number.
    ///
    /// A destination has the limit maxthr, as in "set smtp/mx.example.org maxthr=1": its agents.
    ///
    /// A clause of scheduler.cf has all of them, as in "set smtp/* maxring=50 maxthr=5". WHAT is
    /// its pattern, as "mailq rings" lists it; with maxthr alone it is written "ring=smtp/*". To
    /// set other limits for one host, give the host a clause of its own.
    ///
    /// For maxta, WHAT can be omitted. The old and the new values are printed. The limits survive a
    /// restart of the scheduler.
    Set {
        /// A destination and maxthr, as in smtp/mx.test maxthr=1; or a clause and any of maxta,
        /// maxchannel, maxring, maxthr and overfeed, as in smtp/* maxring=50
        #[arg(value_name = "WHAT LIMIT=NUMBER", required = true, num_args = 1..=6)]
        setting: Vec<String>,
        /// Reset the limits to the configuration after this time, such as 2h
        #[arg(long = "for", value_name = "SPAN", value_parser = duration)]
        until: Option<String>,
    },
    /// Reset limits to the configuration
    Unset {
        /// Destination or clause, and limits, as in smtp/* maxring maxthr
        #[arg(value_name = "WHAT LIMIT", required_unless_present = "all", num_args = 1..=6)]
        setting: Vec<String>,
        /// Reset all limits that were set
        #[arg(long, conflicts_with = "setting")]
        all: bool,
    },
    /// Show or change a bulk job
    ///
    /// Without an order, it shows how many recipients are delivered, have failed, are deferred, are
    /// with agents, may have got the message twice, and are in no packet yet, exact to the
    /// recipient; the rate of the last minute, and the end at this rate; and the destinations with
    /// most recipients in no packet: mailq why explains what these wait for, and mailq retry tries
    /// them again.
    ///
    /// The orders are pause, resume, cancel, packet-size NUMBER, share PERCENT, priority LEVEL,
    /// lost send and lost drop. They are in force until the job ends, also after a restart, and
    /// for packets in the queue, too: agents end only what they have. A job that is cancelled does
    /// not come back. mailq priority on a packet changes the priority of its job. The orders lost
    /// decide about recipients whose packets somebody else has removed: send them again, or give
    /// them up.
    Job {
        /// The name of the job
        id: String,
        /// Make ordinary messages of what is left, for another scheduler, and end the job
        ///
        /// The scheduler must have ended. ID may be all, for all jobs. If it is killed, repeat it
        /// before a scheduler starts. See bulk-job(5).
        #[arg(long)]
        export: bool,
        /// What to change.
        #[command(subcommand)]
        order: Option<JobOrder>,
    },
    /// End an agent after its current job
    Retire {
        /// Its process id
        pid: u32,
    },
    /// Reload the configuration
    ///
    /// An error in it is reported, and the old configuration stays in force. The answer names
    /// changed settings that wait for a restart.
    Reload,
    /// Set the log level of the scheduler
    ///
    /// The log has a line about it, at any level. The summary shows a level that is not that of the
    /// scheduler's command line.
    Log {
        /// Log level
        #[arg(value_enum)]
        level: Level,
    },
    /// Retry all mail for a host now
    ///
    /// It sends ETRN, which ZMailer's schedulers know, too. Destinations with an agent at work are
    /// left alone. The answer says if anything was started, or that there is no mail for the host.
    Etrn {
        /// Host, of any channel
        host: String,
    },
    /// Print a line for the file of accounts, with a hashed password
    ///
    /// On a terminal the password is prompted for; otherwise it is the first line of standard
    /// input. A user with such a line can only log in with SCRAM-SHA-256, as this mailq does;
    /// ZMailer's mailq cannot.
    Passwd {
        /// The user
        user: String,
        /// Permissions, separated by blanks
        #[arg(long, value_name = "WORDS", default_value = "ALL")]
        permissions: String,
        /// Addresses of clients, such as "[192.0.2.0]/24"; by default all
        #[arg(long, value_name = "ADDRESSES", default_value = "")]
        addresses: String,
    },
    /// Show the history of a message, or of all mail for a recipient
    ///
    /// Its output and its sources are described below.
    Trace(trace::TraceOptions),
    /// Print a message from the spool: its envelope and headers, or all of it
    ///
    /// The files are read with the rights of the caller, without the scheduler. On a terminal,
    /// control characters are made visible; elsewhere headers and body are printed as they are. The
    /// search for a Message-ID or an address reads all control files.
    Cat(CatOptions),
    /// Count what the status log has: outcomes, delays, destinations, senders, reasons
    ///
    /// The numbers are those of lines of the log: a recipient that was deferred twice and then
    /// delivered counts twice as deferred and once as delivered. Up to 100,000 destinations,
    /// senders, recipients and reasons each are counted separately; the rest of each is one row,
    /// (others).
    Stats(stats::StatsOptions),
    /// Print completions of the command line for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Checks a span in which something is in force.
fn duration(text: &str) -> Result<String, String> {
    match span_argument(text)? > 0.0 {
        true => Ok(text.to_string()),
        false => Err("it would be over at once".to_string()),
    }
}

/// The priority in an argument.
fn priority_level(text: &str) -> Result<u8, String> {
    zsched_format::priority::parse(text).ok_or_else(|| "not a digit, or z".to_string())
}

/// A change of a bulk job.
#[derive(Subcommand, Clone, Debug)]
pub enum JobOrder {
    /// Give agents no more of it
    Pause,
    /// Go on
    Resume,
    /// Never send what no agent has yet
    Cancel,
    /// Put at most this number of recipients into a packet
    PacketSize {
        /// From 1 to 100000
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
        recipients: u32,
    },
    /// Use at most this part of the agents of a destination
    Share {
        /// From 1 to 100
        #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: u8,
    },
    /// Set the priority of all its packets
    Priority {
        /// From 0 (first) to 9, or z, which keeps them
        #[arg(value_parser = priority_level)]
        level: u8,
    },
    /// Decide about recipients whose packets have vanished
    ///
    /// Another scheduler may have delivered them.
    Lost {
        /// Send them again, or give them up
        #[arg(value_enum)]
        decision: LostDecision,
    },
}

/// What becomes of recipients whose packets have vanished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LostDecision {
    /// Send them again; they are listed as possible duplicates
    Send,
    /// Give them up
    Drop,
}

/// Selected part of the queue, and options of an order.
#[derive(Args, Clone, Debug, Default)]
pub struct OrderArgs {
    /// Selected part of the queue.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Options of the order.
    #[command(flatten)]
    pub options: OrderOptions,
}

/// Arguments of a check.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckArgs {
    /// Thresholds for warnings.
    #[command(flatten)]
    pub thresholds: Thresholds,
    /// Check only these destinations, such as smtp/* or smtp/mx.test; or a host alone
    pub what: Option<String>,
    /// Maximum line length; elsewhere than on a terminal the answer is one line by default
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Errors only
    Error,
    /// Warnings, too
    Warn,
    /// Normal events, too
    Info,
    /// Details for debugging, too
    Debug,
    /// Everything
    Trace,
}

impl MailqCommand {
    /// Maximum line width, if given.
    pub fn width(&self) -> Option<usize> {
        match self {
            MailqCommand::View(view) => view.output().width,
            MailqCommand::Events { width, .. } => *width,
            MailqCommand::Trace(what) => what.width,
            MailqCommand::Stats(what) => what.width,
            _ => None,
        }
    }
}
