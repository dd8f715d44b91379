//! `pipe`: passes messages to programs, as ZMailer's `sm` does.
//!
//! The [`options`] name a program, or a line of [`sm_conf`] with a program and its [`flags`]. For
//! each message, or each recipient, the [`mailer`] makes the arguments from the addresses and
//! [`word`]s of the configuration. The [`program`] gets the [`letter`], whose lines go through a
//! [`line_filter`], and the rights of an [`identity`](zsched_agents::identity). Its
//! [`exit_status`] is the outcome.
//!
//! No shell reads an address, except with `--shell`, where the address is a program that a router
//! has taken from an alias.

mod options;

mod flags;
mod mailer;
mod sm_conf;
mod word;

mod letter;
mod line_filter;

mod program;

use letter::Letter;
use mailer::{Envelope, Mailer, Refusal};
use options::{PipeOptions, StartError};
use program::Program;
use rustix::fs::Mode;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, exit};
use std::time::Duration;
use zsched_agent::{Delivery, Message, Outcome, Verdict};
use zsched_agents::exit_status::{self, End};
use zsched_agents::identity::Rights;
use zsched_agents::{DEFAULT_PATH, INHERITED_VARIABLES};
use zsched_command_line::sysexits::{EX_CONFIG, EX_USAGE};
use zsched_format::printable;

/// Maximum number of recipients of a call.
///
/// They get the message twice if the agent is killed at the wrong moment.
const MAX_RECIPIENTS: usize = 100;
/// Maximum length of the addresses of a call with several recipients, in bytes.
const MAX_ADDRESSES_LEN: usize = 32 * 1024;

/// A program, and how it is run.
struct Pipe {
    mailer: Mailer,
    rights: Rights,
    /// True if the address is the program.
    runs_address: bool,
    /// True if the program puts mail into its final place.
    is_final: bool,
    is_8bit: bool,
    /// Maximum time of a call.
    limit: Duration,
    /// Working folder of programs.
    directory: PathBuf,
}

fn main() -> ExitCode {
    let options: PipeOptions = zsched_command_line::parse();
    if options.check {
        check(&options);
    }
    let pipe = match options.pipe() {
        Ok(pipe) => pipe,
        Err(error) => refuse(&error),
    };
    // The agent itself creates no files.
    rustix::process::umask(Mode::from_raw_mode(options.umask()));
    zsched_agent::serve("pipe", &options.scope(), |job| {
        let message = job.message()?;
        job.deliver_groups(
            |group, next| pipe.joins(group, next),
            |group| pipe.deliver(group, &message),
        )
    })
}

fn refuse(error: &StartError) -> ! {
    printable::print_error("pipe", error);
    exit(match error {
        StartError::PipeOptions(_) => EX_USAGE,
        StartError::Configuration(_) => EX_CONFIG,
    })
}

/// Prints the errors and warnings of the configuration, and the mailers that can be used.
fn check(options: &PipeOptions) -> ! {
    let conf = match options.all_mailers() {
        Ok(conf) => conf,
        Err(error) => refuse(&error),
    };
    for diagnostic in &conf.diagnostics {
        printable::print_to_stderr(diagnostic);
    }
    let count = printable::count(conf.mailers.len() as u64, "mailer");
    printable::print_to_stderr(format_args!("{count} can be used"));
    let is_bad = conf.diagnostics.iter().any(|diagnostic| diagnostic.is_error());
    exit(if is_bad { EX_CONFIG } else { 0 })
}

impl Pipe {
    /// Returns true if a recipient joins the call of a group.
    ///
    /// One that the program may not get has a group of its own, and fails alone.
    fn joins(&self, group: &[Delivery<'_>], next: &Delivery<'_>) -> bool {
        let first = &group[0];
        let length: usize = group.iter().chain([next]).map(|delivery| delivery.user().len()).sum();
        self.mailer.flags.many_recipients
            && group.len() < MAX_RECIPIENTS
            && length <= MAX_ADDRESSES_LEN
            && first.has_same_message(next)
            && first.host().eq_ignore_ascii_case(next.host())
            && first.privilege() == next.privilege()
            && [first, next].iter().all(|one| self.mailer.accepts(one, self.runs_address))
    }

    fn deliver(&self, group: &[Delivery<'_>], message: &Message) -> Outcome {
        let command = match self.command(group) {
            Ok(command) => command,
            Err(outcome) => return *outcome,
        };
        let program = match Program::start(command, self.limit) {
            Ok(program) => program,
            Err(error) => {
                let what = format!("cannot run {}", self.mailer.program.display());
                return Outcome::system_error(&what, &error);
            }
        };
        let letter = Letter { group, message, flags: self.mailer.flags, is_8bit: self.is_8bit };
        self.run(program, &letter)
    }

    /// The command for a group of recipients, or the outcome without one.
    fn command(&self, group: &[Delivery<'_>]) -> Result<Command, Box<Outcome>> {
        let refused = |refusal: Refusal| Box::new(refusal.outcome());
        let envelope = Envelope::new(group, self.runs_address).map_err(refused)?;
        let arguments = self.mailer.arguments(&envelope).map_err(refused)?;
        let identity = self.rights.identity(&group[0]).map_err(|error| {
            Box::new(Outcome::system_error("cannot find the user to run as", &error))
        })?;
        let mut command = Command::new(&self.mailer.program);
        let (name, arguments) = arguments.split_at(arguments.len().min(1));
        for name in name {
            command.arg0(name);
        }
        command.args(arguments).current_dir(&self.directory).env_clear().env("PATH", DEFAULT_PATH);
        for name in INHERITED_VARIABLES {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("SHELL", "/bin/sh");
        envelope.set_variables(&mut command);
        identity.apply(&mut command);
        Ok(command)
    }

    fn run(&self, mut program: Program, letter: &Letter<'_>) -> Outcome {
        let written = write(letter, &mut program);
        let end = match written {
            // A program that does not read all of it decides by its exit status.
            Err(error) if !program.write_failed() => {
                program.kill();
                return Outcome::system_error("cannot read the message", &error);
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                program.kill();
                Ok(End::TimedOut)
            }
            _ => program.finish(),
        };
        match end {
            Ok(end) => {
                let accepted = if self.is_final { Verdict::Delivered } else { Verdict::Relayed };
                exit_status::outcome(end, program.output(), &self.mailer.name, accepted)
            }
            Err(error) => Outcome::system_error("cannot wait for the program", &error),
        }
    }
}

/// Writes a letter. After an error, nothing more is written.
fn write(letter: &Letter<'_>, program: &mut Program) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 * 1024, program);
    let written = letter.write_to(&mut out).and_then(|()| out.flush());
    // Dropping the writer would write what is left.
    drop(out.into_parts());
    written
}
