//! A client of MAILQ version 2. Before a login it learns nothing and changes nothing; after a login
//! it can parse all answers.

use super::byte_source::ByteSource;
use super::control_request::check;
use super::session_with_core::{NOW, SessionWithCore, core};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use zsched_core::intake::NumberState;
use zsched_mailq_server::acl::Peer;
use zsched_mailq_server::login::Challenge;
use zsched_mailq_server::v2::Session;

const PASSWORD: &str = "a secret";
/// All answers that an unauthenticated session may get.
const BEFORE_LOGIN: [&str; 6] = [
    "-BAD; USER MUST AUTHENTICATE",
    "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS",
    "-BAD USER OR PASSWORD",
    "-ONLY SCRAM-SHA-256, WITHOUT CHANNEL BINDING",
    "-USE AUTH",
    "+Bye bye",
];

/// The input: a flag for a login, the length of a piece, a client's text.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let logs_in = draw.byte().is_multiple_of(2);
    let piece = usize::from(draw.byte()).max(1);
    let challenge = Challenge::new(NOW, 4711, 1);
    let login = format!("AUTH root {}\n", challenge.answer(PASSWORD.as_bytes()));
    let accounts = format!("root:{PASSWORD}:SNMP QQ TT KILL HOLD RETRY DELETE SET EVENTS:\n");
    let (file, _) = zsched_mailq_server::auth_file::AuthFile::parse(accounts.as_bytes());
    let (session, greeting) = Session::open(Peer::Local(None), challenge, &file);
    assert!(greeting.ends_with("220 MAILQ-V2-CHALLENGE: 1795255200.4711.1\n"));
    let mut listener = SessionWithCore { session, core: core(), accounts };
    let said = draw.rest();
    if logs_in {
        let mut all = login.into_bytes();
        all.extend_from_slice(said);
        let answers = listener.converse(&all, piece);
        check(answers.strip_prefix(b"+OK\n").expect("logged in"));
    } else {
        // Random input cannot contain the answer to a challenge.
        let answers = listener.converse(said, piece);
        let answers = String::from_utf8(answers).expect("fixed texts");
        for line in answers.lines() {
            assert!(BEFORE_LOGIN.contains(&line) || is_scram_challenge(line), "{line:?}");
        }
        assert!(!listener.session.is_trusted());
        assert_eq!(
            listener.core.view().number_state(7),
            NumberState::Queued,
            "nothing has happened"
        );
    }
}

/// Returns true if a line is the SCRAM challenge.
///
/// It has no data about users or the queue.
fn is_scram_challenge(line: &str) -> bool {
    let said = line.strip_prefix('+').and_then(|text| BASE64.decode(text).ok());
    let said = said.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let parts: Vec<&str> = said.rsplitn(3, ',').collect();
    matches!(parts[..], [iterations, salt, nonce] if iterations == "i=40000" && salt.starts_with("s=")
        && nonce.starts_with("r="))
}
