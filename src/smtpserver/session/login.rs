//! AUTH (RFC 4954): PLAIN (RFC 4616), LOGIN and SCRAM-SHA-256 (RFC 7677).

use super::{Awaited, Logins, Phase, Reply, Request, Session};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use zsched_mailq_protocol::scram::{ClientFirst, Server as ScramServer};

/// Maximum number of failed logins before the session ends.
const MAX_FAILED_LOGINS: u32 = 3;
/// Maximum length of a login name, in bytes.
const MAX_NAME_LEN: usize = 256;

/// What a client claims.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A name and its password.
    Password {
        /// The login name.
        user: String,
        /// The password.
        password: String,
    },
    /// The first message of SCRAM, in base64.
    Scram(String),
}

impl std::fmt::Debug for Credentials {
    /// Writes no password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Password { user, .. } => write!(f, "a password of {user}"),
            Credentials::Scram(_) => f.write_str("SCRAM"),
        }
    }
}

/// The server's side of SCRAM, which knows the record of a password.
pub struct PasswordRecord {
    /// The exchange.
    pub server: ScramServer,
    /// False for a user that does not exist: the proof is never right.
    pub exists: bool,
}

impl std::fmt::Debug for PasswordRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SCRAM for {}", String::from_utf8_lossy(&self.server.user))
    }
}

/// The answer to [`Credentials`].
#[derive(Debug)]
pub enum LoginAnswer {
    /// The password is right; the login name.
    Accepted(String),
    /// It is wrong, or the user does not exist.
    Wrong,
    /// What the client has sent is not a message of SCRAM.
    Malformed,
    /// SCRAM goes on.
    Scram(Box<PasswordRecord>),
    /// Another reply, such as that of too many failures.
    Refused(Reply),
}

/// What the next line of a login is.
#[derive(Debug)]
pub(super) enum LoginState {
    Plain,
    LoginName,
    LoginPassword(String),
    ScramFirst,
    ScramFinal(Box<PasswordRecord>),
    /// The client confirms the server's last message.
    ScramEnd(String),
    /// The answer of the server is awaited.
    Checking,
}

impl Session {
    pub(super) fn auth(&mut self, mechanism: &str, initial: Option<&str>) {
        if self.settings.logins == Logins::None {
            return self.refuse(Reply::new(502, "5.5.1", "There are no logins here"));
        }
        if self.hello.is_none() || self.login.is_some() || self.transaction.is_some() {
            return self.refuse(Reply::out_of_order("A login is not possible now"));
        }
        let (state, method, challenge) = match mechanism {
            "SCRAM-SHA-256" if self.settings.logins == Logins::All => {
                (LoginState::ScramFirst, "SCRAM-SHA-256", "")
            }
            "PLAIN" | "LOGIN" if !self.may_send_password() => {
                let text = "This login needs TLS";
                return self.refuse(Reply::new(538, "5.7.11", text));
            }
            "PLAIN" => (LoginState::Plain, "PLAIN", ""),
            "LOGIN" => (LoginState::LoginName, "LOGIN", "VXNlcm5hbWU6"),
            _ => return self.refuse(Reply::new(504, "5.5.4", "Unknown login mechanism")),
        };
        self.login_method = Some(method);
        self.phase = Phase::Login(state);
        match initial {
            None => self.challenge(challenge),
            Some("=") => self.login_line(b""),
            Some(text) => self.login_line(text.as_bytes()),
        }
    }

    fn challenge(&mut self, text: &str) {
        self.output.extend_from_slice(format!("334 {text}\r\n").as_bytes());
    }

    /// Takes a line of a login.
    pub(super) fn login_line(&mut self, line: &[u8]) {
        let Phase::Login(state) = std::mem::replace(&mut self.phase, Phase::Command) else {
            return;
        };
        if line == b"*" {
            return self.refuse(Reply::new(501, "5.7.0", "The login is cancelled"));
        }
        let malformed = || Reply::new(501, "5.5.2", "Malformed login");
        let text = BASE64.decode(line).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = text else { return self.refuse(malformed()) };
        match state {
            LoginState::Plain => {
                let parts: Vec<&str> = text.split('\0').collect();
                match parts[..] {
                    [authorized, user, password] if authorized.is_empty() || authorized == user => {
                        self.check_password(user, password);
                    }
                    _ => self.refuse(malformed()),
                }
            }
            LoginState::LoginName => {
                self.phase = Phase::Login(LoginState::LoginPassword(text));
                self.challenge("UGFzc3dvcmQ6");
            }
            LoginState::LoginPassword(user) => self.check_password(&user, &text),
            LoginState::ScramFirst => match ClientFirst::parse(line) {
                Ok(first) => {
                    let message = String::from_utf8_lossy(line).into_owned();
                    let user = String::from_utf8_lossy(&first.user).into_owned();
                    self.check(user, Credentials::Scram(message));
                }
                Err(_) => self.refuse(malformed()),
            },
            LoginState::ScramFinal(record) => {
                let user = String::from_utf8_lossy(&record.server.user).into_owned();
                match record.server.finish(line) {
                    Ok(last) if record.exists => {
                        self.phase = Phase::Login(LoginState::ScramEnd(user));
                        self.challenge(&last);
                    }
                    _ => self.wrong_password(&user),
                }
            }
            LoginState::ScramEnd(user) => self.logged_in(user),
            LoginState::Checking => self.refuse(malformed()),
        }
    }

    fn check_password(&mut self, user: &str, password: &str) {
        let is_name = !user.is_empty()
            && user.len() <= MAX_NAME_LEN
            && !user.contains(|c: char| c.is_control() || c.is_whitespace());
        match is_name {
            true => {
                let (user, password) = (user.to_string(), password.to_string());
                self.check(user.clone(), Credentials::Password { user, password });
            }
            false => {
                self.claimed_login = String::new();
                self.wrong_password("?");
            }
        }
    }

    fn check(&mut self, user: String, credentials: Credentials) {
        self.claimed_login = user;
        self.phase = Phase::Login(LoginState::Checking);
        self.awaited = Some(Awaited::Login);
        self.requests.push_back(Request::Login(credentials));
    }

    pub(super) fn login_answered(&mut self, answer: LoginAnswer) {
        self.phase = Phase::Command;
        match answer {
            LoginAnswer::Accepted(user) => self.logged_in(user),
            LoginAnswer::Wrong => self.wrong_password("?"),
            LoginAnswer::Malformed => {
                self.refuse(Reply::new(501, "5.5.2", "Malformed login"));
            }
            LoginAnswer::Refused(reply) => {
                self.note(format_args!("login refused: {reply}"));
                self.refuse(reply);
            }
            LoginAnswer::Scram(record) => {
                let first = record.server.first();
                self.phase = Phase::Login(LoginState::ScramFinal(record));
                self.challenge(&first);
            }
        }
    }

    fn logged_in(&mut self, user: String) {
        self.phase = Phase::Login(LoginState::Checking);
        self.awaited = Some(Awaited::Admission(user.clone()));
        self.requests.push_back(Request::AdmitLogin(user));
    }

    /// Takes the decision about a login whose password was right.
    pub(super) fn login_admitted(&mut self, user: String, reply: Reply) {
        self.phase = Phase::Command;
        if reply.is_error() {
            self.note(format_args!("login of {user} refused: {reply}"));
            return self.refuse(reply);
        }
        self.note(format_args!("logged in as {user}"));
        self.login = Some(user);
        self.reply(reply);
    }

    fn wrong_password(&mut self, user: &str) {
        self.failed_logins += 1;
        self.new_failed_logins.push(std::mem::take(&mut self.claimed_login));
        self.note(format_args!("login failed, user {user}"));
        match self.failed_logins < MAX_FAILED_LOGINS {
            true => self.refuse(Reply::new(535, "5.7.8", "User or password is wrong")),
            false => self.close(Reply::new(421, "4.7.0", "Too many failed logins")),
        }
    }

    /// Takes the names of logins that failed since the last call.
    pub fn take_failed_logins(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_failed_logins)
    }

    /// The name with which the client wants to log in, as it has sent it.
    pub fn claimed_login(&self) -> &str {
        &self.claimed_login
    }
}
