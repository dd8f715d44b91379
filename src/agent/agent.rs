//! An agent as a whole: its name, its files, its end.

use crate::outcome::reason;
use crate::reply_writer::ReplyWriter;
use crate::session::Session;
use crate::{Halt, Job, Scope, StopFlag};
use std::io::{self, BufRead, BufReader, Read, Stdin, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use zsched_spool::Spool;

/// Maximum length of the commands that are read at once, in bytes.
///
/// It is more than the standard library's own buffer has, which is then not used.
const MAX_READ_LEN: usize = 64 * 1024;

/// Runs an agent: does `work` on one job after the other.
///
/// The agent reads jobs from standard input and writes reports to standard output. Its working
/// folder is `POSTOFFICE/transport`. The scheduler ends it (by an empty line or the end of the
/// input), or SIGHUP, SIGINT, SIGTERM or SIGQUIT.
///
/// `program` is the name of the agent in the scheduler's log. `scope` selects its recipients.
///
/// The exit code is that of `main`: success, also after a signal. It is a failure only if the
/// signal handlers cannot be installed.
///
/// ```no_run
/// use std::process::ExitCode;
/// use zsched_agent::{Outcome, Scope, Verdict};
///
/// fn main() -> ExitCode {
///     zsched_agent::serve("discard", &Scope::channel("discard"), |job| {
///         job.report_together(|_| Outcome::new(Verdict::Delivered, "2.0.0", 250, "discarded"));
///         Ok(())
///     })
/// }
/// ```
pub fn serve(
    program: &str,
    scope: &Scope,
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
) -> ExitCode {
    run_until_signal(program, scope, |agent| {
        agent.run(io::stdin().lock(), io::stdout().lock(), work);
    })
}

/// Runs an agent as [`serve`] does, and calls `on_pause` when no job comes for some time.
///
/// This is for agents that keep something for the next job, such as a connection. `on_pause` is
/// called once in a wait that lasts longer than `pause`, and at the end. A signal ends the process
/// while it runs, since the agent holds no job then.
pub fn serve_with_pauses(
    program: &str,
    scope: &Scope,
    pause: Duration,
    mut on_pause: impl FnMut(),
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
) -> ExitCode {
    run_until_signal(program, scope, |agent| {
        let commands = PausingInput { input: io::stdin(), pause, on_pause: &mut on_pause };
        let commands = BufReader::with_capacity(MAX_READ_LEN, commands);
        agent.run(commands, io::stdout().lock(), work);
        on_pause();
    })
}

/// Runs an agent as [`serve`] does, and calls `on_idle` when the scheduler says `#idle`.
///
/// This is for agents that keep a program or a connection for the next job: they can find out
/// whether it still lives. With `idle-ping` in its clause, the scheduler says `#idle` again and
/// again, and kills an agent that does not answer within 30 seconds. `on_idle` is called before
/// the answer, so it must return soon.
pub fn serve_with_idle(
    program: &str,
    scope: &Scope,
    on_idle: impl FnMut(),
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
) -> ExitCode {
    run_until_signal(program, scope, |agent| {
        agent.run_with_idle(io::stdin().lock(), io::stdout().lock(), on_idle, work);
    })
}

/// Runs an agent that signals stop. Reports an error if they cannot.
fn run_until_signal(program: &str, scope: &Scope, run: impl FnOnce(Agent)) -> ExitCode {
    match StopFlag::on_signals() {
        Ok(stop) => {
            run(Agent::new(program, scope.clone()).with_stop_flag(stop));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut replies = ReplyWriter::new(program, io::stdout().lock());
            replies.warn(&format!("cannot install signal handlers: {}", reason(&error)));
            replies.flush();
            ExitCode::FAILURE
        }
    }
}

/// Standard input that notices when nothing comes.
struct PausingInput<F> {
    input: Stdin,
    pause: Duration,
    on_pause: F,
}

impl<F: FnMut()> Read for PausingInput<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !zsched_sys::is_readable_within(self.input.as_fd(), self.pause)? {
            (self.on_pause)();
        }
        // Not by the buffer of standard input, which this descriptor would not show.
        self.input.lock().read(buffer)
    }
}

/// An agent that talks to any reader and writer.
///
/// [`serve`] is all that a program needs. With this type an agent can run elsewhere: on a socket,
/// in a thread, in a test. ([`testing`](crate::testing) has less work for a test of one job.)
///
/// ```
/// use zsched_agent::{Agent, Scope};
///
/// let mut replies = Vec::new();
/// let agent = Agent::new("idler", Scope::channel("smtp")).with_postoffice("/nonexistent");
/// agent.run(&b"#idle\n\n"[..], &mut replies, |_job| Ok(()));
/// assert_eq!(replies, b"#hungry\n#hungry\n");
/// ```
#[derive(Clone, Debug)]
pub struct Agent {
    program: String,
    scope: Scope,
    spool: Spool,
    stop: StopFlag,
}

impl Agent {
    /// Creates an agent whose working folder is `POSTOFFICE/transport`, and which nothing stops.
    ///
    /// `program` is its name in the scheduler's log. `scope` selects its recipients.
    pub fn new(program: impl Into<String>, scope: Scope) -> Agent {
        let (spool, stop) = (Spool::of_working_folder(), StopFlag::default());
        Agent { program: program.into(), scope, spool, stop }
    }

    /// Sets the POSTOFFICE, the folder above `transport/` and `queue/`.
    ///
    /// Without it, paths are relative to the working folder.
    pub fn with_postoffice(self, postoffice: impl AsRef<Path>) -> Agent {
        Agent { spool: Spool::new(postoffice.as_ref()), ..self }
    }

    /// Sets the flag that stops the agent.
    pub fn with_stop_flag(self, stop: StopFlag) -> Agent {
        Agent { stop, ..self }
    }

    /// Does `work` on each job of `commands`, one after the other.
    ///
    /// Writes to `replies`.
    ///
    /// Returns at an empty line, at the end of `commands`, if a read or a write fails, or if the
    /// stop flag is set. A failed write does not interrupt a job, since tags and `d` lines say what
    /// was done. A last line without LF is incomplete, and is ignored.
    pub fn run(
        &self,
        commands: impl BufRead,
        replies: impl Write,
        work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) {
        self.run_with_idle(commands, replies, || {}, work);
    }

    /// Does `work` as [`run`](Agent::run) does, and calls `on_idle` at each `#idle`.
    pub fn run_with_idle(
        &self,
        commands: impl BufRead,
        replies: impl Write,
        on_idle: impl FnMut(),
        work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) {
        let replies = ReplyWriter::new(&self.program, replies);
        let (spool, scope, stop) = (&self.spool, &self.scope, &self.stop);
        let pid = std::process::id();
        Session { commands, replies, spool, scope, stop, pid, kept: None }.run(on_idle, work);
    }
}
