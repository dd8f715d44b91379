//! The commands of the command line.

use super::arguments::{OrderOptions, OutputOptions, SelectionArgs, Sort};
use super::check::Thresholds;
use super::views::View;
use crate::trace;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Commands, besides the output of ZMailer's `mailq`.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Show on one screen what there is to do, and what is wrong
    ///
    /// That is what mailq shows on a terminal, too, if it is given no options on what to show.
    /// Schedulers of the original are understood as well, as far as they tell.
    Summary(OutputOptions),
    /// List destinations, or messages
    ///
    /// Without a selection, that is everything.
    List {
        /// List messages, each with each of its destinations
        #[arg(long, short = 'm')]
        messages: bool,
        /// The order of destinations
        #[arg(long, value_enum, default_value_t)]
        sort: Sort,
        /// List no more than this
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
        /// Selected part of the queue.
        #[command(flatten)]
        selection: SelectionArgs,
        /// Output options.
        #[command(flatten)]
        display: OutputOptions,
    },
    /// Show everything that is known of a message, or of a destination and its messages
    Show {
        /// A destination, such as smtp/mx.test; a host alone; or the id of a message
        what: String,
        /// Output options.
        #[command(flatten)]
        display: OutputOptions,
    },
    /// Say why something waits, in sentences
    Why {
        /// A destination, such as smtp/mx.test, or the id of a message
        what: String,
        /// Output options.
        #[command(flatten)]
        display: OutputOptions,
    },
    /// List rings with their agents and limits
    Rings(OutputOptions),
    /// List agents
    Agents(OutputOptions),
    /// List what is on hold, limits that were set, and messages that are to end
    Orders(OutputOptions),
    /// Show counters
    Counters(OutputOptions),
    /// Show the queue all the time, with keys to look into it and to hold and retry
    Top {
        /// Look again after so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
        interval: f64,
    },
    /// Show what happens, as it happens
    Events {
        /// Selected part of the queue.
        #[command(flatten)]
        selection: SelectionArgs,
        /// Print what the scheduler sends: JSON, one object a line
        #[arg(long)]
        json: bool,
        /// Make no line longer than this
        #[arg(long, value_name = "COLUMNS")]
        width: Option<usize>,
    },
    /// Tell in one line and an exit status whether somebody has to look
    ///
    /// The exit status is 0 if all is well, 1 for a warning, 2 if it is critical or there is no
    /// scheduler, 3 if nobody knows, as with a command line that cannot be used. The line has
    /// performance data, as programs that watch systems read it. On the host of the scheduler it
    /// names message files in queue/ that have had no control file for ten minutes. The first
    /// 200,000 files are looked at, for two seconds.
    Check(CheckArgs),
    /// Put something on hold: it is not tried any more until it is released
    ///
    /// A destination is on hold with all that comes for it. Messages are chosen by an id, --sender,
    /// --recipient or --older; only those that are there now are put on hold.
    Hold {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        order_args: OrderArgs,
        /// Why, for those who find it on hold
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Release what is on hold
    ///
    /// What is named must be what was named to put it on hold; orders lists it.
    Release {
        /// Selected part of the queue, and options.
        #[command(flatten)]
        order_args: OrderArgs,
        /// Release everything
        #[arg(long)]
        all: bool,
    },
    /// Try something now, whatever it waits for, unless it is on hold
    Retry(OrderArgs),
    /// Give something up: the senders get a report
    Expire(OrderArgs),
    /// Forget something, without a report
    Delete(OrderArgs),
    /// Give something back to the router
    Reroute(OrderArgs),
    /// Set a limit for as long as the scheduler runs and after, or for a time
    ///
    /// LIMIT is maxta, maxchannel, maxring, maxthr or overfeed, with a number behind "=". WHAT is a
    /// ring, as in "ring=smtp/*", or a destination for maxthr; for maxta it can be left out.
    Set {
        /// What it is about, and the limit, as in ring=smtp/* maxring=5
        #[arg(value_name = "WHAT LIMIT=NUMBER", required = true, num_args = 1..=2)]
        setting: Vec<String>,
        /// As the configuration says after this time, such as 2h
        #[arg(long = "for", value_name = "SPAN")]
        until: Option<String>,
    },
    /// Take back a limit: what the configuration says counts again
    Unset {
        /// What it is about, and the limit, as in ring=smtp/* maxring
        #[arg(value_name = "WHAT LIMIT", required = true, num_args = 1..=2)]
        setting: Vec<String>,
    },
    /// Let an agent end after its present job
    Retire {
        /// Its process id
        pid: u32,
    },
    /// Have the configuration read again
    ///
    /// If anything is wrong with it, that is told, and the old one stays.
    Reload,
    /// Choose how much the scheduler logs
    Log {
        /// From this level on
        #[arg(value_enum)]
        level: Level,
    },
    /// Try everything for a host now
    ///
    /// That is what ETRN asks for: the original's schedulers know it, too. Destinations with an
    /// agent at work are left alone. The scheduler says whether it has started something.
    Etrn {
        /// The host, of any channel
        host: String,
    },
    /// Write a line for the file of accounts, with a password that nobody can read in it
    ///
    /// The password is asked for on a terminal, and is the first line of standard input otherwise.
    /// A user with such a line can only log in with SCRAM-SHA-256, as this mailq does; the
    /// original's cannot.
    Passwd {
        /// The user
        user: String,
        /// What is permitted, in words
        #[arg(long, value_name = "WORDS", default_value = "ALL")]
        permissions: String,
        /// From where, such as "[192.0.2.0]/24"; by default from anywhere
        #[arg(long, value_name = "ADDRESSES", default_value = "")]
        addresses: String,
    },
    /// Tell the life of a message, or of everything for a recipient
    ///
    /// What it shows, and where it has that from, is told below.
    Trace(trace::TraceOptions),
    /// Print completions of the command line for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
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
    /// Selected part of the queue.
    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// Log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Trouble only
    Error,
    /// What is odd, too
    Warn,
    /// What happens
    Info,
    /// Much more
    Debug,
    /// Everything
    Trace,
}

impl Level {
    /// Keyword in requests.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

impl Command {
    /// The view and its output options, if the command is a view.
    pub fn view(&self) -> Option<(View, &OutputOptions)> {
        Some(match self {
            Command::Summary(display) => (View::Summary, display),
            Command::List { messages: true, limit, selection, display, .. } => {
                (View::Messages(selection.clone(), *limit), display)
            }
            Command::List { sort, limit, selection, display, .. } => {
                (View::Threads(selection.clone(), *sort, *limit), display)
            }
            Command::Show { what, display } => (View::Show(what.clone()), display),
            Command::Why { what, display } => (View::Why(what.clone()), display),
            Command::Rings(display) => (View::Rings, display),
            Command::Agents(display) => (View::Agents, display),
            Command::Orders(display) => (View::Orders, display),
            Command::Counters(display) => (View::Counters, display),
            _ => return None,
        })
    }

    /// Maximum line width, if given.
    pub fn width(&self) -> Option<usize> {
        match self {
            Command::Events { width, .. } => *width,
            other => other.view().and_then(|(_, display)| display.width),
        }
    }
}
