//! The dialogue with the scheduler: reads orders, does the work, sends answers.

use super::job::{Cause, Halt, Job};
use super::job_file::{JobFile, Place, Refusal};
use super::replies::Replies;
use super::scope::Scope;
use super::stop::Stop;
use std::io::{BufRead, Read};
use std::thread;
use std::time::Duration;
use zsched_format::agent_protocol::{AgentCommand, Offsets};

/// Maximum length of a job line, in bytes. The scheduler's are below 1,024.
const LONGEST_ORDER: u64 = 256 * 1024;

/// Wait before a truncated file is reported, so that its writer can finish.
///
/// The original waits for a minute.
const TRUNCATED_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Session<'a, R> {
    pub(super) orders: R,
    pub(super) replies: Replies,
    pub(super) stop: Stop,
    pub(super) place: Place,
    pub(super) scope: &'a Scope,
    /// The large control file of the last job.
    ///
    /// The next job is often for the same one.
    pub(super) kept: Option<JobFile>,
}

/// The next step after a job.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

impl<R: BufRead> Session<'_, R> {
    /// Processes orders until there are no more.
    pub(super) fn run(&mut self, mut work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>) {
        loop {
            self.replies.hungry();
            self.replies.flush();
            if self.replies.is_broken() {
                return;
            }
            let Some(line) = self.next_order() else { return };
            let then = match AgentCommand::parse(&line) {
                AgentCommand::Exit => return,
                AgentCommand::Idle => {
                    self.kept = None;
                    Then::GoOn
                }
                AgentCommand::Job { path, host, only } => self.job(path, host, only, &mut work),
            };
            if then == Then::End || self.stop.is_requested() {
                self.replies.flush();
                return;
            }
        }
    }

    /// Reads the next line, without its line end. Returns `None` at the end of input.
    ///
    /// A last line without a line end is incomplete, and is ignored.
    fn next_order(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let orders = &mut self.orders;
        let read = self
            .stop
            .while_waiting(|| orders.by_ref().take(LONGEST_ORDER).read_until(b'\n', &mut line))?;
        let is_whole = read.is_ok() && line.pop() == Some(b'\n');
        is_whole.then_some(line)
    }

    fn job(
        &mut self,
        path: &[u8],
        host: Option<&[u8]>,
        only: Option<Offsets<'_>>,
        work: &mut impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) -> Then {
        let file = match self.open(path) {
            Ok(file) => file,
            Err(refusal) => return self.refuse(path, &refusal),
        };
        let open = file.select(self.scope, host, only);
        if open.is_empty() {
            self.replies.resync(path);
            return Then::GoOn;
        }
        let mut job = Job::new(&mut self.replies, &self.place, &self.stop, file, open);
        let result = work(&mut job);
        self.kept = job.close().keep();
        if let Err(Halt(Cause::Resync(why))) = result {
            self.replies.warn(&why);
            self.replies.resync(path);
        }
        Then::GoOn
    }

    fn open(&mut self, path: &[u8]) -> Result<JobFile, Refusal> {
        match self.kept.take() {
            Some(kept) if kept.is_at(path) => Ok(kept),
            _ => JobFile::open(&self.place, path),
        }
    }

    fn refuse(&mut self, path: &[u8], refusal: &Refusal) -> Then {
        match refusal {
            Refusal::Unusable(why) => self.replies.warn(why),
            Refusal::Truncated(why) => {
                // A signal ends the agent here, since it holds nothing.
                self.stop.while_waiting(|| thread::sleep(TRUNCATED_PAUSE));
                self.replies.warn(why);
            }
            Refusal::UnknownFormat(why) => {
                self.replies.warn(why);
                self.replies.resync(path);
                return Then::End;
            }
        }
        self.replies.resync(path);
        Then::GoOn
    }
}
