//! Which connections are accepted, and how long they may do nothing.

use super::connection::{Connection, Greeting, ReadOutcome};
use super::usage::Subject;
use super::{ACCEPT_PAUSE, LINGER, MAX_ACCEPTS_PER_TURN, Port, Server};
use crate::network::Network;
use crate::session::{Client, Reply, Session};
use mio::net::TcpStream;
use mio::{Interest, Token};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use zsched_service::is_single_connection_error;

impl Server {
    /// Accepts connections of a port. Returns true if there may be more.
    pub(super) fn accept(&mut self, port: usize) -> bool {
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
                Err(error) if is_single_connection_error(&error) => {}
                Err(error) => {
                    // The usual cause is a lack of descriptors.
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
        let subject = match self.loaded.config.may_relay(ip) {
            true => Subject::Relay(client),
            false => Subject::Client(client),
        };
        if let Err(reply) = self.check_client(ip, client, &subject) {
            let Port { settings, is_tls, .. } = &self.ports[port];
            self.monitor.refuse_connection(ip, settings.service.name(), &reply);
            // With TLS the peer could not read it.
            if !is_tls {
                stream.write_all(format!("{reply}\r\n").as_bytes())?;
            }
            return Ok(());
        }
        let begun = self.begin(port, stream, SocketAddr::new(ip, peer.port()), subject.clone());
        if begun.is_err() {
            self.usage.end_connection(&subject);
        }
        begun
    }

    /// Checks the limits, and counts the connection if they allow it.
    fn check_client(
        &mut self,
        ip: IpAddr,
        client: Network,
        subject: &Subject,
    ) -> Result<(), Reply> {
        let config = &self.loaded.config;
        let mut refused = config.refused_clients.iter();
        if let Some((_, text)) = refused.find(|(network, _)| network.contains(ip)) {
            return Err(Reply::new(554, "5.7.1", text));
        }
        if self.open >= self.max_open {
            return Err(Reply::new(421, "4.3.2", "Too many connections, try again later"));
        }
        self.usage.begin_connection(subject, client, &config.limits, Instant::now())
    }

    fn begin(
        &mut self,
        port: usize,
        mut stream: TcpStream,
        peer: SocketAddr,
        subject: Subject,
    ) -> io::Result<()> {
        let (config, ip) = (&self.loaded.config, peer.ip());
        let Port { settings, is_tls, .. } = &self.ports[port];
        stream.set_nodelay(true)?;
        self.last_session += 1;
        let may_relay = matches!(subject, Subject::Relay(_));
        let client = Client {
            ip: Some(ip),
            port: peer.port(),
            server: Some(stream.local_addr()?),
            number: self.last_session,
            may_relay,
            may_raise_priority: config.may_raise_priority(ip),
            is_local: ip.is_loopback(),
        };
        let index = self.free.last().copied().unwrap_or(self.connections.len());
        let token = Token(self.first_connection() + index);
        let interests = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, interests)?;
        let delay = if may_relay { Duration::ZERO } else { config.limits.greeting_delay };
        let deadline = Instant::now() + config.limits.timeout;
        let session = Session::new(settings.clone(), client, None);
        let client = Network::of_client(ip);
        let mut connection =
            Box::new(Connection::new(stream, session, client, subject, delay, deadline));
        if let (true, Some(tls)) = (is_tls, &self.loaded.tls) {
            connection.begin_tls(tls.clone())?;
        }
        if self.free.pop().is_none() {
            self.connections.push(None);
        }
        self.deadlines.insert((deadline, index));
        self.connections[index] = Some(connection);
        self.open += 1;
        self.ready.push_back(index);
        Ok(())
    }

    /// Sends the greeting when it is due. What comes before it ends the session.
    pub(super) fn greet(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        if connection.is_handshaking() {
            return Ok(());
        }
        let now = Instant::now();
        let time = match connection.greeting {
            Greeting::Sent => return Ok(()),
            Greeting::At(time) => time,
            Greeting::Delayed(delay) => now + delay,
        };
        connection.greeting = Greeting::At(time);
        if connection.is_readable && !connection.is_at_end {
            match connection.read(&mut self.buffer)? {
                ReadOutcome::Bytes(count) => connection.session.receive(&self.buffer[..count]),
                ReadOutcome::Nothing => {}
                ReadOutcome::End => connection.is_at_end = true,
            }
        }
        if now >= time || connection.session.is_closing() {
            connection.greeting = Greeting::Sent;
            connection.session.greet();
        }
        Ok(())
    }

    /// Moves the deadline of a connection that has moved on.
    pub(super) fn set_deadline(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let now = Instant::now();
        let is_served = connection.session.is_waiting() && !connection.is_handshaking();
        let has_greeting = connection.greeting == Greeting::Sent;
        let progress = connection.session.progress() + u64::from(has_greeting);
        let deadline = match connection.greeting {
            _ if connection.is_shut => connection.deadline.min(now + LINGER),
            Greeting::At(time) => time,
            _ if progress != connection.progress || is_served => {
                now + self.loaded.config.limits.timeout
            }
            _ => return,
        };
        connection.progress = progress;
        self.deadlines.remove(&(connection.deadline, index));
        connection.deadline = deadline;
        self.deadlines.insert((deadline, index));
    }

    /// Ends sessions whose time is over, and sends greetings that are due.
    pub(super) fn pass_deadlines(&mut self) {
        let now = Instant::now();
        while let Some((deadline, index)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, index));
            let Some(connection) = &mut self.connections[index] else { continue };
            let session = &mut connection.session;
            let is_over = connection.is_shut || session.is_closing();
            let is_handshaking = connection.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
            let is_late = connection.greeting == Greeting::Sent && !session.is_waiting();
            if !is_over && (is_handshaking || is_late) {
                self.monitor.log_session(session, "timeout", format_args!(""));
                session.time_out();
            }
            if is_over || is_handshaking {
                self.close(index);
                continue;
            }
            let left = if is_late { LINGER } else { self.loaded.config.limits.timeout };
            connection.deadline = now + left;
            self.deadlines.insert((connection.deadline, index));
            self.drive(index);
        }
    }
}
