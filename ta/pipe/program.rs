//! Runs a program: feeds it, reads what it prints, waits for its end, all before a deadline.
//!
//! The program is the leader of a process group of its own. It may end without reading its input,
//! print more than is kept, or leave a process behind that holds its standard output or input:
//! none of this makes the agent wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use zsched_agents::exit_status::End;

/// Maximum length of output that is kept, in bytes. The program may print more.
pub const MAX_OUTPUT_LEN: usize = 4096;
/// Size of the chunks in which output is read, in bytes.
const CHUNK_LEN: usize = 4096;
/// Maximum number of chunks that are read after the program has ended.
///
/// What it left behind may print for ever.
const MAX_LAST_CHUNKS: usize = 64;
/// Wait for processes that read on after the program has ended.
const MAX_ORPHAN_WAIT: Duration = Duration::from_secs(5);
/// Wait for the end of a program after SIGTERM, and after SIGKILL.
const MAX_KILL_WAIT: Duration = Duration::from_secs(5);

/// A program that runs.
///
/// What is written to it is its standard input. A write waits until the program reads, and fails
/// with [`ErrorKind::BrokenPipe`] if it never will, with [`ErrorKind::TimedOut`] at the deadline.
pub struct Program {
    child: Child,
    pid: Pid,
    /// Becomes readable when the program ends.
    end: OwnedFd,
    /// True if it has ended. It is reaped last, so that its process group keeps its number.
    has_ended: bool,
    input: Option<ChildStdin>,
    output: Option<PipeReader>,
    kept_output: Vec<u8>,
    deadline: Instant,
    write_failed: bool,
}

impl Program {
    /// Starts a program that may run for `limit`.
    pub fn start(mut command: Command, limit: Duration) -> io::Result<Program> {
        let (output, theirs) = io::pipe()?;
        command.stdin(Stdio::piped()).stdout(theirs.try_clone()?).stderr(theirs).process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        // Our copies of its descriptors would keep the output open.
        drop(command);
        let watched = Program::watch(&child, &input, &output);
        let (pid, end) = watched.inspect_err(|_| drop(child.kill().and_then(|()| child.wait())))?;
        Ok(Program {
            child,
            pid,
            end,
            has_ended: false,
            input,
            output: Some(output),
            kept_output: Vec::new(),
            deadline: Instant::now() + limit,
            write_failed: false,
        })
    }

    fn watch(
        child: &Child,
        input: &Option<ChildStdin>,
        output: &PipeReader,
    ) -> io::Result<(Pid, OwnedFd)> {
        for descriptor in input.iter().map(AsFd::as_fd).chain([output.as_fd()]) {
            ioctl_fionbio(descriptor, true)?;
        }
        let pid = Pid::from_child(child);
        Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Returns true if a write has failed.
    pub fn write_failed(&self) -> bool {
        self.write_failed
    }

    /// The beginning of its output.
    pub fn output(&self) -> &[u8] {
        &self.kept_output
    }

    /// Closes the input, and waits for the end. At the deadline, the program is killed.
    pub fn finish(&mut self) -> io::Result<End> {
        self.input = None;
        while !self.has_ended && self.wait(PollFlags::empty())? {}
        if !self.has_ended {
            self.kill();
            return Ok(End::TimedOut);
        }
        for _ in 0..MAX_LAST_CHUNKS {
            if !self.read_output() {
                break;
            }
        }
        self.child.wait().map(End::Ended)
    }

    /// Ends the program and the processes of its group, the hard way if necessary.
    ///
    /// The input is closed only then, so that an incomplete message does not look complete. A
    /// program that has taken the rights of another user cannot be ended, and is left alone.
    pub fn kill(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            kill_process_group(self.pid, signal).ok();
            self.deadline = Instant::now() + MAX_KILL_WAIT;
            while !self.has_ended && self.wait(PollFlags::empty()).unwrap_or(false) {}
        }
        self.input = None;
        if self.has_ended {
            self.child.wait().ok();
        }
    }

    /// Waits until something happens, and reads output. Returns `false` at the deadline.
    ///
    /// `for_input` is `OUT` to wait for room in the input as well.
    fn wait(&mut self, for_input: PollFlags) -> io::Result<bool> {
        let now = Instant::now();
        let Some(left) = self.deadline.checked_duration_since(now).filter(|left| !left.is_zero())
        else {
            return Ok(false);
        };
        let mut watched = Vec::with_capacity(3);
        if !self.has_ended {
            watched.push(PollFd::new(&self.end, PollFlags::IN));
        }
        if let Some(output) = &self.output {
            watched.push(PollFd::new(output, PollFlags::IN));
        }
        if let Some(input) = self.input.as_ref().filter(|_| !for_input.is_empty()) {
            watched.push(PollFd::new(input, for_input));
        }
        match poll(&mut watched, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ends_now = !self.has_ended && watched[0].revents().contains(PollFlags::IN);
        self.read_output();
        if ends_now {
            self.has_ended = true;
            self.deadline = self.deadline.min(Instant::now() + MAX_ORPHAN_WAIT);
        }
        Ok(true)
    }

    /// Reads a chunk of output, if there is any. Returns `false` if there is none now.
    fn read_output(&mut self) -> bool {
        let Some(output) = &mut self.output else { return false };
        let mut chunk = [0; CHUNK_LEN];
        match output.read(&mut chunk) {
            Ok(count @ 1..) => {
                let room = MAX_OUTPUT_LEN - self.kept_output.len();
                self.kept_output.extend_from_slice(&chunk[..count.min(room)]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            // The end, or an error, which costs only the output.
            _ => {
                self.output = None;
                false
            }
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let Some(input) = &mut self.input else { return Err(ErrorKind::BrokenPipe.into()) };
            match input.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if !self.wait(PollFlags::OUT)? {
                let is_gone = self.has_ended;
                let kind = if is_gone { ErrorKind::BrokenPipe } else { ErrorKind::TimedOut };
                return Err(kind.into());
            }
        }
    }
}

impl Write for Program {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.try_write(bytes);
        self.write_failed |=
            result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted);
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
