//! Clients that misbehave at each step.

use crate::support::{Client, Site, until};

/// What a client has done before it misbehaves.
const STEPS: [&str; 4] = ["greeting", "hello", "envelope", "data"];

fn client_at(step: &str, address: std::net::SocketAddr) -> Client {
    let mut client = Client::connect(address);
    if step == "greeting" {
        assert_eq!(client.code(), "220");
        return client;
    }
    drop(client);
    let mut client = Client::hello(address);
    match step {
        "envelope" => {
            assert_eq!(client.say("MAIL FROM:<s@x>\r\n"), "250");
            assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), "250");
        }
        "data" => client.begin_data(),
        _ => {}
    }
    client
}

/// Step × misbehaviour × codes of the replies. Nothing is on disk afterwards.
#[test]
fn misbehaviour_at_each_step_gets_its_reply() {
    let site = Site::new("listen 127.0.0.1:0 smtp\ntimeout 1s\nmax-size 1M\n");
    let daemon = site.start();
    let long_line = "x".repeat(20_000);
    let huge = "x".repeat(3 << 20) + "\r\n.\r\n";
    let many = "WHAT\r\n".repeat(30);
    let hops = "Received: x\r\n".repeat(200) + "\r\n.\r\n";
    let cases: [(&str, &str, &[&str]); 22] = [
        ("greeting", "DATA\r\n", &["503"]),
        ("greeting", "MAIL FROM:<a@b>\r\n", &["503"]),
        ("greeting", "EHLO c\r\nNOOP\r\n", &["554", "end"]),
        ("greeting", &long_line, &["500", "end"]),
        ("greeting", "GET / HTTP/1.1\r\n", &["500"]),
        ("greeting", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03\r\n", &["500"]),
        ("hello", "NOOP\n", &["500"]),
        ("hello", &many, &["500"]),
        ("hello", "STARTTLS\r\n", &["502"]),
        ("hello", "AUTH PLAIN AGEAYg==\r\n", &["502"]),
        ("hello", "RCPT TO:<alice@here.test>\r\n", &["503"]),
        ("hello", "BDAT 10\r\n0123456789", &["503"]),
        ("envelope", "DATA\r\nSubject: x\r\n", &["554", "end"]),
        ("envelope", "DATA\n", &["500"]),
        ("envelope", "BDAT 99999999999\r\n", &["552", "end"]),
        ("envelope", &long_line, &["500", "end"]),
        ("data", "a\nb\r\n.\r\n", &["554"]),
        ("data", "a\rb\r\n.\r\n", &["554"]),
        ("data", "a\n.\nMAIL FROM:<evil@x>\r\n.\r\n", &["554"]),
        ("data", "a\r\n.\rMAIL FROM:<evil@x>\r\n.\r\n", &["554"]),
        ("data", &huge, &["552"]),
        ("data", &hops, &["554"]),
    ];
    for (step, bytes, codes) in cases {
        let mut client = client_at(step, daemon.ports[0]);
        client.send(bytes);
        let found: Vec<String> = codes.iter().map(|_| client.code()).collect();
        assert_eq!(found, codes, "{step} {:?}", &bytes[..bytes.len().min(60)]);
    }
    // Silence, one byte, and a closed connection.
    for step in STEPS {
        let mut silent = client_at(step, daemon.ports[0]);
        let mut slow = client_at(step, daemon.ports[0]);
        slow.send("X");
        assert_eq!((silent.code(), slow.code()), ("421".into(), "421".into()), "{step}");
        assert!(silent.is_closed() && slow.is_closed(), "{step}");
        drop(client_at(step, daemon.ports[0]));
    }
    until("all is removed", || site.count("public") == 0);
    assert_eq!(site.count("router"), 0);
    site.until_logged("timeout in the text of a message");
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250", "others are served");
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
    assert_eq!(daemon.connect().code(), "421");
    clients.pop();
    until("its place is free", || daemon.connect().code() == "220");
    let client = &mut clients[0];
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), "250");
    for code in ["250", "250", "450", "450"] {
        assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), code);
    }
    site.until_logged("error: alarm: the client 127.0.0.1 has named 2 recipients in an hour");
    assert_eq!(site.read("log").matches("alarm").count(), 1);
}

/// Sessions without traffic hold no buffers.
#[test]
fn many_idle_connections_need_little_memory() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let daemon = site.start();
    let before = daemon.memory("VmRSS:");
    let clients: Vec<Client> = (0..400).map(|_| Client::hello(daemon.ports[0])).collect();
    let each = (daemon.memory("VmRSS:") - before) * 1024 / clients.len() as u64;
    assert!(each < 8192, "{each} bytes for a connection");
    assert_eq!(Client::hello(daemon.ports[0]).say("NOOP\r\n"), "250");
}
