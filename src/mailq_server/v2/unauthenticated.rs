//! An unauthenticated session.
//!
//! Its input is never echoed, and it receives only the results of login attempts.

use super::requests::{RequestLine, next_word};
use super::task::{ClientLog, SessionContext};
use crate::acl::Peer;
use crate::attributes::Attributes;
use crate::auth_file::{Account, Password};
use crate::login::Challenge;
use std::borrow::Cow;
use zsched_mailq_protocol::scram::{ClientFirst, MECHANISM, Server, StoredPassword, server_nonce};

/// Maximum number of failed logins before the connection is closed.
const MAX_FAILED_LOGINS: u32 = 10;

/// Answer to any other request before the login.
pub(super) const MUST_LOG_IN: &str = "-BAD; USER MUST AUTHENTICATE\n";
const NO_ACCOUNT: &str = "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n";
const WRONG_PASSWORD: &str = "-BAD USER OR PASSWORD\n";
const NO_SUCH_LOGIN: &str = "-ONLY SCRAM-SHA-256, WITHOUT CHANNEL BINDING\n";
const NO_HASH: &str = "-USE AUTH\n";

/// The state of a session before its login.
pub(super) struct Unauthenticated {
    peer: Peer,
    challenge: Challenge,
    failures: u32,
    /// Number of logins begun with `AUTH2`.
    scram_logins: u32,
    /// The `AUTH2` login in progress.
    auth2: Option<Box<Server>>,
}

/// A client that has logged in.
pub(super) struct User {
    /// The user name and the peer.
    pub name: String,
    /// The user's permissions.
    pub attributes: Attributes,
}

/// Answer to a line, and the user if the line completes a login.
type LoginReply = (Cow<'static, str>, Option<User>);

impl Unauthenticated {
    /// Creates the state of a session that was sent this challenge.
    pub(super) fn new(peer: Peer, challenge: Challenge) -> Unauthenticated {
        Unauthenticated { peer, challenge, failures: 0, scram_logins: 0, auth2: None }
    }

    /// Returns true if the maximum number of failed logins is reached.
    pub(super) fn has_reached_limit(&self) -> bool {
        self.failures >= MAX_FAILED_LOGINS
    }

    /// Returns true if a line begins an attempt to log in.
    pub(super) fn begins_login(&self, line: &[u8]) -> bool {
        self.auth2.is_none() && matches!(RequestLine::of(line).verb, b"AUTH" | b"AUTH2")
    }

    /// Answers a line.
    pub(super) fn answer(
        &mut self,
        line: &[u8],
        words: &RequestLine<'_>,
        context: &mut SessionContext<'_>,
    ) -> LoginReply {
        if let Some(auth2) = self.auth2.take() {
            return self.finish_exchange(&auth2, line, context);
        }
        match words.verb {
            b"AUTH" => self.log_in(words.rest, context),
            b"AUTH2" => (self.begin_exchange(words.rest, context), None),
            _ => {
                context.request_counters.refused += 1;
                (MUST_LOG_IN.into(), None)
            }
        }
    }

    /// `AUTH`: checks the digest of challenge and password.
    fn log_in(&mut self, rest: &[u8], context: &mut SessionContext<'_>) -> LoginReply {
        context.request_counters.auth += 1;
        let (user, answer) = next_word(rest);
        let accounts = (context.accounts)();
        let account = accounts.account(user, &self.peer);
        let refusal = match account.map(|account| (account, account.password())) {
            Some((account, Password::Plain(password)))
                if self.challenge.verify(password, answer) =>
            {
                return ("+OK\n".into(), Some(self.accept(user, account, context)));
            }
            Some((_, Password::Plain(_))) => WRONG_PASSWORD,
            // The answer does not reveal that the account has only a hash.
            Some((_, Password::Scram(_))) | None => NO_ACCOUNT,
        };
        self.refuse(user, context);
        (refusal.into(), None)
    }

    /// `AUTH2`: answers the client's first message.
    fn begin_exchange(
        &mut self,
        rest: &[u8],
        context: &mut SessionContext<'_>,
    ) -> Cow<'static, str> {
        context.request_counters.auth += 1;
        let (mechanism, message) = next_word(rest);
        let first = match ClientFirst::parse(message) {
            Ok(first) if mechanism == MECHANISM => first,
            _ => {
                self.refuse(b"", context);
                return NO_SUCH_LOGIN.into();
            }
        };
        let accounts = (context.accounts)();
        let account = accounts.account(&first.user, &self.peer);
        let stored = match account.map(Account::password) {
            Some(Password::Scram(stored)) => (**stored).clone(),
            // Checking it would require hashing the password, which takes too long.
            Some(Password::Plain(_)) => return NO_HASH.into(),
            None => StoredPassword::for_unknown_user(
                &first.user,
                context.secret,
                accounts.scram_iterations(),
            ),
        };
        self.scram_logins += 1;
        let occasion = format!("{} {}", self.challenge.line(), self.scram_logins);
        let server = Server::new(first, stored, &server_nonce(context.secret, &occasion));
        let answer = format!("+{}\n", server.first());
        self.auth2 = Some(Box::new(server));
        answer.into()
    }

    /// Checks the client's proof.
    fn finish_exchange(
        &mut self,
        auth2: &Server,
        line: &[u8],
        context: &mut SessionContext<'_>,
    ) -> LoginReply {
        let signature = auth2.finish(line);
        let accounts = (context.accounts)();
        match (signature, accounts.account(&auth2.user, &self.peer)) {
            (Ok(signature), Some(account)) if is_current(auth2, account.password()) => {
                let user = self.accept(&auth2.user, account, context);
                (format!("+OK {signature}\n").into(), Some(user))
            }
            _ => {
                self.refuse(&auth2.user, context);
                (WRONG_PASSWORD.into(), None)
            }
        }
    }

    fn accept(&self, user: &[u8], account: &Account, context: &mut SessionContext<'_>) -> User {
        let (display_name, peer, attributes) =
            (display_name(user), self.peer, account.attributes());
        let text = format!("MAILQ: {peer} logged in as {display_name:?}: {attributes}");
        context.log_lines.push(ClientLog::Change(text));
        User { name: format!("{display_name} from {peer}"), attributes }
    }

    fn refuse(&mut self, user: &[u8], context: &mut SessionContext<'_>) {
        self.failures += 1;
        context.request_counters.refused_logins += 1;
        let text = format!("MAILQ: login from {} as {:?} failed", self.peer, display_name(user));
        context.log_lines.push(ClientLog::LoginFailed(self.peer, text));
    }
}

/// Returns true if the account still has the record that the proof was checked against.
fn is_current(auth2: &Server, password: &Password) -> bool {
    matches!(password, Password::Scram(stored) if auth2.used_record(stored))
}

/// A user name as it appears in the log.
fn display_name(user: &[u8]) -> String {
    String::from_utf8_lossy(user).chars().take(40).collect()
}
