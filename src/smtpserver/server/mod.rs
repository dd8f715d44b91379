//! The program: one event loop for all connections, and workers for what may wait.
//!
//! A fault in one session ends that connection only.

// Connections, and what they ask for.
mod admission;
mod connection;
mod requests;

// Who does it.
mod external_service;
mod queue_request;
mod store_workers;
mod workers;

// What is counted.
mod monitor;
mod traffic_file;
mod usage;

// Configuration.
mod housekeeper;
mod reload;

use crate::config::Limits;
use crate::installation::{Installation, Loaded, Resources};
use crate::options::SmtpServerOptions;
use crate::sandbox::{self, Places};
use crate::session::SessionSettings;
use crate::store::Store;
use connection::{Connection, ReadOutcome};
use housekeeper::Housekeeper;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use monitor::Monitor;
use queue_request::QueueRequests;
use reload::Reloads;
use requests::{Done, RequestWorkers};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use store_workers::StoreJob;
use traffic_file::TrafficFile;
use usage::Usage;
use zsched_format::printable::print_to_stderr as say;
use zsched_format::status_log::LostLines;
use zsched_service::log_file::{self, LOG_MODE};
use zsched_service::{AppendedFile, BackgroundLog, ProgramLock, notify_manager, with_path, worker};
use zsched_spool::describe_folder_error;
use zsched_sys::{self as sys, Signals};

const SIGNALS: Token = Token(0);
const WAKER: Token = Token(1);
/// Token of the first listener; connections follow the listeners.
const FIRST_LISTENER: usize = 2;

/// Maximum number of connections that are accepted before others are served.
const MAX_ACCEPTS_PER_TURN: usize = 64;
/// Maximum number of reads of a connection before others are served.
const MAX_READS_PER_TURN: usize = 8;
/// Size of the buffer for reading, in bytes.
const READ_SIZE: usize = 32 << 10;
/// Interval of looks at the alarms.
const ALARM_INTERVAL: Duration = Duration::from_secs(5);
/// Time for a peer to read the last reply before its connection is closed.
const LINGER: Duration = Duration::from_secs(2);
/// Time for sessions to end when the server ends.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Descriptors that are no connections. A connection may have a file besides its socket.
const OTHER_FILES: u64 = 300;

/// Runs the server. Returns the exit status.
pub(crate) fn run(
    installation: Installation,
    loaded: Loaded,
    options: &SmtpServerOptions,
) -> io::Result<i32> {
    let folder = installation.spool().router();
    if let Err(error) = fs::read_dir(&folder) {
        return Err(io::Error::new(error.kind(), describe_folder_error(&folder, &error)));
    }
    sys::close_inherited_on_exec()?;
    // Before it becomes a daemon, so that an error is seen.
    let listeners = listen(&loaded)?;
    let pipe = if options.interactive { None } else { Some(sys::daemonize()?) };
    let log_path = installation.log_path(pipe.is_some());
    let free_space = Arc::new(AtomicU64::new(u64::MAX));
    let store = installation.store(&free_space);
    let spool = &store.spool;
    let lock = ProgramLock::take(
        "an SMTP server",
        &spool.smtpserver_lock_file(),
        spool.smtpserver_pid_file(),
    )?;
    let signals = Signals::catch(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1])?;
    let status_path = installation.status_log_path();
    let open_status_log =
        |path: &Path| AppendedFile::open(path, "status log", LOG_MODE).map_err(with_path(path));
    let status_log = status_path.as_deref().map(open_status_log).transpose()?;
    let traffic = Arc::new(TrafficFile::open(&spool.smtpserver_traffic_file())?);
    if log_path.is_some() {
        // For the user of a terminal. The log has its own lines.
        for (port, service) in listeners.iter().zip(&loaded.config.listeners) {
            say(format_args!("{} on {}", service.title(), port.local_addr()?));
        }
    }
    let log = log_file::open(log_path.as_deref())?;
    // Before any worker is started.
    let has_queue_requests = sys::may_create_in(spool.transport());
    let confined = sandbox::enter(&Places {
        spool,
        files: loaded.files().into_iter().chain(installation.config_files().cloned()).collect(),
        logs: log_path.iter().chain(&status_path).map(PathBuf::as_path).collect(),
        has_queue_requests,
    });
    let (log, _guard) = log_file::start(log)?;
    let start_status_log = |file| BackgroundLog::start(file, LostLines::line);
    let monitor = Monitor::new(status_log.map(start_status_log).transpose()?);
    let logs = Logs { log, monitor, traffic: traffic.clone() };
    let resources = Resources {
        free_space,
        free_memory: Arc::new(AtomicU64::new(u64::MAX)),
        has_queue_requests,
        is_confined: confined.is_ok(),
    };
    let mut server = Server::new(installation, loaded, listeners, &store, logs, resources)?;
    if let Some(pipe) = pipe {
        pipe.report_ready()?;
    }
    log::info!(
        "started, pid {}, spool {}{}",
        std::process::id(),
        spool.postoffice().display(),
        if confined.is_ok() { ", confined by Landlock" } else { "" },
    );
    if let Err(error) = &confined {
        let why = sandbox::obstacle().unwrap_or_else(|| format!("Landlock: {error}"));
        log::warn!("the process may do all that its user may: {why}");
    }
    server.log_ports();
    notify_manager("READY=1");
    let served = server.serve(signals);
    server.monitor.end(&traffic);
    served?;
    drop(lock);
    log::info!("ended");
    Ok(0)
}

/// What the server writes besides messages.
struct Logs {
    log: BackgroundLog,
    monitor: Monitor,
    traffic: Arc<TrafficFile>,
}

/// Opens the ports.
fn listen(loaded: &Loaded) -> io::Result<Vec<TcpListener>> {
    let open = |address: SocketAddr| {
        TcpListener::bind(address).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
        })
    };
    loaded.config.listeners.iter().map(|listener| open(listener.address)).collect()
}

/// A port, and the settings of its sessions.
struct Port {
    listener: TcpListener,
    settings: Arc<SessionSettings>,
    is_tls: bool,
}

struct Server {
    loaded: Arc<Loaded>,
    log: BackgroundLog,
    monitor: Monitor,
    poll: Poll,
    ports: Vec<Port>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    open: usize,
    max_open: usize,
    /// Connections that may go on without an event.
    ready: VecDeque<usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    usage: Usage,
    store_jobs: Sender<StoreJob>,
    workers: RequestWorkers,
    done: Receiver<Done>,
    /// Number of the last request of all connections.
    ///
    /// A connection may get the index of a former one, whose answer is still to come. It must not
    /// be taken for the answer to a request of the new one.
    last_ticket: u64,
    /// Number of the last session.
    last_session: u64,
    resources: Resources,
    /// Memory of all connections that is counted, in bytes.
    memory: usize,
    queue_requests: QueueRequests,
    buffer: Vec<u8>,
    reloads: Reloads,
    next_alarms: Instant,
    /// No connections are accepted before.
    accept_again: Option<Instant>,
    /// When the server ends at the latest.
    end: Option<Instant>,
}

impl Server {
    fn new(
        installation: Installation,
        loaded: Loaded,
        listeners: Vec<TcpListener>,
        store: &Store,
        Logs { log, monitor, traffic }: Logs,
        resources: Resources,
    ) -> io::Result<Server> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (done_sender, done) = channel();
        let wake = waker.clone();
        let answer = move |one: Done| {
            // The loop has ended, or it is woken.
            if done_sender.send(one).is_ok() {
                wake.wake().ok();
            }
        };
        let store_jobs = store_workers::start(store, answer.clone())?;
        let workers = RequestWorkers::start(answer)?;
        let max_connections = loaded.config.limits.max_connections;
        let files = sys::raise_file_limit(2 * max_connections as u64 + OTHER_FILES)?;
        let allowed = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
        let mut ports = Vec::new();
        for (index, (mut listener, wanted)) in
            listeners.into_iter().zip(&loaded.config.listeners).enumerate()
        {
            let token = Token(FIRST_LISTENER + index);
            poll.registry().register(&mut listener, token, Interest::READABLE)?;
            let settings = loaded.settings(wanted.service, &resources);
            ports.push(Port { listener, settings, is_tls: wanted.is_tls });
        }
        let queue_requests = QueueRequests {
            spool: store.spool.clone(),
            level: installation.level(),
            scheduler: installation.scheduler_socket(),
        };
        let housekeeper = Housekeeper {
            watched: loaded.watched.clone(),
            folder: store.spool.public(),
            free_space: store.free_space.clone(),
            min_free_space: loaded.config.limits.min_free_space,
            traffic,
            installation,
        };
        let reloads = Reloads::start(housekeeper, waker)?;
        Ok(Server {
            monitor,
            queue_requests,
            loaded: Arc::new(loaded),
            log,
            poll,
            ports,
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            max_open: max_connections.min(allowed),
            ready: VecDeque::new(),
            deadlines: BTreeSet::new(),
            usage: Usage::default(),
            store_jobs,
            workers,
            done,
            last_ticket: 0,
            last_session: 0,
            resources,
            memory: 0,
            buffer: vec![0; READ_SIZE],
            reloads,
            next_alarms: Instant::now(),
            accept_again: None,
            end: None,
        })
    }

    fn log_ports(&self) {
        for port in &self.ports {
            let service = port.settings.service.name();
            let tls = if port.is_tls { " with TLS" } else { "" };
            if let Ok(address) = port.listener.local_addr() {
                log::info!("{service}{tls} on {address}");
            }
        }
    }

    fn first_connection(&self) -> usize {
        FIRST_LISTENER + self.ports.len()
    }

    /// Serves until a signal ends it.
    fn serve(&mut self, mut signals: Signals) -> io::Result<()> {
        self.poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        let mut events = Events::with_capacity(1024);
        let mut waiting_ports: BTreeSet<usize> = BTreeSet::new();
        loop {
            let wait = match self.ready.is_empty() && waiting_ports.is_empty() {
                true => self.next_wakeup().saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for signal in signals.take() {
                self.signal(signal);
            }
            let first = self.first_connection();
            for event in &events {
                match event.token() {
                    SIGNALS | WAKER => {}
                    Token(token) if token < first => {
                        waiting_ports.insert(token - FIRST_LISTENER);
                    }
                    Token(token) => self.wake(token - first, event.is_readable()),
                }
            }
            self.take_done();
            if self.accept_again.is_none_or(|again| Instant::now() >= again) {
                self.accept_again = None;
                let ports = std::mem::take(&mut waiting_ports);
                waiting_ports = ports.into_iter().filter(|port| self.accept(*port)).collect();
            }
            for _ in 0..self.ready.len() {
                if let Some(index) = self.ready.pop_front() {
                    self.drive(index);
                }
            }
            self.pass_deadlines();
            self.take_reloads();
            self.show_alarms();
            if self.end.is_some_and(|end| self.open == 0 || Instant::now() >= end) {
                return Ok(());
            }
        }
    }

    fn next_wakeup(&self) -> Instant {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        [deadline, self.workers.next_end(), self.accept_again, self.end]
            .into_iter()
            .flatten()
            .fold(self.next_alarms, Instant::min)
    }

    fn signal(&mut self, signal: i32) {
        if matches!(signal, SIGTERM | SIGINT) {
            return self.begin_end(signal);
        }
        if signal == SIGHUP {
            self.log.reopen(false);
            log::info!("log reopened");
        }
        self.usage.forget_failed_logins();
        self.reload();
    }

    /// Accepts nothing more. Sessions that are busy have some time to end.
    fn begin_end(&mut self, signal: i32) {
        let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
        notify_manager(&format!("STATUS=ending on {name}"));
        notify_manager("STOPPING=1");
        self.end = Some(Instant::now() + GRACE);
        for port in &mut self.ports {
            // A listener that is closed accepts nothing in any case.
            self.poll.registry().deregister(&mut port.listener).ok();
        }
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index]
                && connection.session.is_idle()
            {
                connection.session.shut_down();
                self.ready.push_back(index);
            }
        }
    }

    fn wake(&mut self, index: usize, is_readable: bool) {
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            connection.is_readable |= is_readable;
            self.ready.push_back(index);
        }
    }

    /// Does what a connection can do now.
    fn drive(&mut self, index: usize) {
        if self.connections.get(index).is_none_or(Option::is_none) {
            return;
        }
        match worker::catch_panic(|| self.turn(index)) {
            Some(Ok(true)) => self.set_deadline(index),
            Some(Ok(false)) => self.close(index),
            Some(Err(error)) => {
                if let Some(connection) = &self.connections[index] {
                    let why = format_args!(": {error}");
                    self.monitor.log_session(&connection.session, "lost connection", why);
                }
                self.close(index);
            }
            None => self.close_faulty(index),
        }
    }

    /// Closes a connection whose session has panicked. Another line has the place in the program.
    fn close_faulty(&mut self, index: usize) {
        if let Some(connection) = &self.connections[index] {
            let (client, activity) =
                (connection.session.client_name(), connection.session.activity());
            log::error!("{client}: this program has a fault {activity}: the connection is closed");
        }
        self.close(index);
    }

    /// Reads, answers and writes. Returns false when the connection is over.
    fn turn(&mut self, index: usize) -> io::Result<bool> {
        for _ in 0..MAX_READS_PER_TURN {
            self.greet(index)?;
            self.carry_out(index);
            self.count_memory(index);
            let Some(connection) = &mut self.connections[index] else { return Ok(true) };
            let limits = &self.loaded.config.limits;
            collect(connection, limits, &mut self.monitor, &mut self.usage);
            let is_sent = connection.flush()?;
            if connection.session.is_closing() {
                // While the peer reads the last reply, the login may begin another connection.
                connection.login.take().iter().for_each(|login| self.usage.end_connection(login));
                let is_over = is_sent && !linger(connection, &mut self.buffer);
                if is_sent && connection.is_readable {
                    self.ready.push_back(index);
                }
                return Ok(!is_over);
            }
            if is_sent && let Some(tls) = connection.next_tls.take() {
                connection.begin_tls(tls)?;
            }
            if connection.is_at_end && !connection.session.is_waiting() {
                let what = "the client closed the connection";
                self.monitor.log_session(&connection.session, what, format_args!(""));
                return Ok(false);
            }
            if !connection.is_readable || !connection.may_read() {
                return Ok(true);
            }
            let was_handshaking = connection.is_handshaking();
            match connection.read(&mut self.buffer)? {
                ReadOutcome::Bytes(count) => connection.session.receive(&self.buffer[..count]),
                ReadOutcome::Nothing => {}
                ReadOutcome::End => connection.is_at_end = true,
            }
            if was_handshaking && !connection.is_handshaking() {
                connection.note_tls();
            }
        }
        self.ready.push_back(index);
        Ok(true)
    }

    /// Forgets a connection. What it was writing is removed.
    fn close(&mut self, index: usize) {
        let Some(mut connection) = self.connections[index].take() else { return };
        let limits = &self.loaded.config.limits;
        collect(&mut connection, limits, &mut self.monitor, &mut self.usage);
        self.deadlines.remove(&(connection.deadline, index));
        self.poll.registry().deregister(&mut connection.stream).ok();
        let subjects = [Some(&connection.subject), connection.login.as_ref()];
        subjects.into_iter().flatten().for_each(|subject| self.usage.end_connection(subject));
        self.memory -= connection.memory;
        self.open -= 1;
        self.free.push(index);
    }

    /// Counts the memory of a connection. While too much is in use, no message begins.
    fn count_memory(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let used = connection.used_memory();
        self.memory = self.memory + used - connection.memory;
        connection.memory = used;
        let free = self.loaded.config.limits.max_memory.saturating_sub(self.memory as u64);
        self.resources.free_memory.store(free, Ordering::Relaxed);
    }
}

/// Takes what a session has to be recorded, and counts its failed logins.
///
/// Both must be done for each connection that ends: a client may close it before the reply.
fn collect(connection: &mut Connection, limits: &Limits, monitor: &mut Monitor, usage: &mut Usage) {
    monitor.collect(&mut connection.session);
    for login in connection.session.take_failed_logins() {
        usage.fail_login(connection.client, &login, limits, Instant::now());
        monitor.fail_login();
    }
}

/// Reads over what the peer still sends, so that it gets the last reply.
///
/// Returns false when the peer has closed its side, too.
fn linger(connection: &mut Connection, buffer: &mut [u8]) -> bool {
    if !connection.is_shut {
        connection.shut();
    }
    for _ in 0..MAX_READS_PER_TURN {
        match io::Read::read(&mut connection.stream, buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.is_readable = false;
                return true;
            }
            Err(_) => return false,
        }
    }
    true
}
