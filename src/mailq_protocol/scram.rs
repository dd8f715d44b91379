//! SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.
//!
//! An eavesdropper gains nothing that allows guessing passwords quickly, and the server proves that
//! it knows the user, too.
//!
//! ```text
//! client  n,,n=fred,r=<nonce>
//! server  r=<nonce and more>,s=<salt>,i=<iterations>
//! client  c=biws,r=<nonce and more>,p=<proof>
//! server  v=<signature>
//! ```
//!
//! Passwords are normalized (SASLprep, RFC 4013), so that an `ü` is the same whichever way a
//! keyboard encodes it. The server never receives the password.

mod server;

pub use server::{ClientFirst, MECHANISM, Secret, Server, chance};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac_sha256::{HMAC, Hash};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

/// Prefix of a stored password.
pub const PREFIX: &str = "SCRAM-SHA-256$";
/// Iterations for new passwords: some hundredths of a second for the client at login.
pub const ITERATIONS: u32 = 40_000;
/// Minimum iteration count accepted from a server (RFC 7677).
const FEWEST: u32 = 4_096;
/// Maximum iteration count accepted: more would only keep the client busy.
const MOST: u32 = 10_000_000;

/// A key, a hash or a signature.
pub type Key = [u8; 32];

/// The server's record of a password (RFC 5803).
///
/// It is not sufficient to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// Number of iterations of the hash.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// Verifies the client's proof.
    pub stored_key: Key,
    /// Key of the server's signature.
    pub server_key: Key,
}

/// Why a login fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message does not follow the RFC.
    #[error("the other end does not speak SCRAM as it should")]
    Form,
    /// The nonce does not extend the client's nonce.
    #[error("the other end has not heard what was said")]
    Nonce,
    /// The iteration count is too small or too large.
    #[error("the other end demands an unreasonable number of iterations")]
    Iterations,
    /// The client does not know the password.
    #[error("the password is wrong")]
    Client,
    /// The server does not know the password.
    #[error("the server does not know the password itself: it may be another one than it seems")]
    Server,
}

/// The client's side of a login in progress.
pub struct Client {
    password: String,
    nonce: String,
    first_bare: String,
}

/// The client's side after it has sent its proof.
pub struct Proven {
    signature: Key,
}

impl Client {
    /// Begins a login with a random nonce.
    pub fn new(user: &str, password: &str) -> io::Result<Client> {
        Ok(Client::with_nonce(user, password, BASE64.encode(random::<18>()?)))
    }

    fn with_nonce(user: &str, password: &str, nonce: String) -> Client {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        // A password that cannot be normalized is used as it is: another program may have hashed it
        // so.
        let password = prepared(password).unwrap_or(Cow::Borrowed(password)).into_owned();
        Client { password, nonce, first_bare }
    }

    /// Returns the first message, in base64.
    pub fn first(&self) -> String {
        BASE64.encode(format!("n,,{}", self.first_bare))
    }

    /// Returns the final message, given the server's first one; both in base64.
    pub fn prove(self, server_first: &[u8]) -> Result<(String, Proven), Fault> {
        let server_first = decoded(server_first)?;
        let mut parts = server_first.split(',');
        let mut part = |name| parts.next().and_then(|p| p.strip_prefix(name)).ok_or(Fault::Form);
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Fault::Nonce);
        }
        let salt = BASE64.decode(salt).map_err(|_| Fault::Form)?;
        let iterations = iterations.parse().map_err(|_| Fault::Form)?;
        if !(FEWEST..=MOST).contains(&iterations) {
            return Err(Fault::Iterations);
        }
        let salted = salted(self.password.as_bytes(), &salt, iterations);
        // "biws" is base64 for "n,,": no channel binding.
        let last = format!("c=biws,r={nonce}");
        let all = format!("{},{server_first},{last}", self.first_bare);
        let client_key = HMAC::mac(b"Client Key", salted);
        let signature = HMAC::mac(all.as_bytes(), Hash::hash(&client_key));
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let server_key = HMAC::mac(b"Server Key", salted);
        let proven = Proven { signature: HMAC::mac(all.as_bytes(), server_key) };
        Ok((BASE64.encode(format!("{last},p={}", BASE64.encode(proof))), proven))
    }
}

impl Proven {
    /// Checks by its last message, in base64, that the server knows the password.
    pub fn verify(&self, server_last: &[u8]) -> Result<(), Fault> {
        let last = decoded(server_last)?;
        let signature = last.strip_prefix("v=").ok_or(Fault::Form)?;
        let signature = BASE64.decode(signature).map_err(|_| Fault::Form)?;
        match signature == self.signature {
            true => Ok(()),
            false => Err(Fault::Server),
        }
    }
}

impl Stored {
    /// Creates the record of a new password, which must be [`prepared`].
    pub fn of_password(password: &str) -> io::Result<Stored> {
        Ok(Stored::with_salt(password, random::<16>()?.to_vec(), ITERATIONS))
    }

    /// Creates the record of a password with a known salt.
    pub fn with_salt(password: &str, salt: Vec<u8>, iterations: u32) -> Stored {
        let salted = salted(password.as_bytes(), &salt, iterations);
        Stored {
            stored_key: Hash::hash(&HMAC::mac(b"Client Key", salted)),
            server_key: HMAC::mac(b"Server Key", salted),
            iterations,
            salt,
        }
    }
}

impl FromStr for Stored {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Stored, Fault> {
        let parts = text.strip_prefix(PREFIX).ok_or(Fault::Form)?;
        let (start, keys) = parts.split_once('$').ok_or(Fault::Form)?;
        let (iterations, salt) = start.split_once(':').ok_or(Fault::Form)?;
        let (stored, server) = keys.split_once(':').ok_or(Fault::Form)?;
        let bytes = |text: &str| BASE64.decode(text).map_err(|_| Fault::Form);
        let key = |text: &str| Key::try_from(bytes(text)?).map_err(|_| Fault::Form);
        let iterations = iterations.parse().map_err(|_| Fault::Form)?;
        match (FEWEST..=MOST).contains(&iterations) {
            true => Ok(Stored {
                iterations,
                salt: bytes(salt)?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            }),
            false => Err(Fault::Iterations),
        }
    }
}

/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`
impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let salt = BASE64.encode(&self.salt);
        let (stored, server) = (BASE64.encode(self.stored_key), BASE64.encode(self.server_key));
        write!(f, "{PREFIX}{}:{salt}${stored}:{server}", self.iterations)
    }
}

/// Normalizes a password with SASLprep (RFC 4013), as all programs do before hashing.
///
/// The error says what is not allowed in a password.
pub fn prepared(password: &str) -> Result<Cow<'_, str>, &'static str> {
    if password.contains(char::is_control) {
        return Err("there is a control character in the password");
    }
    stringprep::saslprep(password).map_err(|_| {
        "there is a character in the password that not all programs know, or letters that are written from \
         the left are mixed with letters that are written from the right"
    })
}

/// PBKDF2 with one block.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let keyed = HMAC::new(password);
    let mac = |text: &[u8]| {
        let mut mac = keyed.clone();
        mac.update(text);
        mac.finalize()
    };
    let mut last = mac(&[salt, &1_u32.to_be_bytes()].concat());
    let mut all = last;
    for _ in 1..iterations {
        last = mac(&last);
        all.iter_mut().zip(last).for_each(|(all, last)| *all ^= last);
    }
    all
}

fn decoded(text: &[u8]) -> Result<String, Fault> {
    let bytes = BASE64.decode(text.trim_ascii()).map_err(|_| Fault::Form)?;
    String::from_utf8(bytes).map_err(|_| Fault::Form)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn client() -> Client {
        Client::with_nonce("user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_string())
    }

    /// The example of RFC 7677.
    #[test]
    fn client_follows_the_rfc_example() {
        let client = client();
        assert_eq!(
            decoded(client.first().as_bytes()).expect("text"),
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        );
        let (last, proven) =
            client.prove(BASE64.encode(SERVER_FIRST).as_bytes()).expect("a good message");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(decoded(last.as_bytes()).expect("text"), expected);
        let signature = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(proven.verify(signature.as_bytes()), Ok(()));
        let other = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=");
        assert!(proven.verify(other.as_bytes()).is_err());
        assert_eq!(proven.verify(b"!"), Err(Fault::Form));
    }

    #[test]
    fn invalid_server_message_is_refused() {
        for (from, to, fault) in [
            ("rOprNGf", "other", Fault::Nonce),
            ("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", "", Fault::Nonce),
            ("i=4096", "i=1", Fault::Iterations),
            ("i=4096", "i=4294967295", Fault::Iterations),
            ("i=4096", "i=-1", Fault::Form),
            ("s=W22", "s=!", Fault::Form),
            (",s=", ",x=", Fault::Form),
        ] {
            let message = BASE64.encode(SERVER_FIRST.replacen(from, to, 1));
            assert_eq!(client().prove(message.as_bytes()).err(), Some(fault), "{to}");
        }
    }

    #[test]
    fn stored_password_has_the_rfc_format() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let stored = Stored::with_salt("pencil", salt, 4096).to_string();
        let expected = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(stored, expected);
        assert!(expected.parse::<Stored>().is_ok_and(|read| read.to_string() == expected));
        for (from, to) in [("4096", "1"), ("$W", "W"), ("==$", "=="), ("U=", "U"), ("SHA", "MD")] {
            assert!(expected.replacen(from, to, 1).parse::<Stored>().is_err(), "{to}");
        }
    }

    #[test]
    fn equivalent_passwords_are_normalized_alike() {
        for (typed, expected) in [
            ("pencil", Ok("pencil")),
            ("u\u{308}ber", Ok("über")),
            ("\u{ff21}\u{ad}\u{a0}x", Ok("A x")),
            ("a\tb", Err(())),
            ("\u{627}1", Err(())),
            ("\u{e000}", Err(())),
        ] {
            assert_eq!(prepared(typed).as_deref().map_err(|_| ()), expected, "{typed:?}");
        }
        let client = |password| Client::with_nonce("user", password, "n".to_string());
        assert_eq!(client("u\u{308}").password, client("ü").password);
        assert_eq!(client("a\tb").password, "a\tb");
    }

    #[test]
    fn user_name_is_escaped() {
        let client = Client::with_nonce("a,r=x=", "", "n".to_string());
        assert_eq!(client.first_bare, "n=a=2Cr=3Dx=3D,r=n");
    }
}
