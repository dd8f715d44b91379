//! Clients that misbehave at each step.

use crate::support::{Client, Site, until};
use std::net::SocketAddr;
use zsched_mailq_protocol::scram;

/// Brings a client to a step. Its sender has this name.
fn client_at(step: &str, ports: &[SocketAddr], name: &str) -> Client {
    let port = match step {
        "lmtp recipient" | "lmtp data" => ports[1],
        "handshake" => ports[2],
        _ => ports[0],
    };
    let mut client = Client::connect(port);
    if step == "handshake" {
        return client;
    }
    assert_eq!(client.code(), "220");
    let scram = scram::Client::new("alice", "pencil").expect("random numbers");
    let (sender, recipient) =
        (format!("MAIL FROM:<{name}@x>\r\n"), "RCPT TO:<alice@here.test>\r\n");
    let before: &[(&str, &str)] = match step {
        "greeting" => return client,
        "login" => &[("AUTH LOGIN\r\n", "334")],
        "scram" => &[(&format!("AUTH SCRAM-SHA-256 {}\r\n", scram.first()), "334")],
        "sender" => &[(&sender, "250")],
        "recipient" | "data" | "chunk" | "between chunks" | "lmtp recipient" | "lmtp data" => {
            &[(&sender, "250"), (recipient, "250")]
        }
        "starttls" => &[("STARTTLS\r\n", "220")],
        _ => &[],
    };
    let hello = if step.starts_with("lmtp") { "LHLO" } else { "EHLO" };
    assert_eq!(client.say(&format!("{hello} client.test\r\n")), "250");
    for (line, code) in before {
        assert_eq!(client.say(line), *code, "{step}");
    }
    // So much text that some of it is on disk.
    let text = "A: b\r\n\r\n".to_string() + &"0123456789\r\n".repeat(10_000);
    match step {
        "data" | "lmtp data" => {
            assert_eq!(client.say("DATA\r\n"), "354");
            client.send(text);
        }
        "chunk" => client.send(format!("BDAT 1000000\r\n{text}")),
        "between chunks" => {
            assert_eq!(client.say(&format!("BDAT {}\r\n{text}", text.len())), "250");
        }
        _ => {}
    }
    client
}

/// Steps in which a part of a message is on disk.
const STEPS_WITH_FILE: [&str; 4] = ["data", "chunk", "between chunks", "lmtp data"];

/// What clients have done before they misbehave, and the codes of the replies to what they do then.
///
/// `+` is more of the same. `alert` is the end of a connection whose TLS has not begun.
const TABLE: &str = "\
            | greeting | hello    | login           | scram        | sender   | recipient | data    | chunk   | between chunks | lmtp recipient | lmtp data | handshake | starttls
nothing     | 421 end  | 421 end  | 421 end         | 421 end      | 421 end  | 421 end   | 421 end | 421 end | 421 end        | 421 end        | 421 end   | alert     | alert
a byte      | 421 end  | 421 end  | 421 end         | 421 end      | 421 end  | 421 end   | 421 end | 421 end | 421 end        | 421 end        | 421 end   | alert     | alert
a long line | 500 end  | 500 end  | 500 end         | 500 end      | 500 end  | 500 end   | 421 end | 421 end | 500 end        | 500 end        | 421 end   | alert     | alert
bare LF     | 500      | 500      | 500             | 500          | 500      | 500       | 421 end | 421 end | 500            | 500            | 421 end   | alert     | alert
bare CR     | 500      | 500      | 501             | 501          | 500      | 500       | 421 end | 421 end | 500            | 500            | 421 end   | alert     | alert
NUL         | 500      | 500      | 501             | 501          | 500      | 500       | 421 end | 421 end | 500            | 500            | 421 end   | alert     | alert
no UTF-8    | 500      | 500      | 501             | 501          | 500      | 500       | 421 end | 421 end | 500            | 500            | 421 end   | alert     | alert
HTTP        | 500      | 500      | 501             | 501          | 500      | 500       | 421 end | 421 end | 500            | 500            | 421 end   | alert     | alert
DATA        | 503      | 503      | 501             | 501          | 554      | 354       | 421 end | 421 end | 503            | 354            | 421 end   | alert     | alert
too early   | 554 end  | 554 end  | 501 250         | 501 250      | 554 end  | 554 end   | 421 end | 421 end | 554 end        | 554 end        | 421 end   | alert     | alert
many errors | 500+ end | 500+ end | 334 535 500+ end| 535 500+ end | 500+ end | 500+ end  | 421 end | 421 end | 500+ end       | 500+ end       | 421 end   | alert     | alert
half closed | end      | end      | end             | end          | end      | end       | end     | end     | end            | end            | end       | alert     | alert
closed      |          |          |                 |              |          |           |         |         |                |                |           |           |
";

fn misbehave(client: &mut Client, misbehaviour: &str) {
    match misbehaviour {
        "nothing" => {}
        "a byte" => client.send("X"),
        "a long line" => client.send("x".repeat(20_000)),
        "bare LF" => client.send("NOOP\n"),
        "bare CR" => client.send("NO\rOP\r\n"),
        "NUL" => client.send("NO\0OP\r\n"),
        "no UTF-8" => client.send(b"\xff\xfe\x80\r\n"),
        "HTTP" => client.send("GET / HTTP/1.1\r\n"),
        "DATA" => client.send("DATA\r\n"),
        "too early" => client.send("EHLO c\r\nMAIL FROM:<evil@x>\r\n"),
        "many errors" => client.send("WHAT\r\n".repeat(50)),
        "half closed" => client.shut(),
        other => panic!("{other} is unknown"),
    }
}

/// The replies to a misbehaviour, up to the end of the connection if there is one.
fn replies(client: &mut Client, expected: &str) -> String {
    if expected == "alert" {
        let bytes = client.rest();
        // An alert of TLS, or nothing.
        return if bytes.first().is_none_or(|byte| *byte == 21) {
            "alert".into()
        } else {
            "text".into()
        };
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

/// Step × misbehaviour × codes of the replies × what is on disk.
#[test]
fn misbehaviour_at_each_step_gets_its_reply_and_leaves_nothing() {
    let site = crate::tls_and_logins::site("timeout 2s\n");
    let ports = "listen 127.0.0.1:0 smtp\nlisten 127.0.0.1:0 lmtp\nlisten 127.0.0.1:0 submissions\n\
        certificate DIR/cert.pem DIR/key.pem\nlogins DIR/logins\ntimeout 2s\n";
    site.write_config("smtpserver.cf", ports);
    let daemon = site.start();
    let (site, ports) = (&site, &daemon.ports);
    let row = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let (steps, rows) = TABLE.split_once('\n').expect("lines");
    let steps = row(steps);
    std::thread::scope(|scope| {
        for row in rows.lines().map(row) {
            for (step, expected) in steps.iter().zip(row.clone()).skip(1) {
                let misbehaviour = row[0];
                scope.spawn(move || {
                    let case = format!("{misbehaviour} at {step}");
                    let name = case.replace(' ', "-");
                    let mut client = client_at(step, ports, &name);
                    if STEPS_WITH_FILE.contains(step) {
                        until("a part is on disk", || site.stores(&name));
                    }
                    if misbehaviour != "closed" {
                        misbehave(&mut client, misbehaviour);
                        assert_eq!(replies(&mut client, expected), expected, "{case}");
                    }
                    drop(client);
                    until(&format!("{case}: the part is removed"), || !site.stores(&name));
                });
            }
        }
    });
    assert_eq!((site.count("public"), site.count("router")), (0, 0));
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
    let mut client = client_at("recipient", &daemon.ports, "s");
    assert_eq!(client.say("BDAT 99999999999\r\n"), "552");
    assert!(client.is_closed());
    let mut client = client_at("hello", &daemon.ports, "s");
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
    // Clients outside `relay` wait for the greeting, by default for a moment.
    for delay in ["", "greeting-delay 2s\n"] {
        let site = Site::new(&format!("listen 127.0.0.1:0 smtp\nrelay 192.0.2.0/24\n{delay}"));
        let daemon = site.start();
        let mut client = daemon.connect();
        client.send("EHLO c\r\n");
        let expected = "554 5.5.1 Commands sent too early: wait for the greeting\r\n";
        assert_eq!(client.reply(), expected, "{delay}");
        assert!(client.is_closed());
        assert_eq!(daemon.connect().code(), "220");
    }
}

/// A session without a message ends, whatever the commands are.
#[test]
fn commands_without_a_message_are_limited() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmax-recipients 3\n");
    let daemon = site.start();
    for (before, commands, max) in [
        ("", &["EHLO c\r\n"][..], 130),
        ("", &["NOOP\r\n"], 130),
        ("", &["MAIL FROM:<s@x>\r\n", "RSET\r\n"], 130),
        ("MAIL FROM:<s@x>\r\n", &["RCPT TO:<alice@here.test>\r\n"], 1030),
        ("MAIL FROM:<s@x>\r\nRCPT TO:<alice@here.test>\r\n", &["BDAT 0\r\n"], 130),
    ] {
        let mut client = Client::hello(daemon.ports[0]);
        for line in before.split_inclusive("\r\n") {
            assert_eq!(client.say(line), "250");
        }
        let mut sent = commands.iter().cycle().take(2000);
        let count = sent.position(|line| client.say(line) == "421").expect("it ends");
        assert!((100..max).contains(&count), "{commands:?}: {count}");
        assert!(client.is_closed());
    }
    // Messages may go on.
    let mut client = Client::hello(daemon.ports[0]);
    for _ in 0..150 {
        client.begin_data();
        assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
    }
}

/// Messages that are being received may take so much memory together.
#[test]
fn memory_of_messages_is_limited() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmax-memory 512k\n");
    let daemon = site.start();
    let begin = || {
        let mut client = Client::hello(daemon.ports[0]);
        let sender = client.say("MAIL FROM:<s@x>\r\n");
        if sender != "250" {
            return (client, sender);
        }
        let recipient = client.say("RCPT TO:<alice@here.test>\r\n");
        let code = if recipient == "250" { client.say("DATA\r\n") } else { recipient };
        (client, code)
    };
    let clients: Vec<(Client, String)> = (0..30).map(|_| begin()).collect();
    let codes = |code: &str| clients.iter().filter(|(_, found)| found == code).count();
    assert!((3..12).contains(&codes("354")), "{}", codes("354"));
    assert_eq!(codes("354") + codes("452"), 30);
    for (mut client, code) in clients {
        if code == "354" {
            assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
        }
    }
    assert_eq!(begin().1, "354", "there is room again");
    // An envelope counts, too.
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<s@x>\r\n"), "250");
    let line = format!("RCPT TO:<alice@here.test> ORCPT=rfc822;{}\r\n", "x".repeat(480));
    assert!((0..1000).any(|_| client.say(&line) == "452"));
}

#[test]
fn messages_and_connections_in_an_hour_are_limited() {
    let site = Site::new(
        "listen 127.0.0.1:0 smtp\nrelay 127.0.0.1\nmax-messages-per-relay 2\n\
         max-new-connections-per-client 3\n",
    );
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    for _ in 0..2 {
        client.begin_data();
        assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
    }
    client.send("MAIL FROM:<s@client.test>\r\n");
    assert_eq!(client.reply(), "450 4.7.1 Too many messages in this hour, try again later\r\n");
    site.until_logged(
        "error: alarm: the relay client 127.0.0.1 has reached the limit of 2 messages in an hour",
    );
    // After a reload it is another kind of client.
    site.write_config(
        "smtpserver.cf",
        "listen 127.0.0.1:0 smtp\nrelay 192.0.2.1\nmax-new-connections-per-client 3\n",
    );
    daemon.signal("-HUP");
    site.until_logged("configuration read");
    let codes: Vec<String> = (0..4).map(|_| daemon.connect().code()).collect();
    assert_eq!(codes, ["220", "220", "220", "421"]);
    site.until_logged("the client 127.0.0.1 has reached the limit of 3 connections in an hour");
}

#[test]
fn reserve_of_disk_space_is_left_to_others() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmin-free-space 1024G\n");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.send("MAIL FROM:<s@x>\r\n");
    assert_eq!(client.reply(), "452 4.3.1 Not enough disk space, try again later\r\n");
    site.write_config("smtpserver.cf", "listen 127.0.0.1:0 smtp\n");
    daemon.signal("-HUP");
    until("the reserve is smaller", || client.say("MAIL FROM:<s@x>\r\n") == "250");
}

#[test]
fn connections_and_recipients_of_a_client_are_limited() {
    let site = Site::new(
        "listen 127.0.0.1:0 smtp\nrelay 192.0.2.0/24\nmax-connections-per-client 3\n\
         max-recipients-per-client 2\nrefuse-client 127.0.0.2 \"not you\"\n",
    );
    let daemon = site.start();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::hello(daemon.ports[0])).collect();
    let refused = "421 4.7.0 Too many connections at a time, try again later\r\n";
    assert_eq!([daemon.connect().reply(), daemon.connect().reply()], [refused, refused]);
    site.until_logged("error: alarm: the client 127.0.0.1 has 3 connections and wants another one");
    clients.pop();
    until("its place is free", || daemon.connect().code() == "220");
    let client = &mut clients[0];
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), "250");
    for code in ["250", "250", "450", "450"] {
        assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), code);
    }
    site.until_logged(
        "error: alarm: the client 127.0.0.1 has reached the limit of 2 recipients in an hour",
    );
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
