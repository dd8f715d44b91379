//! Somebody who has not logged in: nothing that it says is repeated, and nothing is told but whether it may.

use super::answer::{Remark, Surroundings};
use super::requests::{Words, next_word};
use crate::acl::Peer;
use crate::attributes::Attributes;
use crate::auth_file::{Account, Password};
use crate::login::Challenge;
use std::borrow::Cow;
use zsched_mailq_protocol::scram::{ClientFirst, MECHANISM, Server, Stored, chance};

/// So many logins may fail; then the connection is closed.
const MOST_FAILURES: u32 = 10;

/// What everybody is told who asks for anything else.
pub const MUST_LOG_IN: &str = "-BAD; USER MUST AUTHENTICATE\n";
const NO_ACCOUNT: &str = "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n";
const WRONG_PASSWORD: &str = "-BAD USER OR PASSWORD\n";
const NO_SUCH_LOGIN: &str = "-ONLY SCRAM-SHA-256, WITHOUT CHANNEL BINDING\n";
const NO_HASH: &str = "-USE AUTH\n";

/// A client that has not logged in.
pub struct Stranger {
    peer: Peer,
    challenge: Challenge,
    failures: u32,
    /// How many logins with `AUTH2` were begun.
    begun: u32,
    /// The one that is under way.
    exchange: Option<Box<Server>>,
}

/// A client that has logged in.
pub struct User {
    /// Its name, and where it is.
    pub name: String,
    /// What it may do.
    pub attributes: Attributes,
}

/// What a line of a stranger brings.
type Answer = (Cow<'static, str>, Option<User>);

impl Stranger {
    /// Somebody who has been given a challenge.
    pub fn new(peer: Peer, challenge: Challenge) -> Stranger {
        Stranger { peer, challenge, failures: 0, begun: 0, exchange: None }
    }

    /// Whether it has tried often enough.
    pub fn has_failed(&self) -> bool {
        self.failures >= MOST_FAILURES
    }

    /// Whether a line is the beginning of an attempt to log in.
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

    /// `AUTH`: the digest of the challenge and the password.
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
            // Where only a hash is kept nobody is told that there is one.
            Some((_, Password::Scram(_))) | None => NO_ACCOUNT,
        };
        self.refuse(user, around);
        (refusal.into(), None)
    }

    /// `AUTH2`: the client says who it is.
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
            // To check it the password would have to be hashed, which takes too long.
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

    /// The client proves that it knows the password.
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

/// Whether a proof was checked with what is there by now.
fn uses(exchange: &Server, password: &Password) -> bool {
    matches!(password, Password::Scram(stored) if exchange.is_with(stored))
}

/// A name as the log has it.
fn shown(user: &[u8]) -> String {
    String::from_utf8_lossy(user).chars().take(40).collect()
}
