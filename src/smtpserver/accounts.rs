//! The file of logins: a user and the hash of a password on each line.
//!
//! ```text
//! # user:hash
//! alice:SCRAM-SHA-256$65536:…$…:…
//! ```
//!
//! `mailq passwd` makes such lines. What they have after the hash is for MAILQ. Messages about
//! errors show nothing of a line but its position, because a malformed line may contain a password
//! anywhere.

use super::session::{Credentials, LoginAnswer, PasswordRecord};
use std::collections::HashMap;
use std::io;
use zsched_mailq_protocol::scram::{
    ClientFirst, Secret, Server as ScramServer, StoredPassword, normalize_password, server_nonce,
};
use zsched_sys as sys;

/// Maximum size of the file, in bytes.
pub(crate) const MAX_FILE_SIZE: usize = 16 << 20;

/// All accounts.
pub(crate) struct Accounts {
    passwords: HashMap<String, StoredPassword>,
    /// Iterations of unknown users, so that their logins take as long.
    iterations: Option<u32>,
    secret: Secret,
}

/// An error in the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AccountError {
    /// Number of the line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    pub(crate) message: &'static str,
}

/// Adds the account of a line. An error has its offset in the line.
fn account(
    line: &str,
    passwords: &mut HashMap<String, StoredPassword>,
) -> Result<(), (usize, &'static str)> {
    let start = line.len() - line.trim_start().len();
    let text = line.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(());
    }
    let (user, hash) = text.split_once(':').ok_or((start, "there is no user and hash"))?;
    if user.is_empty() {
        return Err((start, "the name of the user is missing"));
    }
    let stored = without_mailq_fields(hash).parse();
    let stored = stored.map_err(|_| (start + user.len() + 1, "this is no hash of a password"))?;
    match passwords.insert(user.to_string(), stored) {
        None => Ok(()),
        Some(_) => Err((start, "the user has a line already")),
    }
}

/// The hash, which has two colons, without the permissions and addresses after it.
fn without_mailq_fields(hash: &str) -> &str {
    hash.match_indices(':').nth(2).map_or(hash, |(end, _)| &hash[..end])
}

impl Accounts {
    /// Parses the text of the file. Returns the errors in it, too.
    pub(crate) fn parse(text: &str) -> io::Result<(Accounts, Vec<AccountError>)> {
        let (mut passwords, mut wrong) = (HashMap::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            if let Err((at, message)) = account(line, &mut passwords) {
                let column = line[..at].chars().count() + 1;
                wrong.push(AccountError { line: index + 1, column, message });
            }
        }
        let iterations = passwords.values().map(|stored: &StoredPassword| stored.iterations).next();
        let mut secret = [0; 32];
        for part in secret.chunks_mut(8) {
            part.copy_from_slice(&sys::random_number()?.to_ne_bytes());
        }
        Ok((Accounts { passwords, iterations, secret }, wrong))
    }

    /// Checks a login. A password takes some ten milliseconds.
    pub(crate) fn check(&self, credentials: &Credentials) -> LoginAnswer {
        match credentials {
            Credentials::Password { user, password } => {
                let (stored, exists) = self.record(user.as_bytes());
                let password = normalize_password(password).unwrap_or(password.into());
                let made =
                    StoredPassword::with_salt(&password, stored.salt.clone(), stored.iterations);
                match made == stored && exists {
                    true => LoginAnswer::Accepted(user.clone()),
                    false => LoginAnswer::Wrong,
                }
            }
            Credentials::Scram(message) => self.begin_scram(message.as_bytes()),
        }
    }

    fn begin_scram(&self, message: &[u8]) -> LoginAnswer {
        let Ok(first) = ClientFirst::parse(message) else { return LoginAnswer::Malformed };
        let Ok(occasion) = sys::random_number() else { return LoginAnswer::Wrong };
        let (stored, exists) = self.record(&first.user);
        let nonce = server_nonce(&self.secret, &format!("{occasion:x}"));
        let server = ScramServer::new(first, stored, &nonce);
        LoginAnswer::Scram(Box::new(PasswordRecord { server, exists }))
    }

    /// The record of a user, and true if the user exists.
    fn record(&self, user: &[u8]) -> (StoredPassword, bool) {
        let known = std::str::from_utf8(user).ok().and_then(|user| self.passwords.get(user));
        match known {
            Some(stored) => (stored.clone(), true),
            None => {
                let made = StoredPassword::for_unknown_user(user, &self.secret, self.iterations);
                (made, false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_mailq_passwd_is_a_login() {
        let stored = StoredPassword::with_salt("pencil", b"salt of 16 bytes".to_vec(), 4096);
        for rest in ["", ":ALL:", ":ALL:[192.0.2.0]/24"] {
            let (accounts, wrong) =
                Accounts::parse(&format!("alice:{stored}{rest}")).expect("parsed");
            assert_eq!(wrong, [], "{rest}");
            assert!(accounts.passwords["alice"] == stored, "{rest}");
        }
    }

    #[test]
    fn password_is_checked_against_its_hash() {
        let stored = StoredPassword::with_salt("pencil", b"salt of 16 bytes".to_vec(), 4096);
        let text =
            format!("# users\nalice:{stored}\n\n bob:plain\nnothing\n:{stored}\nalice:{stored}\n");
        let (accounts, wrong) = Accounts::parse(&text).expect("parsed");
        let wrong: Vec<_> = wrong.iter().map(|one| (one.line, one.column, one.message)).collect();
        assert_eq!(
            wrong,
            [
                (4, 6, "this is no hash of a password"),
                (5, 1, "there is no user and hash"),
                (6, 1, "the name of the user is missing"),
                (7, 1, "the user has a line already"),
            ]
        );
        assert_eq!(accounts.passwords.len(), 1);
        for (user, password, is_right) in [
            ("alice", "pencil", true),
            ("alice", "pencils", false),
            ("bob", "plain", false),
            ("eve", "pencil", false),
        ] {
            let credentials =
                Credentials::Password { user: user.into(), password: password.into() };
            let accepted = matches!(accounts.check(&credentials), LoginAnswer::Accepted(_));
            assert_eq!(accepted, is_right, "{user}");
        }
    }
}
