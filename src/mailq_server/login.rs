//! Login with `AUTH` in MAILQ version 2: the server's challenge and the client's response.
//!
//! The response is the MD5 sum of the whole challenge line followed by the password, in lower-case
//! hexadecimal. An eavesdropper can guess the password offline, and the rest of the session is not
//! protected at all. It is therefore meant for this host or a trusted network.

use zsched_format::time::Timestamp;
use zsched_mailq_protocol::auth;

/// The challenge of one session: a line, without its line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(String);

impl Challenge {
    /// Creates a challenge of three numbers in ZMailer's format.
    ///
    /// The second number is random, so that the challenge cannot be predicted; ZMailer puts the
    /// microseconds of the time there. `count` is the number of challenges so far, including this
    /// one.
    pub fn new(now: Timestamp, nonce: u64, count: u64) -> Challenge {
        Challenge(format!("220 MAILQ-V2-CHALLENGE: {}.{nonce}.{count}", now.seconds()))
    }

    /// Returns the challenge line.
    pub fn line(&self) -> &str {
        &self.0
    }

    /// Returns true if `answer` is the correct response for the password.
    ///
    /// The comparison takes constant time.
    pub fn verify(&self, password: &[u8], answer: &[u8]) -> bool {
        let right = self.answer(password);
        let differences = right.bytes().zip(answer).fold(0, |all, (a, b)| all | (a ^ b));
        right.len() == answer.len() && std::hint::black_box(differences) == 0
    }

    /// Returns the correct response.
    pub fn answer(&self, password: &[u8]) -> String {
        auth::response(self.0.as_bytes(), password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from ZMailer, and calculated with other programs.
    #[test]
    fn response_equals_recorded_zmailer_response() {
        for (challenge, password, answer) in [
            (
                "220 MAILQ-V2-CHALLENGE: 1795255943.68171.2",
                "nobody",
                "38a784a5473d5b661ad89e27f2c1fd0c",
            ),
            (
                "220 MAILQ-V2-CHALLENGE: 1795255951.209815.10",
                "sekret",
                "5c02bd806c204b81693a0cb92c112b31",
            ),
            (
                "220 MAILQ-V2-CHALLENGE: 1795255952.111942.11",
                "pw",
                "948aa9501f0a5fc9d10dea29cbb185ff",
            ),
            (
                "220 MAILQ-V2-CHALLENGE: 1795255948.202812.7",
                "wrong",
                "4a7859ab42a19cf77aeab74bc902bba2",
            ),
            (
                "220 MAILQ-V2-CHALLENGE: 942665308.906504.3",
                "nobody",
                "7fa458248b5fcfbfaedc78b99e9a0e28",
            ),
            (
                "220 MAILQ-V2-CHALLENGE: 942665308.906504.3",
                "my-passwd",
                "6d91c6f76b1f4a2aede87bf5f9b9b82a",
            ),
        ] {
            let numbers = challenge.rsplit(' ').next().expect("numbers");
            let numbers: Vec<u64> =
                numbers.split('.').map(|n| n.parse().expect("a number")).collect();
            let now = Timestamp::from_seconds(numbers[0] as i64);
            let made = Challenge::new(now, numbers[1], numbers[2]);
            assert_eq!(made.line(), challenge);
            assert_eq!(made.answer(password.as_bytes()), answer);
            assert!(made.verify(password.as_bytes(), answer.as_bytes()));
            assert!(!made.verify(b"other", answer.as_bytes()));
            for wrong in [answer.to_uppercase(), format!("{answer} "), answer[..31].to_string()] {
                assert!(!made.verify(password.as_bytes(), wrong.as_bytes()), "{wrong}");
            }
        }
    }
}
