//! The login at a MAILQ version 2 server, and its proof.

use crate::failure::Failure;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use zsched_mailq_protocol::{auth, scram};

/// User and password of the account that every installation has.
const DEFAULT_LOGIN: &str = "nobody";
/// Maximum number of bytes read from a login file.
const MAX_LOGIN_FILE_LEN: u64 = 4096;

/// A user of a server, and the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub(super) user: String,
    password: String,
    /// True if the user gave a login. Otherwise the password is a well-known default.
    pub(super) is_explicit: bool,
}

impl Credentials {
    /// Parses `user/password`.
    ///
    /// The separator is the first `/`, or else the first `:`, or else the first `,`. Without any,
    /// the password is that of the account that every installation has.
    pub fn parse(text: &str) -> Result<Credentials, Failure> {
        let separated = ['/', ':', ','].iter().find_map(|separator| text.split_once(*separator));
        let (user, password) = separated.unwrap_or((text, DEFAULT_LOGIN));
        // Blanks and control characters would break the request.
        if user.is_empty() || user.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Failure::usage("a login begins with a user name without blanks");
        }
        Ok(Credentials {
            user: user.to_string(),
            password: password.to_string(),
            is_explicit: true,
        })
    }

    /// Reads the first line of a login file.
    pub fn read(path: &Path) -> Result<Credentials, Failure> {
        let failed = |error| Failure::Usage(format!("{}: {error}", path.display()));
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_LOGIN_FILE_LEN).read_to_string(&mut text).map_err(failed)?;
        Credentials::parse(text.lines().next().unwrap_or_default())
    }

    /// Begins a SCRAM login.
    pub fn scram(&self) -> io::Result<scram::Client> {
        scram::Client::new(&self.user, &self.password)
    }

    /// MD5 proof that the password is known.
    ///
    /// `challenge` is the line after the greeting, byte for byte. Servers from before October 2001
    /// have no `220 ` in front of it.
    pub fn digest(&self, challenge: &[u8]) -> String {
        auth::response(challenge, self.password.as_bytes())
    }
}

impl Default for Credentials {
    fn default() -> Credentials {
        Credentials {
            user: DEFAULT_LOGIN.to_string(),
            password: DEFAULT_LOGIN.to_string(),
            is_explicit: false,
        }
    }
}

/// Leaves out the password, since debug output may be logged.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_separators_of_zmailer() {
        for (text, user, password) in [
            ("a/b", "a", "b"),
            ("a:b/c", "a:b", "c"),
            ("a:b:c", "a", "b:c"),
            ("a,b c", "a", "b c"),
            ("a", "a", "nobody"),
            ("a/", "a", ""),
        ] {
            let read = Credentials::parse(text).expect(text);
            assert_eq!((read.user.as_str(), read.password.as_str()), (user, password), "{text}");
        }
        for text in ["", "/b", "a b/c", "a\nQUIT/c"] {
            assert!(Credentials::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn digest_matches_recordings() {
        for (challenge, login, digest) in [
            ("1795255943.68171.2", "nobody", "38a784a5473d5b661ad89e27f2c1fd0c"),
            ("1795255951.209815.10", "root/sekret", "5c02bd806c204b81693a0cb92c112b31"),
            ("1795255952.111942.11", "snmponly/pw", "948aa9501f0a5fc9d10dea29cbb185ff"),
        ] {
            let challenge = format!("220 MAILQ-V2-CHALLENGE: {challenge}");
            let credentials = Credentials::parse(login).expect(login);
            assert_eq!(credentials.digest(challenge.as_bytes()), digest, "{login}");
        }
        let old = Credentials::parse("nobody/my-passwd").expect("a login");
        let challenge = b"MAILQ-V2-CHALLENGE: 942665308.906504.3";
        assert_eq!(old.digest(challenge), "bd4baf7e175c6457f092a4d8a72be539");
    }

    #[test]
    fn debug_output_has_no_password() {
        let shown = format!("{:?}", Credentials::parse("fred/secret").expect("a login"));
        assert!(shown.contains("fred") && !shown.contains("secret"), "{shown}");
    }
}
