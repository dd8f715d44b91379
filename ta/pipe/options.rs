//! The command line of `pipe`.
//!
//! It has its own options, and those of ZMailer's `sm`.

use crate::Pipe;
use crate::flags::Flags;
use crate::mailer::Mailer;
use crate::sm_conf::{SmConf, program_path};
use crate::word::Word;
use clap::{ArgAction, Args, Parser};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_agent::{Scope, ScopeOptions};
use zsched_agents::identity::Rights;
use zsched_config::{Diagnostic, Zenv};

/// Variable of the ZENV file: the folder of configurations.
const MAILSHARE: &str = "MAILSHARE";
/// Name of the configuration file in that folder.
const SM_CONF: &str = "sm.conf";

/// Transport agent that passes messages to programs
#[derive(Parser)]
#[command(name = "pipe", version, disable_version_flag = true, disable_help_flag = true)]
pub struct PipeOptions {
    #[command(flatten)]
    scope: ScopeOptions,

    /// The mailer: the first word of a line of sm.conf
    #[arg(required_unless_present_any = ["command", "shell", "check"])]
    #[arg(conflicts_with_all = ["command", "shell", "check"])]
    mailer: Option<String>,

    /// The mailers [default: sm.conf in MAILSHARE of the ZENV file]
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["command", "shell"])]
    file: Option<PathBuf>,

    /// ZENV file [default: $ZCONFIG, else /etc/zmailer.conf, which need not exist]
    #[arg(short = 'Z', long, value_name = "FILE")]
    zenv: Option<PathBuf>,

    /// Run this program instead of a mailer; the last option, since it takes all words behind it
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true)]
    #[arg(conflicts_with = "shell")]
    command: Vec<String>,

    /// Run the program that the address names behind a `|`, with /bin/sh
    #[arg(long)]
    shell: bool,

    /// Flags of the program of --command or --shell, as in sm.conf
    #[arg(long, value_name = "FLAGS", default_value = "-", allow_hyphen_values = true)]
    #[arg(conflicts_with = "mailer")]
    flags: String,

    /// Run programs as this user, even as root [default: the user in the recipient's privilege
    /// column, if the agent runs as root]
    #[arg(short, long, value_name = "NAME[:GROUP]")]
    user: Option<String>,

    /// Maximum time that a program may run
    #[arg(long, value_name = "SECONDS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,

    /// Working folder of programs
    #[arg(long, value_name = "DIR", default_value = "/")]
    directory: PathBuf,

    /// File mode creation mask of programs, octal
    #[arg(long, value_name = "MASK", default_value = "077", value_parser = mask)]
    umask: u32,

    /// Report `delivered`, not `relayed`: the program puts mail into its final place; implied by
    /// --shell
    #[arg(long = "final")]
    is_final: bool,

    /// Print the errors and warnings of all mailers of the file, and exit
    #[arg(long, conflicts_with_all = ["command", "shell"])]
    pub check: bool,

    /// Print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    original: Original,
}

/// PipeOptions of ZMailer's `sm`.
#[derive(Args)]
#[command(next_help_heading = "PipeOptions of ZMailer's sm")]
struct Original {
    /// Programs take 8-bit text: adds BODY=8BITMIME to a batch (flag B), else no effect
    #[arg(short = '8')]
    is_8bit: bool,
    /// No effect: keep 8-bit headers, which this agent always does
    #[arg(short = 'H')]
    keep_headers: bool,
    /// No effect: print what is done
    #[arg(short = 'v')]
    verbose: bool,
    /// Refused: encode control characters as quoted-printable
    #[arg(short = 'Q')]
    encode: bool,
    /// Refused: fold headers at this width
    #[arg(short = 'w', value_name = "WIDTH")]
    width: Option<u32>,
}

/// The reason why the agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options are wrong.
    #[error("{0}")]
    PipeOptions(String),
    /// The configuration cannot be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Configuration(Vec<Diagnostic>),
}

impl PipeOptions {
    /// The mask of programs.
    pub fn umask(&self) -> u32 {
        self.umask
    }

    /// The recipients to deliver to. The default channel has the name of the mailer.
    pub fn scope(&self) -> Scope {
        let default = match (&self.mailer, self.shell) {
            (Some(mailer), _) => mailer,
            (None, true) => "prog",
            (None, false) => "pipe",
        };
        self.scope.clone().scope(default).one_host_per_job()
    }

    /// The program to run. Warnings are printed.
    pub fn pipe(&self) -> Result<Pipe, StartError> {
        for (is_given, option) in
            [(self.original.encode, "-Q"), (self.original.width.is_some(), "-w")]
        {
            if is_given {
                let why = format!("{option} is not supported: messages are passed on unchanged");
                return Err(StartError::PipeOptions(why));
            }
        }
        let rights = match &self.user {
            Some(name) => Rights::named(name).map_err(StartError::PipeOptions)?,
            None => Rights::OfRecipient,
        };
        let mailer = self.mailer()?;
        let keeps_user = mailer.flags.keeps_user && self.user.is_none();
        Ok(Pipe {
            rights: if keeps_user { Rights::OfAgent } else { rights },
            mailer,
            runs_address: self.shell,
            is_final: self.is_final || self.shell,
            is_8bit: self.original.is_8bit,
            limit: Duration::from_secs(self.timeout.into()),
            directory: self.directory.clone(),
        })
    }

    fn mailer(&self) -> Result<Mailer, StartError> {
        if let Some(name) = &self.mailer {
            return self.configured(name);
        }
        let (flags, unknown) = Flags::parse(&self.flags);
        if let Some(at) = unknown.first() {
            let flag = self.flags[*at..].chars().next().unwrap_or_default();
            let why = format!("--flags {}: the flag {flag} has no meaning", self.flags);
            return Err(StartError::PipeOptions(why));
        }
        if self.shell {
            if flags.many_recipients || flags.sender_option.is_some() {
                let why = "--shell runs one command without options: not with the flags f, m, r";
                return Err(StartError::PipeOptions(why.to_string()));
            }
            return Ok(Mailer::shell(flags));
        }
        self.named_program(flags).map_err(StartError::PipeOptions)
    }

    /// The program of `--command`.
    fn named_program(&self, flags: Flags) -> Result<Mailer, String> {
        let zenv = self.zenv()?;
        // One word with blanks is a command line, as a shell passes it on between quotes.
        let words: Vec<&str> = match &self.command[..] {
            [line] => line.split_ascii_whitespace().collect(),
            words => words.iter().map(String::as_str).collect(),
        };
        let program = words.first().ok_or("--command names no program")?;
        let program = program_path(program, &zenv)?;
        let mut parsed = Vec::with_capacity(words.len());
        for word in words {
            let found = Word::parse(word, &zenv).map_err(|error| {
                format!("--command, word {}, column {}: {error}", word, error.at + 1)
            })?;
            if let Some((_, name)) = found.unknown_variables.first() {
                return Err(format!("--command, word {word}: the ZENV file has no {name}"));
            }
            parsed.push(found.word);
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Mailer { name, flags, program, words: parsed })
    }

    fn zenv(&self) -> Result<Zenv, String> {
        let zenv = Zenv::find(self.zenv.as_deref()).map_err(|error| error.to_string())?;
        Ok(zenv.unwrap_or_default())
    }

    /// The mailer of this name in the file. Warnings are printed as lines for the scheduler's log.
    fn configured(&self, name: &str) -> Result<Mailer, StartError> {
        let SmConf { mut mailers, diagnostics } = self.read(Some(name))?;
        let (errors, warnings): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(Diagnostic::is_error);
        for warning in warnings {
            let pid = std::process::id();
            zsched_format::printable::print_to_stderr(format_args!(
                "# pipe:{pid}: {}",
                warning.in_one_line()
            ));
        }
        match mailers.pop() {
            Some(mailer) if errors.is_empty() => Ok(mailer),
            _ => Err(StartError::Configuration(errors)),
        }
    }

    /// All mailers of the file, with errors and warnings.
    pub fn all_mailers(&self) -> Result<SmConf, StartError> {
        self.read(None)
    }

    fn read(&self, only: Option<&str>) -> Result<SmConf, StartError> {
        let zenv = self.zenv().map_err(StartError::PipeOptions)?;
        let path = self.path(&zenv)?;
        let text = std::fs::read(&path).map_err(|error| {
            StartError::Configuration(vec![Diagnostic::of_file(&path, error.to_string())])
        })?;
        Ok(SmConf::parse(&text, &path, only, &zenv))
    }

    fn path(&self, zenv: &Zenv) -> Result<PathBuf, StartError> {
        if let Some(path) = &self.file {
            return Ok(path.clone());
        }
        let missing = || {
            let zenv = Zenv::path(self.zenv.as_deref());
            let why = format!("there is no -f, and {} has no {MAILSHARE}", zenv.display());
            StartError::PipeOptions(why)
        };
        let folder = zenv.get(MAILSHARE).ok_or_else(missing)?;
        Ok(Path::new(folder).join(SM_CONF))
    }
}

/// Parses an octal mask.
fn mask(text: &str) -> Result<u32, &'static str> {
    let mask = u32::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777);
    mask.ok_or("not an octal number from 0 to 777")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &[&str]) -> Result<PipeOptions, String> {
        let words = ["pipe"].iter().chain(arguments);
        PipeOptions::try_parse_from(words).map_err(|error| error.to_string())
    }

    fn options(arguments: &[&str]) -> PipeOptions {
        parse(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn command_line_definition_is_consistent() {
        PipeOptions::command().debug_assert();
    }

    #[test]
    fn command_takes_all_words_behind_it() {
        for arguments in [
            &["-c", "fax", "--command", "/bin/fax", "-a", "$u", "--", "-x"][..],
            &["-c", "fax", "--command", "/bin/fax -a $u -- -x"],
            &["--flags", "mn", "--command", " /bin/fax  -a $u -- -x "],
        ] {
            let pipe = options(arguments).pipe().expect("a program");
            let words = ["/bin/fax", "-a", "$u", "--", "-x"];
            let words = words.map(|word| Word::parse(word, &Zenv::default()).expect("good").word);
            assert_eq!(pipe.mailer.words, words, "{arguments:?}");
            assert_eq!((pipe.mailer.name.as_str(), pipe.is_final), ("fax", false));
        }
    }

    #[test]
    fn options_of_original_are_accepted() {
        for arguments in
            [&["-8c", "uucp", "uucp"][..], &["-8Hvf", "/sm.conf", "-h", "host", "procm"]]
        {
            options(arguments);
        }
        for arguments in [&["-Qc", "x", "m"][..], &["-w", "72", "m"]] {
            let error = options(arguments).pipe().err().expect("refused").to_string();
            assert!(error.ends_with("messages are passed on unchanged"), "{error}");
        }
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [
            &[][..],
            &["m", "--shell"],
            &["m", "--command", "/bin/x"],
            &["--timeout", "0", "m"],
            &["--umask", "8", "m"],
            &["--umask", "1000", "m"],
            &["a", "b"],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
        for (arguments, text) in [
            (&["--shell", "--flags", "mZ"][..], "the flag Z has no meaning"),
            (&["--shell", "--flags", "nf"], "not with the flags f, m, r"),
            (&["--command", "/bin/x $u $y"], "word $y, column 1: there is no macro"),
            (&["--command", "x", "-Z", "/nonexistent"], "x is below MAILBIN"),
            (&["--command", " "], "--command names no program"),
            (&["-Z", "/nonexistent", "m"], "/nonexistent: No such file"),
            (&["-f", "/nonexistent/sm.conf", "m"], "/nonexistent/sm.conf: error: No such file"),
            (&["-u", "no-such-user", "--shell"], "there is no user no-such-user"),
        ] {
            let error = options(arguments).pipe().err().expect(text).to_string();
            assert!(error.contains(text), "{arguments:?}: {error}");
        }
    }
}
