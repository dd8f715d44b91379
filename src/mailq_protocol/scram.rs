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

pub use server::{ClientFirst, MECHANISM, Secret, Server, server_nonce};

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
pub const DEFAULT_ITERATIONS: u32 = 40_000;
/// Minimum iteration count accepted from a server (RFC 7677).
const MIN_ITERATIONS: u32 = 4_096;
/// Maximum iteration count accepted: more would only keep the client busy.
const MAX_ITERATIONS: u32 = 10_000_000;

/// A key, a hash or a signature.
pub type Key = [u8; 32];

/// The server's record of a password (RFC 5803).
///
/// It is not sufficient to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword {
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
pub enum ScramError {
    /// A message does not follow the RFC.
    #[error("malformed SCRAM message")]
    Malformed,
    /// The nonce does not extend the client's nonce.
    #[error("the nonce of the other end does not match")]
    Nonce,
    /// The iteration count is too small or too large.
    #[error("unacceptable iteration count")]
    Iterations,
    /// The client does not know the password.
    #[error("the password is wrong")]
    Client,
    /// The server does not know the password.
    #[error("the server could not prove that it knows the password: it may be an impostor")]
    Server,
}

/// The client's side of a login in progress.
pub struct Client {
    password: String,
    nonce: String,
    first_bare: String,
}

/// The client's side after it has sent its proof.
pub struct ServerVerifier {
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
        let password = normalize_password(password).unwrap_or(Cow::Borrowed(password)).into_owned();
        Client { password, nonce, first_bare }
    }

    /// Returns the first message, in base64.
    pub fn first(&self) -> String {
        BASE64.encode(format!("n,,{}", self.first_bare))
    }

    /// Returns the final message, given the server's first one; both in base64.
    pub fn prove(self, server_first: &[u8]) -> Result<(String, ServerVerifier), ScramError> {
        let server_first = decode_text(server_first)?;
        let mut parts = server_first.split(',');
        let mut part =
            |name| parts.next().and_then(|p| p.strip_prefix(name)).ok_or(ScramError::Malformed);
        let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let salt = BASE64.decode(salt).map_err(|_| ScramError::Malformed)?;
        let iterations = iterations.parse().map_err(|_| ScramError::Malformed)?;
        if !(MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            return Err(ScramError::Iterations);
        }
        let salted = salted(self.password.as_bytes(), &salt, iterations);
        // "biws" is base64 for "n,,": no channel binding.
        let last = format!("c=biws,r={nonce}");
        let all = format!("{},{server_first},{last}", self.first_bare);
        let client_key = HMAC::mac(b"Client Key", salted);
        let signature = HMAC::mac(all.as_bytes(), Hash::hash(&client_key));
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let server_key = HMAC::mac(b"Server Key", salted);
        let verifier = ServerVerifier { signature: HMAC::mac(all.as_bytes(), server_key) };
        Ok((BASE64.encode(format!("{last},p={}", BASE64.encode(proof))), verifier))
    }
}

impl ServerVerifier {
    /// Checks by its last message, in base64, that the server knows the password.
    pub fn verify(&self, server_last: &[u8]) -> Result<(), ScramError> {
        let last = decode_text(server_last)?;
        let signature = last.strip_prefix("v=").ok_or(ScramError::Malformed)?;
        let signature = BASE64.decode(signature).map_err(|_| ScramError::Malformed)?;
        match signature == self.signature {
            true => Ok(()),
            false => Err(ScramError::Server),
        }
    }
}

impl StoredPassword {
    /// Creates the record of a new password, which must be [`normalize_password`].
    pub fn from_password(password: &str) -> io::Result<StoredPassword> {
        Ok(StoredPassword::with_salt(password, random::<16>()?.to_vec(), DEFAULT_ITERATIONS))
    }

    /// Creates the record of a password with a known salt.
    pub fn with_salt(password: &str, salt: Vec<u8>, iterations: u32) -> StoredPassword {
        let salted = salted(password.as_bytes(), &salt, iterations);
        StoredPassword {
            stored_key: Hash::hash(&HMAC::mac(b"Client Key", salted)),
            server_key: HMAC::mac(b"Server Key", salted),
            iterations,
            salt,
        }
    }
}

impl FromStr for StoredPassword {
    type Err = ScramError;

    fn from_str(text: &str) -> Result<StoredPassword, ScramError> {
        let parts = text.strip_prefix(PREFIX).ok_or(ScramError::Malformed)?;
        let (start, keys) = parts.split_once('$').ok_or(ScramError::Malformed)?;
        let (iterations, salt) = start.split_once(':').ok_or(ScramError::Malformed)?;
        let (stored, server) = keys.split_once(':').ok_or(ScramError::Malformed)?;
        let bytes = |text: &str| BASE64.decode(text).map_err(|_| ScramError::Malformed);
        let key = |text: &str| Key::try_from(bytes(text)?).map_err(|_| ScramError::Malformed);
        let iterations = iterations.parse().map_err(|_| ScramError::Malformed)?;
        match (MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
            true => Ok(StoredPassword {
                iterations,
                salt: bytes(salt)?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            }),
            false => Err(ScramError::Iterations),
        }
    }
}

/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`
impl fmt::Display for StoredPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let salt = BASE64.encode(&self.salt);
        let (stored, server) = (BASE64.encode(self.stored_key), BASE64.encode(self.server_key));
        write!(f, "{PREFIX}{}:{salt}${stored}:{server}", self.iterations)
    }
}

/// Normalizes a password with SASLprep (RFC 4013), as all programs do before hashing.
///
/// The error says what is not allowed in a password.
pub fn normalize_password(password: &str) -> Result<Cow<'_, str>, &'static str> {
    if password.contains(char::is_control) {
        return Err("the password contains a control character");
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

fn decode_text(text: &[u8]) -> Result<String, ScramError> {
    let bytes = BASE64.decode(text.trim_ascii()).map_err(|_| ScramError::Malformed)?;
    String::from_utf8(bytes).map_err(|_| ScramError::Malformed)
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
            decode_text(client.first().as_bytes()).expect("text"),
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        );
        let (last, verifier) =
            client.prove(BASE64.encode(SERVER_FIRST).as_bytes()).expect("a good message");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(decode_text(last.as_bytes()).expect("text"), expected);
        let signature = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(verifier.verify(signature.as_bytes()), Ok(()));
        let other = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=");
        assert!(verifier.verify(other.as_bytes()).is_err());
        assert_eq!(verifier.verify(b"!"), Err(ScramError::Malformed));
    }

    #[test]
    fn invalid_server_message_is_refused() {
        for (from, to, fault) in [
            ("rOprNGf", "other", ScramError::Nonce),
            ("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", "", ScramError::Nonce),
            ("i=4096", "i=1", ScramError::Iterations),
            ("i=4096", "i=4294967295", ScramError::Iterations),
            ("i=4096", "i=-1", ScramError::Malformed),
            ("s=W22", "s=!", ScramError::Malformed),
            (",s=", ",x=", ScramError::Malformed),
        ] {
            let message = BASE64.encode(SERVER_FIRST.replacen(from, to, 1));
            assert_eq!(client().prove(message.as_bytes()).err(), Some(fault), "{to}");
        }
    }

    #[test]
    fn stored_password_has_the_rfc_format() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let stored = StoredPassword::with_salt("pencil", salt, 4096).to_string();
        let expected = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(stored, expected);
        assert!(expected.parse::<StoredPassword>().is_ok_and(|read| read.to_string() == expected));
        for (from, to) in [("4096", "1"), ("$W", "W"), ("==$", "=="), ("U=", "U"), ("SHA", "MD")] {
            assert!(expected.replacen(from, to, 1).parse::<StoredPassword>().is_err(), "{to}");
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
            assert_eq!(normalize_password(typed).as_deref().map_err(|_| ()), expected, "{typed:?}");
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
