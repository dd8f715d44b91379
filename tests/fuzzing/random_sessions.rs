//! Random sessions of the SMTP server, beside what a client knows of them.
//!
//! Unlike the target `smtp_session`, the client here understands its commands: it knows how many
//! replies are due, and which text each message has.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zsched_format::time::Timestamp;
use zsched_router::Submission;
use zsched_smtpserver::session::{
    Answer, Client, Credentials, LoginAnswer, Logins, Reply, Request, Service, Session,
    SessionSettings, TlsFacts,
};
use zsched_spool::SpoolId;

/// Number of sessions, unless `ZSCHED_SESSIONS` says otherwise.
const DEFAULT_SESSIONS: u64 = 3000;
/// Maximum number of steps of a session.
const MAX_STEPS: usize = 40;
/// Maximum size of a message, in bytes. Some messages are larger.
const MAX_SIZE: u64 = 150_000;
/// Maximum number of recipients of a message.
const MAX_RECIPIENTS: usize = 3;
/// Maximum number of bytes that a session may ask to be written at a time.
const MAX_PART: usize = 100_000;

/// A session with what a client and a disk know of it.
struct World {
    session: Session,
    random: fastrand::Rng,
    is_lmtp: bool,
    /// Codes of the replies that the client has not used.
    codes: Vec<u16>,
    /// A part of a reply.
    output: Vec<u8>,
    /// What is written of the present message.
    written: Vec<u8>,
    stored: Vec<Vec<u8>>,
    /// The disk is full.
    is_full: bool,
    /// The recipients that were accepted, if there is a sender.
    envelope: Option<Vec<String>>,
}

impl World {
    fn new(mut random: fastrand::Rng) -> World {
        let service = *random
            .choice(&[Service::Smtp, Service::Submission, Service::Lmtp])
            .expect("there are three");
        let settings = SessionSettings {
            hostname: "mx.test".into(),
            service,
            max_size: MAX_SIZE,
            max_recipients: MAX_RECIPIENTS,
            has_tls: random.bool(),
            logins: *random
                .choice(&[Logins::None, Logins::Passwords, Logins::All])
                .expect("there are three"),
            has_queue_requests: random.bool(),
            has_queue_domains: random.bool(),
            allows_bare_lf: false,
            max_hold: std::time::Duration::from_secs(86_400),
            has_priorities: true,
            logins_raise_priority: true,
            now: || zsched_format::time::Timestamp::from_seconds(1_795_255_200),
            free_space: Arc::new(AtomicU64::new(1 << 40)),
            free_memory: Arc::new(AtomicU64::new(1)),
        };
        let ip = Some([192, 0, 2, 7].into());
        let client = Client {
            ip,
            port: 1,
            may_relay: random.bool(),
            may_raise_priority: random.bool(),
            is_local: random.bool(),
            ..Client::default()
        };
        let mut session = Session::new(Arc::new(settings), client, None);
        session.greet();
        let mut world = World {
            session,
            is_full: random.u8(0..10) == 0,
            random,
            is_lmtp: service == Service::Lmtp,
            codes: Vec::new(),
            output: Vec::new(),
            written: Vec::new(),
            stored: Vec::new(),
            envelope: None,
        };
        world.serve();
        assert_eq!(std::mem::take(&mut world.codes), [220]);
        world
    }

    /// Sends bytes in random pieces. Returns the codes of the replies.
    fn send(&mut self, mut bytes: &[u8]) -> Vec<u16> {
        assert_eq!(self.codes, [0u16; 0], "replies without a command");
        while !bytes.is_empty() {
            let max = if self.random.bool() { 20 } else { 50_000 };
            let (piece, rest) = bytes.split_at(self.random.usize(1..=max).min(bytes.len()));
            self.session.receive(piece);
            self.serve();
            assert!(self.session.is_closing() || self.session.wants_input());
            bytes = rest;
        }
        std::mem::take(&mut self.codes)
    }

    /// Sends a command. Returns the code of its reply; 0 if the session is over.
    fn say(&mut self, line: &str) -> u16 {
        let was_over = self.session.is_closing();
        let codes = self.send(format!("{line}\r\n").as_bytes());
        match codes[..] {
            [] if was_over => 0,
            [code] => code,
            // What ends the session, too.
            [_, code @ 421] if self.session.is_closing() => code,
            _ => panic!("{line:?} gets the replies {codes:?}"),
        }
    }

    fn serve(&mut self) {
        loop {
            self.output.extend(self.session.take_output());
            self.read_replies();
            let Some(request) = self.session.take_request() else { return };
            if let Some(answer) = self.answer(request) {
                self.session.answer(answer);
            }
        }
    }

    fn read_replies(&mut self) {
        let output = String::from_utf8(std::mem::take(&mut self.output)).expect("text");
        for line in output.split_inclusive("\r\n") {
            assert!(line.ends_with("\r\n") && line.len() <= 514, "{line:?}");
            if line.as_bytes()[3] == b' ' {
                self.codes.push(line[..3].parse().expect("a code"));
            }
        }
    }

    fn answer(&mut self, request: Request) -> Option<Answer> {
        let full = || Reply::new(452, "4.3.1", "Not enough disk space");
        Some(match request {
            Request::AdmitMessage => Answer::Reply(Reply::sender_ok()),
            Request::CheckRecipient(question) => Answer::Reply(match &question.recipient[..1] {
                "g" => Reply::new(250, "2.1.5", "Ok"),
                "l" => Reply::new(451, "4.3.0", "Later"),
                _ => Reply::new(550, "5.1.1", "no such user here"),
            }),
            Request::Login(Credentials::Password { user, password }) => {
                Answer::Login(match password == "right" {
                    true => LoginAnswer::Accepted(user),
                    false => LoginAnswer::Wrong,
                })
            }
            Request::Login(_) => Answer::Login(LoginAnswer::Malformed),
            Request::AdmitLogin(_) => Answer::Reply(Reply::new(235, "2.7.0", "Logged in")),
            Request::Append(bytes) => {
                assert!(bytes.len() <= MAX_PART, "{} bytes", bytes.len());
                self.written.extend(bytes);
                Answer::Appended(if self.is_full { Err(full()) } else { Ok(()) })
            }
            Request::Commit(bytes) => {
                assert!(bytes.len() <= MAX_PART, "{} bytes", bytes.len());
                let mut text = std::mem::take(&mut self.written);
                text.extend(bytes);
                if self.is_full {
                    return Some(Answer::Stored(Err(full())));
                }
                self.stored.push(text);
                Answer::Stored(Ok(SpoolId { number: 1, modified: Timestamp::from_seconds(0) }))
            }
            Request::Discard => {
                self.written.clear();
                return None;
            }
            Request::StartTls => {
                let facts =
                    TlsFacts { version: "TLSv1.3".into(), cipher: "X".into(), key_bits: 256 };
                self.session.tls_started(facts);
                return None;
            }
            Request::StartQueue(_) => Answer::Reply(Reply::new(250, "2.0.0", "Ok")),
        })
    }

    fn step(&mut self) {
        match self.random.u8(0..24) {
            0 => self.reset("EHLO c"),
            1 => self.reset("HELO c"),
            2 | 3 => self.reset(if self.is_lmtp { "LHLO c" } else { "EHLO c" }),
            4 => self.reset("RSET"),
            5 => self.reset("STARTTLS"),
            6..=8 => {
                let words =
                    ["", " SIZE=5", " BODY=8BITMIME", " SMTPUTF8", " SIZE=999999999", " X=Y"];
                let word = *self.random.choice(&words).expect("some");
                if self.say(&format!("MAIL FROM:<s@x>{word}")) == 250 {
                    self.envelope = Some(Vec::new());
                }
            }
            9..=12 => self.recipient(),
            13..=18 => self.message(),
            19 => self.login(),
            20 => {
                let line =
                    *self.random.choice(&["NOOP", "VRFY a", "HELP", "EXPN a"]).expect("some");
                self.say(line);
            }
            21 => {
                self.say("ETRN example.org");
            }
            22 => self.junk(),
            _ => {
                let line = if self.random.u8(0..4) == 0 { "QUIT" } else { "NOOP" };
                self.say(line);
            }
        }
    }

    /// A command that ends an envelope if it succeeds.
    fn reset(&mut self, line: &str) {
        if matches!(self.say(line), 220 | 250) {
            self.envelope = None;
        }
    }

    fn recipient(&mut self) {
        let kind = *self.random.choice(&["good", "good", "later", "bad"]).expect("some");
        let recipient = format!("{kind}{}@y", self.random.u8(..));
        if self.say(&format!("RCPT TO:<{recipient}>")) == 250 {
            self.envelope.as_mut().expect("a sender").push(recipient);
        }
    }

    fn login(&mut self) {
        let lines: &[&str] = match self.random.u8(0..4) {
            0 => &["AUTH PLAIN AGEAcmlnaHQ="],
            1 => &["AUTH PLAIN AGEAd3Jvbmc="],
            2 => &["AUTH LOGIN", "YQ==", "cmlnaHQ="],
            _ => &["AUTH SCRAM-SHA-256", "*"],
        };
        for line in lines {
            if self.say(line) != 334 {
                return;
            }
        }
    }

    /// A line of any bytes: it gets one reply, whatever it is.
    fn junk(&mut self) {
        let count = self.random.usize(0..60);
        let mut line: Vec<u8> = (0..count).map(|_| self.random.u8(..)).collect();
        line.retain(|byte| *byte != b'\n');
        line.extend(b"\r\n");
        let was_over = self.session.is_closing();
        let codes = self.send(&line);
        assert!(was_over || !codes.is_empty() && codes.len() <= 2, "{line:?} gets {codes:?}");
        assert!(codes.first().is_none_or(|code| *code >= 400), "{line:?} gets {codes:?}");
    }

    /// Lines of a text, each with its end.
    fn text(&mut self) -> String {
        let mut text = String::from("A: b\r\n\r\n");
        let lines = if self.random.u8(0..60) == 0 { 4000 } else { self.random.usize(0..20) };
        for number in 0..lines {
            let start = *self.random.choice(&["", ".", "..", "a", ".\u{e9}"]).expect("some");
            let length = self.random.usize(0..80);
            write!(text, "{start}{number}{}\r\n", "x".repeat(length)).expect("it grows");
        }
        if self.random.u8(0..12) == 0 {
            let fault = *self
                .random
                .choice(&["\n", "\r", "\n.\n", "\r\n.\n", "\n.\r\n", "\r.\r"])
                .expect("some");
            text += &format!("a{fault}b\r\n");
        }
        text
    }

    /// Sends a message by DATA or in chunks, and checks what is stored.
    fn message(&mut self) {
        // Often in order, so that many messages are accepted.
        if self.envelope.is_none() && self.random.bool() {
            self.reset(if self.is_lmtp { "LHLO c" } else { "EHLO c" });
            if self.say("MAIL FROM:<s@x>") == 250 {
                self.envelope = Some(Vec::new());
                self.recipient();
            }
        }
        let text = self.text();
        let before = self.stored.len();
        let codes = match self.random.bool() {
            true => {
                let code = self.say("DATA");
                if code != 354 {
                    return assert_ne!(code, 250);
                }
                let stuffed = text.replace("\r\n.", "\r\n..");
                self.send(format!("{stuffed}.\r\n").as_bytes())
            }
            false => self.chunks(text.as_bytes()),
        };
        let accepted = codes.first() == Some(&250);
        assert_eq!(self.stored.len() - before, usize::from(accepted), "{codes:?}");
        // Without a recipient the text is not begun, and the envelope stays as it is.
        let Some(recipients) = self.envelope.take_if(|recipients| !recipients.is_empty()) else {
            return assert!(!accepted, "{codes:?}");
        };
        if !accepted {
            return;
        }
        let replies = if self.is_lmtp { recipients.len() } else { 1 };
        assert_eq!(codes, vec![250; replies]);
        let body = text.replace("\r\n", "\n");
        assert!(!body.contains('\r') && !text.replace("\r\n", "").contains('\n'), "{text:?}");
        assert!(body.len() as u64 <= MAX_SIZE);
        check_stored(self.stored.last().expect("it is there"), &recipients, &body);
        // A session that goes on needs no memory for what is over.
        if before > 3 {
            self.stored.clear();
        }
    }

    /// Sends chunks until one is refused. Returns the replies to the last one.
    fn chunks(&mut self, mut text: &[u8]) -> Vec<u16> {
        loop {
            let max = text.len().min(60_000);
            let (chunk, rest) = text.split_at(self.random.usize(0..=max));
            let is_last = rest.is_empty();
            let last = if is_last { " LAST" } else { "" };
            let mut bytes = format!("BDAT {}{last}\r\n", chunk.len()).into_bytes();
            bytes.extend(chunk);
            let before = self.stored.len();
            let codes = self.send(&bytes);
            if is_last || codes != [250] {
                return codes;
            }
            assert_eq!(before, self.stored.len(), "it is stored before its end");
            text = rest;
        }
    }
}

/// The router reads just these recipients and this text.
fn check_stored(stored: &[u8], recipients: &[String], text: &str) {
    let submission = Submission::read(&mut &*stored).expect("a submission");
    let found: Vec<&String> =
        submission.envelope.recipients.iter().map(|one| &one.address).collect();
    assert_eq!(found, recipients.iter().collect::<Vec<_>>());
    let end = b"\nenv-end\n";
    let at = stored.windows(end.len()).position(|part| part == end).expect("an envelope");
    assert!(stored[at + end.len()..] == *text.as_bytes(), "another text");
}

/// Each 250 to a text is one message with its bytes; each command has its replies, no more.
#[test]
fn random_sessions_store_what_they_accept() {
    let count = std::env::var("ZSCHED_SESSIONS").ok();
    let count = count.map_or(DEFAULT_SESSIONS, |text| text.parse().expect("a number"));
    let seed = std::env::var("ZSCHED_SEED").ok();
    let first: u64 = seed.map_or_else(|| fastrand::u64(..), |text| text.parse().expect("a number"));
    let mut accepted = 0;
    for number in 0..count {
        let seed = first.wrapping_add(number);
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(fastrand::Rng::with_seed(seed));
            let mut accepted = 0;
            for _ in 0..MAX_STEPS {
                let before = world.stored.len();
                world.step();
                accepted += world.stored.len().saturating_sub(before);
            }
            accepted
        });
        accepted += run.unwrap_or_else(|_| panic!("again: ZSCHED_SEED={seed} ZSCHED_SESSIONS=1"));
    }
    println!("{count} sessions from ZSCHED_SEED={first}: {accepted} messages accepted");
    assert!(accepted as u64 > count / 10, "{accepted} messages in {count} sessions");
}
