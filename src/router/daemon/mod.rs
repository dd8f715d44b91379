//! The program: waits for submissions, and routes them.

mod scan;
mod socket;
mod spooler;

use crate::config_file::{self, Installation};
use crate::options::RouterOptions;
use mio::{Events, Interest, Poll, Token};
use scan::SubmissionName;
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use socket::NotifySocket;
use spooler::Spooler;
use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use zsched_command_line::sysexits::EX_TEMPFAIL;
use zsched_service::{BackgroundLog, ProgramLock, log_file, notify_manager};
use zsched_spool::{Spool, describe_folder_error};
use zsched_sys::{self as sys, Signals};

/// Interval of scans of the folder.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Number of notices at which some may have been lost, and a scan finds the others.
///
/// It is what the system keeps by default (`net.unix.max_dgram_qlen`).
const MIN_FULL_NOTICES: usize = 10;
/// Maximum number of submissions that are routed together, with shared syncs.
const MAX_BATCH: usize = 64;

const SIGNALS: Token = Token(0);
const NOTICES: Token = Token(1);

/// Runs the router. Returns the exit status.
pub(crate) fn run(installation: Installation, options: &RouterOptions) -> io::Result<i32> {
    let spool = installation.spool();
    let folder = spool.router();
    if let Err(error) = fs::read_dir(&folder) {
        return Err(io::Error::new(error.kind(), describe_folder_error(&folder, &error)));
    }
    sys::close_inherited_on_exec()?;
    let pipe = match options.once || options.interactive {
        true => None,
        false => Some(sys::daemonize()?),
    };
    let log = installation.log_path(options, pipe.is_some());
    // Until the log takes its place, standard error is that of the caller.
    let lock = ProgramLock::take("a router", &spool.router_lock_file(), spool.router_pid_file())?;
    let (log, _guard) = log_file::start(log_file::open(log.as_deref())?)?;
    let mut router = Router::new(installation, spool)?;
    if options.once {
        return router.route_once();
    }
    let mut poll = Poll::new()?;
    let mut signals = Signals::catch(&[SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1])?;
    poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
    let path = router.spooler.spool().router_socket(router.installation.zenv.get("ROUTERNOTIFY"));
    let mut socket = NotifySocket::open(&path)?;
    poll.registry().register(socket.source(), NOTICES, Interest::READABLE)?;
    if let Some(pipe) = pipe {
        pipe.report_ready()?;
    }
    log::info!(
        "started, pid {}, spool {}",
        std::process::id(),
        router.spooler.spool().postoffice().display()
    );
    notify_manager("READY=1");
    router.serve(&mut poll, &signals, &socket, &log)?;
    notify_manager("STOPPING=1");
    socket.remove();
    drop(lock);
    log::info!("ended");
    Ok(0)
}

/// The state of the running router.
struct Router {
    installation: Installation,
    spooler: Spooler,
    /// Submissions to be routed, in this order.
    waiting: VecDeque<SubmissionName>,
    /// The same, to find a name.
    is_waiting: HashSet<SubmissionName>,
}

impl Router {
    fn new(mut installation: Installation, spool: Spool) -> io::Result<Router> {
        let directory = installation.take_directory();
        let socket = spool.notify_socket(installation.zenv.get("SCHEDULERNOTIFY"));
        let spooler = Spooler::new(spool, installation.level, socket, directory);
        let mut router =
            Router { installation, spooler, waiting: VecDeque::new(), is_waiting: HashSet::new() };
        router.spooler.finish_interrupted()?;
        Ok(router)
    }

    /// Routes until nothing is left that can be routed now.
    fn route_once(&mut self) -> io::Result<i32> {
        loop {
            self.scan()?;
            if self.waiting.is_empty() {
                break;
            }
            while self.route_batch() {}
        }
        // Submissions are left that may be routed later.
        Ok(if self.spooler.has_troubled() { EX_TEMPFAIL } else { 0 })
    }

    /// Routes until a signal ends it.
    fn serve(
        &mut self,
        poll: &mut Poll,
        signals: &Signals,
        socket: &NotifySocket,
        log: &BackgroundLog,
    ) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        let mut next_scan = Instant::now();
        let mut has_lost_notices = false;
        loop {
            let wait = match self.waiting.is_empty() && !has_lost_notices {
                true => next_scan.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            match poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for signal in signals.take() {
                match signal {
                    SIGTERM | SIGINT => return Ok(()),
                    SIGHUP => {
                        log.reopen(false);
                        log::info!("log reopened");
                    }
                    SIGUSR1 => self.reload(),
                    _ => next_scan = Instant::now(),
                }
            }
            let notices = socket.notices();
            has_lost_notices |= notices.len() >= MIN_FULL_NOTICES;
            notices.into_iter().for_each(|name| self.add(name));
            if self.waiting.is_empty() && std::mem::take(&mut has_lost_notices) {
                next_scan = Instant::now();
            }
            if Instant::now() >= next_scan {
                if let Err(error) = self.scan() {
                    log::error!("new mail is not found: {error}");
                }
                next_scan = Instant::now() + SCAN_INTERVAL;
            }
            self.route_batch();
        }
    }

    /// Reads configuration and tables again. An error leaves everything as it was.
    fn reload(&mut self) {
        notify_manager("RELOADING=1");
        match self.installation.load() {
            Ok((directory, warnings)) => {
                warnings.iter().for_each(|one| log::warn!("{}", one.in_one_line()));
                config_file::log_counts(&directory);
                self.spooler.set_directory(directory);
            }
            Err(diagnostics) => {
                diagnostics.iter().for_each(|one| log::error!("{}", one.in_one_line()));
                log::error!("the former configuration stays in force");
            }
        }
        notify_manager("READY=1");
    }

    /// Looks for submissions that are not waiting yet.
    fn scan(&mut self) -> io::Result<()> {
        if self.spooler.is_unfinished() {
            self.spooler.finish_interrupted()?;
        }
        let found = scan::scan(self.spooler.spool())?;
        self.spooler.forget_all_but(&found);
        for name in found {
            if self.spooler.is_due(&name) {
                self.add(name);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: SubmissionName) {
        if self.is_waiting.len() < scan::MAX_WAITING && self.is_waiting.insert(name.clone()) {
            self.waiting.push_back(name);
        }
    }

    /// Routes the next submissions. Returns false if there were none.
    fn route_batch(&mut self) -> bool {
        let count = self.waiting.len().min(MAX_BATCH);
        let batch: Vec<SubmissionName> = self.waiting.drain(..count).collect();
        batch.iter().for_each(|name| {
            self.is_waiting.remove(name);
        });
        // Large messages leave some of the batch for the next one.
        let rest = self.spooler.route(batch);
        let is_progress = count > 0;
        for name in rest.into_iter().rev() {
            if self.is_waiting.insert(name.clone()) {
                self.waiting.push_front(name);
            }
        }
        is_progress
    }
}
