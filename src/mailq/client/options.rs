//! The command line of `mailq`.

use clap::{ArgAction, Parser};
use std::path::PathBuf;

/// Show the queue of a running scheduler
#[derive(Parser, Clone, Debug)]
#[command(name = "mailq", version, disable_help_flag = true)]
pub struct Options {
    /// Use IPv4 addresses only
    #[arg(short = '4', long = "ipv4", overrides_with = "ipv6")]
    pub ipv4: bool,

    /// Use IPv6 addresses only
    #[arg(short = '6', long = "ipv6", overrides_with = "ipv4")]
    pub ipv6: bool,

    /// Show only what goes by this channel
    #[arg(short = 'c', long, value_name = "NAME")]
    pub channel: Option<String>,

    /// Show only what goes to this host
    #[arg(short = 'h', long, value_name = "NAME")]
    pub host: Option<String>,

    /// Copy each line that is received to standard error
    #[arg(short = 'd', long)]
    pub debug: bool,

    /// Accepted, and not used
    #[arg(short = 'E', long = "expand", value_name = "TEXT")]
    pub expand: Option<String>,

    /// Show only messages of mine, with -v
    #[arg(short = 'i', long, overrides_with = "user")]
    pub mine: bool,

    /// Show only messages of this user, with -v
    #[arg(short = 'u', long, value_name = "NAME", overrides_with = "mine")]
    pub user: Option<String>,

    /// Would show the shared memory segment, if there was one
    #[arg(short = 'M', long = "shared-memory")]
    pub shared_memory: bool,

    /// Ask at this TCP port or UNIX socket
    #[arg(short = 'p', long, value_name = "PORT|PATH")]
    pub port: Option<String>,

    /// Show the report on threads and agents; given twice, without the single threads
    #[arg(short = 'Q', long, action = ArgAction::Count)]
    pub report: u8,

    /// Count the files in the spool first; given twice, do only that
    #[arg(short = 's', long, action = ArgAction::Count)]
    pub status: u8,

    /// For each channel and host, show how many files there are, and how large; given twice, only how
    /// many
    #[arg(short = 'S', long, action = ArgAction::Count)]
    pub sizes: u8,

    /// For each channel and host, show one line of totals
    #[arg(long, conflicts_with_all = ["report", "sizes"])]
    pub summary: bool,

    /// Show no details, whatever has been said before
    #[arg(short = 't', long, overrides_with = "verbose")]
    pub terse: bool,

    /// Who asks, for MAILQ version 2
    #[arg(short = 'U', long, value_name = "USER/PASSWORD")]
    pub login: Option<String>,

    /// Show where each message is from and for whom; given twice, its size and age too
    #[arg(short = 'v', long, action = ArgAction::Count, overrides_with = "terse")]
    pub verbose: u8,

    /// Say why something waits: a channel/host, a spool id, or a control file
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["report", "sizes", "summary", "status"])]
    pub why: Option<String>,

    /// The ZENV file, which says where everything is
    #[arg(short = 'Z', long, value_name = "FILE")]
    pub zenv: Option<PathBuf>,

    /// Print this help and exit
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// The host whose scheduler is asked
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,
}

/// The addresses that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Those of both kinds.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Options {
    /// How much is told of each message: 0, 1 or 2.
    pub fn verbosity(&self) -> u8 {
        let implied = u8::from(!self.terse && (self.mine || self.user.is_some()));
        self.verbose.max(implied)
    }

    /// Which addresses are tried.
    pub fn family(&self) -> Family {
        match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("mailq").chain(arguments.split_ascii_whitespace());
        Options::try_parse_from(words)
    }

    fn options(arguments: &str) -> Options {
        parse(arguments).expect(arguments)
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        let without_long_name =
            Options::command().get_opts().filter(|option| option.get_long().is_none()).count();
        assert_eq!(without_long_name, 0);
    }

    #[test]
    fn letters_come_in_bundles() {
        let all = options("-sQQ -cd -hx -p174 -ufred -SSvv mail.example.org");
        assert_eq!((all.status, all.report, all.sizes, all.verbose), (1, 2, 2, 2));
        assert_eq!((all.channel.as_deref(), all.host.as_deref()), (Some("d"), Some("x")));
        assert_eq!((all.port.as_deref(), all.user.as_deref()), (Some("174"), Some("fred")));
        assert_eq!(all.server.as_deref(), Some("mail.example.org"));
        assert!(!all.debug);
    }

    #[test]
    fn the_last_of_two_opposites_counts() {
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
            assert_eq!(options(arguments).verbosity(), verbosity, "{arguments}");
        }
        assert_eq!(options("-4").family(), Family::V4);
        assert_eq!(options("-46").family(), Family::V6);
        assert_eq!(options("-64").family(), Family::V4);
        assert_eq!(options("-i -u root").user.as_deref(), Some("root"));
        assert_eq!(options("-u root -i").user, None);
    }

    #[test]
    fn what_the_original_refuses_is_refused() {
        for arguments in ["-K x", "-r x", "-x", "a b", "-p", "--summary -Q", "--summary -S", "-?"] {
            assert!(parse(arguments).is_err_and(|error| error.use_stderr()), "{arguments}");
        }
        assert!(parse("-V").is_err_and(|error| !error.use_stderr()));
        assert!(parse("--help").is_err_and(|error| !error.use_stderr()));
    }
}
