//! The program `router` beside the scheduler of a trial installation.
//!
//! A worker starts it, and starts it again when it has ended. The loop has no part in this, except
//! that it reaps the process as any other child. The end of the scheduler, even by SIGKILL, ends
//! the router.

use super::config_warnings::fault;
use crate::worker;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use zsched_sys::{ChildProcess, Launcher};

/// Maximum number of descriptors of the router.
const FILE_LIMIT: u64 = 1024;

/// How the router is started.
pub(crate) struct RouterProcess {
    /// Path of the program, beside that of the scheduler.
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Wait before it is started again.
    pause: Duration,
}

impl RouterProcess {
    pub(crate) fn new(arguments: Vec<OsString>, pause: Duration) -> io::Result<RouterProcess> {
        let program = std::env::current_exe()?.with_file_name("router");
        Ok(RouterProcess { program, arguments, pause })
    }

    /// Keeps the router running until this process ends.
    pub(crate) fn keep_running(self) -> io::Result<()> {
        let launcher = Launcher::new()?;
        // The router ends with this worker, which never ends before the process.
        worker::start("router", move || {
            loop {
                if let Err(error) = self.run(&launcher) {
                    let program = self.program.display();
                    log::error!("{program}: {error}: new mail is not routed");
                }
                // At the end of the scheduler there is nobody left to say this.
                thread::sleep(self.pause);
                log::warn!("the router is not running; it is started again");
            }
        })
        .map(drop)
    }

    /// Runs the router until its end. What it says is logged.
    fn run(&self, launcher: &Launcher) -> io::Result<()> {
        if let Some(fault) = fault(&self.program) {
            return Err(io::Error::other(fault));
        }
        let (ours, socket) = UnixStream::pair()?;
        let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let pid = launcher.start(ChildProcess {
            program: &self.program,
            arguments: &self.arguments,
            environment: &environment,
            folder: "/".as_ref(),
            socket: socket.into(),
            user: None,
            group: None,
            priority: None,
            file_limit: FILE_LIMIT,
            ignore_hangup: false,
            ends_with_starter: true,
        })?;
        log::info!("the router runs, pid {pid}");
        // The socket is its standard input, too, so it closes when the router ends.
        for line in BufReader::new(ours).split(b'\n') {
            log::info!("router: {}", String::from_utf8_lossy(&line?));
        }
        Ok(())
    }
}
