//! The auth file: the accounts of MAILQ version 2 (`man/mailq-auth.5`).
//!
//! ```text
//! # user:password:attributes:address list
//! nobody:nobody:SNMP QQ TT ETRN:  [127.0.0.0]/8 [ipv6.0::1]/128
//! root:secret phrase:ALL:         [192.0.2.2]
//! ```
//!
//! Of a user's lines, the first that admits the peer and grants any attribute is used; only its
//! password is tried. Messages about errors name the line number only, because a malformed line may
//! contain a password anywhere.

use super::acl::{Acl, Peer};
use super::attributes::{self, Attributes};
use std::fmt;
use zsched_mailq_protocol::scram::{PREFIX, StoredPassword};

/// Maximum size of the file, in bytes.
pub const MAX_FILE_SIZE: usize = 64 * 1024;
/// Maximum length of a line, in bytes.
///
/// ZMailer reads the rest of a longer line as another line.
const MAX_LINE_LEN: usize = 1998;

/// All accounts.
#[derive(Debug, Default)]
pub struct AuthFile {
    accounts: Vec<Account>,
    /// The network is trusted: remote hosts may log in with plain-text passwords.
    trusts_network: bool,
}

/// A usable line of the file.
pub struct Account {
    user: Box<[u8]>,
    password: Password,
    attributes: Attributes,
    acl: Acl,
}

/// The password field of a line.
#[derive(PartialEq, Eq)]
pub enum Password {
    /// The password in plain text.
    Plain(Box<[u8]>),
    /// A SCRAM hash. The hash itself is not accepted as a password.
    Scram(Box<StoredPassword>),
}

impl fmt::Debug for Account {
    /// Writes everything except the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        write!(f, "{user}: {} {:?}", self.attributes, self.acl)
    }
}

/// An error in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Line number, from 1.
    pub line: usize,
    /// The error and its consequence.
    pub message: String,
}

impl AuthFile {
    /// Parses the text of the file.
    ///
    /// An error affects at most the line that contains it.
    pub fn parse(text: &[u8]) -> (AuthFile, Vec<LineError>) {
        let (mut accounts, mut errors) = (Vec::new(), Vec::new());
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let mut report = |message: String| {
                errors.push(LineError { line: index + 1, message });
            };
            accounts.extend(Account::parse(line, &mut report));
        }
        (AuthFile { accounts, trusts_network: false }, errors)
    }

    /// Allows or refuses plain-text passwords from remote hosts.
    pub fn trust_network(&mut self, trusts: bool) {
        self.trusts_network = trusts;
    }

    /// Returns true if at least one account may be used by this peer.
    pub fn admits(&self, peer: &Peer) -> bool {
        self.accounts.iter().any(|account| self.may_use(account, peer))
    }

    /// Returns the account of a user for this peer.
    pub fn account(&self, user: &[u8], peer: &Peer) -> Option<&Account> {
        let mut of_user = self.accounts.iter().filter(|account| *account.user == *user);
        of_user.find(|account| self.may_use(account, peer))
    }

    /// Returns true if a peer may use an account.
    ///
    /// An `AUTH` login that is recorded on the network allows guessing the password at high speed,
    /// so a plain-text password is accepted only from this host or over a trusted network. A SCRAM
    /// login (`AUTH2`) has no such restriction.
    fn may_use(&self, account: &Account, peer: &Peer) -> bool {
        let is_strong = matches!(account.password, Password::Scram(_));
        account.acl.admits(peer) && (is_strong || self.trusts_network || peer.is_local())
    }

    /// Returns the iteration count of the first SCRAM password in the file.
    pub fn scram_iterations(&self) -> Option<u32> {
        self.accounts.iter().find_map(|account| match &account.password {
            Password::Scram(stored) => Some(stored.iterations),
            Password::Plain(_) => None,
        })
    }
}

impl Account {
    /// Parses a line; `None` if no client can log in through it.
    fn parse(line: &[u8], report: &mut impl FnMut(String)) -> Option<Account> {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"*") {
            return None;
        }
        if line.len() > MAX_LINE_LEN {
            report(format!("longer than {MAX_LINE_LEN} bytes; line ignored"));
            return None;
        }
        let Some([user, password, words, acl]) = fields(line) else {
            if !line.trim_ascii().is_empty() {
                report("fewer than three colons; line ignored".to_string());
            }
            return None;
        };
        let attributes = attributes(words, report);
        let acl = Acl::parse(acl).unwrap_or_else(|error| {
            report(format!("{error}; the line admits no client"));
            Acl::DENY_ALL
        });
        let password = match password.starts_with(PREFIX.as_bytes()) {
            false => Some(Password::Plain(password.into())),
            true => {
                let stored = std::str::from_utf8(password).ok().and_then(|text| text.parse().ok());
                stored.map(|stored| Password::Scram(Box::new(stored)))
            }
        };
        let Some(password) = password else {
            report(format!("invalid hash after {PREFIX}; line ignored"));
            return None;
        };
        let account = Account { user: user.into(), password, attributes, acl };
        (!attributes.is_empty()).then_some(account)
    }

    /// Returns the permissions of the account.
    pub fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// Returns the password field.
    pub fn password(&self) -> &Password {
        &self.password
    }
}

/// Splits a line into its four fields.
///
/// A SCRAM hash contains two colons.
fn fields(line: &[u8]) -> Option<[&[u8]; 4]> {
    let colon = |from: usize| memchr::memchr(b':', &line[from..]).map(|at| from + at);
    let first = colon(0)?;
    let mut second = colon(first + 1)?;
    if line[first + 1..].starts_with(PREFIX.as_bytes()) {
        second = colon(colon(second + 1)? + 1)?;
    }
    let third = colon(second + 1)?;
    Some([&line[..first], &line[first + 1..second], &line[second + 1..third], &line[third + 1..]])
}

fn attributes(words: &[u8], report: &mut impl FnMut(String)) -> Attributes {
    let words = words.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut all = Attributes::NONE;
    for (index, word) in words.enumerate() {
        match attributes::from_word(word) {
            Some(more) => all = all.or(more),
            None => report(format!("word {} of the attributes is unknown", index + 1)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (AuthFile, Vec<String>) {
        let (file, errors) = AuthFile::parse(text.as_bytes());
        let shown = |c: &LineError| format!("{}: {}", c.line, c.message);
        (file, errors.iter().map(shown).collect())
    }

    /// A SCRAM hash of "pencil".
    const HASH: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    fn local() -> Peer {
        Peer::at([127, 0, 0, 1].into())
    }

    /// Password and permissions of user root at 127.0.0.1.
    ///
    /// Empty if root has no account there; `None` if no user has one.
    fn root(text: &str) -> Option<String> {
        let (file, _) = file(text);
        let account = file.account(b"root", &local());
        assert!(account.is_none() || file.admits(&local()));
        let shown = |a: &Account| match &a.password {
            Password::Plain(text) => format!("{}:{}", String::from_utf8_lossy(text), a.attributes),
            Password::Scram(_) => format!("hash:{}", a.attributes),
        };
        if file.admits(&local()) { Some(account.map(shown).unwrap_or_default()) } else { None }
    }

    #[test]
    fn lines_parse_as_recorded_from_zmailer() {
        for (text, expected) in [
            ("root:sekret:ALL:\n", Some("sekret:ALL")),
            ("root:sekret:ALL:   ", Some("sekret:ALL")),
            ("root:sekret:ALL:[127.0.0.1]\n", Some("sekret:ALL")),
            ("root:se kret:SNMP  QQ FOO:\n", Some("se kret:SNMP QQ")),
            ("root::TT:\n", Some(":TT")),
            (&format!("root:{HASH}:TT:[127.0.0.1]\n"), Some("hash:TT")),
            (&format!("root:{HASH}\n"), None),
            ("root:SCRAM-SHA-256$9:s$k:v:TT:[127.0.0.1]\n", None),
            ("root:sekret:ALL:[foo]\n", None),
            ("root:sekret:NONE:\n", None),
            ("root:sekret:FOO:\n", None),
            ("root:sekret:all:\n", None),
            ("root:sekret:SMTPIP SMTPALL:\n", None),
            ("root:sekret:SNMP\tQQ:\n", None),
            ("root:sekret:ALL\n", None),
            ("#root:sekret:ALL:\n", None),
            ("*root:sekret:ALL:\n", None),
            ("", None),
            ("\n\n", None),
            ("root:sekret:ALL:\r\n", None),
            ("root:sekret:ALL:[127.0.0.0]/8\r\n", Some("sekret:ALL")),
            ("other:sekret:ALL:\n", Some("")),
            (" root:sekret:ALL:\n", Some("")),
            ("root:a:ALL:[10.0.0.0]/8\nroot:sekret:SNMP:[127.0.0.0]/8\n", Some("sekret:SNMP")),
            ("root:a:ALL:[127.0.0.0]/8\nroot:sekret:SNMP:[127.0.0.0]/8\n", Some("a:ALL")),
            ("root:a:FOO:\nroot:sekret:SNMP:\n", Some("sekret:SNMP")),
        ] {
            assert_eq!(root(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn error_names_line_number_and_no_password() {
        let (_, errors) =
            file("#\n\nroot:pass:word:ALL:\nroot:secret\nroot:x:ALL FOO:[secret]\n   \n");
        assert_eq!(
            errors,
            [
                "3: word 1 of the attributes is unknown",
                "3: text outside brackets in the address list; the line admits no client",
                "4: fewer than three colons; line ignored",
                "5: word 2 of the attributes is unknown",
                "5: text in brackets must be an IPv4 address, `IPv6:` and an address, or `uid:` and \
                 a number; the line admits no client",
            ]
        );
        let (file, _) = file("root:secret:ALL:\n");
        assert!(!format!("{file:?}").contains("secret"), "{file:?}");
    }

    #[test]
    fn line_beyond_maximum_length_is_ignored() {
        let long = format!("root:{}:ALL:[10.0.0.1]\nroot:x:TT:\n", "x".repeat(3000));
        assert_eq!(root(&long).as_deref(), Some("x:TT"));
    }

    #[test]
    fn plain_password_is_refused_from_remote_host() {
        let (file, _) = file(&format!("root:sekret:ALL:\nroot:{HASH}:QQ:\n"));
        for (peer, expected) in [
            ("127.0.0.3", "ALL"),
            ("::1", "ALL"),
            ("::ffff:127.0.0.1", "ALL"),
            ("192.0.2.1", "QQ"),
            ("fe80::1", "QQ"),
        ] {
            let peer = Peer::at(peer.parse().expect("an address"));
            let account = file.account(b"root", &peer).expect("an account");
            assert_eq!(account.attributes().to_string(), expected);
        }
        assert_eq!(file.scram_iterations(), Some(4096));
    }

    #[test]
    fn shipped_file_parses_without_errors() {
        let (mut file, errors) = file(
            "nobody:nobody:SNMP QQ TT ETRN:  [127.0.0.0]/8 [ipv6.0::1]/128\n\
             nobody:nobody:SNMP ETRN:        [0.0.0.0]/0   [ipv6.0::0]/0\n",
        );
        assert_eq!(errors, [""; 0]);
        let remote = Peer::at([192, 0, 2, 1].into());
        assert!(!file.admits(&remote) && file.account(b"nobody", &remote).is_none());
        file.trust_network(true);
        for (peer, expected) in [
            ("127.0.0.1", "SNMP QQ TT ETRN"),
            ("::1", "SNMP QQ TT ETRN"),
            ("192.0.2.1", "SNMP ETRN"),
            ("2001:db8::1", "SNMP ETRN"),
        ] {
            let peer = Peer::at(peer.parse().expect("an address"));
            let account = file.account(b"nobody", &peer).expect("an account");
            assert_eq!(account.attributes().to_string(), expected);
        }
        assert!(!file.admits(&Peer::Local(Some(0))));
    }
}
