//! A client of the SMTP server. What is stored has just the recipients that were accepted, and the
//! sizes of the pieces in which the bytes come change nothing.

use super::byte_source::ByteSource;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zsched_format::time::Timestamp;
use zsched_router::Submission;
use zsched_smtpserver::session::{
    Answer, Client, Credentials, LoginAnswer, Logins, Reply, Request, Service, Session,
    SessionSettings, TlsFacts,
};
use zsched_spool::SpoolId;

/// Maximum size of a message, in bytes: small, so that it is reached.
const MAX_SIZE: u64 = 300;

/// Bit of the first byte: TLS is offered.
const HAS_TLS: u8 = 4;

/// What a session has done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    output: Vec<u8>,
    stored: Vec<Vec<u8>>,
}

/// The input: the service, the length of a piece, what a client sends.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let choice = draw.byte();
    let piece = usize::from(draw.byte()).max(1);
    let said = draw.rest();
    // A remote client may not send ahead of some replies, so there the pieces matter.
    drop(converse(said, piece, choice, Some([192, 0, 2, 7].into())));
    // What comes with STARTTLS is dropped, so pieces would matter with TLS, too.
    let choice = choice & !HAS_TLS;
    let whole = converse(said, usize::MAX, choice, None);
    assert_eq!(converse(said, piece, choice, None).stored, whole.stored);
}

fn settings(choice: u8) -> SessionSettings {
    SessionSettings {
        hostname: "mx.test".into(),
        service: match choice % 4 {
            0 | 1 => Service::Smtp,
            2 => Service::Submission,
            _ => Service::Lmtp,
        },
        max_size: MAX_SIZE,
        max_recipients: 3,
        has_tls: choice & HAS_TLS != 0,
        logins: if choice & 8 != 0 { Logins::All } else { Logins::None },
        has_queue_requests: true,
        has_queue_domains: choice & 64 != 0,
        allows_bare_lf: choice & 16 != 0,
        max_hold: std::time::Duration::from_secs(86_400),
        has_priorities: true,
        logins_raise_priority: true,
        now: || zsched_format::time::Timestamp::from_seconds(1_795_255_200),
        free_space: Arc::new(AtomicU64::new(u64::MAX)),
        free_memory: Arc::new(AtomicU64::new(1)),
    }
}

fn converse(said: &[u8], piece: usize, choice: u8, ip: Option<std::net::IpAddr>) -> Outcome {
    let client = Client {
        ip,
        port: 1,
        may_relay: choice & 32 != 0,
        may_raise_priority: choice & 32 == 0,
        is_local: choice & 64 != 0,
        ..Client::default()
    };
    let mut session = Session::new(Arc::new(settings(choice)), client, None);
    session.greet();
    let (mut outcome, mut accepted) = (Outcome::default(), Vec::new());
    let mut written = Vec::new();
    for bytes in said.chunks(piece.min(said.len().max(1))) {
        session.receive(bytes);
        while let Some(request) = session.take_request() {
            if matches!(request, Request::StartTls) {
                session.tls_started(TlsFacts {
                    version: "TLSv1.3".into(),
                    cipher: "X".into(),
                    key_bits: 256,
                });
            } else if let Some(answer) = answer(request, &mut accepted, &mut written, &mut outcome)
            {
                session.answer(answer);
            }
        }
        outcome.output.append(&mut session.take_output());
        assert!(session.is_closing() || session.wants_input());
    }
    assert!(said.is_empty() || outcome.output.ends_with(b"\r\n"));
    outcome
}

fn answer(
    request: Request,
    accepted: &mut Vec<String>,
    written: &mut Vec<u8>,
    outcome: &mut Outcome,
) -> Option<Answer> {
    Some(match request {
        Request::AdmitMessage => Answer::Reply(Reply::sender_ok()),
        Request::CheckRecipient(question) => {
            if question.accepted == 0 {
                accepted.clear();
            }
            Answer::Reply(match question.recipient.len() % 3 {
                0 => Reply::new(550, "5.1.1", "no such user"),
                _ => {
                    accepted.push(question.recipient);
                    Reply::new(250, "2.1.5", "Ok")
                }
            })
        }
        Request::Login(Credentials::Password { user, .. }) => {
            Answer::Login(LoginAnswer::Accepted(user))
        }
        Request::Login(_) => Answer::Login(LoginAnswer::Wrong),
        Request::AdmitLogin(_) => Answer::Reply(Reply::new(235, "2.7.0", "Logged in")),
        Request::Append(bytes) => {
            written.extend(bytes);
            Answer::Appended(Ok(()))
        }
        Request::Commit(bytes) => {
            written.extend(bytes);
            check(written, accepted);
            outcome.stored.push(std::mem::take(written));
            Answer::Stored(Ok(SpoolId { number: 1, modified: Timestamp::from_seconds(0) }))
        }
        Request::Discard => {
            written.clear();
            return None;
        }
        Request::StartTls => return None,
        Request::StartQueue(_) => Answer::Reply(Reply::new(250, "2.0.0", "Ok")),
    })
}

/// The router can read what is stored, and finds the recipients that were accepted.
fn check(stored: &[u8], accepted: &[String]) {
    let submission = Submission::read(&mut &*stored).expect("a submission");
    let recipients: Vec<&String> =
        submission.envelope.recipients.iter().map(|recipient| &recipient.address).collect();
    assert_eq!(recipients, accepted.iter().collect::<Vec<_>>());
    assert!(submission.envelope.sender.is_some() && submission.envelope.with.is_some());
}
