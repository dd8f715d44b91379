//! The command line of `mailq`.
//!
//! The parser, `--help`, the completions of shells and the lists of options in the manual page are
//! made from these definitions. `--help` shows the first paragraph of a comment, the manual page
//! all of it.

use crate::connect::credentials::Credentials;
use crate::console::{MailqCommand, print_failed_check};
use crate::failure::Failure;
use crate::screen::warn;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Args, CommandFactory, Parser};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use zsched_command_line as command_line;
use zsched_command_line::sysexits::EX_USAGE;

/// Show the queue of a running scheduler
#[derive(Parser, Clone, Debug)]
#[command(
    name = "mailq",
    version,
    disable_help_flag = true,
    subcommand_value_name = "COMMAND",
    max_term_width = 100
)]
pub struct MailqOptions {
    /// Server to ask, and login.
    #[command(flatten)]
    pub server_options: ConnectOptions,

    /// Output without a command.
    #[command(flatten)]
    pub classic: ClassicOptions,

    /// Host of the scheduler
    #[arg(value_name = "SERVER")]
    pub operand: Option<String>,

    /// Command, if any.
    #[command(subcommand)]
    pub command: Option<MailqCommand>,
}

/// Server to ask, and login.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub struct ConnectOptions {
    /// Use IPv4 addresses of the server only
    ///
    /// Of -4 and -6, the last one counts.
    #[arg(short = '4', long = "ipv4", overrides_with = "ipv6", global = true)]
    pub ipv4: bool,

    /// Use IPv6 addresses of the server only
    #[arg(short = '6', long = "ipv6", overrides_with = "ipv4", global = true)]
    pub ipv6: bool,

    /// Copy each line that is received to standard error
    ///
    /// Such lines begin with "- ".
    #[arg(short = 'd', long, global = true)]
    pub debug: bool,

    /// Port or socket of the scheduler
    ///
    /// A TCP port by its number, or by the name of its service; or a UNIX socket on this host by
    /// its path, with "/" or "UNIX:/" at the beginning.
    #[arg(short = 'p', long, value_name = "PORT|PATH", global = true)]
    pub port: Option<String>,

    /// Host of the scheduler
    ///
    /// It can also be given without an option, unless its name is that of a command.
    #[arg(long, value_name = "HOST", global = true)]
    pub server: Option<String>,

    /// User and password, for servers that require a login
    ///
    /// For version 2 of the protocol. The separator is the first "/", or else the first ":", or
    /// else the first ",". Without any, the password is "nobody". The default is "nobody/nobody".
    /// All users of this host can see the password while the program runs; --login-file is better.
    #[arg(short = 'U', long, value_name = "USER/PASSWORD", global = true)]
    pub login: Option<String>,

    /// File whose first line has user and password
    ///
    /// It has the form of -U. Only its owner should be able to read it.
    #[arg(long, value_name = "FILE", conflicts_with = "login", global = true)]
    pub login_file: Option<PathBuf>,

    /// ZENV file of the installation, which names its spool and logs
    ///
    /// By default it is that of the environment variable ZCONFIG, else /etc/zmailer.conf, which
    /// need not exist.
    #[arg(short = 'Z', long, value_name = "FILE", global = true)]
    pub zenv: Option<PathBuf>,

    /// Print a list of the options, and exit
    #[arg(long, global = true, action = ArgAction::HelpShort)]
    help: Option<bool>,
}

/// Arguments for output without a command: those of ZMailer's `mailq`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ClassicOptions {
    /// Show only mail for this channel
    #[arg(short = 'c', long, value_name = "CHANNEL")]
    pub channel: Option<String>,

    /// Accepted without effect
    #[arg(short = 'E', long = "expand", value_name = "TEXT")]
    pub expand: Option<String>,

    /// Show only mail for this host
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,

    /// Show only messages whose control files belong to the calling user; implies -v
    #[arg(short = 'i', long, overrides_with = "user")]
    pub mine: bool,

    /// Remove a message from the queue
    ///
    /// The message is named by its spool id, or by the name of its control file without folders. No
    /// report is sent to its sender. It requires version 2 of the protocol, whose answer is the
    /// same if there is no such message.
    #[arg(short = 'K', long, value_name = "ID", conflicts_with_all = ["report", "sizes", "summary", "status", "why"])]
    pub kill: Option<String>,

    /// Accepted from ZMailer's mailq: shared memory is not supported
    ///
    /// The scheduler is asked instead. -QQQQ shows its counters.
    #[arg(short = 'M', long = "shared-memory")]
    pub shared_memory: bool,

    /// Show the report on destinations and agents instead of the messages
    ///
    /// See below. Given twice, omit the lines of single destinations; three times, show only the
    /// totals; four times, the counters of the server. Version 1 of the protocol has only the first
    /// two. For a scheduler with the option -Q this is the only view.
    #[arg(short = 'Q', long, action = ArgAction::Count)]
    pub report: u8,

    /// Count the files in the folders of the spool first, and show if router and scheduler run
    ///
    /// Given twice, do only that, unless -S is given, too.
    #[arg(short = 's', long, action = ArgAction::Count)]
    pub status: u8,

    /// Show only the number and size of messages for each channel and host
    ///
    /// It shows the total and the average size. Given twice, it shows only the number.
    #[arg(short = 'S', long, action = ArgAction::Count)]
    pub sizes: u8,

    /// Show one line of totals for each channel and host
    ///
    /// It has the number of messages, of recipients, of messages that are running, that are to be
    /// retried at a known time, and that wait for an agent; the age of the oldest message, and the
    /// last text.
    #[arg(long, conflicts_with_all = ["report", "sizes"])]
    pub summary: bool,

    /// Show no details, even with -v, -i or -u; a later -v takes effect again
    #[arg(short = 't', long, overrides_with = "verbose")]
    pub terse: bool,

    /// Show only messages whose control files belong to this user; implies -v
    #[arg(short = 'u', long, value_name = "USER", overrides_with = "mine")]
    pub user: Option<String>,

    /// Show the Message-ID, sender and recipients of each message
    ///
    /// Given twice, show its size and age, too; version 2 always shows them. They are read from the
    /// spool, so mailq must be able to read it; messages that it cannot read are shown without.
    #[arg(short = 'v', long, action = ArgAction::Count, overrides_with = "terse")]
    pub verbose: u8,

    /// Explain why something waits: a channel/host, a spool id, or a control file
    ///
    /// There is a sentence for each reason, with the name of the limit and the line of the
    /// configuration that sets it. With scheduling by messages (job-order, slot-cost) it shows, for
    /// a message, how many others are before it, which one has its turn, and what it takes to
    /// preempt that one. It asks the scheduler of this host over the socket .scheduler.control in
    /// POSTOFFICE, which only the scheduler's user and root may use.
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["report", "sizes", "summary", "status"])]
    pub why: Option<String>,
}

impl MailqOptions {
    /// Parses the command line of this process.
    ///
    /// Prints help or an error, and exits, if the command line asks for that or is wrong.
    pub fn from_command_line() -> MailqOptions {
        MailqOptions::try_parse().unwrap_or_else(|error| {
            if error.use_stderr() && MailqOptions::is_check_command(std::env::args_os()) {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                let failure = Failure::Usage(first.replacen("error: ", "", 1));
                std::process::exit(print_failed_check(&failure));
            }
            if let Some(reason) = unknown_command(&error, std::env::args_os()) {
                warn(reason);
                std::process::exit(EX_USAGE);
            }
            command_line::refuse(error)
        })
    }

    /// Returns true if a wrong command line is one of `mailq check`.
    ///
    /// The callers of that read exit statuses of their own.
    fn is_check_command(arguments: impl Iterator<Item = OsString>) -> bool {
        let matches = MailqOptions::command().ignore_errors(true).try_get_matches_from(arguments);
        matches.is_ok_and(|matches| matches.subcommand_name() == Some("check"))
    }

    /// Checks what the parser does not. Moves the operand to `server_options.server`.
    pub fn check(mut self) -> Result<MailqOptions, Failure> {
        if self.command.is_some() && self.classic.has_options() {
            return Failure::usage(
                "options of the classic output cannot be combined with a command",
            );
        }
        if self.operand.is_some() && self.server_options.server.is_some() {
            return Failure::usage("more than one server is named");
        }
        self.server_options.server = self.operand.take().or(self.server_options.server);
        Ok(self)
    }
}

/// The error text for a command line whose first word is no command.
///
/// The parser takes such a word for the name of a server, and complains about what follows.
fn unknown_command(
    error: &clap::Error,
    arguments: impl Iterator<Item = OsString>,
) -> Option<String> {
    let surplus = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let surplus = surplus.into_iter().find_map(|kind| error.get(kind))?;
    let ContextValue::String(surplus) = surplus else { return None };
    let matches = MailqOptions::command().ignore_errors(true).try_get_matches_from(arguments);
    let matches = matches.ok().filter(|matches| matches.subcommand_name().is_none())?;
    let word: &String = matches.try_get_one("operand").ok().flatten()?;
    match similar_command(word) {
        Some(command) => Some(format!("{word} is no command; did you mean \"{command}\"?")),
        None if surplus.starts_with('-') => None,
        None => Some(format!("{word} is no command; --help lists the commands")),
    }
}

/// The command whose name is similar to a word that is none.
pub(crate) fn similar_command(word: &str) -> Option<String> {
    /// Commands of other mail systems.
    const OTHER_WORDS: [(&str, &str); 16] = [
        ("find", "list"),
        ("search", "list"),
        ("grep", "trace"),
        ("view", "cat"),
        ("kick", "retry"),
        ("remove", "delete"),
        ("cancel", "delete"),
        ("flush", "retry"),
        ("freeze", "hold"),
        ("suspend", "hold"),
        ("resume", "release"),
        ("thaw", "release"),
        ("queue", "list"),
        ("status", "summary"),
        ("requeue", "reroute"),
        ("rm", "delete"),
    ];
    if let Some((_, command)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return Some(command.to_string());
    }
    let commands = MailqOptions::command();
    let names: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
    similar_word(word, &names).map(str::to_string)
}

/// The most similar of some names to a word that is none of them.
pub(crate) fn similar_word<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    /// Maximum number of letters to change.
    const MAX_DISTANCE: usize = 2;
    let distance = |name: &&&str| strsim::damerau_levenshtein(name, word);
    let similar = names.iter().min_by_key(distance)?;
    // Short words are similar to anything.
    let is_similar = (1..=MAX_DISTANCE.min(word.len() / 2)).contains(&distance(&similar));
    is_similar.then_some(*similar)
}

impl ConnectOptions {
    /// Returns true if -4 and -6 permit an address.
    pub fn permit(&self, address: &SocketAddr) -> bool {
        (!self.ipv4 || address.is_ipv4()) && (!self.ipv6 || address.is_ipv6())
    }

    /// Returns true if the options select a server, or a way to it.
    pub fn selects_server(&self) -> bool {
        let ConnectOptions { ipv4, ipv6, port, server, login, login_file, .. } = self;
        let is_chosen = *ipv4 || *ipv6 || login_file.is_some();
        is_chosen || [port, server, login].iter().any(|text| text.is_some())
    }

    /// Login for servers that require one.
    pub fn credentials(&self) -> Result<Credentials, Failure> {
        match (&self.login_file, &self.login) {
            (Some(path), _) => Credentials::read(path),
            (None, Some(text)) => Credentials::parse(text),
            (None, None) => Ok(Credentials::default()),
        }
    }
}

impl ClassicOptions {
    /// Level of detail of each message: 0, 1 or 2.
    pub fn verbosity(&self) -> u8 {
        let implied = u8::from(!self.terse && (self.mine || self.user.is_some()));
        self.verbose.max(implied)
    }

    /// Returns true if any of the options is given.
    pub fn has_options(&self) -> bool {
        *self != ClassicOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<MailqOptions, clap::Error> {
        let words = std::iter::once("mailq").chain(arguments.split_ascii_whitespace());
        MailqOptions::try_parse_from(words)
    }

    fn options(arguments: &str) -> MailqOptions {
        parse(arguments).expect(arguments).check().expect(arguments)
    }

    #[test]
    fn command_line_definition_is_consistent() {
        MailqOptions::command().debug_assert();
        let without_long_name =
            MailqOptions::command().get_opts().filter(|option| option.get_long().is_none()).count();
        assert_eq!(without_long_name, 0);
    }

    #[test]
    fn check_command_is_recognized_despite_errors() {
        for (arguments, expected) in [
            ("check --warn-age x", true),
            ("-Z zmailer.conf check --crit-count", true),
            ("check --no-such-option", true),
            ("check smtp/* other", true),
            ("list --no-such-option", false),
            ("list check extra more", false),
            ("-p check --no-such-option", false),
        ] {
            let words = std::iter::once("mailq").chain(arguments.split(' '));
            assert!(parse(arguments).is_err(), "{arguments}");
            assert_eq!(
                MailqOptions::is_check_command(words.map(OsString::from)),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn word_that_is_no_command_is_named() {
        for (arguments, expected) in [
            ("find bob", Some("find is no command; did you mean \"list\"?")),
            ("rm --sender x", Some("rm is no command; did you mean \"delete\"?")),
            ("relese smtp/x", Some("relese is no command; did you mean \"release\"?")),
            ("frobnicate x", Some("frobnicate is no command; --help lists the commands")),
            ("mail.example.org --no-such-option", None),
            ("list --no-such-option", None),
            ("hold rm --no-such-option", None),
        ] {
            let words = std::iter::once("mailq").chain(arguments.split(' '));
            let error = parse(arguments).expect_err(arguments);
            let found = unknown_command(&error, words.map(OsString::from));
            assert_eq!(found.as_deref(), expected, "{arguments}");
        }
    }

    #[test]
    fn short_options_can_be_bundled() {
        let MailqOptions { server_options, classic, .. } =
            options("-sQQ -cd -hx -p174 -ufred -SSvv mail.example.org");
        let counts = (classic.status, classic.report, classic.sizes, classic.verbose);
        assert_eq!(counts, (1, 2, 2, 2));
        assert_eq!((classic.channel.as_deref(), classic.host.as_deref()), (Some("d"), Some("x")));
        assert_eq!(
            (server_options.port.as_deref(), classic.user.as_deref()),
            (Some("174"), Some("fred"))
        );
        assert_eq!(server_options.server.as_deref(), Some("mail.example.org"));
        assert!(!server_options.debug);
    }

    #[test]
    fn opposite_options_last_one_counts() {
        for (arguments, verbosity) in [
            ("", 0),
            ("-v", 1),
            ("-vv", 2),
            ("-vvt", 0),
            ("-vtv", 1),
            ("-i", 1),
            ("-it", 0),
            ("-ivv", 2),
            ("-u root", 1),
        ] {
            assert_eq!(options(arguments).classic.verbosity(), verbosity, "{arguments}");
        }
        for (text, families) in [
            ("", (true, true)),
            ("-4", (true, false)),
            ("-46", (false, true)),
            ("-64", (true, false)),
        ] {
            let options = options(text).server_options;
            let permit = |address: &str| options.permit(&address.parse().expect("an address"));
            assert_eq!((permit("127.0.0.1:1"), permit("[::1]:1")), families, "{text}");
        }
        assert_eq!(options("-i -u root").classic.user.as_deref(), Some("root"));
        assert_eq!(options("-u root -i").classic.user, None);
    }

    #[test]
    fn options_refused_by_zmailer_are_refused() {
        for arguments in ["-r x", "-x", "a b", "-p", "--summary -Q", "--summary -S", "-?", "-K"] {
            assert!(parse(arguments).is_err_and(|error| error.use_stderr()), "{arguments}");
        }
        assert!(parse("-V").is_err_and(|error| !error.use_stderr()));
        assert!(parse("--help").is_err_and(|error| !error.use_stderr()));
        assert!(parse("etrn --help").is_err_and(|error| !error.use_stderr()));
    }

    #[test]
    fn server_option_is_accepted_with_any_command() {
        for arguments in
            ["-p 5 --server a etrn x", "etrn x -p 5 --server a", "-p 5 etrn --server a x"]
        {
            let options = options(arguments);
            assert_eq!(options.server_options.server.as_deref(), Some("a"), "{arguments}");
            assert_eq!(options.server_options.port.as_deref(), Some("5"), "{arguments}");
            assert!(matches!(options.command, Some(MailqCommand::Etrn { host }) if host == "x"));
        }
        assert_eq!(options("-- etrn").server_options.server.as_deref(), Some("etrn"));
        for arguments in ["-v etrn x", "-K 5 etrn x", "-h a etrn x", "--server a b"] {
            let refused = parse(arguments).expect(arguments).check();
            assert_eq!(refused.expect_err(arguments).status(), 64);
        }
    }
}
