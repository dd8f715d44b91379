//! The dialogue with the scheduler: reads commands, does the work, sends reports.

use crate::halt::{Halt, HaltCause};
use crate::job::Job;
use crate::job_file::{JobFile, Refusal};
use crate::reply_writer::ReplyWriter;
use crate::{Scope, StopFlag};
use std::io::{BufRead, Read, Write};
use std::ops::ControlFlow::{self, Break, Continue};
use std::thread;
use std::time::{Duration, Instant};
use zsched_format::agent_protocol::{AgentCommand, Offsets};
use zsched_spool::Spool;

/// Maximum length of a job line, in bytes. The scheduler's are below 1,024.
const MAX_JOB_LINE_LEN: u64 = 256 * 1024;

/// Wait before a truncated file is reported, so that its writer can finish.
///
/// The original waits for a minute.
const TRUNCATED_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Session<'a, R, W> {
    pub(crate) commands: R,
    pub(crate) replies: ReplyWriter<W>,
    pub(crate) spool: &'a Spool,
    pub(crate) scope: &'a Scope,
    pub(crate) stop: &'a StopFlag,
    /// The pid of this process.
    pub(crate) pid: u32,
    /// The large control file of the last job.
    ///
    /// The next job is often for the same one.
    pub(crate) kept: Option<JobFile>,
}

impl<R: BufRead, W: Write> Session<'_, R, W> {
    /// Processes commands until there are no more.
    pub(crate) fn run(
        &mut self,
        mut on_idle: impl FnMut(),
        mut work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) {
        loop {
            self.replies.hungry();
            self.replies.flush();
            if self.replies.is_broken() {
                return;
            }
            let Some(line) = self.next_line() else { return };
            let then = match AgentCommand::parse(&line) {
                AgentCommand::Exit => return,
                AgentCommand::Idle => {
                    self.kept = None;
                    on_idle();
                    Continue(())
                }
                AgentCommand::Job { path, host, only } => self.job(path, host, only, &mut work),
            };
            if then.is_break() || self.stop.is_requested() {
                self.replies.flush();
                return;
            }
        }
    }

    /// Reads the next line, without its line end. Returns `None` at the end of input.
    ///
    /// A last line without a line end is incomplete, and is ignored.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let commands = &mut self.commands;
        let read = self.stop.interruptible(|| {
            commands.by_ref().take(MAX_JOB_LINE_LEN).read_until(b'\n', &mut line)
        })?;
        let is_whole = read.is_ok() && line.pop() == Some(b'\n');
        is_whole.then_some(line)
    }

    fn job(
        &mut self,
        path: &[u8],
        host: Option<&[u8]>,
        only: Option<Offsets<'_>>,
        work: &mut impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
    ) -> ControlFlow<()> {
        let began = Instant::now();
        let file = match self.open(path) {
            Ok(file) => file,
            Err(refusal) => return self.refuse(path, &refusal),
        };
        let pending = file.select(self.scope, host, only);
        if pending.is_empty() {
            self.replies.resync(path);
            return Continue(());
        }
        let (spool, stop, pid) = (self.spool, self.stop, self.pid);
        let replies = &mut self.replies;
        let mut job = Job { replies, spool, stop, pid, file, pending, locked: false, began };
        let mut result = work(&mut job);
        if let Err(Halt(HaltCause::ReportRest(outcome))) = result {
            result = job.report_rest(&outcome);
        }
        self.kept = job.close().keep();
        if let Err(Halt(HaltCause::Resync(why))) = result {
            self.replies.warn(&format!("{}: {why}", String::from_utf8_lossy(path)));
            self.replies.resync(path);
        }
        Continue(())
    }

    fn open(&mut self, path: &[u8]) -> Result<JobFile, Refusal> {
        if let Some(mut kept) = self.kept.take()
            && kept.is_same_file(path)
        {
            return Ok(kept);
        }
        JobFile::open(self.spool, path)
    }

    fn refuse(&mut self, path: &[u8], refusal: &Refusal) -> ControlFlow<()> {
        match refusal {
            Refusal::Unusable(why) => self.replies.warn(why),
            Refusal::Truncated(why) => {
                // A signal ends the agent here, since it holds nothing.
                self.stop.interruptible(|| thread::sleep(TRUNCATED_PAUSE));
                self.replies.warn(why);
            }
            Refusal::UnknownFormat(why) => {
                self.replies.warn(why);
                self.replies.resync(path);
                return Break(());
            }
        }
        self.replies.resync(path);
        Continue(())
    }
}
