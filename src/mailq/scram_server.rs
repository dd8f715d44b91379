//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.
//!
//! ```text
//! client  n,,n=fred,r=<nonce>
//! server  r=<nonce and more>,s=<salt>,i=<iterations>
//! client  c=biws,r=<nonce and more>,p=<proof>
//! server  v=<signature>
//! ```
//!
//! All in base64. What the server keeps of a password is enough to check a proof with, and costs three hashes to do
//! so; nobody can log in with it. A user that does not exist has keys that are made of its name, so that its
//! login goes the same way up to its end.

use super::auth_file::Password;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac_sha256::{HMAC, Hash};

/// How a stored password begins (RFC 5803).
pub const PREFIX: &str = "SCRAM-SHA-256$";
/// The name of the mechanism.
pub const MECHANISM: &[u8] = b"SCRAM-SHA-256";
/// Iterations of users that do not exist, where nobody has a password of this kind.
const ITERATIONS: u32 = 40_000;
/// Length of the salt of users that do not exist, in bytes.
const SALT: usize = 16;
/// What the server adds to a nonce, in bytes.
const NONCE: usize = 18;
/// The longest name of a user, in bytes.
const LONGEST_NAME: usize = 256;

/// A key, a hash or a signature.
type Key = [u8; 32];

/// Something that nobody else knows, as long as the scheduler runs.
pub type Secret = [u8; 32];

/// What is kept of a password: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// How often the hash was applied.
    pub iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// Reads what a line of the auth file has. `None` if it is not of this form.
    pub fn parse(password: &[u8]) -> Option<Verifier> {
        let text = std::str::from_utf8(password).ok()?.strip_prefix(PREFIX)?;
        let (first, keys) = text.split_once('$')?;
        let (iterations, salt) = first.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let key = |text: &str| BASE64.decode(text).ok()?.try_into().ok();
        let (iterations, salt) = (iterations.parse().ok()?, BASE64.decode(salt).ok()?);
        let verifier = Verifier {
            iterations,
            salt,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        };
        (iterations > 0 && !verifier.salt.is_empty()).then_some(verifier)
    }

    /// That of a user that does not exist: always the same for a name, as it would be if it did.
    pub fn of_nobody(name: &[u8], secret: &Secret, iterations: Option<u32>) -> Verifier {
        let made = |what: &[u8]| HMAC::mac([what, name].concat(), secret);
        Verifier {
            iterations: iterations.unwrap_or(ITERATIONS),
            salt: made(b"salt ")[..SALT].to_vec(),
            stored_key: made(b"stored key "),
            server_key: made(b"server key "),
        }
    }
}

/// What a client begins with.
pub struct ClientFirst {
    /// Who it says it is.
    pub user: Vec<u8>,
    /// What is in front of the name, and has to be repeated.
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    /// Reads the first message. `None` if it is none, or wants something that there is not: another user's
    /// rights, channel binding, extensions.
    pub fn parse(message: &[u8]) -> Option<ClientFirst> {
        let message = decoded(message)?;
        let (binding, rest) = message.split_once(',')?;
        let (authorized, bare) = rest.split_once(',')?;
        if !matches!(binding, "n" | "y") {
            return None;
        }
        let mut parts = bare.split(',');
        let (name, nonce) = (parts.next()?.strip_prefix("n=")?, parts.next()?.strip_prefix("r=")?);
        let (is_name, is_nonce) = (!name.is_empty(), is_printable(nonce) && !nonce.is_empty());
        let is_itself = authorized.is_empty() || authorized.strip_prefix("a=") == Some(name);
        if !is_name || !is_nonce || !is_itself || name.len() > LONGEST_NAME {
            return None;
        }
        let (user, nonce) = (name_of(name)?, nonce.to_string());
        let header = format!("{binding},{authorized},");
        Some(ClientFirst { user, header, bare: bare.to_string(), nonce })
    }
}

/// A login that has begun.
pub struct Exchange {
    /// Who says so.
    pub user: Vec<u8>,
    verifier: Verifier,
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Begins one, with a nonce that is made of the secret and something that never comes twice.
    pub fn begin(
        first: ClientFirst,
        verifier: Verifier,
        secret: &Secret,
        occasion: &str,
    ) -> Exchange {
        let chance = HMAC::mac(["nonce ", occasion].concat(), secret);
        Exchange::with_nonce(first, verifier, &BASE64.encode(&chance[..NONCE]))
    }

    fn with_nonce(first: ClientFirst, verifier: Verifier, more: &str) -> Exchange {
        let nonce = first.nonce + more;
        let (salt, iterations) = (BASE64.encode(&verifier.salt), verifier.iterations);
        Exchange {
            user: first.user,
            verifier,
            header: first.header,
            client_first: first.bare,
            server_first: format!("r={nonce},s={salt},i={iterations}"),
            nonce,
        }
    }

    /// What the client is told.
    pub fn challenge(&self) -> String {
        BASE64.encode(&self.server_first)
    }

    /// Whether this is what the proof was checked with: the file may have changed meanwhile.
    pub fn is_with(&self, password: &Password) -> bool {
        matches!(password, Password::Scram(verifier) if **verifier == self.verifier)
    }

    /// Checks the proof. Returns what the client is told: that the server knows the user, too. `None` if the
    /// proof is wrong.
    pub fn finish(&self, message: &[u8]) -> Option<String> {
        let message = decoded(message)?;
        let (last, proof) = message.rsplit_once(",p=")?;
        if last != format!("c={},r={}", BASE64.encode(&self.header), self.nonce) {
            return None;
        }
        let proof: Key = BASE64.decode(proof).ok()?.try_into().ok()?;
        let all = format!("{},{},{last}", self.client_first, self.server_first);
        let mut client_key = HMAC::mac(&all, self.verifier.stored_key);
        client_key.iter_mut().zip(proof).for_each(|(key, proof)| *key ^= proof);
        // How long this takes does not depend on how much of it is right.
        let is_right = Hash::verify(client_key, &self.verifier.stored_key);
        let signature = HMAC::mac(&all, self.verifier.server_key);
        is_right.then(|| BASE64.encode(format!("v={}", BASE64.encode(signature))))
    }
}

fn decoded(message: &[u8]) -> Option<String> {
    String::from_utf8(BASE64.decode(message.trim_ascii()).ok()?).ok()
}

fn is_printable(nonce: &str) -> bool {
    nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// A name as it is meant: `=2C` is a comma, `=3D` an equals sign.
fn name_of(name: &str) -> Option<Vec<u8>> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_string();
    for part in parts {
        let c = if part.starts_with("2C") { ',' } else { '=' };
        plain.push(c);
        plain.push_str(part.strip_prefix("2C").or_else(|| part.strip_prefix("3D"))?);
    }
    Some(plain.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const MORE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn first(message: &str) -> Option<ClientFirst> {
        ClientFirst::parse(BASE64.encode(message).as_bytes())
    }

    fn exchange() -> Exchange {
        let verifier = Verifier::parse(STORED.as_bytes()).expect("it is of the form");
        Exchange::with_nonce(first(FIRST).expect("a good message"), verifier, MORE)
    }

    fn finish(last: &str) -> Option<String> {
        exchange().finish(BASE64.encode(last).as_bytes())
    }

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_rfc() {
        let exchange = exchange();
        assert_eq!(exchange.user, b"user");
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(exchange.challenge(), BASE64.encode(expected));
        let signature = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(finish(LAST), Some(signature));
    }

    #[test]
    fn proofs_have_to_be_right_as_a_whole() {
        for (from, to) in [
            ("dHzb", "dHzc"),
            ("biws", "eSws"),
            ("rOpr", "sOpr"),
            ("k0,", "k0"),
            ("k0,", "k0,x=1,"),
            ("p=", "q="),
            ("dVQ=", ""),
            ("c=biws,", ""),
        ] {
            assert_eq!(finish(&LAST.replacen(from, to, 1)), None, "{to}");
        }
        assert_eq!(exchange().finish(b"!"), None);
        assert_eq!(exchange().finish(b""), None);
    }

    #[test]
    fn clients_may_ask_for_no_more_than_there_is() {
        for good in ["n,,n=a,r=x", "y,,n=a,r=x", "n,a=a,n=a,r=x", "n,,n=a,r=x,f=y"] {
            assert!(first(good).is_some(), "{good}");
        }
        for bad in [
            "p=tls-unique,,n=a,r=x",
            "n,a=b,n=a,r=x",
            "n,,m=z,n=a,r=x",
            "n,,n=,r=x",
            "n,,n=a,r=",
            "n,,n=a",
            "n,,n=a=2Xb,r=x",
            "n,,n=a=,r=x",
            "n,,n=a,r=\u{7f}",
            "",
        ] {
            assert!(first(bad).is_none(), "{bad}");
        }
        assert_eq!(first("n,,n=a=2Cr=3Dx=3D,r=n").expect("a name").user, b"a,r=x=");
    }

    #[test]
    fn nobody_is_always_the_same_nobody() {
        let of = |name: &[u8]| Verifier::of_nobody(name, &[7; 32], None);
        assert!(of(b"a") == of(b"a") && of(b"a").salt != of(b"b").salt);
        assert_ne!(Verifier::of_nobody(b"a", &[8; 32], None).salt, of(b"a").salt);
        assert_eq!(of(b"a").salt.len(), SALT);
    }

    #[test]
    fn only_the_form_of_the_rfc_is_a_password() {
        for (from, to) in [
            ("4096", "0"),
            ("4096", "-1"),
            ("W22", "!"),
            ("$WG5d", "WG5d"),
            ("wfP", ""),
            ("=:w", "=w"),
        ] {
            let bad = STORED.replacen(from, to, 1);
            assert!(Verifier::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
