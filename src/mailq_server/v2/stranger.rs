//! An unauthenticated session.
//!
//! Its input is never echoed, and it receives only the results of login attempts.

use super::answer::{Remark, Surroundings};
use super::requests::{Words, next_word};
use crate::acl::Peer;
use crate::attributes::Attributes;
use crate::auth_file::{Account, Password};
use crate::login::Challenge;
use std::borrow::Cow;
use zsched_mailq_protocol::scram::{ClientFirst, MECHANISM, Server, Stored, chance};

/// Maximum number of failed logins before the connection is closed.
const MOST_FAILURES: u32 = 10;

/// Answer to any other request before the login.
pub const MUST_LOG_IN: &str = "-BAD; USER MUST AUTHENTICATE\n";
const NO_ACCOUNT: &str = "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n";
const WRONG_PASSWORD: &str = "-BAD USER OR PASSWORD\n";
const NO_SUCH_LOGIN: &str = "-ONLY SCRAM-SHA-256, WITHOUT CHANNEL BINDING\n";
const NO_HASH: &str = "-USE AUTH\n";

/// The state of a session before its login.
pub struct Stranger {
    peer: Peer,
    challenge: Challenge,
    failures: u32,
    /// Number of logins begun with `AUTH2`.
    begun: u32,
    /// The `AUTH2` login in progress.
    exchange: Option<Box<Server>>,
}

/// A client that has logged in.
pub struct User {
    /// The user name and the peer.
    pub name: String,
    /// The user's permissions.
    pub attributes: Attributes,
}

/// Answer to a line, and the user if the line completes a login.
type Answer = (Cow<'static, str>, Option<User>);

impl Stranger {
    /// Creates the state of a session that was sent this challenge.
    pub fn new(peer: Peer, challenge: Challenge) -> Stranger {
        Stranger { peer, challenge, failures: 0, begun: 0, exchange: None }
    }

    /// Returns true if the maximum number of failed logins is reached.
    pub fn has_failed(&self) -> bool {
        self.failures >= MOST_FAILURES
    }

    /// Returns true if a line begins an attempt to log in.
    pub fn takes_for_login(&self, line: &[u8]) -> bool {
        self.exchange.is_none() && matches!(Words::of(line).verb, b"AUTH" | b"AUTH2")
    }

    /// Answers a line.
    pub fn answer(
        &mut self,
        line: &[u8],
        words: &Words<'_>,
        around: &mut Surroundings<'_>,
    ) -> Answer {
        if let Some(exchange) = self.exchange.take() {
            return self.finish_exchange(&exchange, line, around);
        }
        match words.verb {
            b"AUTH" => self.log_in(words.rest, around),
            b"AUTH2" => (self.begin_exchange(words.rest, around), None),
            _ => {
                around.tally.refused += 1;
                (MUST_LOG_IN.into(), None)
            }
        }
    }

    /// `AUTH`: checks the digest of challenge and password.
    fn log_in(&mut self, rest: &[u8], around: &mut Surroundings<'_>) -> Answer {
        around.tally.auth += 1;
        let (user, answer) = next_word(rest);
        let accounts = (around.accounts)();
        let account = accounts.account(user, &self.peer);
        let refusal = match account.map(|account| (account, account.password())) {
            Some((account, Password::Plain(password)))
                if self.challenge.is_met(password, answer) =>
            {
                return ("+OK\n".into(), Some(self.welcome(user, account, around)));
            }
            Some((_, Password::Plain(_))) => WRONG_PASSWORD,
            // The answer does not reveal that the account has only a hash.
            Some((_, Password::Scram(_))) | None => NO_ACCOUNT,
        };
        self.refuse(user, around);
        (refusal.into(), None)
    }

    /// `AUTH2`: answers the client's first message.
    fn begin_exchange(&mut self, rest: &[u8], around: &mut Surroundings<'_>) -> Cow<'static, str> {
        around.tally.auth += 1;
        let (mechanism, message) = next_word(rest);
        let first = match ClientFirst::parse(message) {
            Ok(first) if mechanism == MECHANISM => first,
            _ => {
                self.refuse(b"", around);
                return NO_SUCH_LOGIN.into();
            }
        };
        let accounts = (around.accounts)();
        let account = accounts.account(&first.user, &self.peer);
        let stored = match account.map(Account::password) {
            Some(Password::Scram(stored)) => (**stored).clone(),
            // Checking it would require hashing the password, which takes too long.
            Some(Password::Plain(_)) => return NO_HASH.into(),
            None => Stored::of_nobody(&first.user, around.secret, accounts.usual_iterations()),
        };
        self.begun += 1;
        let occasion = format!("{} {}", self.challenge.line(), self.begun);
        let begun = Server::new(first, stored, &chance(around.secret, &occasion));
        let answer = format!("+{}\n", begun.first());
        self.exchange = Some(Box::new(begun));
        answer.into()
    }

    /// Checks the client's proof.
    fn finish_exchange(
        &mut self,
        exchange: &Server,
        line: &[u8],
        around: &mut Surroundings<'_>,
    ) -> Answer {
        let signature = exchange.finish(line);
        let accounts = (around.accounts)();
        match (signature, accounts.account(&exchange.user, &self.peer)) {
            (Ok(signature), Some(account)) if uses(exchange, account.password()) => {
                let user = self.welcome(&exchange.user, account, around);
                (format!("+OK {signature}\n").into(), Some(user))
            }
            _ => {
                self.refuse(&exchange.user, around);
                (WRONG_PASSWORD.into(), None)
            }
        }
    }

    fn welcome(&self, user: &[u8], account: &Account, around: &mut Surroundings<'_>) -> User {
        let (shown, peer, attributes) = (shown(user), self.peer, account.attributes());
        let text = format!("MAILQ: {peer} has logged in as {shown:?}: {attributes}");
        around.remarks.push(Remark::Notable(text));
        User { name: format!("{shown} from {peer}"), attributes }
    }

    fn refuse(&mut self, user: &[u8], around: &mut Surroundings<'_>) {
        self.failures += 1;
        around.tally.refused_logins += 1;
        let text = format!("MAILQ: a login of {} as {:?} has failed", self.peer, shown(user));
        around.remarks.push(Remark::LoginFailed(self.peer, text));
    }
}

/// Returns true if the account still has the record that the proof was checked against.
fn uses(exchange: &Server, password: &Password) -> bool {
    matches!(password, Password::Scram(stored) if exchange.is_with(stored))
}

/// A user name as it appears in the log.
fn shown(user: &[u8]) -> String {
    String::from_utf8_lossy(user).chars().take(40).collect()
}
