//! Becoming a daemon, whose parent waits until it is ready.

use super::succeeded;
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};

/// Pipe to the process that was started on the command line.
///
/// [`daemonize`] returns it in the daemon. The parent's exit status depends on what is reported
/// here.
pub struct ReadyPipe {
    pipe: PipeWriter,
}

/// Byte that means "ready".
const READY_BYTE: u8 = b'+';

impl ReadyPipe {
    /// Reports success: the parent exits with status 0.
    ///
    /// If this is dropped without a report, the parent exits with status 1.
    pub fn report_ready(mut self) -> io::Result<()> {
        self.pipe.write_all(&[READY_BYTE])
    }
}

/// Continues in a new process that leads its own session.
///
/// It has no terminal. The calling process does not return: it waits for the daemon's report and
/// exits. Must be called before any OS thread is started, since only the calling one continues.
pub fn daemonize() -> io::Result<ReadyPipe> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: there is only one OS thread, as demanded above, so the child's memory is whole.
    let child = unsafe { libc::fork() };
    succeeded(child.min(0))?;
    if child != 0 {
        drop(writer);
        let mut word = [0];
        let status =
            if reader.read_exact(&mut word).is_ok() && word[0] == READY_BYTE { 0 } else { 1 };
        std::process::exit(status);
    }
    drop(reader);
    setsid()?;
    // The scheduler leads its process group, so that a signal to the group reaches its agents. A
    // second fork would prevent it from ever getting a terminal, but it would no longer lead the
    // group. It opens no terminal without O_NOCTTY.
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(ReadyPipe { pipe: writer })
}

/// Redirects standard output and error to a log file.
pub fn redirect_output(log: &File) -> io::Result<()> {
    dup2_stdout(log)?;
    Ok(dup2_stderr(log)?)
}

/// Drops all supplementary groups. Needs root.
pub fn drop_groups() -> io::Result<()> {
    // SAFETY: the list is empty.
    succeeded(unsafe { libc::setgroups(0, std::ptr::null()) })
}
