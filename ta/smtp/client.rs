//! Sessions with servers: made, checked, kept for the next job, and ended.

use crate::configuration::{Configuration, HostRule};
use crate::connection::{Connection, Lost, Pause, reason};
use crate::diagnosis::{self, Remote};
use crate::dialogue_log::DialogueLog;
use crate::route::{Endpoint, Exchanger, route};
use crate::session::{Capabilities, Handshake, HandshakeOptions, Protocol, TlsUse};
use crate::socket::{Socket, SocketStream};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zsched_agent::{Outcome, StopFlag, Verdict};

/// The port of SMTP.
const SMTP_PORT: u16 = 25;

/// What the command line says about sessions.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The name in EHLO.
    pub hello_name: String,
    /// LMTP for all hosts.
    pub lmtp: bool,
    /// The port, where nothing else names one.
    pub port: Option<u16>,
    /// All mail goes here.
    pub forced_host: Option<String>,
    /// Extensions that are not used.
    pub without: Vec<String>,
    /// 8-bit text is sent to all hosts.
    pub sends_8bit: bool,
    /// EHLO only if the greeting has the word ESMTP.
    pub esmtp_by_greeting: bool,
    /// HELO, never EHLO.
    pub no_esmtp: bool,
    /// The host is shown in the name of the process.
    pub shows_host: bool,
}

/// A session that takes mail.
pub struct Session {
    /// The connection.
    pub connection: Connection,
    /// What the server offers.
    pub capabilities: Capabilities,
    /// The peer.
    pub remote: Remote,
    /// SMTP or LMTP.
    pub protocol: Protocol,
    /// 8-bit text is sent in any case.
    pub sends_8bit: bool,
    /// Maximum number of recipients of a transaction.
    pub max_recipients: usize,
    /// Number of transactions so far.
    pub transactions: usize,
    /// True if the next transaction begins with RSET.
    pub needs_reset: bool,
    host: String,
    max_transactions: usize,
}

impl Session {
    /// Returns true if another job has used the session before.
    pub fn is_reused(&self) -> bool {
        self.transactions > 0
    }
}

/// Makes sessions, one at a time.
pub struct Client {
    options: ClientOptions,
    configuration: Configuration,
    log: DialogueLog,
    session: Option<Session>,
    /// When the next message to a host may begin, after a reply that asks for less.
    pause: Option<(String, Instant)>,
}

impl Client {
    /// Creates a client without a session.
    pub fn new(options: ClientOptions, configuration: Configuration, log: DialogueLog) -> Client {
        Client { options, configuration, log, session: None, pause: None }
    }

    /// The configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The log of dialogues.
    pub fn log(&self) -> &DialogueLog {
        &self.log
    }

    /// The host that mail for a destination goes to.
    pub fn next_host(&self, host: &[u8]) -> String {
        let host = String::from_utf8_lossy(host).into_owned();
        self.options.forced_host.clone().unwrap_or(host)
    }

    /// The session for a host: the present one, or a new one.
    ///
    /// # Errors
    ///
    /// No server of the host takes mail; the outcome says why.
    pub fn session(
        &mut self,
        host: &str,
        end: Instant,
        stop: &StopFlag,
    ) -> Result<&mut Session, Box<Outcome>> {
        self.wait_for_pause(host, end, stop)?;
        if !self.can_reuse(host) {
            self.quit();
            self.session = Some(self.open(host, end, stop)?);
        }
        let session = self.session.as_mut().ok_or_else(|| Box::new(diagnosis::of_long_job()))?;
        session.connection.set_end(end);
        Ok(session)
    }

    /// The session of the last transaction, if there is one.
    pub fn current(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn can_reuse(&mut self, host: &str) -> bool {
        self.session.as_mut().is_some_and(|session| {
            session.host == host
                && session.transactions < session.max_transactions
                && session.connection.check_quiet().is_ok()
        })
    }

    /// Ends the session politely.
    pub fn quit(&mut self) {
        if let Some(session) = self.session.take() {
            session.connection.quit();
        }
    }

    /// Closes the connection, which is of no use any more.
    pub fn close(&mut self) {
        self.session = None;
    }

    /// Puts off the next message to a host.
    pub fn pause(&mut self, host: &str, time: Duration) {
        self.quit();
        self.pause = Some((host.to_string(), Instant::now() + time));
    }

    fn wait_for_pause(
        &mut self,
        host: &str,
        end: Instant,
        stop: &StopFlag,
    ) -> Result<(), Box<Outcome>> {
        let Some((_, until)) = self.pause.take_if(|(paused, _)| paused == host) else {
            return Ok(());
        };
        while Instant::now() < until {
            if stop.is_requested() {
                return Err(Box::new(diagnosis::of_lost(&Lost::Stopped)));
            }
            if Instant::now() >= end {
                return Err(Box::new(diagnosis::of_long_job()));
            }
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    /// Connects to the exchangers of a host, one address after the other, until one takes mail.
    fn open(&self, host: &str, end: Instant, stop: &StopFlag) -> Result<Session, Box<Outcome>> {
        if self.options.shows_host {
            // Without it, nothing but the name is missing.
            zsched_sys::set_process_name(host).ok();
        }
        let rule = self.configuration.rule(&host.to_ascii_lowercase());
        let port = rule.and_then(|rule| rule.port).or(self.options.port).unwrap_or(SMTP_PORT);
        let mut failure = None;
        for exchanger in route(host, port)? {
            for endpoint in &exchanger.endpoints {
                if Instant::now() >= end {
                    return Err(Box::new(diagnosis::of_long_job()));
                }
                match self.try_endpoint(host, rule, &exchanger, endpoint, (end, stop)) {
                    Ok(session) => return Ok(session),
                    Err(outcome) if stop.is_requested() => return Err(outcome),
                    Err(outcome) => failure = Some(outcome),
                }
            }
        }
        let none = || Outcome::new(Verdict::Deferred, "4.4.4", 451, "the host has no address");
        Err(failure.unwrap_or_else(|| Box::new(none())))
    }

    /// Shows on standard output what each address of a host answers. No mail is sent.
    ///
    /// Returns true if one of them takes mail.
    pub fn probe(&mut self, host: &str) -> bool {
        self.log = DialogueLog::to_standard_output();
        let host = self.next_host(host.as_bytes());
        let rule = self.configuration.rule(&host.to_ascii_lowercase());
        let port = rule.and_then(|rule| rule.port).or(self.options.port).unwrap_or(SMTP_PORT);
        let exchangers = match route(&host, port) {
            Ok(exchangers) => exchangers,
            Err(outcome) => {
                self.log.note(format_args!("no route: {}", outcome.text()));
                return false;
            }
        };
        let mut takes_mail = false;
        for exchanger in exchangers {
            for endpoint in &exchanger.endpoints {
                let end = Instant::now() + self.configuration.session.timeouts.job;
                let stop = StopFlag::default();
                match self.try_endpoint(&host, rule, &exchanger, endpoint, (end, &stop)) {
                    Ok(session) => {
                        takes_mail = true;
                        self.log.note(format_args!("{} takes mail", session.remote.name));
                        session.connection.quit();
                    }
                    Err(outcome) => {
                        let text = outcome.text().rsplit('\r').next().unwrap_or_default();
                        self.log.note(format_args!("{} {text}", outcome.status()));
                    }
                }
            }
        }
        takes_mail
    }

    fn try_endpoint(
        &self,
        host: &str,
        rule: Option<&HostRule>,
        exchanger: &Exchanger,
        endpoint: &Endpoint,
        (end, stop): (Instant, &StopFlag),
    ) -> Result<Session, Box<Outcome>> {
        let options = self.handshake_options(rule, endpoint)?;
        let (socket, remote) = self.connect(exchanger, endpoint, stop)?;
        let protocol = options.protocol;
        let mut connection =
            Connection::new(socket, self.configuration.session.timeouts, self.log.clone());
        connection.set_end(end);
        let mut handshake = Handshake::new(options);
        let capabilities = match connection.run(&mut handshake, None) {
            Ok(Pause::Finished) => match handshake.finish() {
                Ok(capabilities) => capabilities,
                Err(failure) => {
                    let outcome = diagnosis::of_handshake_failure(&failure);
                    let outcome = self.judge(host, &remote, &outcome);
                    connection.quit();
                    return Err(Box::new(remote.complete(outcome)));
                }
            },
            Ok(Pause::StartTls) => unreachable_tls()?,
            Err(lost) => {
                return Err(Box::new(remote.complete(diagnosis::of_lost_handshake(&lost))));
            }
        };
        let settings = &self.configuration.session;
        let limits = &capabilities.limits;
        let recipients = rule.and_then(|rule| rule.recipients).unwrap_or(settings.recipients);
        Ok(Session {
            max_recipients: recipients.min(limits.recipients.unwrap_or(usize::MAX)).max(1),
            max_transactions: settings.messages.min(limits.transactions.unwrap_or(usize::MAX)),
            sends_8bit: self.options.sends_8bit || rule.is_some_and(|rule| rule.send_8bit),
            connection,
            capabilities,
            remote,
            protocol,
            transactions: 0,
            needs_reset: false,
            host: host.to_string(),
        })
    }

    fn handshake_options(
        &self,
        rule: Option<&HostRule>,
        endpoint: &Endpoint,
    ) -> Result<HandshakeOptions, Box<Outcome>> {
        let credentials = rule.map_or(Ok(None), HostRule::credentials).map_err(|why| {
            let why = format!("cannot authenticate: {why}");
            Box::new(Outcome::new(Verdict::DeferAll, "4.3.5", 451, why))
        })?;
        let mut without = self.options.without.clone();
        without.extend(rule.into_iter().flat_map(|rule| rule.without.clone()));
        let is_lmtp = self.options.lmtp || rule.is_some_and(|rule| rule.lmtp);
        Ok(HandshakeOptions {
            hello_name: self.options.hello_name.clone(),
            protocol: if is_lmtp { Protocol::Lmtp } else { Protocol::Smtp },
            tls: TlsUse::Off,
            is_private: matches!(endpoint, Endpoint::Unix(_)),
            credentials,
            without,
            esmtp_by_greeting: self.options.esmtp_by_greeting,
            no_esmtp: self.options.no_esmtp,
        })
    }

    fn connect(
        &self,
        exchanger: &Exchanger,
        endpoint: &Endpoint,
        stop: &StopFlag,
    ) -> Result<(Socket, Remote), Box<Outcome>> {
        let name = &exchanger.name;
        let limit = self.configuration.session.timeouts.connect;
        let connected = match endpoint {
            Endpoint::Tcp(address) => {
                self.log.note(format_args!("connecting to {name} {address}"));
                TcpStream::connect_timeout(address, limit).map(SocketStream::Tcp)
            }
            Endpoint::Unix(path) => {
                self.log.note(format_args!("connecting to {}", path.display()));
                UnixStream::connect(path).map(SocketStream::Unix)
            }
        };
        let peer = match endpoint {
            Endpoint::Tcp(address) => Some(*address),
            Endpoint::Unix(_) => None,
        };
        match connected {
            Ok(stream) => {
                let socket = Socket::new(stream, stop.clone());
                let local = socket.addresses().map(|(_, local)| local);
                let remote = Remote::new(name, peer.map(|peer| (peer, local)));
                Ok((socket, remote))
            }
            Err(error) => {
                let remote = Remote::new(name, peer.map(|peer| (peer, None)));
                let at = peer.map(|peer| format!(" [{}|{}]", peer.ip(), peer.port()));
                let at = at.unwrap_or_default();
                let text = format!("connect to {name}{at}: {}", reason(&error));
                Err(Box::new(remote.complete(diagnosis::of_failed_connection(&text))))
            }
        }
    }

    /// Applies the reply patterns to the outcome of a refused session.
    fn judge(&self, host: &str, remote: &Remote, outcome: &Outcome) -> Outcome {
        let patterns = &self.configuration.reply_patterns;
        let names = [host, remote.name.as_str()];
        let found = crate::reply_patterns::apply(patterns, names, outcome.text(), outcome);
        found.map_or_else(|| outcome.clone(), |effect| effect.outcome)
    }
}

fn unreachable_tls() -> Result<Capabilities, Box<Outcome>> {
    Err(Box::new(Outcome::new(Verdict::DeferAll, "4.7.5", 454, "TLS cannot be used")))
}
