//! From the greeting to a session that takes mail: EHLO, STARTTLS, AUTH.

use super::authentication::{Authentication, Credentials};
use super::{Capabilities, Dialogue, Phase, Protocol, Reply, Step};

/// Maximum number of challenges of one authentication.
const MAX_CHALLENGES: usize = 10;

/// Whether TLS begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// Never, or it protects the connection from its first byte on.
    #[default]
    Off,
    /// If the server offers it.
    IfOffered,
    /// Always; the handshake fails without it.
    Required,
}

/// How a session begins.
#[derive(Clone, Debug, Default)]
pub struct HandshakeOptions {
    /// The name that the client gives itself.
    pub hello_name: String,
    /// SMTP or LMTP.
    pub protocol: Protocol,
    /// Whether TLS begins.
    pub tls: TlsUse,
    /// True if no listener can read the connection without TLS, as on a UNIX socket.
    pub is_private: bool,
    /// The credentials for the host.
    pub credentials: Option<Credentials>,
    /// Keywords of extensions that are not used.
    pub without: Vec<String>,
    /// EHLO only if the greeting has the word ESMTP.
    pub esmtp_by_greeting: bool,
    /// HELO, never EHLO.
    pub no_esmtp: bool,
}

/// The reason why a server takes no mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The server has refused a command, or the connection (with an empty command).
    Refused {
        /// The command, without secrets.
        command: String,
        /// Its reply.
        reply: Reply,
    },
    /// TLS is required, and the server does not offer it.
    NoTls,
    /// The authentication cannot be done, in words.
    Authentication(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Hello { is_extended: bool, is_sent: bool },
    StartTls { is_sent: bool },
    TlsHandshake,
    AuthBegin,
    Auth,
    Over,
}

/// The beginning of a session.
pub struct Handshake {
    options: HandshakeOptions,
    state: State,
    is_encrypted: bool,
    greeting: Option<Reply>,
    capabilities: Capabilities,
    authentication: Option<Authentication>,
    challenges: usize,
    outgoing: Vec<u8>,
    result: Option<Result<(), HandshakeFailure>>,
}

impl Handshake {
    /// Creates the dialogue with a server that has just been connected to.
    pub fn new(options: HandshakeOptions) -> Handshake {
        Handshake {
            options,
            state: State::Greeting,
            is_encrypted: false,
            greeting: None,
            capabilities: Capabilities::default(),
            authentication: None,
            challenges: 0,
            outgoing: Vec::new(),
            result: None,
        }
    }

    /// What the server offers, without what is switched off.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The greeting of the server.
    pub fn greeting(&self) -> Option<&Reply> {
        self.greeting.as_ref()
    }

    /// TLS has begun. The session begins again (RFC 3207, 4.2).
    pub fn tls_started(&mut self) {
        self.is_encrypted = true;
        self.capabilities = Capabilities::default();
        self.state = State::Hello { is_extended: true, is_sent: false };
    }

    /// The end of the dialogue.
    ///
    /// # Errors
    ///
    /// The server takes no mail. Before [`Step::Finished`] that is an answer that was not given.
    pub fn finish(self) -> Result<Capabilities, HandshakeFailure> {
        match self.result {
            Some(Ok(())) => Ok(self.capabilities),
            Some(Err(failure)) => Err(failure),
            None => {
                let reply = Reply::new(451, "the dialogue is not over");
                Err(HandshakeFailure::Refused { command: String::new(), reply })
            }
        }
    }

    fn end(&mut self, result: Result<(), HandshakeFailure>) {
        self.state = State::Over;
        self.result = Some(result);
    }

    fn refuse(&mut self, command: impl Into<String>, reply: Reply) {
        self.end(Err(HandshakeFailure::Refused { command: command.into(), reply }));
    }

    fn on_greeting(&mut self, reply: Reply) {
        if reply.code() != 220 {
            return self.refuse("", reply);
        }
        let is_extended = match self.options.protocol {
            Protocol::Lmtp => true,
            Protocol::Smtp => {
                let says_so = || reply.text().to_ascii_uppercase().contains("ESMTP");
                !self.options.no_esmtp && (!self.options.esmtp_by_greeting || says_so())
            }
        };
        self.state = State::Hello { is_extended, is_sent: false };
        self.greeting = Some(reply);
    }

    fn on_hello(&mut self, is_extended: bool, reply: Reply) {
        if !reply.is_success() {
            // An old server does not know EHLO (RFC 5321, 3.2).
            let falls_back = is_extended
                && self.options.protocol == Protocol::Smtp
                && !self.is_encrypted
                && reply.code() / 100 == 5;
            match falls_back {
                true => self.state = State::Hello { is_extended: false, is_sent: false },
                false => self.refuse(self.hello(is_extended), reply),
            }
            return;
        }
        if is_extended {
            let without = self.options.without.iter().map(String::as_str);
            self.capabilities = Capabilities::parse(&reply).without(without);
        }
        let may_start_tls = self.options.tls != TlsUse::Off && !self.is_encrypted;
        match self.capabilities.offers.start_tls {
            true if may_start_tls => self.state = State::StartTls { is_sent: false },
            _ if may_start_tls && self.options.tls == TlsUse::Required => {
                self.end(Err(HandshakeFailure::NoTls));
            }
            _ => self.state = State::AuthBegin,
        }
    }

    fn on_start_tls(&mut self, reply: Reply) {
        match (reply.code(), self.options.tls) {
            (220, _) => self.state = State::TlsHandshake,
            (421, _) | (_, TlsUse::Required) => self.refuse("STARTTLS", reply),
            _ => self.state = State::AuthBegin,
        }
    }

    fn begin_authentication(&mut self) {
        let Some(credentials) = &self.options.credentials else { return self.end(Ok(())) };
        let is_private = self.is_encrypted || self.options.is_private;
        let Some(mechanism) = credentials.choose(&self.capabilities.mechanisms, is_private) else {
            let why = match (self.capabilities.offers.auth, is_private) {
                (false, _) => "the server does not offer AUTH",
                (true, false) => "without TLS no mechanism of the server hides the password",
                (true, true) => "the server offers no mechanism that is configured",
            };
            return self.end(Err(HandshakeFailure::Authentication(why.to_string())));
        };
        match Authentication::begin(credentials, mechanism) {
            Ok((authentication, command)) => {
                self.authentication = Some(authentication);
                self.outgoing = format!("{command}\r\n").into_bytes();
                self.state = State::Auth;
            }
            Err(why) => self.end(Err(HandshakeFailure::Authentication(why))),
        }
    }

    fn on_auth(&mut self, reply: Reply) {
        if reply.code() != 334 {
            let is_verified =
                self.authentication.as_ref().is_some_and(Authentication::has_verified_server);
            return match (reply.is_success(), is_verified) {
                (true, true) => self.end(Ok(())),
                (true, false) => {
                    let why = "the server has not shown that it knows the password".to_string();
                    self.end(Err(HandshakeFailure::Authentication(why)));
                }
                (false, _) => self.refuse("AUTH", reply),
            };
        }
        self.challenges += 1;
        let challenge = reply.lines().next().unwrap_or_default();
        let response = match &mut self.authentication {
            Some(session) if self.challenges <= MAX_CHALLENGES => session.respond(challenge),
            _ => Err("too many challenges".to_string()),
        };
        match response {
            Ok(response) => self.outgoing = format!("{response}\r\n").into_bytes(),
            Err(why) => self.end(Err(HandshakeFailure::Authentication(why))),
        }
    }

    fn hello(&self, is_extended: bool) -> String {
        let verb = match (self.options.protocol, is_extended) {
            (Protocol::Lmtp, _) => "LHLO",
            (Protocol::Smtp, true) => "EHLO",
            (Protocol::Smtp, false) => "HELO",
        };
        format!("{verb} {}", self.options.hello_name)
    }
}

impl Dialogue for Handshake {
    fn step(&mut self) -> Step {
        if !self.outgoing.is_empty() {
            return Step::Send(std::mem::take(&mut self.outgoing));
        }
        if self.state == State::AuthBegin {
            self.begin_authentication();
            return self.step();
        }
        match &mut self.state {
            State::Greeting => Step::Receive(Phase::Greeting),
            State::Hello { is_extended, is_sent: is_sent @ false } => {
                *is_sent = true;
                let is_extended = *is_extended;
                Step::Send(format!("{}\r\n", self.hello(is_extended)).into_bytes())
            }
            State::StartTls { is_sent: is_sent @ false } => {
                *is_sent = true;
                Step::Send(b"STARTTLS\r\n".to_vec())
            }
            State::Hello { .. } | State::StartTls { .. } | State::Auth | State::AuthBegin => {
                Step::Receive(Phase::Hello)
            }
            State::TlsHandshake => Step::StartTls,
            State::Over => Step::Finished,
        }
    }

    fn on_reply(&mut self, reply: Reply) {
        match self.state {
            State::Greeting => self.on_greeting(reply),
            State::Hello { is_extended, .. } => self.on_hello(is_extended, reply),
            State::StartTls { .. } => self.on_start_tls(reply),
            State::Auth => self.on_auth(reply),
            // Nothing is awaited then, and the caller takes no reply.
            State::TlsHandshake | State::AuthBegin | State::Over => {}
        }
    }
}
