//! The server's side of a login. It takes the time of three hashes, whatever the client says.

use super::{BASE64, Fault, Stored, decoded};
use base64::Engine;
use hmac_sha256::{HMAC, Hash};

/// A login that has begun.
pub struct Server {
    stored: Stored,
    nonce: String,
    first_bare: String,
    first: String,
}

impl Server {
    /// The user that a client's first message names; the message is in base64.
    pub fn user(client_first: &[u8]) -> Result<String, Fault> {
        let message = decoded(client_first)?;
        let name = bare(&message)?.split(',').next().and_then(|part| part.strip_prefix("n="));
        Ok(name.ok_or(Fault::Form)?.replace("=2C", ",").replace("=3D", "="))
    }

    /// Goes on with a client's first message. `chance` is put behind the client's nonce: it must be another
    /// one each time, and have no comma in it.
    pub fn new(stored: Stored, client_first: &[u8], chance: &str) -> Result<Server, Fault> {
        let message = decoded(client_first)?;
        let first_bare = bare(&message)?.to_string();
        let nonce = first_bare.split(',').nth(1).and_then(|part| part.strip_prefix("r="));
        let nonce =
            format!("{}{chance}", nonce.filter(|nonce| !nonce.is_empty()).ok_or(Fault::Form)?);
        let salt = BASE64.encode(&stored.salt);
        let first = format!("r={nonce},s={salt},i={}", stored.iterations);
        Ok(Server { stored, nonce, first_bare, first })
    }

    /// The first message, in base64.
    pub fn first(&self) -> String {
        BASE64.encode(&self.first)
    }

    /// Checks the client's last message. Returns ours; both in base64.
    pub fn finish(self, client_last: &[u8]) -> Result<String, Fault> {
        let last = decoded(client_last)?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(Fault::Form)?;
        let nonce = without_proof.strip_prefix("c=biws,r=").ok_or(Fault::Form)?;
        if nonce != self.nonce {
            return Err(Fault::Nonce);
        }
        let proof = BASE64.decode(proof).map_err(|_| Fault::Form)?;
        let all = format!("{},{},{without_proof}", self.first_bare, self.first);
        let signature = HMAC::mac(all.as_bytes(), self.stored.stored_key);
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        // How long it takes does not depend on how much of it is right.
        let hash = Hash::hash(&client_key);
        let wrong = hash.iter().zip(self.stored.stored_key).fold(0, |all, (a, b)| all | (a ^ b));
        if proof.len() != signature.len() || std::hint::black_box(wrong) != 0 {
            return Err(Fault::Client);
        }
        let signature = HMAC::mac(all.as_bytes(), self.stored.server_key);
        Ok(BASE64.encode(format!("v={}", BASE64.encode(signature))))
    }
}

/// What is behind the part on channel binding, of which there is none, and on whose behalf this is.
fn bare(first: &str) -> Result<&str, Fault> {
    first.strip_prefix("n,,").or(first.strip_prefix("y,,")).ok_or(Fault::Form)
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;

    fn stored() -> Stored {
        Stored::with_salt("pässword".as_bytes(), b"salt".to_vec(), 4096)
    }

    fn log_in(user: &str, password: &str) -> Result<(), Fault> {
        let client = Client::new(user, password.as_bytes()).expect("random numbers");
        let first = client.first();
        assert_eq!(Server::user(first.as_bytes()).as_deref(), Ok(user));
        let server = Server::new(stored(), first.as_bytes(), "xyz")?;
        let (last, proven) = client.prove(server.first().as_bytes())?;
        proven.verify(server.finish(last.as_bytes())?.as_bytes())
    }

    #[test]
    fn both_sides_agree() {
        assert_eq!(log_in("fred", "pässword"), Ok(()));
        assert_eq!(log_in("a,=b", "pässword"), Ok(()));
        assert_eq!(log_in("fred", "password"), Err(Fault::Client));
    }

    #[test]
    fn clients_may_not_say_anything() {
        for first in ["", "n,,", "n,,n=a", "n,,n=a,r=", "p=x,,n=a,r=b", "n,a=c,n=a,r=b", "n,,x=a"] {
            let message = BASE64.encode(first);
            let is_refused = Server::new(stored(), message.as_bytes(), "x").is_err();
            assert!(is_refused || Server::user(message.as_bytes()).is_err(), "{first}");
        }
        let first = BASE64.encode("n,,n=a,r=b");
        for last in [
            "",
            "c=biws,r=bx",
            "c=biws,r=bx,p=!",
            "c=biws,r=b,p=",
            "c=eSws,r=bx,p=",
            "c=biws,r=bx,p=",
        ] {
            let server = Server::new(stored(), first.as_bytes(), "x").expect("a good message");
            assert!(server.finish(BASE64.encode(last).as_bytes()).is_err(), "{last}");
        }
    }
}
