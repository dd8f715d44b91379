//! The other programs of a trial installation: `router` and `smtpserver`, beside the scheduler.
//!
//! A worker starts each, and starts it again when it has ended. The loop has no part in this,
//! except that it reaps the process as any other child. The end of the scheduler, even by SIGKILL,
//! ends them.

use super::config_warnings::fault;
use zsched_service::worker;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use zsched_sys::{ChildProcess, Launcher};

/// Maximum number of descriptors of a companion.
const FILE_LIMIT: u64 = 1024;

/// How a companion is started.
pub(crate) struct Companion {
    /// Name of the program.
    name: &'static str,
    /// What it is, for the log.
    title: &'static str,
    /// Path of the program, beside that of the scheduler.
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Wait before it is started again; longer if it ends soon each time.
    pause: Duration,
}

/// Number by which the wait may grow.
const MAX_PAUSES: u32 = 12;

impl Companion {
    pub(crate) fn new(
        name: &'static str,
        title: &'static str,
        arguments: Vec<OsString>,
        pause: Duration,
    ) -> io::Result<Companion> {
        let program = std::env::current_exe()?.with_file_name(name);
        Ok(Companion { name, title, program, arguments, pause })
    }

    /// Keeps the program running until this process ends.
    pub(crate) fn keep_running(self) -> io::Result<()> {
        let launcher = Launcher::new()?;
        // The program ends with this worker, which never ends before the process.
        worker::start(self.name, move || {
            let mut pauses = 1;
            loop {
                let began = Instant::now();
                if let Err(error) = self.run(&launcher) {
                    let program = self.program.display();
                    log::error!("{program}: {error}: {} does not run", self.title);
                }
                let pause = self.pause * pauses;
                pauses = if began.elapsed() > pause { 1 } else { (pauses * 2).min(MAX_PAUSES) };
                // This worker ends with the scheduler, so that it says nothing at the end of both.
                let moment = self.pause / 10;
                thread::sleep(moment);
                let seconds = pause.as_secs_f32();
                log::warn!("{} has ended; it is started again in {seconds:.1} s", self.title);
                thread::sleep(pause - moment);
            }
        })
        .map(drop)
    }

    /// Runs the program until its end. What it says is logged.
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
        log::info!("{} runs, pid {pid}", self.title);
        // The socket is its standard input, too, so it closes when the router ends.
        for line in BufReader::new(ours).split(b'\n') {
            log::info!("{}: {}", self.name, String::from_utf8_lossy(&line?));
        }
        Ok(())
    }
}
