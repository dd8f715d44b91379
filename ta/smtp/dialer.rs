//! Makes sessions: routes, connections, TLS, and the beginning of the dialogue.

use crate::configuration::{Configuration, HostRule};
use crate::connection::{Connection, Lost, Pause, reason};
use crate::diagnosis::{self, Remote};
use crate::dialogue_log::DialogueLog;
use crate::servers::{Candidate, Servers};
use crate::session::{
    Capabilities, Credentials, Handshake, HandshakeFailure, HandshakeOptions, Protocol, Reply,
    TlsUse,
};
use crate::socket::{Socket, SocketStream};
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use zsched_agent::{Outcome, StopFlag, Verdict};
use zsched_mail_exchanger::{
    ConnectError, Endpoint, Exchanger, MailExchangers, NextHop, NextHopKind, Route, RouteError,
    Source, TlsConnector, TlsPolicy, TlsRecord,
};

/// The port of SMTP, and that of LMTP (RFC 2033 leaves it open; Dovecot and Postfix use it).
const SMTP_PORT: u16 = 25;
const LMTP_PORT: u16 = 24;
/// Maximum time for the DNS lookups of a route or a policy of TLS.
const LOOKUP_TIME: Duration = Duration::from_secs(60);

/// Maximum length of the result of a TLS session for the scheduler; longer ones lack the policy.
const MAX_TLS_RESULT_LEN: usize = 16 * 1024;

/// What the command line says about sessions.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The channel, which source addresses can depend on.
    pub channel: String,
    /// The name in EHLO.
    pub hello_name: String,
    /// LMTP for all hosts.
    pub lmtp: bool,
    /// The port, where nothing else names one.
    pub port: Option<u16>,
    /// The addresses that connections come from, instead of those of the configuration.
    pub source: Option<Source>,
    /// File with secrets for AUTH, in ZMailer's form.
    pub secrets: Option<PathBuf>,
    /// All mail goes here.
    pub forced_host: Option<String>,
    /// No MX records are looked up.
    pub no_mx: bool,
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
    /// Where it is connected to.
    pub endpoint: Endpoint,
    /// True if messages with REQUIRETLS may be sent (RFC 8689).
    pub is_for_required_tls: bool,
    host: String,
    max_transactions: usize,
}

impl Session {
    /// Returns true if another transaction has used the session before.
    pub fn is_reused(&self) -> bool {
        self.transactions > 0
    }

    /// Returns true if it serves this host.
    pub fn is_for(&self, host: &str) -> bool {
        self.host == host
    }

    /// Returns true if the server and the settings allow another transaction.
    pub fn has_room(&self) -> bool {
        self.transactions < self.max_transactions
    }
}

/// Makes sessions.
pub struct Dialer {
    options: ClientOptions,
    configuration: Rc<Configuration>,
    log: DialogueLog,
    exchangers: MailExchangers,
    connector: TlsConnector,
    tls_results: Vec<String>,
    /// Lines for the scheduler's log.
    notes: Vec<String>,
    /// Wait before the next message, which a reply pattern has asked for.
    pause: Option<Duration>,
}

/// What is the same for all addresses of a host.
#[derive(Clone, Copy)]
struct Call<'a> {
    host: &'a str,
    source: &'a Source,
    /// The message is sent with REQUIRETLS only.
    requires_tls: bool,
    end: Instant,
    stop: &'a StopFlag,
}

/// A connected socket.
struct Connected {
    socket: Socket,
    peer: Endpoint,
    /// The addresses of the peer and of this end; none for a UNIX socket.
    addresses: Option<(SocketAddr, SocketAddr)>,
}

/// An address that takes no mail.
struct Failure {
    outcome: Box<Outcome>,
    /// A reply pattern has decided on the host: no other address is tried.
    is_decided: bool,
    /// TLS has failed, and the policy allows another try in plain text.
    may_retry_without_tls: bool,
}

impl From<Box<Outcome>> for Failure {
    fn from(outcome: Box<Outcome>) -> Failure {
        Failure { outcome, is_decided: false, may_retry_without_tls: false }
    }
}

impl Dialer {
    /// Creates it. Nothing is loaded before it is needed.
    pub fn new(
        options: ClientOptions,
        configuration: Rc<Configuration>,
        log: DialogueLog,
    ) -> Dialer {
        let default = if options.lmtp { LMTP_PORT } else { SMTP_PORT };
        let (dns, routing) = (configuration.dns.clone(), configuration.routing.clone());
        let tls = &configuration.tls;
        let port = options.port.unwrap_or(default);
        let exchangers = MailExchangers::new(dns, routing, tls, port);
        let connector = TlsConnector::new(tls.clone());
        Dialer {
            options,
            configuration,
            log,
            exchangers,
            connector,
            tls_results: Vec::new(),
            notes: Vec::new(),
            pause: None,
        }
    }

    /// The host that mail for a destination goes to.
    pub fn next_host(&self, host: &[u8]) -> String {
        let forced = self.options.forced_host.clone();
        forced.unwrap_or_else(|| String::from_utf8_lossy(host).into_owned())
    }

    /// The servers of a host, of which none has been tried.
    ///
    /// # Errors
    ///
    /// The text is no host; the outcome says so.
    pub fn servers(&mut self, host: &str) -> Result<Servers, Box<Outcome>> {
        let failed = |error: RouteError| Box::new(diagnosis::of_route_error(&error));
        let mut next_hop = NextHop::parse(host)
            .map_err(|error| failed(RouteError::of_destination(host, &error)))?;
        next_hop.port = next_hop.port.or(self.rule(host).and_then(|rule| rule.port));
        if let NextHopKind::Domain(name) = &next_hop.kind
            && self.options.no_mx
        {
            next_hop.kind = NextHopKind::Host(name.clone());
        }
        let source = match &self.options.source {
            Some(source) => source.clone(),
            None => self.exchangers.source(&self.options.channel, &next_hop),
        };
        let fallbacks = self.exchangers.fallbacks(&next_hop);
        Ok(Servers::new(host, source, next_hop, fallbacks))
    }

    /// Connects to servers, one address after the other, until one takes mail.
    ///
    /// What is tried leaves the list. With `requires_tls`, a server has to do for REQUIRETLS.
    ///
    /// # Errors
    ///
    /// None does; the outcome is that of the last address that may take it later, if there is one.
    pub fn open(
        &mut self,
        servers: &mut Servers,
        requires_tls: bool,
        end: Instant,
        stop: &StopFlag,
    ) -> Result<Session, Box<Outcome>> {
        if self.options.shows_host {
            // Without it, nothing but the name is missing.
            zsched_sys::set_process_name(servers.host()).ok();
        }
        let mut failure: Option<Box<Outcome>> = None;
        loop {
            while let Some((route, mut exchanger)) = servers.take() {
                if Instant::now() >= end {
                    return Err(Box::new(diagnosis::of_long_job()));
                }
                let (host, source) = (servers.host(), servers.source());
                let call = Call { host, source, requires_tls, end, stop };
                let tried = self.try_exchanger(call, &route, &mut exchanger);
                servers.put_back(exchanger, tried.is_ok());
                match tried {
                    Ok(session) => return Ok(session),
                    Err(failed) if failed.is_decided || stop.is_requested() => {
                        return Err(failed.outcome);
                    }
                    Err(failed) => {
                        let is_new = failed.outcome.verdict() != Verdict::Failed;
                        failure = failure.filter(|_| !is_new).or(Some(failed.outcome));
                    }
                }
            }
            let Some(candidate) = servers.take_candidate() else { break };
            match self.route(&candidate, end) {
                Ok(route) => {
                    let late = route.unresolved.iter().find(|one| one.is_temporary);
                    if let Some(late) = late.filter(|_| requires_tls) {
                        // Another exchanger may fail for good; this one may do.
                        failure = Some(Box::new(diagnosis::of_unresolved(late)));
                    }
                    servers.begin(route);
                }
                Err(error) => {
                    let outcome = Box::new(diagnosis::of_route_error(&error));
                    if !error.is_temporary() && !candidate.is_fallback {
                        return Err(outcome);
                    }
                    failure = failure.or(Some(outcome));
                }
            }
        }
        let none = || Outcome::new(Verdict::Deferred, "4.4.4", 451, "the host has no address");
        Err(failure.unwrap_or_else(|| Box::new(none())))
    }

    /// Returns true if there are servers that have not been tried.
    pub fn has_more(&mut self, servers: &mut Servers, end: Instant) -> bool {
        while servers.are_used_up() {
            let Some(candidate) = servers.take_candidate() else { return false };
            if let Ok(route) = self.route(&candidate, end) {
                servers.begin(route);
            }
        }
        true
    }

    fn route(&mut self, candidate: &Candidate, end: Instant) -> Result<Route, RouteError> {
        let (next_hop, end) = (&candidate.next_hop, lookup_end(end));
        match candidate.is_fallback {
            true => self.exchangers.route_to_fallback(next_hop, end),
            false => self.exchangers.route(next_hop, end),
        }
    }

    /// Shows on standard output what each exchanger of a host answers. No mail is sent.
    ///
    /// Returns true if one of them takes mail.
    pub fn probe(&mut self, host: &str) -> bool {
        self.log = DialogueLog::to_standard_output();
        let host = &self.next_host(host.as_bytes());
        let (end, stop) = (Instant::now() + LOOKUP_TIME * 10, &StopFlag::default());
        let mut servers = match self.servers(host) {
            Ok(servers) => servers,
            Err(outcome) => {
                self.show_failure("no route", &outcome);
                return false;
            }
        };
        let (mut takes_mail, source) = (false, servers.source().clone());
        while let Some(candidate) = servers.take_candidate() {
            let route = match self.route(&candidate, end) {
                Ok(route) => route,
                Err(error) => {
                    self.show_failure("no route", &diagnosis::of_route_error(&error));
                    continue;
                }
            };
            self.show(&route, candidate.is_fallback);
            let call = Call { host, source: &source, requires_tls: false, end, stop };
            for mut exchanger in route.exchangers.clone() {
                while !exchanger.endpoints.is_empty() {
                    match self.try_exchanger(call, &route, &mut exchanger) {
                        Ok(session) => {
                            takes_mail = true;
                            self.log.note(format_args!("{} takes mail", session.remote));
                            session.connection.quit();
                        }
                        Err(Failure { outcome, .. }) => {
                            let fails = outcome.verdict() == Verdict::Failed;
                            let word = if fails { "mail would fail" } else { "mail would wait" };
                            self.show_failure(word, &outcome);
                        }
                    }
                }
            }
        }
        for warning in crate::warnings::take() {
            self.log.note(warning);
        }
        takes_mail
    }

    fn show_failure(&self, what: &str, outcome: &Outcome) {
        let text = outcome.text().rsplit('\r').next().unwrap_or_default();
        self.log.note(format_args!("{what}: {} {text}", outcome.status()));
    }

    fn show(&self, route: &Route, is_fallback: bool) {
        let word = if is_fallback { "fallback" } else { "next hop" };
        self.log.note(format_args!("{word} {}", route.next_hop));
        for exchanger in &route.exchangers {
            let endpoints: Vec<String> =
                exchanger.endpoints.iter().map(ToString::to_string).collect();
            let preference = exchanger.preference.map(|number| format!("MX {number} "));
            let (name, endpoints) = (&exchanger.name, endpoints.join(" "));
            self.log.note(format_args!("{}{name} {endpoints}", preference.unwrap_or_default()));
        }
        for unresolved in &route.unresolved {
            self.log.note(format_args!("left out: {}", unresolved.reason));
        }
    }

    fn rule(&self, host: &str) -> Option<&HostRule> {
        self.configuration.rule(&host.to_ascii_lowercase())
    }

    /// Connects to one of the endpoints of an exchanger, which leaves the list, and begins.
    fn try_exchanger(
        &mut self,
        call: Call<'_>,
        route: &Route,
        exchanger: &mut Exchanger,
    ) -> Result<Session, Failure> {
        let end = lookup_end(call.end);
        let policy = self.exchangers.tls_policy(route, exchanger, call.requires_tls, end);
        let policy = policy.map_err(|error| {
            exchanger.endpoints.clear();
            self.record(TlsRecord::of_policy_error(&error));
            let outcome = match call.requires_tls {
                true => diagnosis::of_required_tls(error.is_temporary(), error.to_string()),
                false => diagnosis::of_policy_error(&error),
            };
            Box::new(Remote::new(&exchanger.name, None).complete(outcome))
        })?;
        let connected = self.connect(call, exchanger, &exchanger.endpoints);
        let connected = connected.inspect_err(|_| exchanger.endpoints.clear())?;
        let peer = connected.peer.clone();
        exchanger.endpoints.retain(|endpoint| *endpoint != peer);
        let failure = match self.begin(call, exchanger, &policy, connected) {
            Ok(session) => return Ok(session),
            Err(failure) => failure,
        };
        if !failure.may_retry_without_tls {
            return Err(failure);
        }
        self.log.note("TLS has failed, and is not required: again in plain text");
        let policy = TlsPolicy { uses_tls: false, ..policy };
        let connected = self.connect(call, exchanger, &[peer])?;
        self.begin(call, exchanger, &policy, connected)
    }

    /// Connects to the first endpoint that accepts.
    fn connect(
        &mut self,
        call: Call<'_>,
        exchanger: &Exchanger,
        endpoints: &[Endpoint],
    ) -> Result<Connected, Box<Outcome>> {
        let limit = self.configuration.session.timeouts.connect;
        let until = call.end.min(Instant::now() + limit);
        self.log.note(format_args!("connecting to {}", exchanger.name));
        let connected = self.exchangers.connect(endpoints, call.source, until);
        let connection = connected.map_err(|error| failed_connection(exchanger, &error))?;
        let peer = connection.peer().clone();
        self.log.note(format_args!("connected to {peer}"));
        let local = connection.local_address();
        let descriptor = connection.into_socket();
        let (stream, addresses) = match &peer {
            Endpoint::Tcp(address) => {
                let addresses = local.map(|local| (*address, local));
                (SocketStream::Tcp(descriptor.into()), addresses)
            }
            Endpoint::Unix(_) => (SocketStream::Unix(descriptor.into()), None),
        };
        let socket = Socket::new(stream, call.stop.clone());
        socket.set_nonblocking(false).map_err(|error| {
            Box::new(Outcome::system_error("cannot use the connection", &error))
        })?;
        Ok(Connected { socket, peer, addresses })
    }

    /// Begins the session: greeting, EHLO, STARTTLS, AUTH.
    fn begin(
        &mut self,
        call: Call<'_>,
        exchanger: &Exchanger,
        policy: &TlsPolicy,
        connected: Connected,
    ) -> Result<Session, Failure> {
        let Connected { socket, peer, addresses: ends } = connected;
        let remote = Remote::new(&exchanger.name, ends.map(|(peer, local)| (peer, Some(local))));
        let local = ends.map(|(_, local)| local.ip());
        let options = self.handshake_options(call, &exchanger.name, policy, &peer, local)?;
        let protocol = options.protocol;
        let limits = self.configuration.session.timeouts;
        let mut connection = Connection::new(socket, limits, self.log.clone());
        connection.set_end(call.end);
        let mut handshake = Handshake::new(options);
        let ips = ends.map(|(peer, local)| (peer.ip(), local.ip()));
        loop {
            let paused = connection.run(&mut handshake, None);
            let fail = |outcome: Outcome, may_retry_without_tls| Failure {
                outcome: Box::new(remote.complete(outcome)),
                is_decided: false,
                may_retry_without_tls,
            };
            match paused {
                Ok(Pause::Finished) => break,
                Ok(Pause::StartTls) => match connection.start_tls(&mut self.connector, policy) {
                    Ok(()) => {
                        self.record_session(policy, ips, None);
                        handshake.tls_started();
                    }
                    Err(Some(error)) => {
                        self.record_session(policy, ips, Some(&error));
                        let is_stop = call.stop.is_requested();
                        let may_retry = policy.allows_retry_without_tls(&error) && !is_stop;
                        let outcome = match call.requires_tls && !is_stop {
                            true => {
                                diagnosis::of_required_tls(error.is_temporary(), error.to_string())
                            }
                            false => diagnosis::of_tls_error(&error, is_stop),
                        };
                        return Err(fail(outcome, may_retry));
                    }
                    Err(None) => {
                        let outcome = diagnosis::of_lost_handshake(&Lost::Unexpected);
                        return Err(fail(outcome, false));
                    }
                },
                Err(lost) => return Err(fail(diagnosis::of_lost_handshake(&lost), false)),
            }
        }
        let lacks_required_tls = |server: &Capabilities| {
            call.requires_tls && policy.is_required && !server.offers.require_tls
        };
        match handshake.finish() {
            Ok(capabilities) if lacks_required_tls(&capabilities) => {
                connection.quit();
                let outcome = Box::new(remote.complete(diagnosis::of_lack_of_required_tls()));
                Err(Failure { outcome, is_decided: false, may_retry_without_tls: false })
            }
            Ok(capabilities) => {
                let mut session =
                    self.session(call.host, connection, capabilities, remote, protocol, peer);
                session.is_for_required_tls = call.requires_tls;
                Ok(session)
            }
            Err(failure) => {
                let (outcome, is_decided) =
                    self.refused_session(call, &remote, &failure, policy, ips);
                connection.quit();
                let outcome = Box::new(remote.complete(outcome));
                Err(Failure { outcome, is_decided, may_retry_without_tls: false })
            }
        }
    }

    fn session(
        &self,
        host: &str,
        connection: Connection,
        capabilities: Capabilities,
        remote: Remote,
        protocol: Protocol,
        endpoint: Endpoint,
    ) -> Session {
        let (settings, rule) = (&self.configuration.session, self.rule(host));
        let limits = capabilities.limits;
        let recipients = rule.and_then(|rule| rule.recipients).unwrap_or(settings.recipients);
        Session {
            max_recipients: recipients.min(limits.recipients.unwrap_or(usize::MAX)).max(1),
            max_transactions: settings.messages.min(limits.transactions.unwrap_or(usize::MAX)),
            sends_8bit: self.options.sends_8bit || rule.is_some_and(|rule| rule.send_8bit),
            connection,
            capabilities,
            remote,
            protocol,
            transactions: 0,
            needs_reset: false,
            is_for_required_tls: false,
            host: host.to_string(),
            endpoint,
        }
    }

    fn handshake_options(
        &self,
        call: Call<'_>,
        server: &str,
        policy: &TlsPolicy,
        peer: &Endpoint,
        local: Option<IpAddr>,
    ) -> Result<HandshakeOptions, Box<Outcome>> {
        let rule = self.rule(call.host);
        let credentials = self.credentials(rule, server).map_err(|why| {
            let why = format!("cannot authenticate: {why}");
            Box::new(Outcome::new(Verdict::DeferAll, "4.3.5", 451, why))
        })?;
        let mut without = self.options.without.clone();
        without.extend(rule.into_iter().flat_map(|rule| rule.without.clone()));
        let is_lmtp = self.options.lmtp || rule.is_some_and(|rule| rule.lmtp);
        let of_source = local.and_then(|local| call.source.helo_of(&local));
        Ok(HandshakeOptions {
            hello_name: of_source.unwrap_or(&self.options.hello_name).to_string(),
            protocol: if is_lmtp { Protocol::Lmtp } else { Protocol::Smtp },
            tls: match (policy.uses_tls, policy.is_required) {
                (false, _) => TlsUse::Off,
                (true, false) => TlsUse::IfOffered,
                (true, true) => TlsUse::Required,
            },
            is_private: matches!(peer, Endpoint::Unix(_)),
            credentials,
            without,
            esmtp_by_greeting: self.options.esmtp_by_greeting,
            no_esmtp: self.options.no_esmtp,
        })
    }

    /// The credentials of a host's rule, else those of the file of secrets.
    fn credentials(
        &self,
        rule: Option<&HostRule>,
        server: &str,
    ) -> Result<Option<Credentials>, String> {
        let of_rule = rule.map_or(Ok(None), HostRule::credentials)?;
        let (None, Some(path)) = (&of_rule, &self.options.secrets) else { return Ok(of_rule) };
        let found = crate::secrets::find(path, &self.options.channel, server)?;
        Ok(found.map(|(user, password)| Credentials {
            user,
            password,
            mechanisms: Vec::new(),
            // As the original does.
            without_tls: true,
        }))
    }

    /// The outcome of a session that the server has refused, as the reply patterns decide.
    ///
    /// Returns true, too, if no other server is tried.
    fn refused_session(
        &mut self,
        call: Call<'_>,
        remote: &Remote,
        failure: &HandshakeFailure,
        policy: &TlsPolicy,
        ips: Option<(IpAddr, IpAddr)>,
    ) -> (Outcome, bool) {
        let refused_tls = match failure {
            HandshakeFailure::NoTls => Some(policy.not_offered(None)),
            HandshakeFailure::Refused { command, reply }
                if command == "STARTTLS" && policy.is_required =>
            {
                Some(policy.not_offered(Some(reply.text())))
            }
            _ => None,
        };
        let is_temporary = matches!(failure,
            HandshakeFailure::Refused { reply, .. } if reply.code() / 100 == 4);
        let outcome = match refused_tls {
            Some(error) => {
                self.record_session(policy, ips, Some(&error));
                match call.requires_tls {
                    true => diagnosis::of_required_tls(is_temporary, error.to_string()),
                    false => diagnosis::of_tls_error(&error, false),
                }
            }
            None => diagnosis::of_handshake_failure(failure),
        };
        let HandshakeFailure::Refused { reply, .. } = failure else { return (outcome, false) };
        let names = [call.host, remote.name.as_str()];
        let patterns = &self.configuration.reply_patterns;
        let reply = Reply::text(reply);
        let found = crate::reply_patterns::apply(patterns, names, reply, true, &outcome);
        let Some(effect) = found else { return (outcome, false) };
        let is_decided = effect.is_decision();
        self.pause = self.pause.max(effect.pause);
        self.notes.extend(effect.note);
        (effect.outcome, is_decided)
    }

    fn record_session(
        &mut self,
        policy: &TlsPolicy,
        ips: Option<(IpAddr, IpAddr)>,
        error: Option<&zsched_mail_exchanger::TlsError>,
    ) {
        let (peer, local) = (ips.map(|ips| ips.0), ips.map(|ips| ips.1));
        self.record(TlsRecord::of_session(policy, peer, local, error));
    }

    /// Keeps the result of a TLS session.
    ///
    /// Appends it to the file of results, if there is one.
    fn record(&mut self, mut record: TlsRecord) {
        let json = |record: &TlsRecord| serde_json::to_string(record).unwrap_or_default();
        let mut line = json(&record);
        if let Some(path) = &self.configuration.session.tls_results
            && let Err(error) = append_line(path, &line)
        {
            self.log.note(format_args!("{}: {}", path.display(), reason(&error)));
        }
        if line.len() > MAX_TLS_RESULT_LEN {
            (record.policy_string, record.mx_host) = (Vec::new(), Vec::new());
            line = json(&record);
        }
        self.tls_results.push(line);
    }

    /// The lines for the scheduler's log since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The wait before the next message that replies since the last call have asked for.
    pub fn take_pause(&mut self) -> Option<Duration> {
        self.pause.take()
    }

    /// The results of TLS sessions since the last call, as JSON.
    pub fn take_tls_results(&mut self) -> Vec<String> {
        std::mem::take(&mut self.tls_results)
    }
}

fn append_line(path: &Path, line: &str) -> std::io::Result<()> {
    let file = File::options().append(true).create(true).open(path);
    file?.write_all(format!("{line}\n").as_bytes())
}

fn lookup_end(end: Instant) -> Instant {
    end.min(Instant::now() + LOOKUP_TIME)
}

/// The outcome where no endpoint accepts a connection, with the last one of them.
fn failed_connection(exchanger: &Exchanger, error: &ConnectError) -> Box<Outcome> {
    let one = |(endpoint, error): &(Endpoint, std::io::Error)| {
        format!("connect to {endpoint}: {}", reason(error))
    };
    let text = error.attempts.iter().map(one).collect::<Vec<_>>().join(", ");
    let peer = match error.attempts.last() {
        Some((Endpoint::Tcp(address), _)) => Some((*address, None)),
        _ => None,
    };
    let outcome = diagnosis::of_failed_connection(&text);
    Box::new(Remote::new(&exchanger.name, peer).complete(outcome))
}
