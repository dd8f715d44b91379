//! Whole sessions, answered as a server does that accepts all recipients at `good`.

use super::*;
use proptest::prelude::*;
use zsched_format::time::Timestamp;

fn settings(service: Service) -> SessionSettings {
    SessionSettings {
        hostname: "mx.test".into(),
        service,
        max_size: 200_000,
        max_recipients: 3,
        has_tls: true,
        logins: Logins::All,
        has_queue_requests: true,
        has_queue_domains: false,
        allows_bare_lf: false,
        max_hold: std::time::Duration::from_secs(86_400),
        has_priorities: true,
        logins_raise_priority: true,
        now: || zsched_format::time::Timestamp::from_seconds(1_795_255_200),
        free_space: Arc::new(AtomicU64::new(1 << 40)),
        free_memory: Arc::new(AtomicU64::new(1 << 20)),
    }
}

fn client(may_relay: bool) -> Client {
    Client { ip: Some([192, 0, 2, 7].into()), port: 4711, may_relay, ..Client::default() }
}

/// A session, and what became of its messages.
struct World {
    session: Session,
    output: String,
    /// What is written of the present message.
    written: Vec<u8>,
    stored: Vec<String>,
    disk: Result<(), Reply>,
    tls_begins: u32,
}

impl World {
    fn new(settings: SessionSettings, client: Client) -> World {
        let mut session = Session::new(Arc::new(settings), client, None);
        session.greet();
        let mut world = World {
            session,
            output: String::new(),
            written: Vec::new(),
            stored: Vec::new(),
            disk: Ok(()),
            tls_begins: 0,
        };
        world.serve();
        world
    }

    fn smtp() -> World {
        World::new(settings(Service::Smtp), client(true))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.session.receive(bytes);
        self.serve();
    }

    /// Sends bytes. Returns the replies to them.
    fn say(&mut self, text: &str) -> String {
        self.output.clear();
        self.send(text.as_bytes());
        self.output.clone()
    }

    /// Codes of the replies to some bytes.
    fn codes(&mut self, text: &str) -> String {
        let replies = self.say(text);
        let last = |line: &&str| line.as_bytes().get(3) == Some(&b' ');
        let codes: Vec<&str> = replies.lines().filter(last).map(|line| &line[..3]).collect();
        codes.join(" ")
    }

    fn serve(&mut self) {
        loop {
            self.output.push_str(&String::from_utf8(self.session.take_output()).expect("text"));
            let Some(request) = self.session.take_request() else { return };
            let answer = match request {
                Request::CheckRecipient(question) => Answer::Reply(match &*question.recipient {
                    name if name.contains("good") => Reply::new(250, "2.1.5", "Ok"),
                    name if name.contains("later") => Reply::new(451, "4.3.0", "Later"),
                    _ => Reply::new(550, "5.1.1", "no such user here"),
                }),
                Request::AdmitMessage => Answer::Reply(Reply::sender_ok()),
                Request::Login(Credentials::Password { user, password }) => {
                    Answer::Login(match password == "right" {
                        true => LoginAnswer::Accepted(user),
                        false => LoginAnswer::Wrong,
                    })
                }
                Request::Login(_) => Answer::Login(LoginAnswer::Malformed),
                Request::AdmitLogin(user) => Answer::Reply(match &*user {
                    "crowd" => Reply::new(454, "4.7.0", "Too many connections of this login"),
                    _ => Reply::new(235, "2.7.0", "Logged in"),
                }),
                Request::Append(bytes) => {
                    self.written.extend(bytes);
                    Answer::Appended(self.disk.clone())
                }
                Request::Commit(bytes) => {
                    self.written.extend(bytes);
                    let written = std::mem::take(&mut self.written);
                    let id = SpoolId { number: 1, modified: Timestamp::from_seconds(0) };
                    Answer::Stored(self.disk.clone().map(|()| {
                        self.stored.push(String::from_utf8_lossy(&written).into_owned());
                        id
                    }))
                }
                Request::Discard => {
                    self.written.clear();
                    continue;
                }
                Request::StartTls => {
                    self.tls_begins += 1;
                    self.session.tls_started(TlsFacts {
                        version: "TLSv1.3".into(),
                        cipher: "X".into(),
                        key_bits: 256,
                    });
                    continue;
                }
                Request::StartQueue(_) => Answer::Reply(Reply::new(250, "2.0.0", "Ok")),
            };
            self.session.answer(answer);
        }
    }
}

const ENVELOPE: &str = "MAIL FROM:<s@x>\r\nRCPT TO:<good@y>\r\n";

#[test]
fn message_is_stored_with_its_envelope() {
    let mut world = World::smtp();
    assert_eq!(world.output, "220 mx.test ESMTP zsched\r\n");
    assert_eq!(world.codes("EHLO client.test\r\n"), "250");
    let commands = "MAIL FROM:<s@x> BODY=8BITMIME ENVID=q RET=HDRS BY=60;R\r\n\
        RCPT TO:<good@y> NOTIFY=SUCCESS ORCPT=rfc822;o@y\r\nRCPT TO:<bad@y>\r\n\
        RCPT TO:<good2@y>\r\nDATA\r\n";
    assert_eq!(world.codes(commands), "250 250 550 250 354");
    let replies = world.say("Subject: x\r\n\r\n..dot\r\n.\r\nQUIT\r\n");
    assert_eq!(replies, "250 2.0.0 Ok: queued as S1AauAAAAA\r\n221 2.0.0 Bye\r\n");
    assert_eq!(
        world.stored,
        ["rcvdfrom client.test ([192.0.2.7]:4711)\nwith ESMTP\nbodytype 8BITMIME\nenvid q\n\
          notaryret HDRS\nfrom <s@x>\ntodsn NOTIFY=SUCCESS ORCPT=rfc822;o@y BY=60;R\n\
          to <good@y>\ntodsn BY=60;R\nto <good2@y>\nenv-end\nSubject: x\n\n.dot\n"]
    );
    assert!(world.session.is_closing());
}

#[test]
fn users_have_messages_held_and_others_do_not() {
    let mut world = World::new(settings(Service::Submission), client(true));
    let offered = world.say("EHLO client.test\r\n");
    assert!(offered.contains("250-FUTURERELEASE 86400 2026-11-22T10:00:00Z\r\n"), "{offered}");
    for (parameters, code) in [
        ("HOLDFOR=86401", "501"),
        ("HOLDUNTIL=2026-11-23T10:00:00Z", "501"),
        ("HOLDUNTIL=2026-11-20T10:00:00Z", "501"),
        ("HOLDFOR=3600 BY=60;R", "501"),
    ] {
        assert_eq!(world.codes(&format!("MAIL FROM:<s@x> {parameters}\r\n")), code);
    }
    for (parameter, word) in [
        ("HOLDFOR=3600", "HOLDFOR=3600"),
        ("HOLDUNTIL=2026-11-21T18:00:00Z", "NOTBEFORE=1795284000"),
    ] {
        let envelope = format!("MAIL FROM:<s@x> {parameter}\r\nRCPT TO:<good@y>\r\n");
        assert_eq!(world.codes(&format!("{envelope}DATA\r\n")), "250 250 354");
        assert_eq!(world.codes("\r\n.\r\n"), "250");
        let stored = world.stored.pop().expect("a message");
        assert!(stored.contains(&format!("\ntodsn {word}\n")), "{stored}");
    }
    let mut other = World::smtp();
    assert!(!other.say("EHLO client.test\r\n").contains("FUTURERELEASE"));
    assert_eq!(other.codes("MAIL FROM:<s@x> HOLDFOR=1\r\n"), "555");
}

#[test]
fn only_some_clients_raise_the_priority() {
    for (may_raise_priority, value, reply, word) in
        [(false, 4, "250 2.3.6", 0), (false, -4, "250 2.1.0", -4), (true, 4, "250 2.1.0", 4)]
    {
        let client = Client { may_raise_priority, ..client(true) };
        let mut world = World::new(settings(Service::Smtp), client);
        assert!(world.say("EHLO client.test\r\n").contains("250-MT-PRIORITY\r\n"));
        let said = world.say(&format!("MAIL FROM:<s@x> MT-PRIORITY={value}\r\n"));
        assert!(said.starts_with(reply), "{said}");
        assert_eq!(world.codes("RCPT TO:<good@y>\r\nDATA\r\n"), "250 354");
        assert_eq!(world.codes("\r\n.\r\n"), "250");
        let stored = world.stored.pop().expect("a message");
        assert!(stored.contains(&format!("\ntodsn MT-PRIORITY={word}\n")), "{stored}");
    }
}

/// Each row: what is sent after EHLO, the codes of the replies, and the number of messages stored.
#[test]
fn misbehaviour_gets_its_reply_and_stores_nothing() {
    let long = "x".repeat(5000);
    let large = format!("{ENVELOPE}DATA\r\n");
    for (input, codes, stored) in [
        ("DATA\r\n", "503", 0),
        ("RCPT TO:<good@y>\r\n", "503", 0),
        ("MAIL FROM:<s@x>\r\nMAIL FROM:<s@x>\r\n", "250 503", 0),
        ("MAIL FROM:<s@x>\r\nDATA\r\n", "250 554", 0),
        ("MAIL FROM:<s@x> SIZE=200001\r\n", "552", 0),
        ("MAIL FROM:<s@x>\r\nRCPT TO:<bad@y>\r\nDATA\r\n", "250 550 554", 0),
        ("MAIL FROM:<s@x>\r\nRCPT TO:<later@y>\r\n", "250 451", 0),
        (
            &format!("{ENVELOPE}RCPT TO:<good@z>\r\nRCPT TO:<good@z>\r\nRCPT TO:<good@z>\r\n"),
            "250 250 250 250 452",
            0,
        ),
        (&format!("{ENVELOPE}DATA\r\nSubject: x\r\n"), "250 250 554", 0),
        (&format!("{ENVELOPE}RSET\r\nDATA\r\n"), "250 250 250 503", 0),
        ("NOOP\n", "500", 0),
        (&long, "500", 0),
        ("WHAT\r\n", "500", 0),
        ("STARTTLS\r\nMAIL FROM:<s@x>\r\n", "554", 0),
        ("EHLO a\r\nNOOP\r\n", "554", 0),
        ("AUTH PLAIN AGEAcmlnaHQ=\r\n", "538", 0),
        ("AUTH CRAM-MD5\r\n", "504", 0),
        ("BDAT 5\r\nhelloNOOP\r\n", "503 250", 0),
        ("BDAT 900000000000\r\n", "552", 0),
        (
            &format!("{ENVELOPE}BDAT 4\r\nA: bBDAT 4 LAST\r\n\r\n\r\nNOOP\r\n"),
            "250 250 250 250 250",
            1,
        ),
        (
            &format!("{ENVELOPE}BDAT 4\r\nA\nBDBDAT 4 LAST\r\nabcdNOOP\r\n"),
            "250 250 554 503 250",
            0,
        ),
        (&format!("{ENVELOPE}BDAT 4\r\nA: bDATA\r\n"), "250 250 250 503", 0),
        (&format!("{ENVELOPE}BDAT 0 LAST\r\n"), "250 250 250", 1),
        ("VRFY x\r\nEXPN x\r\nHELP\r\n", "252 502 214", 0),
        ("LHLO x\r\n", "500", 0),
        ("ETRN example.org\r\n", "250", 0),
    ] {
        let mut world = World::smtp();
        world.say("EHLO c\r\n");
        assert_eq!(world.codes(input), codes, "{input:?}");
        assert_eq!(world.stored.len(), stored, "{input:?}");
    }
    for (text, code) in [
        ("a\nb\r\n.\r\n".to_string(), "554"),
        ("a\rb\r\n.\r\n".into(), "554"),
        ("x".repeat(300_000) + "\r\n.\r\n", "552"),
        ("Received: x\r\n".repeat(101) + "\r\n.\r\n", "554"),
    ] {
        let mut world = World::smtp();
        world.say("EHLO c\r\n");
        assert_eq!(world.codes(&large), "250 250 354");
        assert_eq!(world.codes(&text), code);
        assert_eq!((world.stored.len(), world.written.len()), (0, 0));
        assert_eq!(world.codes(&large), "250 250 354", "the next message");
        assert_eq!(world.codes("A: b\r\n\r\nc\r\n.\r\n"), "250");
        assert_eq!(world.stored.len(), 1);
    }
}

#[test]
fn what_comes_before_the_greeting_ends_the_session() {
    let mut session = Session::new(Arc::new(settings(Service::Smtp)), client(true), None);
    session.receive(b"EHLO x\r\n");
    session.greet();
    assert_eq!(
        session.take_output(),
        b"554 5.5.1 Commands sent too early: wait for the greeting\r\n"
    );
    assert!(session.is_closing());
}

/// ZMailer's router does not know these words.
#[test]
fn disabled_extensions_are_neither_offered_nor_taken() {
    let settings = SessionSettings {
        has_priorities: false,
        max_hold: std::time::Duration::ZERO,
        ..settings(Service::Submission)
    };
    let mut world = World::new(settings, client(true));
    let hello = world.say("EHLO c\r\n");
    assert!(!hello.contains("MT-PRIORITY") && !hello.contains("FUTURERELEASE"), "{hello}");
    for parameter in ["MT-PRIORITY=1", "HOLDFOR=10"] {
        assert_eq!(world.codes(&format!("MAIL FROM:<s@x> {parameter}\r\n")), "555");
    }
}

#[test]
fn client_is_named_once() {
    for (hello, shown) in [
        ("client.test", "client.test[192.0.2.7]"),
        ("[192.0.2.7]", "[192.0.2.7]"),
        ("[10.0.0.1]", "[10.0.0.1][192.0.2.7]"),
    ] {
        let mut world = World::smtp();
        assert_eq!(world.session.client_name(), "unknown[192.0.2.7]");
        world.say(&format!("EHLO {hello}\r\n"));
        assert_eq!(world.session.client_name(), shown);
    }
}

#[test]
fn full_disk_refuses_message_for_now() {
    for size in [10, 150_000] {
        let mut world = World::smtp();
        world.disk = Err(Reply::new(452, "4.3.1", "Not enough disk space"));
        world.say("EHLO c\r\n");
        world.codes(&format!("{ENVELOPE}DATA\r\n"));
        let text = format!("A: b\r\n\r\n{}\r\n.\r\n", "y".repeat(size));
        assert_eq!(world.codes(&text), "452");
        assert_eq!(world.codes("NOOP\r\n"), "250");
    }
}

#[test]
fn lmtp_replies_for_each_recipient() {
    let mut world = World::new(settings(Service::Lmtp), client(true));
    assert_eq!(world.codes("EHLO c\r\n"), "500");
    assert_eq!(world.codes("LHLO c\r\n"), "250");
    let commands =
        "MAIL FROM:<>\r\nRCPT TO:<good@y>\r\nRCPT TO:<bad@y>\r\nRCPT TO:<good@z>\r\nDATA\r\n";
    assert_eq!(world.codes(commands), "250 250 550 250 354");
    assert_eq!(world.codes("A: b\r\n\r\nc\r\n.\r\n"), "250 250");
    assert!(world.stored[0].contains("with LMTP\nchannel error\n"), "{}", world.stored[0]);
}

#[test]
fn submission_needs_login_and_passwords_need_tls() {
    let mut world = World::new(settings(Service::Submission), client(false));
    let hello = world.say("EHLO c\r\n");
    assert!(hello.contains("250-STARTTLS\r\n250-AUTH SCRAM-SHA-256\r\n"), "{hello}");
    assert_eq!(world.codes("MAIL FROM:<s@x>\r\n"), "530");
    assert_eq!(world.codes("STARTTLS\r\n"), "220");
    assert_eq!(world.tls_begins, 1);
    assert_eq!(world.codes("MAIL FROM:<s@x>\r\n"), "503", "the hello before TLS does not count");
    let hello = world.say("EHLO c\r\n");
    assert!(hello.contains("250-AUTH SCRAM-SHA-256 PLAIN LOGIN\r\n"), "{hello}");
    assert!(!hello.contains("STARTTLS"), "{hello}");
    assert_eq!(world.codes("AUTH PLAIN AGEAd3Jvbmc=\r\n"), "535");
    assert_eq!(
        world.codes("AUTH PLAIN AGNyb3dkAHJpZ2h0\r\n"),
        "454",
        "the login has too many connections"
    );
    assert_eq!(world.codes("AUTH PLAIN\r\n"), "334");
    assert_eq!(world.codes("*\r\n"), "501");
    assert_eq!(world.codes("AUTH LOGIN\r\n"), "334");
    assert_eq!(world.codes("YQ==\r\n"), "334");
    assert_eq!(world.codes("cmlnaHQ=\r\n"), "235");
    assert_eq!(world.codes(&format!("{ENVELOPE}DATA\r\n")), "250 250 354");
    assert_eq!(world.codes("A: b\r\n.\r\n"), "250");
    assert!(world.stored[0].contains("with ESMTPSA tls X\nauthinfo a\n"), "{}", world.stored[0]);
}

#[test]
fn failed_logins_and_errors_end_the_session() {
    let mut world = World::new(settings(Service::Smtp), Client { is_local: true, ..client(true) });
    world.say("EHLO c\r\n");
    for code in ["535", "535", "421"] {
        assert_eq!(world.codes("AUTH PLAIN AGEAd3Jvbmc=\r\n"), code);
    }
    assert!(world.session.is_closing());
    let mut world = World::smtp();
    let replies = world.codes(&"WHAT\r\n".repeat(50));
    assert!(replies.ends_with("500 421"), "{replies}");
    assert!(world.session.is_closing());
}

#[test]
fn bare_lf_is_a_line_end_for_programs_of_this_host() {
    let settings = SessionSettings { allows_bare_lf: true, ..settings(Service::Smtp) };
    let mut world = World::new(settings, Client { ip: None, ..client(true) });
    let script = "EHLO c\nMAIL FROM:<s@x>\nRCPT TO:<good@y>\nDATA\nA: b\n\n..c\n.\nQUIT\n";
    assert_eq!(world.codes(script), "250 250 250 354 250 221");
    assert!(world.stored[0].ends_with("env-end\nA: b\n\n.c\n"), "{}", world.stored[0]);
}

/// However small the chunks are, what they make together is written.
#[test]
fn small_chunks_are_written_while_they_come() {
    let mut world = World::smtp();
    world.say("EHLO c\r\n");
    world.say(ENVELOPE);
    let text = "0123456789\r\n".repeat(100);
    for _ in 0..120 {
        assert_eq!(world.codes(&format!("BDAT {}\r\n{text}", text.len())), "250");
    }
    assert!(world.written.len() > 60_000, "{} bytes are written", world.written.len());
    assert_eq!(world.codes("BDAT 0 LAST\r\n"), "250");
    assert_eq!(world.stored[0].matches("0123456789\n").count(), 12_000);
}

#[test]
fn idle_session_holds_no_buffer() {
    let mut world = World::smtp();
    world.say("EHLO c\r\n");
    let session = &world.session;
    assert_eq!((session.input.capacity(), session.output.capacity()), (0, 0));
    assert!(std::mem::size_of::<Session>() < 600, "{}", std::mem::size_of::<Session>());
}

/// Steps of random sessions.
fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("EHLO c\r\n".to_string()),
        Just("MAIL FROM:<s@x>\r\n".into()),
        Just("RCPT TO:<good@y>\r\n".into()),
        Just("RCPT TO:<bad@y>\r\n".into()),
        Just("DATA\r\n".into()),
        Just("A: b\r\n\r\nc\r\n.\r\n".into()),
        Just("BDAT 6 LAST\r\nabcdef".into()),
        Just("BDAT 3\r\nabc".into()),
        Just("RSET\r\n".into()),
        Just("STARTTLS\r\n".into()),
        Just("AUTH PLAIN AGEAcmlnaHQ=\r\n".into()),
        "[ -~\r\n\\.\u{e9}]{0,12}",
    ]
}

proptest! {
    #[test]
    fn random_sessions_do_not_panic_and_store_whole_messages(
        steps in prop::collection::vec(step(), 0..30),
        piece in 1usize..40,
    ) {
        let mut world = World::smtp();
        for bytes in steps.concat().as_bytes().chunks(piece) {
            world.send(bytes);
            prop_assert!(world.session.input.len() <= MAX_WAITING_INPUT);
        }
        for stored in &world.stored {
            prop_assert!(stored.contains("\nto <good@y>\n"));
            prop_assert!(stored.contains("\nenv-end\n"));
        }
        prop_assert!(world.session.is_closing() || world.session.requests.is_empty());
    }
}
