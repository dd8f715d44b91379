//! `runner`: keeps a program of a list manager warm, and gives it one message after the other.
//!
//! The host of a recipient names a [`place`] such as `example.org/talk/owner`. The [`letter`] is
//! put into a file. The [`program`] gets its path in a line, and answers with a status
//! ([`protocol`]). It is started for the first message and stays until the agent ends; with
//! `--per-message` each message has one of its own. How many agents there are, how long they stay
//! and how often they are asked whether they live is in `scheduler.cf`.

mod options;

mod letter;
mod place;
mod program;
mod protocol;

use letter::LetterFile;
use options::RunnerOptions;
use place::Place;
use program::{Answer, Program};
use rustix::fs::Mode;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, exit};
use std::time::Duration;
use zsched_agent::{Delivery, Message, Outcome, Verdict};
use zsched_agents::exit_status::{self, End};
use zsched_agents::identity::{Identity, Rights};
use zsched_agents::{DEFAULT_PATH, INHERITED_VARIABLES};
use zsched_command_line::sysexits::EX_USAGE;
use zsched_format::printable;

/// A program, and how it is run.
struct Runner {
    /// The program and its arguments; at least one word.
    command: Vec<String>,
    /// Its name in texts for people.
    name: String,
    rights: Rights,
    /// Functions of lists that it serves.
    functions: Vec<String>,
    /// Maximum time for a message.
    limit: Duration,
    /// Maximum time for the answer whether the program lives.
    ping_limit: Duration,
    /// Folder of the files with messages.
    directory: PathBuf,
    per_message: bool,
    warm: Option<Warm>,
}

/// A program that runs, and the user whose rights it has.
struct Warm {
    program: Program,
    identity: Identity,
}

fn main() -> ExitCode {
    let options: RunnerOptions = zsched_command_line::parse();
    let scope = options.scope.clone().scope("list").one_host_per_job();
    let runner = match options.runner() {
        Ok(runner) => RefCell::new(runner),
        Err(error) => {
            printable::print_error("runner", &error);
            exit(EX_USAGE);
        }
    };
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let status = zsched_agent::serve_with_idle(
        "runner",
        &scope,
        || runner.borrow_mut().ping(),
        |job| {
            let message = job.message()?;
            job.deliver_each(|delivery| runner.borrow_mut().deliver(delivery, &message))
        },
    );
    runner.borrow_mut().end_program();
    status
}

impl Runner {
    fn deliver(&mut self, delivery: &Delivery<'_>, message: &Message) -> Outcome {
        let place = match Place::parse(delivery.host(), &self.functions) {
            Ok(place) => place,
            Err(why) => return Outcome::new(Verdict::Failed, "5.1.2", 550, why),
        };
        let identity = match self.rights.identity(delivery) {
            Ok(identity) => identity,
            Err(error) => return Outcome::system_error("cannot find the user to run as", &error),
        };
        let letter = match LetterFile::write(&self.directory, &identity, delivery, message) {
            Ok(letter) => letter,
            Err(error) => return Outcome::system_error("cannot write the message", &error),
        };
        let request = match protocol::request(letter.path(), &place, delivery) {
            Ok(request) => request,
            Err(why) => return Outcome::new(Verdict::Failed, "5.1.3", 550, why),
        };
        self.run(identity, &request)
    }

    /// Gives a request to the program, which is started if it does not run.
    fn run(&mut self, identity: Identity, request: &[u8]) -> Outcome {
        let what = format!("cannot run {}", self.name);
        let mut warm = match self.take_or_start(identity) {
            Ok(warm) => warm,
            Err(error) => return Outcome::system_error(&what, &error),
        };
        let answer = warm.program.ask(request, self.limit, self.per_message);
        let (outcome, stays) = match answer {
            Ok(Answer::Line(line)) => protocol::outcome(&line, &self.name),
            Ok(Answer::Ended) if self.per_message => {
                let end = warm.program.end().map_or(End::TimedOut, End::Ended);
                return exit_status::outcome(end, b"", &self.name, Verdict::Delivered);
            }
            Ok(Answer::Ended) => {
                let end = match warm.program.end() {
                    Some(status) => format!("ended ({status}) without an answer"),
                    None => "closed its output without an answer".to_string(),
                };
                return protocol::deferred(&self.name, &end);
            }
            Ok(Answer::TimedOut) => {
                (protocol::deferred(&self.name, "did not answer in time, and was ended"), false)
            }
            Ok(Answer::TooLong) => {
                (protocol::deferred(&self.name, "gave too long an answer"), false)
            }
            Err(error) => (Outcome::system_error("cannot talk to the program", &error), false),
        };
        if stays && !self.per_message {
            self.warm = Some(warm);
        } else {
            warm.program.end();
        }
        outcome
    }

    /// The program that runs, if it can take a request for this user; else a new one.
    fn take_or_start(&mut self, identity: Identity) -> io::Result<Warm> {
        if let Some(mut warm) = self.warm.take() {
            if warm.identity == identity && warm.program.is_waiting() {
                return Ok(warm);
            }
            warm.program.end();
        }
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).current_dir("/").env_clear().env("PATH", DEFAULT_PATH);
        for name in INHERITED_VARIABLES {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("SHELL", "/bin/sh");
        identity.apply(&mut command);
        Ok(Warm { program: Program::start(command)?, identity })
    }

    /// Asks a program that waits whether it lives. One that does not answer is ended.
    fn ping(&mut self) {
        let Some(mut warm) = self.warm.take() else { return };
        let answer = match warm.program.is_waiting() {
            true => warm.program.ask(protocol::PING, self.ping_limit, false),
            false => Ok(Answer::Ended),
        };
        match answer {
            Ok(Answer::Line(_)) => self.warm = Some(warm),
            _ => {
                warm.program.end();
                printable::print_to_stderr(format_args!(
                    "runner: {} did not answer while it was idle, and is replaced",
                    self.name
                ));
            }
        }
    }

    fn end_program(&mut self) {
        if let Some(warm) = self.warm.take() {
            warm.program.end();
        }
    }
}
