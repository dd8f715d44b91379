//! The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding: a login in which nobody who listens gets
//! anything to try passwords on quickly, and in which the server proves that it knows the user, too.
//!
//! ```text
//! client  n,,n=fred,r=<nonce>
//! server  r=<nonce and more>,s=<salt>,i=<iterations>
//! client  c=biws,r=<nonce and more>,p=<proof>
//! server  v=<signature>
//! ```
//!
//! Passwords are taken as they are: those that are not ASCII are not normalized.

use super::scram_server::PREFIX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac_sha256::{HMAC, Hash};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// Iterations for new passwords: a login takes a client some hundredths of a second.
pub const ITERATIONS: u32 = 40_000;
/// Fewer are not accepted from a server (RFC 7677).
const FEWEST: u32 = 4_096;
/// More are not accepted: it would only keep the client busy.
const MOST: u32 = 10_000_000;

/// A key, a hash or a signature.
type Key = [u8; 32];

/// What a server keeps of a password (RFC 5803). Nobody can log in with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// How often the hash was applied.
    iterations: u32,
    /// What it began with.
    salt: Vec<u8>,
    /// What the client's proof is checked with.
    stored_key: Key,
    /// What the server proves itself with.
    server_key: Key,
}

/// Why a login cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message is not as the RFC says.
    #[error("the other end does not speak SCRAM as it should")]
    Form,
    /// The nonce is not that of the client, with something behind it.
    #[error("the other end has not heard what was said")]
    Nonce,
    /// Too few iterations, or too many.
    #[error("the other end demands an unreasonable number of iterations")]
    Iterations,
    /// The server does not know the password.
    #[error("the server does not know the password itself: it may be another one than it seems")]
    Server,
}

/// The client's side of a login that has begun.
pub struct Client {
    password: Vec<u8>,
    nonce: String,
    first_bare: String,
}

/// The client's side, once the proof has been sent.
pub struct Proven {
    signature: Key,
}

impl Client {
    /// Begins a login with a nonce of chance.
    pub fn new(user: &str, password: &[u8]) -> io::Result<Client> {
        Ok(Client::with_nonce(user, password, BASE64.encode(random::<18>()?)))
    }

    fn with_nonce(user: &str, password: &[u8], nonce: String) -> Client {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        Client { password: password.to_vec(), nonce, first_bare }
    }

    /// The first message, in base64.
    pub fn first(&self) -> String {
        BASE64.encode(format!("n,,{}", self.first_bare))
    }

    /// The last message, for the server's first; both in base64.
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
        let salted = salted(&self.password, &salt, iterations);
        // "biws" is "n,,": there is no channel binding.
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
    /// Checks that the server knows the password, too: by its last message, in base64.
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
    /// What is kept of a new password.
    pub fn of_password(password: &[u8]) -> io::Result<Stored> {
        Ok(Stored::with_salt(password, random::<16>()?.to_vec(), ITERATIONS))
    }

    /// The same with a salt that is known.
    pub fn with_salt(password: &[u8], salt: Vec<u8>, iterations: u32) -> Stored {
        let salted = salted(password, &salt, iterations);
        Stored {
            stored_key: Hash::hash(&HMAC::mac(b"Client Key", salted)),
            server_key: HMAC::mac(b"Server Key", salted),
            iterations,
            salt,
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
    use super::super::scram_server::{ClientFirst, Exchange, Verifier};
    use super::*;

    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn client() -> Client {
        Client::with_nonce("user", b"pencil", "rOprNGfwEbeRWgbNEkqO".to_string())
    }

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_rfc() {
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
    fn servers_may_not_say_anything() {
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
    fn what_is_stored_has_the_form_of_the_rfc() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let stored = Stored::with_salt(b"pencil", salt, 4096).to_string();
        let expected = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(stored, expected);
        let read = Verifier::parse(expected.as_bytes()).expect("the server can read it");
        assert_eq!(read.iterations, 4096);
    }

    #[test]
    fn names_cannot_be_anything_else() {
        let client = Client::with_nonce("a,r=x=", b"", "n".to_string());
        assert_eq!(client.first_bare, "n=a=2Cr=3Dx=3D,r=n");
    }

    #[test]
    fn both_sides_agree() {
        let password = "p\u{e4}ssword";
        let stored = Stored::with_salt(password.as_bytes(), b"salt".to_vec(), 4096).to_string();
        let log_in = |user: &str, password: &str| -> Option<()> {
            let client = Client::new(user, password.as_bytes()).expect("random numbers");
            let first = ClientFirst::parse(client.first().as_bytes()).expect("a first message");
            assert_eq!(first.user, user.as_bytes());
            let verifier = Verifier::parse(stored.as_bytes()).expect("what is stored");
            let server = Exchange::begin(first, verifier, &[7; 32], "once");
            let (last, proven) = client.prove(server.challenge().as_bytes()).expect("a challenge");
            let verified = proven.verify(server.finish(last.as_bytes())?.as_bytes());
            verified.expect("the server knows the user");
            Some(())
        };
        assert_eq!(log_in("fred", password), Some(()));
        assert_eq!(log_in("a,=b", password), Some(()));
        assert_eq!(log_in("fred", "password"), None);
    }
}
