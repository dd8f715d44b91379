//! The server's side of a login.
//!
//! It takes the time of three hashes, whatever the client sends. For an unknown user, the server
//! derives keys from the name, so that the login proceeds in the same way to the end.

use super::{BASE64, DEFAULT_ITERATIONS, Key, ScramError, StoredPassword, decode_text};
use base64::Engine;
use hmac_sha256::{HMAC, Hash};

/// The name of the mechanism.
pub const MECHANISM: &[u8] = b"SCRAM-SHA-256";
/// Length of the salt of an unknown user, in bytes.
const SALT_LEN: usize = 16;
/// Length of the server's part of the nonce, in bytes.
const NONCE_LEN: usize = 18;
/// Maximum length of a user name, in bytes.
const MAX_NAME_LEN: usize = 256;

/// A random secret of the running scheduler.
pub type Secret = [u8; 32];

impl StoredPassword {
    /// Creates the record of an unknown user.
    ///
    /// It is always the same for a name, as that of an existing user would be.
    pub fn for_unknown_user(
        name: &[u8],
        secret: &Secret,
        iterations: Option<u32>,
    ) -> StoredPassword {
        let made = |what: &[u8]| HMAC::mac([what, name].concat(), secret);
        StoredPassword {
            iterations: iterations.unwrap_or(DEFAULT_ITERATIONS),
            salt: made(b"salt ")[..SALT_LEN].to_vec(),
            stored_key: made(b"stored key "),
            server_key: made(b"server key "),
        }
    }
}

/// The first message of a client.
pub struct ClientFirst {
    /// The user name that the client claims.
    pub user: Vec<u8>,
    /// The GS2 header before the name, which the client repeats in its final message.
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    /// Parses the first message, in base64.
    ///
    /// Refuses unsupported features: another user's authorization, channel binding, mandatory
    /// extensions.
    pub fn parse(message: &[u8]) -> Result<ClientFirst, ScramError> {
        ClientFirst::of(&decode_text(message)?).ok_or(ScramError::Malformed)
    }

    fn of(message: &str) -> Option<ClientFirst> {
        let (binding, rest) = message.split_once(',')?;
        let (authorized, bare) = rest.split_once(',')?;
        if !matches!(binding, "n" | "y") {
            return None;
        }
        let mut parts = bare.split(',');
        let (name, nonce) = (parts.next()?.strip_prefix("n=")?, parts.next()?.strip_prefix("r=")?);
        let (is_name, is_nonce) = (!name.is_empty(), is_printable(nonce) && !nonce.is_empty());
        let is_itself = authorized.is_empty() || authorized.strip_prefix("a=") == Some(name);
        if !is_name || !is_nonce || !is_itself || name.len() > MAX_NAME_LEN {
            return None;
        }
        let (user, nonce) = (name_of(name)?, nonce.to_string());
        let header = format!("{binding},{authorized},");
        Some(ClientFirst { user, header, bare: bare.to_string(), nonce })
    }
}

/// A login in progress.
pub struct Server {
    /// The user name that the client claims.
    pub user: Vec<u8>,
    stored: StoredPassword,
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

impl Server {
    /// Continues with a client's first message.
    ///
    /// `server_nonce` is appended to the client's nonce. It must be unique for each login and
    /// contain no comma.
    pub fn new(first: ClientFirst, stored: StoredPassword, server_nonce: &str) -> Server {
        let nonce = first.nonce + server_nonce;
        let (salt, iterations) = (BASE64.encode(&stored.salt), stored.iterations);
        Server {
            user: first.user,
            stored,
            header: first.header,
            client_first: first.bare,
            server_first: format!("r={nonce},s={salt},i={iterations}"),
            nonce,
        }
    }

    /// Returns the server's first message, in base64.
    pub fn first(&self) -> String {
        BASE64.encode(&self.server_first)
    }

    /// Returns true if the proof was checked against this record.
    ///
    /// The auth file may have changed during the login.
    pub fn used_record(&self, stored: &StoredPassword) -> bool {
        self.stored == *stored
    }

    /// Checks the client's final message.
    ///
    /// Returns the server's final message; both in base64.
    pub fn finish(&self, message: &[u8]) -> Result<String, ScramError> {
        let message = decode_text(message)?;
        let (last, proof) = message.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        if last != format!("c={},r={}", BASE64.encode(&self.header), self.nonce) {
            return Err(ScramError::Nonce);
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| Key::try_from(proof).ok());
        let all = format!("{},{},{last}", self.client_first, self.server_first);
        let mut client_key = HMAC::mac(&all, self.stored.stored_key);
        let proof = proof.ok_or(ScramError::Malformed)?;
        client_key.iter_mut().zip(proof).for_each(|(key, proof)| *key ^= proof);
        // The comparison takes constant time.
        let is_right = Hash::verify(client_key, &self.stored.stored_key);
        let signature = HMAC::mac(&all, self.stored.server_key);
        match is_right {
            true => Ok(BASE64.encode(format!("v={}", BASE64.encode(signature)))),
            false => Err(ScramError::Client),
        }
    }
}

/// Derives an unpredictable nonce from an occasion that never occurs twice.
pub fn server_nonce(secret: &Secret, occasion: &str) -> String {
    BASE64.encode(&HMAC::mac(["nonce ", occasion].concat(), secret)[..NONCE_LEN])
}

fn is_printable(nonce: &str) -> bool {
    nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// Decodes a user name: `=2C` is a comma, `=3D` an equals sign.
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
    use super::super::Client;
    use super::*;

    const STORED: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const MORE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn first(message: &str) -> Option<ClientFirst> {
        ClientFirst::parse(BASE64.encode(message).as_bytes()).ok()
    }

    fn server() -> Server {
        let stored = STORED.parse().expect("it is of the form");
        Server::new(first(FIRST).expect("a good message"), stored, MORE)
    }

    fn finish(last: &str) -> Option<String> {
        server().finish(BASE64.encode(last).as_bytes()).ok()
    }

    fn log_in(user: &str, password: &str) -> Result<(), ScramError> {
        let client = Client::new(user, password).expect("random numbers");
        let first = ClientFirst::parse(client.first().as_bytes())?;
        assert_eq!(first.user, user.as_bytes());
        let stored = StoredPassword::with_salt("pässword", b"salt".to_vec(), 4096);
        let server = Server::new(first, stored, &server_nonce(&[7; 32], "once"));
        let (last, verifier) = client.prove(server.first().as_bytes())?;
        verifier.verify(server.finish(last.as_bytes())?.as_bytes())
    }

    #[test]
    fn login_succeeds_only_with_the_password() {
        assert_eq!(log_in("fred", "pässword"), Ok(()));
        assert_eq!(log_in("a,=b", "pässword"), Ok(()));
        assert_eq!(log_in("fred", "password"), Err(ScramError::Client));
    }

    /// The example of RFC 7677.
    #[test]
    fn server_follows_the_rfc_example() {
        let server = server();
        assert_eq!(server.user, b"user");
        let expected = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(server.first(), BASE64.encode(expected));
        let signature = BASE64.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(finish(LAST), Some(signature));
    }

    #[test]
    fn altered_final_message_is_refused() {
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
        assert!(server().finish(b"!").is_err() && server().finish(b"").is_err());
    }

    #[test]
    fn unsupported_client_feature_is_refused() {
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
    fn unknown_user_has_a_constant_record() {
        let of = |name: &[u8]| StoredPassword::for_unknown_user(name, &[7; 32], None);
        assert!(of(b"a") == of(b"a") && of(b"a").salt != of(b"b").salt);
        assert_ne!(StoredPassword::for_unknown_user(b"a", &[8; 32], None).salt, of(b"a").salt);
        assert_eq!(of(b"a").salt.len(), SALT_LEN);
    }

    #[test]
    fn malformed_stored_password_is_refused() {
        for (from, to) in [
            ("4096", "1"),
            ("4096", "-1"),
            ("W22", "!"),
            ("$WG5d", "WG5d"),
            ("wfP", ""),
            ("=:w", "=w"),
        ] {
            let bad = STORED.replacen(from, to, 1);
            assert!(bad.parse::<StoredPassword>().is_err(), "{bad}");
        }
    }
}
