//! Headers, envelopes and large or strange messages.

use super::support::{Site, lines, parse};
use std::fmt::Write as _;
use std::fs;

const RULES: &str = "local zm.example.test\nusers any\n";

fn header_block(text: &str) -> &str {
    let start = text.find("\nm\n").expect("a header block") + 3;
    let end = text[start..].find("\n\n").expect("its end") + 1;
    &text[start..start + end]
}

#[test]
fn message_without_envelope_goes_by_its_headers() {
    let site = Site::new(RULES);
    let made = site.route_one(
        "From: Alice <alice@far.test>\nTo: bob, \"C, D\" <cd@there.test>\nCc: e@there.test\n\
         Bcc: secret@there.test\nSubject: x\n\nbody\n",
    );
    assert_eq!(
        lines(&made, "er"),
        [
            "e alice@far.test",
            "e alice@far.test",
            "r local bob@zm.example.test bob@zm.example.test 65534",
            "r smtp there.test cd@there.test 65534",
            "r smtp there.test e@there.test 65534",
            "r smtp there.test secret@there.test 65534",
        ]
    );
    assert!(!header_block(&made).contains("Bcc"), "{made}");
}

#[test]
fn missing_headers_are_added() {
    let site = Site::new(RULES);
    let made = site.route_one(
        "rcvdfrom client.example.test ([127.0.0.1]:4711)\nwith ESMTP\nfullname A. B\n\
         from <a@far.test>\nto <b>\nenv-end\nSubject: x\n\nbody\n",
    );
    let id = made.lines().find_map(|line| line.strip_prefix("l ")).expect("an id");
    let spool_id = &id[1..id.find('@').expect("a domain")];
    let headers = header_block(&made);
    let (received, rest) = headers.split_at(headers.find("Subject").expect("the subject"));
    assert!(
        received.starts_with(&format!(
            "Received: from client.example.test ([127.0.0.1]:4711) by zm.example.test\n\
             \twith ESMTP id {spool_id};\n\t"
        )),
        "{received}"
    );
    let (before_date, date) = rest.split_once("Date: ").expect("a date");
    assert_eq!(before_date, format!("Subject: x\nFrom: \"A. B\" <a@far.test>\nMessage-Id: {id}\n"));
    assert!(received.contains(date.trim_end()), "the same time: {received} {date}");
}

#[test]
fn obsoleted_messages_are_named() {
    let site = Site::new(RULES);
    let made = site.route_one(
        "from <a@far.test>\nto <b>\nenv-end\nObsoletes: <1@x>, junk <2@x\n\
         SUPERSEDES:\n <3@x>\n\nbody\n",
    );
    assert_eq!(lines(&made, "x"), ["x <1@x>", "x <3@x>"]);
}

#[test]
fn null_sender_is_accepted() {
    let site = Site::new(RULES);
    for from in ["from <>", "channel error\nerrormsg", "channel error\nfrom <a@b>"] {
        let made = site.route_one(format!("{from}\nto <b>\nenv-end\nSubject: x\n\nbody\n"));
        assert_eq!(lines(&made, "e"), [""; 0]);
        assert!(lines(&made, "s")[0].starts_with("s error <> <> "), "{made}");
        assert!(made.contains("\nFrom: MAILER-DAEMON@zm.example.test\n"), "{made}");
    }
}

#[test]
fn message_in_loop_is_refused() {
    let site = Site::new(RULES);
    let message = |count: usize| {
        let received = "Received: by x; Mon, 23 Nov 2026 08:00:00 +0000\n".repeat(count);
        format!("from <a@far.test>\nto <b>\nto <c@there.test>\nenv-end\n{received}\nbody\n")
    };
    let made = site.route_one(message(100));
    assert!(lines(&made, "d").is_empty(), "{made}");
    let made = site.route_one(message(101));
    assert_eq!(
        lines(&made, "r"),
        ["r- error loopexceeded b 65534", "r- error loopexceeded c@there.test 65534"]
    );
    let file = parse(&made);
    assert_eq!(file.diagnostics.len(), 2);
    assert!(made.contains("\u{1}failed\u{1}5.4.6 (the message is in a loop: it has 101 Received"));
}

#[test]
fn unusable_submissions_go_to_postman() {
    let cases: [(&str, &[u8], &str); 9] = [
        ("empty", b"", "it has no recipients"),
        ("nobody", b"From: a@b\n\nbody\n", "it has no recipients"),
        ("unknown", b"frobnicate x\nto <a>\nenv-end\n\nx\n", "line 1: unknown keyword"),
        ("bracket", b"from <a@b>\nto <c\nenv-end\n\nx\n", "line 2: a < without >"),
        ("binary", b"from <a@b>\nto <\xff>\nenv-end\n\nx\n", "line 2: the value is not UTF-8"),
        (
            "control",
            b"from <a@b>\nto <c\r>\nenv-end\n\n",
            "line 2: a control character in the value",
        ),
        ("twice", b"from <a>\nfrom <b>\nto <c>\nenv-end\n\n", "line 2: a second sender"),
        (
            "dangling",
            b"from <a>\ntodsn X=y\nenv-end\n\n",
            "line 3: todsn without a to line behind it",
        ),
        ("list", b"To: a b c\n\nbody\n", "the To header: missing comma between words"),
    ];
    let site = Site::new(RULES);
    for (name, submission, _) in &cases {
        site.submit(name, submission);
    }
    site.route();
    assert_eq!(site.names("router"), [""; 0]);
    assert_eq!(site.names("queue"), [""; 0]);
    for (name, submission, reason) in cases {
        let path = site.spool.postman().join(format!("router-error:{name}"));
        assert_eq!(fs::read(path).expect(name), submission);
        let found = site.read(&format!("postoffice/postman/router-error:{name}:reason"));
        assert_eq!(found, format!("{reason}\n"), "{name}");
    }
}

#[test]
fn links_and_folders_stay() {
    let site = Site::new(RULES);
    site.write("secret", "from <a>\nto <b>\nenv-end\n\nsecret\n");
    fs::hard_link(site.path("secret"), site.spool.router().join("hard")).expect("linked");
    std::os::unix::fs::symlink(site.path("secret"), site.spool.router().join("soft"))
        .expect("linked");
    fs::create_dir(site.spool.router().join("folder")).expect("made");
    fs::create_dir(site.spool.router().join("X")).expect("made");
    let submission = site.submit("X/5", "to <b>\nenv-end\n\nx\n");
    let output = site.run(&["--once"]);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(site.names("router"), ["X", "folder", "hard", "soft"]);
    assert_eq!(site.names("queue"), [submission.to_string()]);
}

#[test]
fn taken_number_waits() {
    let site = Site::new(RULES);
    let number = site.submit("one", "to <b>\nenv-end\n\nx\n");
    let taken = site.spool.queue().join(number.to_string());
    fs::write(&taken, "another message").expect("written");
    let output = site.run(&["--once"]);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(fs::read_to_string(&taken).expect("it is there"), "another message");
    assert_eq!(site.names("router"), ["one"]);
    assert_eq!(site.names("transport"), [""; 0]);
    fs::remove_file(taken).expect("removed");
    site.route();
    assert_eq!(site.names("transport"), [number.to_string()]);
}

#[test]
fn hundred_thousand_recipients_are_routed() {
    const COUNT: usize = 100_000;
    let site = Site::new(RULES);
    let mut text = String::from("from <a@zm.example.test>\n");
    for index in 0..COUNT {
        writeln!(text, "todsn ORCPT=rfc822;user{index}@host{}.test", index % 1000).expect("text");
        writeln!(text, "to <user{index}@host{}.test>", index % 1000).expect("text");
    }
    text.push_str("env-end\nSubject: x\n\nbody\n");
    let made = site.route_one(text);
    assert_eq!(parse(&made).recipients.len(), COUNT);
}

/// The parameters of an alias are those of each member, so a long text would fill the memory.
#[test]
fn too_many_long_parameters_are_refused() {
    const MEMBERS: usize = 50_000;
    let site = Site::new("users any\naliases DIR/aliases\n");
    let members: Vec<String> = (0..MEMBERS).map(|number| format!("u{number}@there.test")).collect();
    site.write("aliases", format!("all: {}\n", members.join(",\n\t")));
    let long = "x".repeat(4000);
    let text = format!("from <a>\ntodsn ORCPT=rfc822;{long}\nto <all>\nenv-end\n\nbody\n");
    site.submit("long", text);
    site.route();
    let reason = site.read("postoffice/postman/router-error:long:reason");
    assert_eq!(reason, "more than 250000 recipients, or 128 MiB of their DSN parameters\n");
}

/// Neither many lines nor one long line of a list are read as a whole.
#[test]
fn list_beyond_limit_is_refused() {
    let site = Site::new("users any\naliases DIR/aliases\n");
    let list = site.path("list");
    site.write("aliases", format!("list: :include:{}\n", list.display()));
    for separator in ["\n", ","] {
        site.write("list", format!("a{separator}").repeat(300_000));
        site.submit("one", "from <a>\nto <list>\nenv-end\n\nbody\n");
        site.route();
        assert_eq!(site.names("queue"), [""; 0]);
    }
}

mod hostile {
    use proptest::prelude::*;
    use std::io::Cursor;
    use zsched_format::spool_id::SpoolId;
    use zsched_format::time::Timestamp;
    use zsched_router::message::{Facts, route};
    use zsched_router::{Directory, RouterConfig, Submission};

    /// Routes a submission without files. Returns its control file.
    fn routed(text: &[u8]) -> Option<Vec<u8>> {
        let config = b"hostname zm.test\nusers any\nroute *.test smtp\n";
        let path = std::path::Path::new("router.cf");
        let loaded =
            RouterConfig::parse(path, config, "x", &zsched_config::Zenv::default()).expect("good");
        let (directory, _) = Directory::load(loaded.0).expect("no files");
        let modified = Timestamp::from_seconds(1_795_255_449);
        let facts = Facts {
            id: SpoolId { number: 4711, modified },
            owner: 1000,
            owner_name: None,
            hostname: "zm.test",
            now: modified,
            is_expired: text.len().is_multiple_of(2),
        };
        let submission = Submission::read(&mut Cursor::new(text)).ok()?;
        assert!(submission.body_offset <= text.len() as u64);
        let mut draft = route(submission, &facts, &directory).ok()?.draft;
        draft.name = "4711".into();
        draft.to_text().ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn any_bytes_are_routed_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(made) = routed(&text) {
                let file = zsched_format::control_file::parse(made).expect("a control file");
                prop_assert_eq!(file.senders.len(), 1);
            }
        }

        #[test]
        fn lines_of_envelopes_are_routed_or_refused(
            lines in prop::collection::vec("(from|to|todsn|channel|envid|with|To:|m|r |Subject:)[ <>@a-c.\"|\\\\\u{e9}\u{1}-]{0,12}", 0..8),
            end in "(env-end\n)?",
        ) {
            let text = lines.join("\n") + "\n" + &end + "To: a@b\n\nbody\n";
            if let Some(made) = routed(text.as_bytes()) {
                let shown = String::from_utf8_lossy(&made).into_owned();
                let file = zsched_format::control_file::parse(made).expect(&shown);
                prop_assert_eq!(file.senders.len(), 1);
                prop_assert_eq!(file.headers.len(), 1);
                prop_assert!(!file.recipients.is_empty());
                prop_assert!(file.undeliverable_lines.is_empty(), "{}", shown);
            }
        }
    }
}
