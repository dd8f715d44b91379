//! A program that answers one line with one line, before a deadline.
//!
//! It is the leader of a process group of its own. What it prints on standard error is in the log
//! of the scheduler. At the end of its input it ends; if it does not, it is ended with its group.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum length of an answer, in bytes.
const MAX_ANSWER_LEN: usize = 8192;
/// Maximum wait for the end of a program.
///
/// It is that after the end of its input, after SIGTERM, and after SIGKILL.
const MAX_END_WAIT: Duration = Duration::from_secs(5);

/// What a program said.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A line, without its end.
    Line(Vec<u8>),
    /// It has ended, or has closed its output.
    Ended,
    /// It said nothing before the deadline.
    TimedOut,
    /// Its line is too long.
    TooLong,
}

/// A program that runs.
pub struct Program {
    child: Child,
    pid: Pid,
    /// Becomes readable when the program ends.
    end: OwnedFd,
    input: Option<ChildStdin>,
    output: ChildStdout,
    unread: Vec<u8>,
}

impl Program {
    pub fn start(mut command: Command) -> io::Result<Program> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let watched = output
            .ok_or_else(|| ErrorKind::BrokenPipe.into())
            .and_then(|output| ioctl_fionbio(&output, true).map(|()| output).map_err(Into::into))
            .and_then(|output| Ok((output, pidfd_open(pid, PidfdFlags::empty())?)));
        let (output, end) =
            watched.inspect_err(|_: &io::Error| drop(child.kill().and_then(|()| child.wait())))?;
        Ok(Program { child, pid, end, input, output, unread: Vec::new() })
    }

    /// Returns true if the program runs, and has said nothing that was not asked for.
    pub fn is_waiting(&mut self) -> bool {
        let is_quiet = matches!(wait(self.output.as_fd(), Duration::ZERO), Ok(false));
        is_quiet && self.unread.is_empty() && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a line, and waits for the answer. `is_last` closes the input behind the line.
    ///
    /// A signal does not end the wait: the program may have begun its work.
    pub fn ask(&mut self, line: &[u8], limit: Duration, is_last: bool) -> io::Result<Answer> {
        let deadline = Instant::now() + limit;
        if let Some(input) = &mut self.input
            // A program that has ended says so by the end of its output.
            && let Err(error) = input.write_all(line)
            && error.kind() != ErrorKind::BrokenPipe
        {
            return Err(error);
        }
        if is_last {
            self.input = None;
        }
        self.read_line(deadline)
    }

    fn read_line(&mut self, deadline: Instant) -> io::Result<Answer> {
        let mut chunk = [0; 1024];
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=end).collect();
                line.pop();
                return Ok(Answer::Line(line));
            }
            if self.unread.len() > MAX_ANSWER_LEN {
                return Ok(Answer::TooLong);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !wait(self.output.as_fd(), left)? {
                if left.is_zero() {
                    return Ok(Answer::TimedOut);
                }
                continue;
            }
            match self.output.read(&mut chunk) {
                Ok(0) => return Ok(Answer::Ended),
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the program: closes its input, then ends its group, the hard way if necessary.
    ///
    /// Returns the exit status if it has ended by itself.
    pub fn end(mut self) -> Option<ExitStatus> {
        self.input = None;
        if self.ends_within(MAX_END_WAIT) {
            return self.child.wait().ok();
        }
        for signal in [Signal::TERM, Signal::KILL] {
            kill_process_group(self.pid, signal).ok();
            if self.ends_within(MAX_END_WAIT) {
                self.child.wait().ok();
                break;
            }
        }
        None
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait(self.end.as_fd(), left) {
                Ok(true) => return true,
                Ok(false) if !left.is_zero() => {}
                _ => return false,
            }
        }
    }
}

/// Waits until a descriptor can be read. Returns false at the end of the time, or after a signal.
fn wait(descriptor: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    match poll(&mut watched, Timespec::try_from(limit).ok().as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
