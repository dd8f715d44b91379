//! The server of a delivery by SMTP or LMTP. It says anything; only its answer to the end of the
//! message delivers, and the sizes of the pieces in which the bytes come change nothing.

use super::byte_source::ByteSource;
use zsched_smtp::session::{
    Capabilities, Credentials, Dialogue, Envelope, EnvelopeRecipient, Handshake, HandshakeOptions,
    Mechanism, Protocol, RecipientState, ReplyParser, Step, TlsUse, Transaction,
    TransactionOptions,
};

/// Maximum number of steps of a dialogue.
const MAX_STEPS: usize = 10_000;
/// Number of recipients.
const RECIPIENTS: usize = 3;

/// The bytes of the server, in pieces.
struct Server<'a> {
    parser: ReplyParser,
    pieces: std::slice::Chunks<'a, u8>,
}

/// The input: options, the length of a piece, what the server says.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let choice = draw.byte();
    let piece = usize::from(draw.byte()).max(1);
    let said = draw.rest();
    assert_eq!(deliver(said, piece, choice), deliver(said, said.len().max(1), choice));
}

/// Delivers a message. Returns the commands and what is known of each recipient.
fn deliver(said: &[u8], piece: usize, choice: u8) -> (Vec<u8>, Vec<String>) {
    let protocol = if choice & 1 != 0 { Protocol::Lmtp } else { Protocol::Smtp };
    let credentials = Credentials {
        user: "user".to_string(),
        password: "secret".to_string(),
        // With SCRAM there are random numbers.
        mechanisms: vec![Mechanism::Plain, Mechanism::Login],
        without_tls: true,
    };
    let mut handshake = Handshake::new(HandshakeOptions {
        hello_name: "client.test".to_string(),
        protocol,
        tls: if choice & 2 != 0 { TlsUse::IfOffered } else { TlsUse::Off },
        credentials: (choice & 4 != 0).then_some(credentials),
        ..HandshakeOptions::default()
    });
    let mut server = Server { parser: ReplyParser::default(), pieces: said.chunks(piece) };
    let mut sent = Vec::new();
    if !server.drive(&mut handshake, &mut sent, |handshake| handshake.tls_started()) {
        return (sent, Vec::new());
    }
    let Ok(capabilities) = handshake.finish() else { return (sent, Vec::new()) };
    let mut transaction = begin(&capabilities, protocol, choice);
    server.drive(&mut transaction, &mut sent, |_| panic!("TLS within a transaction"));
    let states = (0..RECIPIENTS).map(|index| state(&transaction, index)).collect();
    (sent, states)
}

fn begin(server: &Capabilities, protocol: Protocol, choice: u8) -> Transaction {
    let recipient = |at: usize| EnvelopeRecipient {
        address: format!("user{at}@b.test").into_bytes(),
        notify: Some("FAILURE".to_string()),
        ..EnvelopeRecipient::default()
    };
    let envelope = Envelope {
        sender: b"sender@a.test".to_vec(),
        recipients: (0..RECIPIENTS).map(recipient).collect(),
        size: 1000,
        is_8bit: choice & 8 != 0,
        ..Envelope::default()
    };
    let options = TransactionOptions { protocol, resets: choice & 16 != 0, sends_8bit: true };
    Transaction::new(&envelope, server, options)
}

/// What is known of a recipient, in words.
fn state(transaction: &Transaction, index: usize) -> String {
    let known = transaction.state(index);
    match known {
        RecipientState::Accepted(reply) => {
            assert!(reply.is_success());
            assert!(!transaction.may_be_delivered(index), "it is");
        }
        RecipientState::Closed(reply) => assert_eq!(reply.code(), 421),
        RecipientState::Refused(reply) | RecipientState::MessageRefused(reply) => {
            assert_ne!(reply.code(), 421);
        }
        RecipientState::Unanswered => {}
    }
    let transcript = transaction.transcript(index);
    for other in (0..RECIPIENTS).filter(|other| *other != index) {
        assert!(!transcript.contains(&format!("\r<<- RCPT To:<user{other}@")), "{transcript}");
    }
    format!("{known:?} {transcript}")
}

impl Server<'_> {
    /// Does the steps of a dialogue. Returns true if it has come to its end.
    fn drive<D: Dialogue>(
        &mut self,
        dialogue: &mut D,
        sent: &mut Vec<u8>,
        start_tls: impl Fn(&mut D),
    ) -> bool {
        for _ in 0..MAX_STEPS {
            match dialogue.step() {
                Step::Send(bytes) => {
                    assert!(bytes.ends_with(b"\r\n"));
                    sent.extend(bytes);
                }
                Step::Receive(_) => loop {
                    match self.parser.take() {
                        Ok(Some(reply)) => break dialogue.on_reply(reply),
                        Ok(None) => match self.pieces.next() {
                            Some(piece) => self.parser.push(piece),
                            None => return false,
                        },
                        Err(_) => return false,
                    }
                },
                Step::SendContent(_) => dialogue.on_content_sent(),
                Step::StartTls => start_tls(dialogue),
                Step::Finished => return true,
            }
        }
        panic!("a dialogue without an end");
    }
}
