//! The state machines with a peer that says anything, split anywhere.

use proptest::prelude::*;
use proptest::sample::subsequence;
use zsched_smtp::session::{
    Capabilities, Dialogue, Envelope, EnvelopeRecipient, Handshake, HandshakeOptions, Protocol,
    RecipientState, ReplyParser, Step, TlsUse, Transaction, TransactionOptions,
};

/// Maximum number of steps of a dialogue that makes sense.
const MAX_STEPS: usize = 1000;

/// Runs a dialogue until it ends or the bytes do. Returns true if it has ended.
fn drive(dialogue: &mut impl Dialogue, pieces: &mut impl Iterator<Item = Vec<u8>>) -> bool {
    let mut parser = ReplyParser::default();
    for _ in 0..MAX_STEPS {
        match dialogue.step() {
            Step::Send(bytes) => assert!(bytes.ends_with(b"\r\n")),
            Step::Receive(_) => loop {
                match parser.take() {
                    Ok(Some(reply)) => break dialogue.on_reply(reply),
                    Ok(None) => match pieces.next() {
                        Some(piece) => parser.push(&piece),
                        None => return false,
                    },
                    Err(_) => return false,
                }
            },
            Step::SendContent(_) => dialogue.on_content_sent(),
            Step::StartTls => return true,
            Step::Finished => return true,
        }
    }
    panic!("a dialogue without an end");
}

fn reply() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (2..6_u16, 0..60_u16, "[ -]", "[ 2459.=A-Z]{0,12}")
            .prop_map(|(class, rest, separator, text)| {
                format!("{}{separator}{text}\r\n", class * 100 + rest)
            }),
        4 => Just("250 ok\r\n".to_string()),
        2 => Just("354 go ahead\r\n".to_string()),
        1 => Just("250-x\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 AUTH PLAIN\r\n".to_string()),
        1 => "\\PC{0,20}\r\n",
    ]
}

proptest! {
    #[test]
    fn any_peer_leaves_the_truth(
        replies in proptest::collection::vec(reply(), 0..20),
        piece in 1..40_usize,
        offers in subsequence(vec!["PIPELINING", "CHUNKING", "DSN", "SIZE"], 0..=4),
        is_lmtp: bool,
    ) {
        let text = replies.concat();
        let pieces: Vec<Vec<u8>> = text.as_bytes().chunks(piece).map(<[u8]>::to_vec).collect();
        let protocol = if is_lmtp { Protocol::Lmtp } else { Protocol::Smtp };
        let mut handshake = Handshake::new(HandshakeOptions {
            hello_name: "client.test".to_string(),
            protocol,
            tls: TlsUse::IfOffered,
            ..HandshakeOptions::default()
        });
        drive(&mut handshake, &mut pieces.clone().into_iter());

        let server = offers.iter().fold(String::from("250-peer.test"), |text, offer| {
            text + "\r\n250-" + offer
        }) + "\r\n250 8BITMIME\r\n";
        let mut parser = ReplyParser::default();
        parser.push(server.as_bytes());
        let server = Capabilities::parse(&parser.take().unwrap().unwrap());
        let recipient = |user: &str| EnvelopeRecipient {
            address: format!("{user}@b.test").into_bytes(),
            ..EnvelopeRecipient::default()
        };
        let envelope = Envelope {
            recipients: ["ann", "bob", "eve"].map(recipient).to_vec(),
            ..Envelope::default()
        };
        let options = TransactionOptions { protocol, ..TransactionOptions::default() };
        let mut transaction = Transaction::new(&envelope, &server, options);
        drive(&mut transaction, &mut pieces.into_iter());
        for index in 0..3 {
            // Nothing but a positive answer after the message delivers.
            match transaction.state(index) {
                RecipientState::Accepted(reply) => prop_assert!(reply.is_success()),
                RecipientState::Refused(reply) | RecipientState::MessageRefused(reply) => {
                    prop_assert!(!reply.is_success() || reply.code() != 354);
                }
                RecipientState::Closed(reply) => prop_assert_eq!(reply.code(), 421),
                RecipientState::Unanswered => {}
            }
            transaction.transcript(index);
        }
    }
}
