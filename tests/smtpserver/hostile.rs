//! Clients that misbehave at each step.

use crate::support::{Client, Site, until};
use zsched_mailq_protocol::scram::StoredPassword;

/// Brings a client to a step. The session has some limits that are easily reached.
fn client_at(step: &str, address: std::net::SocketAddr) -> Client {
    let mut client = Client::connect(address);
    assert_eq!(client.code(), "220");
    let before: &[(&str, &str)] = match step {
        "greeting" => return client,
        "login" => &[("AUTH LOGIN\r\n", "334")],
        "sender" => &[("MAIL FROM:<s@x>\r\n", "250")],
        "recipient" | "data" | "chunk" | "between chunks" => {
            &[("MAIL FROM:<s@x>\r\n", "250"), ("RCPT TO:<alice@here.test>\r\n", "250")]
        }
        _ => &[],
    };
    assert_eq!(client.say("EHLO client.test\r\n"), "250");
    for (line, code) in before {
        assert_eq!(client.say(line), *code, "{step}");
    }
    match step {
        "data" => assert_eq!(client.say("DATA\r\n"), "354"),
        "chunk" => client.send("BDAT 1000000\r\n"),
        "between chunks" => assert_eq!(client.say("BDAT 6\r\nA: b\r\n"), "250"),
        _ => {}
    }
    client
}

/// What a client has done before it misbehaves.
const STEPS: [&str; 8] =
    ["greeting", "hello", "login", "sender", "recipient", "data", "chunk", "between chunks"];

/// The misbehaviours, each with the codes of the replies at each step. `+` is more of the same.
const TABLE: [(&str, [&str; 8]); 12] = [
    // Nothing is sent any more, or one byte.
    ("", ["421 end", "421 end", "421 end", "421 end", "421 end", "421 end", "421 end", "421 end"]),
    ("X", ["421 end", "421 end", "421 end", "421 end", "421 end", "421 end", "421 end", "421 end"]),
    // A line without an end, of 20,000 bytes.
    (
        "LONG",
        ["500 end", "500 end", "500 end", "500 end", "500 end", "421 end", "421 end", "500 end"],
    ),
    // Lines that do not end in CR LF, with control characters, not in UTF-8.
    ("NOOP\n", ["500", "500", "500", "500", "500", "421 end", "421 end", "500"]),
    ("NO\rOP\r\n", ["500", "500", "501", "500", "500", "421 end", "421 end", "500"]),
    ("NO\0OP\r\n", ["500", "500", "501", "500", "500", "421 end", "421 end", "500"]),
    ("BINARY", ["500", "500", "501", "500", "500", "421 end", "421 end", "500"]),
    // Other protocols.
    ("GET / HTTP/1.1\r\n", ["500", "500", "501", "500", "500", "421 end", "421 end", "500"]),
    // Commands in a wrong order.
    ("DATA\r\n", ["503", "503", "501", "554", "354", "421 end", "421 end", "503"]),
    // Commands that do not wait for a reply that they must wait for.
    (
        "EHLO c\r\nMAIL FROM:<evil@x>\r\n",
        ["554 end", "554 end", "501 250", "554 end", "554 end", "421 end", "421 end", "554 end"],
    ),
    // Errors without an end.
    (
        "MANY",
        [
            "500+ end",
            "500+ end",
            "334 535 500+ end",
            "500+ end",
            "500+ end",
            "421 end",
            "421 end",
            "500+ end",
        ],
    ),
    // The end of the client's side.
    ("HALF", ["end", "end", "end", "end", "end", "end", "end", "end"]),
];

/// The replies to a misbehaviour, up to the end of the connection if there is one.
fn replies(client: &mut Client, misbehaviour: &str, expected: &str) -> String {
    match misbehaviour {
        "LONG" => client.send("x".repeat(20_000)),
        "BINARY" => client.send(b"\xff\xfe\x80\r\n"),
        "MANY" => client.send("WHAT\r\n".repeat(50)),
        "HALF" => client.shut(),
        bytes => client.send(bytes),
    }
    let mut found: Vec<String> = Vec::new();
    for wanted in expected.split(' ') {
        let mut code = client.code();
        found.push(match wanted.strip_suffix('+') {
            Some(wanted) if code == wanted => wanted.to_string() + "+",
            _ => code.clone(),
        });
        // All of the same code, and what ends the session.
        while wanted.ends_with('+') && expected.ends_with(" end") && code != "end" {
            code = client.code();
        }
        if wanted.ends_with('+') && expected.ends_with(" end") {
            found.push(code);
            break;
        }
    }
    found.join(" ")
}

/// Step × misbehaviour × codes of the replies. Nothing is on disk afterwards.
#[test]
fn misbehaviour_at_each_step_gets_its_reply() {
    let root = tempfile::tempdir().expect("a folder");
    let stored = StoredPassword::with_salt("pencil", b"sixteen bytes it".to_vec(), 4096);
    std::fs::write(root.path().join("logins"), format!("alice:{stored}\n")).expect("written");
    let lines = "listen 127.0.0.1:0 smtp\ntimeout 2s\nmax-size 1M\nlogins DIR/logins\n";
    let site = Site::in_folder(root, lines);
    let daemon = site.start();
    let address = daemon.ports[0];
    std::thread::scope(|scope| {
        for (misbehaviour, expected) in &TABLE {
            for (step, expected) in STEPS.iter().zip(expected) {
                scope.spawn(move || {
                    let mut client = client_at(step, address);
                    let found = replies(&mut client, misbehaviour, expected);
                    assert_eq!(found, *expected, "{misbehaviour:?} at {step}");
                });
            }
        }
        // Connections that end without a word.
        STEPS.iter().for_each(|step| drop(scope.spawn(|| drop(client_at(step, address)))));
    });
    until("all is removed", || site.count("public") == 0);
    assert_eq!(site.count("router"), 0);
    site.until_logged("timeout in the text of a message");
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250", "others are served");
}

/// Texts that must not be stored. The session goes on in step, and nothing is on disk.
#[test]
fn text_that_cannot_be_stored_gets_one_reply() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmax-size 5M\n");
    let daemon = site.start();
    // The sequences that were published as SMTP smuggling (CVE-2023-51764 to 51766), and relatives.
    let ends = [
        "\n.\n",
        "\n.\r\n",
        "\r\n.\n",
        "\r.\r",
        "\r.\r\n",
        "\r\n.\r",
        "\n.\r",
        "\r.\n",
        "\r\r\n.\r\r\n",
        "\r\n.\r\r\n",
        "\n\n.\n\n",
        "\r\n\r.\r\n",
    ];
    let second = "MAIL FROM:<evil@x>\r\nRCPT TO:<alice@here.test>\r\nDATA\r\nSubject: evil\r\n";
    let smuggled = ends.map(|end| (format!("Subject: x\r\n\r\ntext{end}{second}"), "554 5.6.0"));
    let others = [
        (format!("A: {}\r\n", "x".repeat(2 << 20)), "552 5.3.4 The headers"),
        ("A: b\r\n".repeat(300_000), "552 5.3.4 The headers"),
        ("Received: x\r\n".repeat(200), "554 5.4.6"),
        (format!("A: b\r\n\r\n{}", "x".repeat(6 << 20)), "552 5.3.4 The message"),
        (format!("A: b\r\n\r\n{}", "x\r\n".repeat(3 << 20)), "552 5.3.4 The message"),
    ];
    for (text, expected) in smuggled.into_iter().chain(others) {
        let shown = text[..text.len().min(60)].to_string();
        let mut client = Client::hello(daemon.ports[0]);
        client.begin_data();
        client.send(text + "\r\n.\r\n");
        let reply = client.reply();
        assert!(reply.starts_with(expected), "{shown:?}: {reply}");
        assert_eq!(client.say("NOOP\r\n"), "250", "{shown:?}");
    }
    // What ends the message for other servers does not end it here, even without a fault.
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    client.send(format!("A: b\r\n\r\n..\r\n\0.\r\n{second}.\r\n"));
    assert_eq!((client.code(), client.say("NOOP\r\n")), ("250".into(), "250".into()));
    // A chunk beyond all sizes ends the session: its bytes would be read over for hours.
    let mut client = client_at("recipient", daemon.ports[0]);
    assert_eq!(client.say("BDAT 99999999999\r\n"), "552");
    assert!(client.is_closed());
    let mut client = client_at("hello", daemon.ports[0]);
    assert_eq!(client.say("BDAT 10\r\n0123456789"), "503");
    assert_eq!(client.say("NOOP\r\n"), "250");
    until("all is removed", || site.count("public") == 0);
    assert_eq!(site.count("router"), 1);
    assert!(!site.submissions()[0].contains("\nfrom <evil@x>\n"));
}

/// A byte now and then is no progress.
#[test]
fn slow_bytes_do_not_keep_a_connection() {
    let site = Site::new("listen 127.0.0.1:0 smtp\ntimeout 2s\n");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    let mut other = Client::connect(daemon.ports[0]);
    let sender = std::thread::spawn(move || {
        for _ in 0..200 {
            client.send("x");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        client
    });
    site.until_logged("timeout in the text of a message");
    assert_eq!(other.code(), "220");
    drop(sender.join());
}

#[test]
fn client_that_speaks_first_is_refused() {
    let site = Site::new("listen 127.0.0.1:0 smtp\ngreeting-delay 2s\n");
    let daemon = site.start();
    let mut client = daemon.connect();
    client.send("EHLO c\r\n");
    assert_eq!(client.code(), "554");
    assert!(client.is_closed());
    assert_eq!(daemon.connect().code(), "220");
}

#[test]
fn connections_and_recipients_of_a_client_are_limited() {
    let site = Site::new(
        "listen 127.0.0.1:0 smtp\nrelay 192.0.2.0/24\nmax-connections-per-client 3\n\
         max-recipients-per-client 2\nrefuse-client 127.0.0.2 \"not you\"\n",
    );
    let daemon = site.start();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::hello(daemon.ports[0])).collect();
    let refused = "421 4.7.0 Too many connections from here, try again later\r\n";
    assert_eq!([daemon.connect().reply(), daemon.connect().reply()], [refused, refused]);
    site.until_logged("error: alarm: the client 127.0.0.1 has 3 connections and wants another one");
    clients.pop();
    until("its place is free", || daemon.connect().code() == "220");
    let client = &mut clients[0];
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), "250");
    for code in ["250", "250", "450", "450"] {
        assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), code);
    }
    site.until_logged("error: alarm: the client 127.0.0.1 has named 2 recipients in an hour");
    assert_eq!(site.read("log").matches("alarm").count(), 2, "each once in an hour");
}

/// Sessions without traffic hold no buffers.
#[test]
fn many_idle_connections_need_little_memory() {
    // A descriptor here and one there for each, besides those of the tests that run beside this.
    let files = zsched_sys::raise_file_limit(22_000).expect("a limit");
    let count = usize::try_from(files.saturating_sub(2000)).expect("a number").min(10_000);
    if count < 10_000 {
        println!("the limit of descriptors allows {count} connections only");
    }
    let site = Site::new(&format!("listen 127.0.0.1:0 smtp\nmax-connections {count}\n"));
    let daemon = site.start();
    let before = daemon.memory("VmRSS:");
    let mut clients: Vec<Client> = (0..count).map(|_| Client::hello(daemon.ports[0])).collect();
    let each = (daemon.memory("VmRSS:") - before) * 1024 / count as u64;
    assert!(each < 4096, "{each} bytes for a connection");
    assert_eq!(daemon.connect().code(), "421", "one more");
    let mut client = clients.pop().expect("one");
    client.begin_data();
    assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
    drop(client);
    until("its place is free", || daemon.connect().code() == "220");
}
