//! An agent as a whole: its name, its files, its end.

use crate::outcome::reason;
use crate::reply_writer::ReplyWriter;
use crate::session::Session;
use crate::{Halt, Job, Scope, StopFlag};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use zsched_spool::Spool;

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
    let replies = io::stdout().lock();
    match StopFlag::on_signals() {
        Ok(stop) => {
            let agent = Agent::new(program, scope.clone()).with_stop_flag(stop);
            agent.run(io::stdin().lock(), replies, work);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let mut replies = ReplyWriter::new(program, replies);
            replies.warn(&format!("cannot install signal handlers: {}", reason(&error)));
            replies.flush();
            ExitCode::FAILURE
        }
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
        let replies = ReplyWriter::new(&self.program, replies);
        let (spool, scope, stop) = (&self.spool, &self.scope, &self.stop);
        Session { commands, replies, spool, scope, stop, kept: None }.run(work);
    }
}
