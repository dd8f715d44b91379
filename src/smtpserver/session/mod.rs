//! A session: bytes in, replies and requests out. It has no socket, no file and no clock.
//!
//! ```text
//! receive(bytes) ──► command ──► reply ──► take_output()
//!                       │
//!                       ▼ what must be looked up or stored
//!                 take_request() ──► the server ──► answer(…) ──► reply
//! ```
//!
//! While a request is not answered, input waits, and the server reads no more of it
//! ([`Session::wants_input`]). What a client sends where it must wait for a reply is a fault
//! (RFC 2920, 3.1), and nothing that came before TLS began is used after it.

mod body;
mod command;
mod event;
mod login;
mod mail;
mod reply;
mod transaction;

#[cfg(test)]
mod tests;

pub use command::{HelloVerb, MailParameters, RcptParameters};
pub use event::{LogLine, MailEvent};
pub use login::{Credentials, LoginAnswer, PasswordRecord};
pub use reply::Reply;
pub use transaction::{RecipientQuestion, Transaction};

use command::Command;
use login::LoginState;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zsched_format::time::{Timestamp, format_time};
use zsched_spool::SpoolId;

/// Maximum length of a command with its line end, in bytes. RFC 5321 (4.5.3.1.4) has 512.
const MAX_COMMAND_LEN: usize = 4096;
/// Maximum length of a line of a login, in bytes (RFC 4954, 4).
const MAX_LOGIN_LINE_LEN: usize = 12_288;
/// Maximum number of errors before the session ends.
const MAX_ERRORS: u32 = 20;
/// Maximum number of commands without a message, such as NOOP, EHLO or MAIL.
///
/// Those beyond count as errors.
const MAX_IDLE_COMMANDS: u32 = 100;
/// Maximum number of recipients that are deferred without a message. Those beyond count as errors.
const MAX_DEFERRED_RECIPIENTS: u32 = 1000;
/// Maximum number of bytes that wait while a request is not answered.
const MAX_WAITING_INPUT: usize = 64 << 10;
/// Number of bytes of a message that count as progress.
const PROGRESS_BYTES: u64 = 1024;

/// Maximum size of a message where there is no limit, in bytes.
pub const NO_SIZE_LIMIT: u64 = i64::MAX as u64;

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Mail from other hosts, and from those that may relay.
    Smtp,
    /// Mail of users (RFC 6409).
    Submission,
    /// Mail with a reply for each recipient (RFC 2033).
    Lmtp,
}

/// Logins that are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logins {
    /// None.
    None,
    /// PLAIN and LOGIN.
    Passwords,
    /// SCRAM-SHA-256 besides.
    All,
}

impl Service {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Service::Smtp => "smtp",
            Service::Submission => "submission",
            Service::Lmtp => "lmtp",
        }
    }
}

/// What a session may do, and what it offers.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The name of this host in the greeting.
    pub hostname: String,
    /// What its port is for.
    pub service: Service,
    /// Maximum size of a message, in bytes.
    pub max_size: u64,
    /// Maximum number of recipients of a message.
    pub max_recipients: usize,
    /// STARTTLS is possible.
    pub has_tls: bool,
    /// The logins that are possible.
    pub logins: Logins,
    /// The scheduler can be asked for a host (ETRN).
    pub has_queue_requests: bool,
    /// ETRN may be of use to any client: this host is a backup for some domains.
    pub has_queue_domains: bool,
    /// Lines may end in LF alone. Only for programs of this host.
    pub allows_bare_lf: bool,
    /// Maximum time for which a client may have a message held (FUTURERELEASE). Zero: not offered.
    pub max_hold: Duration,
    /// Messages may have a priority (MT-PRIORITY).
    pub has_priorities: bool,
    /// Clients that have logged in may give messages a higher priority than the usual one.
    pub logins_raise_priority: bool,
    /// The present time.
    pub now: fn() -> Timestamp,
    /// Free space of the spool, in bytes.
    pub free_space: Arc<AtomicU64>,
    /// Memory that messages may still take, in bytes.
    pub free_memory: Arc<AtomicU64>,
}

/// The other end of a session.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Its address; `None` for a program of this host.
    pub ip: Option<IpAddr>,
    /// Its port.
    pub port: u16,
    /// The address and port that it has connected to.
    pub server: Option<SocketAddr>,
    /// The number of its session.
    pub number: u64,
    /// It may send to any address.
    pub may_relay: bool,
    /// It may give messages a higher priority than the usual one.
    pub may_raise_priority: bool,
    /// It is on this host, where no other host can listen: passwords need no TLS.
    pub is_local: bool,
}

/// The TLS of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// Such as `TLSv1.3`.
    pub version: String,
    /// IANA's name, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// Length of its keys, in bits.
    pub key_bits: u16,
}

/// What the server has to do for a session. All but `Discard` and `StartTls` need an answer.
#[derive(Debug)]
pub enum Request {
    /// Decide whether the client may send one more message.
    AdmitMessage,
    /// Decide about a recipient.
    CheckRecipient(Box<RecipientQuestion>),
    /// Check a login.
    Login(Credentials),
    /// Decide whether a login whose password was right may have one more connection.
    AdmitLogin(String),
    /// Write a part of the submission.
    Append(Vec<u8>),
    /// Write the last part, sync, and give the submission to the router.
    Commit(Vec<u8>),
    /// Remove what is written.
    Discard,
    /// Begin TLS when the output is sent.
    StartTls,
    /// Ask the scheduler to try a host, if the client may ask for that.
    StartQueue(String),
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The reply to a recipient, a sender, ETRN, or a login whose password was right.
    Reply(Reply),
    /// The recipient is accepted, and this header line is put before those of the message.
    Prepend(String),
    /// The result of a login.
    Login(LoginAnswer),
    /// A part is written.
    Appended(Result<(), Reply>),
    /// The submission is stored.
    Stored(Result<SpoolId, Reply>),
    /// The answer cannot be found, because of a fault of this program.
    Failed,
}

/// What a session waits for.
#[derive(Debug)]
enum Awaited {
    Message,
    Recipient(String, RcptParameters),
    Login,
    Admission(String),
    Append,
    Commit,
    Queue,
    Tls,
}

/// What the next bytes of the client are.
#[derive(Debug)]
enum Phase {
    /// Nothing may come before the greeting.
    Greeting,
    Command,
    Login(LoginState),
    /// Text of a message.
    Body,
    /// Bytes of a chunk that has no use, and the reply to it.
    Swallow(u64, Box<Reply>),
}

/// A session.
#[derive(Debug)]
pub struct Session {
    settings: Arc<SessionSettings>,
    client: Client,
    tls: Option<TlsFacts>,
    input: Vec<u8>,
    /// Offset of what is not used yet.
    input_at: usize,
    output: Vec<u8>,
    requests: VecDeque<Request>,
    log: Vec<LogLine>,
    events: Vec<MailEvent>,
    awaited: Option<Awaited>,
    phase: Phase,
    hello: Option<(HelloVerb, String)>,
    login: Option<String>,
    login_method: Option<&'static str>,
    transaction: Option<Box<Transaction>>,
    /// Number of messages that were begun.
    messages: u64,
    errors: u32,
    idle_commands: u32,
    deferred_recipients: u32,
    /// Number of failed logins.
    failed_logins: u32,
    /// Names of failed logins that were not taken.
    new_failed_logins: Vec<String>,
    /// The name that the client claims.
    claimed_login: String,
    progress: u64,
    body_bytes: u64,
    is_closing: bool,
}

impl Session {
    /// Creates a session. It says nothing before [`greet`](Session::greet).
    pub fn new(settings: Arc<SessionSettings>, client: Client, tls: Option<TlsFacts>) -> Session {
        Session {
            settings,
            client,
            tls,
            input: Vec::new(),
            input_at: 0,
            output: Vec::new(),
            requests: VecDeque::new(),
            log: Vec::new(),
            events: Vec::new(),
            awaited: None,
            phase: Phase::Greeting,
            hello: None,
            login: None,
            login_method: None,
            transaction: None,
            messages: 0,
            errors: 0,
            idle_commands: 0,
            deferred_recipients: 0,
            failed_logins: 0,
            new_failed_logins: Vec::new(),
            claimed_login: String::new(),
            progress: 0,
            body_bytes: 0,
            is_closing: false,
        }
    }

    /// Sends the greeting, unless the client spoke first.
    pub fn greet(&mut self) {
        if self.is_closing {
            return;
        }
        self.phase = Phase::Command;
        let protocol = if self.settings.service == Service::Lmtp { "LMTP" } else { "ESMTP" };
        self.reply(Reply::new(220, "", format!("{} {protocol} zsched", self.settings.hostname)));
    }

    /// Takes bytes of the client.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.is_closing || bytes.is_empty() {
            return;
        }
        if matches!(self.phase, Phase::Greeting) {
            return self.close(Reply::new(
                554,
                "5.5.1",
                "Commands sent too early: wait for the greeting",
            ));
        }
        self.input.extend_from_slice(bytes);
        self.advance();
    }

    /// Takes the answer to the last request.
    pub fn answer(&mut self, answer: Answer) {
        let Some(awaited) = self.awaited.take() else { return };
        self.progress += 1;
        match (awaited, answer) {
            (Awaited::Recipient(address, parameters), Answer::Reply(reply)) => {
                self.recipient_checked(address, parameters, reply);
            }
            (Awaited::Recipient(address, parameters), Answer::Prepend(header)) => {
                self.prepend(&header);
                self.recipient_checked(address, parameters, Reply::recipient_ok());
            }
            (Awaited::Message, Answer::Reply(reply)) => self.message_admitted(reply),
            (Awaited::Login, Answer::Login(answer)) => self.login_answered(answer),
            (Awaited::Admission(user), Answer::Reply(reply)) => self.login_admitted(user, reply),
            (Awaited::Append, Answer::Appended(result)) => self.appended(result),
            (Awaited::Commit, Answer::Stored(result)) => self.stored(result),
            // A request costs a file: it counts as a command without effect.
            (Awaited::Queue, Answer::Reply(reply)) => self.idle_command(reply),
            (Awaited::Append, _) => self.appended(Err(Reply::failure())),
            (Awaited::Commit, _) => self.stored(Err(Reply::failure())),
            (awaited, _) => {
                match awaited {
                    Awaited::Login | Awaited::Admission(_) => self.phase = Phase::Command,
                    Awaited::Message => self.transaction = None,
                    _ => {}
                }
                self.reply(Reply::failure());
            }
        }
        self.advance();
    }

    /// TLS has begun after STARTTLS: the session starts again (RFC 3207, 4.2).
    pub fn tls_started(&mut self, facts: TlsFacts) {
        self.awaited = None;
        self.tls = Some(facts);
        self.hello = None;
        self.login = None;
        self.input = Vec::new();
        self.input_at = 0;
        self.drop_transaction();
    }

    /// Notes the TLS of a port with implicit TLS.
    pub fn set_tls(&mut self, facts: TlsFacts) {
        self.tls = Some(facts);
    }

    /// Ends the session because of the time.
    pub fn time_out(&mut self) {
        let reply = Reply::new(421, "4.4.2", format!("{} Timeout", self.settings.hostname));
        self.close(reply);
    }

    /// Ends the session because the server ends.
    pub fn shut_down(&mut self) {
        let text = format!("{} The server ends, try again later", self.settings.hostname);
        self.close(Reply::new(421, "4.3.2", text));
    }

    /// Returns true if more bytes of the client are of use now.
    pub fn wants_input(&self) -> bool {
        !self.is_closing
            && self.awaited.is_none()
            && self.input.len() - self.input_at < MAX_WAITING_INPUT
    }

    /// Returns true if the session is over when its output is sent.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns true if nothing is lost when the session ends now.
    pub fn is_idle(&self) -> bool {
        self.transaction.is_none() && self.awaited.is_none()
    }

    /// Returns true while an answer is awaited, which is not the client's fault.
    pub fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Takes the output.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the next request.
    pub fn take_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Takes lines for the log.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.log)
    }

    /// A number that grows with each command and with each kilobyte of a message.
    ///
    /// Single bytes are no progress: a client that sends them slowly is timed out.
    pub fn progress(&self) -> u64 {
        self.progress + self.body_bytes / PROGRESS_BYTES
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The login name of the client.
    pub fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    /// The TLS of the session.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref()
    }

    /// Kind of the port.
    pub fn service(&self) -> Service {
        self.settings.service
    }

    /// The client, for the log.
    pub fn client_name(&self) -> String {
        let name = self.hello.as_ref().map_or("unknown", |(_, name)| name);
        match self.client.ip {
            // The client has no other name.
            Some(ip) if *name == format!("[{ip}]") || *name == format!("[IPv6:{ip}]") => {
                format!("[{ip}]")
            }
            Some(ip) => format!("{name}[{ip}]"),
            None => format!("{name}[stdin]"),
        }
    }

    /// What the client is doing, for the log.
    pub fn activity(&self) -> &'static str {
        match (&self.phase, &self.transaction) {
            (Phase::Greeting, _) => "before the greeting",
            (Phase::Body | Phase::Swallow(..), _) => "in the text of a message",
            (Phase::Login(_), _) => "in a login",
            (Phase::Command, Some(_)) => "in an envelope",
            (Phase::Command, None) => "between messages",
        }
    }

    fn advance(&mut self) {
        while self.awaited.is_none() && !self.is_closing {
            let has_moved = match &mut self.phase {
                Phase::Greeting => false,
                Phase::Command | Phase::Login(_) => self.take_line(),
                Phase::Body => self.take_text(),
                Phase::Swallow(..) => self.swallow(),
            };
            if !has_moved {
                break;
            }
        }
        // A session that is idle holds no buffer.
        match self.input.len() - self.input_at {
            0 => self.input = Vec::new(),
            _ => drop(self.input.drain(..self.input_at)),
        }
        self.input_at = 0;
    }

    fn rest(&self) -> &[u8] {
        &self.input[self.input_at..]
    }

    /// Takes the next line. Returns false if it is not complete.
    fn take_line(&mut self) -> bool {
        let max_len = match self.phase {
            Phase::Login(_) => MAX_LOGIN_LINE_LEN,
            _ => MAX_COMMAND_LEN,
        };
        let rest = self.rest();
        let Some(end) = memchr::memchr(b'\n', &rest[..rest.len().min(max_len)]) else {
            if rest.len() >= max_len {
                self.close(Reply::new(500, "5.5.2", "The line is too long"));
            }
            return false;
        };
        let line = rest[..end].to_vec();
        self.input_at += end + 1;
        self.progress += 1;
        match line.strip_suffix(b"\r") {
            Some(line) => self.line(line),
            None if self.settings.allows_bare_lf => self.line(&line),
            None => self.refuse(Reply::new(500, "5.5.2", "A line ends in CR LF")),
        }
        true
    }

    fn line(&mut self, line: &[u8]) {
        if matches!(self.phase, Phase::Login(_)) {
            return self.login_line(line);
        }
        match command::parse(line) {
            Ok(command) => self.command(command),
            Err(reply) => self.refuse(reply),
        }
    }

    fn command(&mut self, command: Command) {
        let must_wait = matches!(
            command,
            Command::Hello(..) | Command::Data | Command::StartTls | Command::Auth { .. }
        );
        if must_wait && self.client.ip.is_some() && !self.rest().is_empty() {
            // RFC 2920, 3.1. What follows would be taken for commands or text by mistake.
            self.log.push(LogLine::OfSession("sent commands too early"));
            let text = "Commands sent too early: wait for the reply to the last one";
            return self.close(Reply::new(554, "5.5.1", text));
        }
        match command {
            Command::Hello(verb, name) => self.say_hello(verb, name),
            Command::Mail(sender, parameters) => self.mail(sender, parameters),
            Command::Rcpt(recipient, parameters) => self.rcpt(recipient, parameters),
            Command::Data => self.data(),
            Command::Bdat { size, is_last } => self.bdat(size, is_last),
            Command::Rset => {
                self.drop_transaction();
                self.idle_command(Reply::new(250, "2.0.0", "Ok"));
            }
            Command::Noop => self.idle_command(Reply::new(250, "2.0.0", "Ok")),
            Command::Help => self.idle_command(Reply::new(214, "2.0.0", "See RFC 5321")),
            Command::Vrfy => {
                let text = "Send some mail, and its recipients are checked";
                self.idle_command(Reply::new(252, "2.5.2", text));
            }
            Command::Expn => self.refuse(Reply::new(502, "5.5.1", "EXPN is not available")),
            Command::Quit => self.close(Reply::new(221, "2.0.0", "Bye")),
            Command::StartTls => self.start_tls(),
            Command::Auth { mechanism, initial } => self.auth(&mechanism, initial.as_deref()),
            Command::Etrn(host) => self.etrn(host),
        }
    }

    fn say_hello(&mut self, verb: HelloVerb, name: String) {
        let is_lmtp = self.settings.service == Service::Lmtp;
        if is_lmtp != (verb == HelloVerb::Lhlo) {
            let text = if is_lmtp { "This is LMTP: say LHLO" } else { "This is SMTP: say EHLO" };
            return self.refuse(Reply::new(500, "5.5.1", text));
        }
        self.drop_transaction();
        self.hello = Some((verb, name));
        self.count_idle_command();
        if self.is_closing {
            return;
        }
        let mut lines = vec![self.settings.hostname.clone()];
        if verb != HelloVerb::Helo {
            lines.extend(self.extensions());
        }
        let last = lines.len() - 1;
        for (index, line) in lines.iter().enumerate() {
            let mark = if index == last { ' ' } else { '-' };
            self.output.extend_from_slice(format!("250{mark}{line}\r\n").as_bytes());
        }
    }

    fn extensions(&self) -> Vec<String> {
        let SessionSettings { max_size, max_recipients, .. } = &*self.settings;
        let size = match *max_size {
            NO_SIZE_LIMIT => "SIZE".to_string(),
            max_size => format!("SIZE {max_size}"),
        };
        let mut all: Vec<String> = vec!["PIPELINING".into(), size];
        if self.settings.has_tls && self.tls.is_none() {
            all.push("STARTTLS".into());
        }
        all.extend(self.mechanisms());
        if self.may_start_queue() {
            all.push("ETRN".into());
        }
        let rest = ["8BITMIME", "SMTPUTF8", "CHUNKING", "DSN", "ENHANCEDSTATUSCODES", "DELIVERBY"];
        all.extend(rest.map(str::to_string));
        if self.settings.has_priorities {
            all.push("MT-PRIORITY".into());
        }
        if self.offers_hold() {
            let (max, now) = (self.settings.max_hold, (self.settings.now)());
            let until = format_time(Timestamp::from_seconds((now + max).seconds()));
            all.push(format!("FUTURERELEASE {} {}", max.as_secs(), until.replace(".000", "")));
        }
        all.push(format!("LIMITS RCPTMAX={max_recipients}"));
        all
    }

    /// Returns true if a client may have messages held: on ports for users (RFC 4865, 3).
    fn offers_hold(&self) -> bool {
        self.settings.service == Service::Submission && !self.settings.max_hold.is_zero()
    }

    /// AUTH with the mechanisms that are offered now.
    ///
    /// A password is not sent where others may listen; with SCRAM it never is.
    fn mechanisms(&self) -> Option<String> {
        let words = match (self.settings.logins, self.may_send_password()) {
            (Logins::All, true) => "AUTH SCRAM-SHA-256 PLAIN LOGIN",
            (Logins::All, false) => "AUTH SCRAM-SHA-256",
            (Logins::Passwords, true) => "AUTH PLAIN LOGIN",
            _ => return None,
        };
        self.login.is_none().then(|| words.to_string())
    }

    fn may_send_password(&self) -> bool {
        self.tls.is_some() || self.client.is_local
    }

    fn may_relay(&self) -> bool {
        self.client.may_relay || self.login.is_some()
    }

    fn may_start_queue(&self) -> bool {
        let settings = &self.settings;
        let is_of_use = self.client.may_relay || settings.has_queue_domains;
        settings.has_queue_requests
            && self.client.ip.is_some()
            && self.settings.service == Service::Smtp
            && is_of_use
    }

    fn start_tls(&mut self) {
        if !self.settings.has_tls {
            return self.refuse(Reply::new(502, "5.5.1", "There is no TLS here"));
        }
        if self.tls.is_some() {
            return self.refuse(Reply::out_of_order("TLS is in use already"));
        }
        self.reply(Reply::new(220, "2.0.0", "Begin TLS"));
        self.awaited = Some(Awaited::Tls);
        self.requests.push_back(Request::StartTls);
    }

    fn etrn(&mut self, host: String) {
        if !self.may_start_queue() {
            return self.refuse(Reply::new(550, "5.7.1", "ETRN is not for this client"));
        }
        if self.transaction.is_some() {
            return self.refuse(Reply::out_of_order("ETRN is not possible in an envelope"));
        }
        self.awaited = Some(Awaited::Queue);
        self.requests.push_back(Request::StartQueue(host));
    }

    fn idle_command(&mut self, reply: Reply) {
        self.count_idle_command();
        self.reply(reply);
    }

    /// Counts a command that brings no message by itself.
    fn count_idle_command(&mut self) {
        self.idle_commands += 1;
        if self.idle_commands > MAX_IDLE_COMMANDS {
            self.count_error();
        }
    }

    fn reply(&mut self, reply: Reply) {
        if !self.is_closing {
            reply.write(&mut self.output);
        }
    }

    /// Sends a reply about a mistake of the client.
    fn refuse(&mut self, reply: Reply) {
        self.reply(reply);
        self.count_error();
    }

    fn count_error(&mut self) {
        self.errors += 1;
        if self.errors > MAX_ERRORS {
            self.log.push(LogLine::OfSession("too many errors"));
            self.close(Reply::new(421, "4.7.0", "Too many errors"));
        }
    }

    /// Sends the last reply.
    fn close(&mut self, reply: Reply) {
        self.reply(reply);
        self.drop_transaction();
        self.awaited = None;
        self.input = Vec::new();
        self.input_at = 0;
        self.is_closing = true;
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        let line = format!("{}: {text}", self.client_name());
        self.log.push(LogLine::OfMail(line));
    }

    /// Checks that there is room for another part of a message.
    fn check_room(&self, size: u64) -> Result<(), Reply> {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        if load(&self.settings.free_space) <= size {
            return Err(Reply::full_disk());
        }
        if load(&self.settings.free_memory) == 0 {
            let text = "Too many messages at the same time, try again later";
            return Err(Reply::new(452, "4.3.1", text));
        }
        Ok(())
    }

    /// Memory that the session takes besides what any session does, in bytes.
    pub fn memory(&self) -> usize {
        let buffers = self.input.capacity() + self.output.capacity();
        buffers + self.transaction.as_ref().map_or(0, |transaction| transaction.memory())
    }
}
