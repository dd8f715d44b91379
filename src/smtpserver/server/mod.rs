//! The program: one event loop for all connections, and workers for what may wait.
//!
//! A fault in one session ends that connection only.

// Connections, and what they ask for.
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

use crate::installation::{Installation, Loaded};
use crate::network::Network;
use crate::options::SmtpServerOptions;
use crate::sandbox;
use crate::session::{Client, Reply, Session, SessionSettings};
use crate::store::Store;
use connection::{Connection, ReadOutcome};
use housekeeper::Housekeeper;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use monitor::Monitor;
use queue_request::QueueRequests;
use reload::Reloads;
use requests::{Done, RequestWorkers};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use store_workers::StoreJob;
use traffic_file::TrafficFile;
use usage::Usage;
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
    let folder = installation.store().spool.router();
    if let Err(error) = fs::read_dir(&folder) {
        return Err(io::Error::new(error.kind(), describe_folder_error(&folder, &error)));
    }
    sys::close_inherited_on_exec()?;
    // Before it becomes a daemon, so that an error is seen.
    let listeners = listen(&loaded)?;
    let pipe = if options.interactive { None } else { Some(sys::daemonize()?) };
    let log_path = installation.log_path(pipe.is_some());
    let store = installation.store();
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
    let log = log_file::open(log_path.as_deref())?;
    // Before any worker is started.
    let is_confined = sandbox::enter(spool, log_path.iter().chain(&status_path));
    let (log, _guard) = log_file::start(log)?;
    let start_status_log = |file| BackgroundLog::start(file, LostLines::line);
    let monitor = Monitor::new(status_log.map(start_status_log).transpose()?);
    let mut server =
        Server::new(installation, loaded, listeners, store, log, monitor, traffic.clone())?;
    if let Some(pipe) = pipe {
        pipe.report_ready()?;
    }
    log::info!(
        "started, pid {}, spool {}{}",
        std::process::id(),
        server.store.spool.postoffice().display(),
        if is_confined { ", confined by Landlock" } else { "" },
    );
    server.log_ports();
    notify_manager("READY=1");
    let served = server.serve(signals);
    server.monitor.end(&traffic);
    served?;
    drop(lock);
    log::info!("ended");
    Ok(0)
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
    store: Store,
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
    per_client: HashMap<Network, usize>,
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
    free_space: Arc<AtomicU64>,
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
        store: Store,
        log: BackgroundLog,
        monitor: Monitor,
        traffic: Arc<TrafficFile>,
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
        let store_jobs = store_workers::start(&store, answer.clone())?;
        let workers = RequestWorkers::start(answer)?;
        let max_connections = loaded.config.limits.max_connections;
        let files = sys::raise_file_limit(2 * max_connections as u64 + OTHER_FILES)?;
        let allowed = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
        let free_space = Arc::new(AtomicU64::new(u64::MAX));
        let mut ports = Vec::new();
        for (index, (mut listener, wanted)) in
            listeners.into_iter().zip(&loaded.config.listeners).enumerate()
        {
            let token = Token(FIRST_LISTENER + index);
            poll.registry().register(&mut listener, token, Interest::READABLE)?;
            let settings = loaded.settings(wanted.service, &free_space);
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
            free_space: free_space.clone(),
            traffic,
            installation,
        };
        let reloads = Reloads::start(housekeeper, waker)?;
        Ok(Server {
            monitor,
            queue_requests,
            loaded: Arc::new(loaded),
            store,
            log,
            poll,
            ports,
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            max_open: max_connections.min(allowed),
            ready: VecDeque::new(),
            deadlines: BTreeSet::new(),
            per_client: HashMap::new(),
            usage: Usage::default(),
            store_jobs,
            workers,
            done,
            last_ticket: 0,
            last_session: 0,
            free_space,
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
        match signal {
            SIGTERM | SIGINT => self.begin_end(signal),
            SIGHUP => {
                self.log.reopen(false);
                log::info!("log reopened");
                self.reload();
            }
            _ => self.reload(),
        }
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

    /// Accepts connections of a port. Returns true if there may be more.
    fn accept(&mut self, port: usize) -> bool {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            if self.end.is_some() {
                return false;
            }
            match self.ports[port].listener.accept() {
                Ok((stream, peer)) => {
                    if let Err(error) = self.admit(port, stream, peer) {
                        log::debug!("{peer}: {error}");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    log::error!("no connection can be accepted: {error}");
                    self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
                    return true;
                }
            }
        }
        true
    }

    /// Begins a session, unless the limits forbid it.
    fn admit(&mut self, port: usize, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let ip = peer.ip().to_canonical();
        let client = Network::of_client(ip);
        let config = &self.loaded.config;
        let (may_relay, may_hurry) = (config.may_relay(ip), config.may_hurry(ip));
        let refusal = self.refusal(ip, may_relay, client);
        let Port { settings, is_tls, .. } = &self.ports[port];
        if let Some(reply) = refusal {
            self.monitor.refuse_connection(ip, settings.service.name(), &reply);
            // With TLS the peer could not read it.
            if !is_tls {
                stream.write_all(format!("{reply}\r\n").as_bytes())?;
            }
            return Ok(());
        }
        stream.set_nodelay(true)?;
        self.last_session += 1;
        let about = Client {
            ip: Some(ip),
            port: peer.port(),
            server: Some(stream.local_addr()?),
            number: self.last_session,
            may_relay,
            may_hurry,
            is_local: ip.is_loopback(),
        };
        let session = Session::new(settings.clone(), about, None);
        let limits = &self.loaded.config.limits;
        let delay = limits.greeting_delay;
        let deadline =
            Instant::now() + if delay.is_zero() || *is_tls { limits.timeout } else { delay };
        let mut connection = Box::new(Connection::new(stream, session, client, deadline));
        if let (true, Some(tls)) = (is_tls, &self.loaded.tls) {
            connection.begin_tls(tls.clone())?;
        }
        let index = self.free.last().copied().unwrap_or(self.connections.len());
        let token = Token(self.first_connection() + index);
        let interests = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, token, interests)?;
        if self.free.pop().is_none() {
            self.connections.push(None);
        }
        if !may_relay {
            connection.is_counted = true;
            *self.per_client.entry(client).or_default() += 1;
        }
        self.deadlines.insert((connection.deadline, index));
        self.connections[index] = Some(connection);
        self.open += 1;
        self.ready.push_back(index);
        Ok(())
    }

    fn refusal(&mut self, ip: IpAddr, may_relay: bool, client: Network) -> Option<Reply> {
        let config = &self.loaded.config;
        if let Some((_, text)) =
            config.refused_clients.iter().find(|(network, _)| network.contains(ip))
        {
            return Some(Reply::new(554, "5.7.1", text));
        }
        let of_client = self.per_client.get(&client).copied().unwrap_or(0);
        let limit = config.limits.max_connections_per_client;
        if !may_relay && of_client >= limit {
            self.usage.refuse_client(client, limit, Instant::now());
            return Some(Reply::new(
                421,
                "4.7.0",
                "Too many connections from here, try again later",
            ));
        }
        let is_full = self.open >= self.max_open;
        is_full.then(|| Reply::new(421, "4.3.2", "Too many connections, try again later"))
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
            self.greet(index);
            self.carry_out(index);
            let Some(connection) = &mut self.connections[index] else { return Ok(true) };
            collect(connection, &mut self.monitor, &mut self.usage);
            let is_sent = connection.flush()?;
            if connection.session.is_closing() {
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

    /// Sends the greeting when it is due. What comes before it ends the session.
    fn greet(&mut self, index: usize) {
        let delay = self.loaded.config.limits.greeting_delay;
        let Some(connection) = &mut self.connections[index] else { return };
        if !connection.awaits_greeting || connection.is_handshaking() {
            return;
        }
        let is_due =
            delay.is_zero() || connection.tls.is_some() || Instant::now() >= connection.deadline;
        if connection.tls.is_none()
            && let Ok(ReadOutcome::Bytes(count)) = connection.read(&mut self.buffer)
        {
            connection.session.receive(&self.buffer[..count]);
        }
        if is_due || connection.session.is_closing() {
            connection.awaits_greeting = false;
            connection.session.greet();
        }
    }

    /// Puts off the deadline of a connection that has moved on.
    fn set_deadline(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let soon = Instant::now() + LINGER;
        if connection.is_shut && connection.deadline > soon {
            self.deadlines.remove(&(connection.deadline, index));
            connection.deadline = soon;
            self.deadlines.insert((soon, index));
        }
        let progress = connection.session.progress() + u64::from(!connection.awaits_greeting);
        let is_served = connection.session.is_waiting() && !connection.is_handshaking();
        let has_moved = progress != connection.progress || is_served;
        if connection.is_shut || !has_moved {
            return;
        }
        connection.progress = progress;
        self.deadlines.remove(&(connection.deadline, index));
        connection.deadline = Instant::now() + self.loaded.config.limits.timeout;
        self.deadlines.insert((connection.deadline, index));
    }

    fn pass_deadlines(&mut self) {
        let now = Instant::now();
        while let Some((deadline, index)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, index));
            let Some(connection) = &mut self.connections[index] else { continue };
            if connection.is_shut || connection.session.is_closing() || connection.is_handshaking()
            {
                self.close(index);
                continue;
            }
            let limits = &self.loaded.config.limits;
            connection.deadline = now + limits.timeout;
            let mut next = connection.deadline;
            if connection.awaits_greeting {
                // Only a delay ends here: `greet` compares with this.
                connection.deadline = now;
                next = now + limits.timeout;
            } else if !connection.session.is_waiting() {
                self.monitor.log_session(&connection.session, "timeout", format_args!(""));
                connection.session.time_out();
                connection.deadline = now + LINGER;
                next = connection.deadline;
            }
            self.drive(index);
            if let Some(connection) = &mut self.connections[index] {
                self.deadlines.remove(&(connection.deadline, index));
                connection.deadline = next;
                self.deadlines.insert((next, index));
            }
        }
    }

    /// Forgets a connection. What it was writing is removed.
    fn close(&mut self, index: usize) {
        let Some(mut connection) = self.connections[index].take() else { return };
        collect(&mut connection, &mut self.monitor, &mut self.usage);
        self.deadlines.remove(&(connection.deadline, index));
        self.poll.registry().deregister(&mut connection.stream).ok();
        if connection.is_counted
            && let Some(count) = self.per_client.get_mut(&connection.client)
        {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&connection.client);
            }
        }
        if let Some(login) = &connection.counted_login {
            self.usage.end_login(login);
        }
        self.open -= 1;
        self.free.push(index);
    }
}

/// Takes what a session has to be recorded, and counts its failed logins.
///
/// Both must be done for each connection that ends: a client may close it before the reply.
fn collect(connection: &mut Connection, monitor: &mut Monitor, usage: &mut Usage) {
    monitor.collect(&mut connection.session);
    let failed = connection.session.failed_logins();
    for _ in connection.failed_logins..failed {
        usage.count_failed_login(connection.client, Instant::now());
        monitor.fail_login();
    }
    connection.failed_logins = failed;
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
