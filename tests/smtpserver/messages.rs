//! What becomes of messages.

use crate::support::{Client, Daemon, Site, until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const SMTP: &str = "listen 127.0.0.1:0 smtp\n";

fn send_one(daemon: &Daemon, text: &str) -> String {
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    client.send(text);
    client.send("\r\n.\r\n");
    client.reply()
}

#[test]
fn accepted_message_is_in_router_under_the_id_of_the_reply() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let reply = send_one(&daemon, "Subject: x\r\n\r\nhello");
    let id = reply.trim_end().strip_prefix("250 2.0.0 Ok: queued as S").expect(&reply);
    let file = fs::read_dir(site.spool.router()).expect("a folder").next().expect("a file");
    let file = file.expect("an entry");
    let number = file.metadata().expect("a file").ino();
    assert_eq!(file.file_name().to_string_lossy(), number.to_string());
    assert!(id.starts_with(&number.to_string()), "{id} {number}");
    let text = &site.submissions()[0];
    let (envelope, message) = text.split_once("env-end\n").expect("an envelope");
    let lines: Vec<&str> = envelope.lines().collect();
    assert!(lines[0].starts_with("rcvdfrom client.test ([127.0.0.1]:"), "{envelope}");
    assert_eq!(lines[1..], ["with ESMTP", "from <s@client.test>", "to <alice@here.test>"]);
    assert_eq!(message, "Subject: x\n\nhello\n");
    site.until_logged(&format!(
        "S{id}: accepted, client=client.test[127.0.0.1] from=<s@client.test> size=18 nrcpt=1"
    ));
    assert_eq!(site.count("public"), 0);
}

/// The cipher of TLS is in the trace header, behind the id (RFC 8314, 4.3).
#[test]
fn cipher_is_in_the_trace_header() {
    let site = Site::new(SMTP);
    let text = "rcvdfrom c ([192.0.2.7]:1)\nwith ESMTPS tls TLS_AES_128_GCM_SHA256\n\
        from <s@x>\nto <alice@here.test>\nenv-end\nSubject: x\n\ny\n";
    fs::write(site.spool.router().join("17"), text).expect("written");
    let control = site.route();
    assert!(control.contains("\n\twith ESMTPS id S"), "{control}");
    assert!(control.contains("\n\ttls TLS_AES_128_GCM_SHA256;\n"), "{control}");
}

/// The router is told at once, and queues the message under the same id.
#[test]
fn message_goes_through_the_router() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let reply = send_one(&daemon, "Subject: x\r\n\r\nhello");
    let id = reply.trim_end().rsplit_once(' ').expect("an id").1;
    let control = site.route();
    let trace = format!("by mx.test\n\twith ESMTP id {id};\n");
    assert!(control.contains("Received: from client.test ([127.0.0.1]:"), "{control}");
    assert!(control.contains(&trace), "{control}");
}

#[test]
fn recipients_are_refused_at_once() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nrelay 192.0.2.0/24\nrelay-domain backup.test\n");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<s@x.test>\r\n"), "250");
    for (recipient, reply) in [
        ("alice@here.test", "250 2.1.5 Ok"),
        ("nobody@here.test", "550 5.1.1 no such user here"),
        ("gone@here.test", "550 5.1.1 no mail is accepted for this address"),
        ("a@b.invalid", "550 5.1.2 no such domain"),
        ("a@elsewhere.test", "554 5.7.1 Relay access denied"),
        ("a@backup.test", "250 2.1.5 Ok"),
    ] {
        client.send(format!("RCPT TO:<{recipient}>\r\n"));
        assert_eq!(client.reply().trim_end(), reply);
    }
    site.until_logged(
        "client.test[127.0.0.1]: refused to=<nobody@here.test> from=<s@x.test>: 550 5.1.1",
    );
}

#[test]
fn large_message_is_written_while_it_comes() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmax-size 100M\n");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    let line = format!("{}\r\n", "x".repeat(998));
    for _ in 0..40 {
        client.send(line.repeat(1000));
    }
    until("most of it is on disk", || {
        let files = fs::read_dir(site.spool.public()).expect("a folder");
        files.flatten().any(|file| file.metadata().is_ok_and(|file| file.len() > 30_000_000))
    });
    assert_eq!(client.say(".\r\n"), "250");
    assert_eq!(site.submissions()[0].matches('\n').count(), 40_000 + 5);
    let peak = daemon.memory("VmHWM:");
    assert!(peak < 25_000, "{peak} kB");
}

#[test]
fn connection_that_breaks_leaves_nothing() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    client.send("x".repeat(300_000));
    until("a part is on disk", || site.count("public") == 1);
    drop(client);
    until("it is removed", || site.count("public") == 0);
    assert_eq!(site.count("router"), 0);
    // A client that closes only its side after the dot gets its reply.
    let mut client = Client::hello(daemon.ports[0]);
    client.begin_data();
    client.send("A: b\r\n\r\nc\r\n.\r\n");
    client.shut();
    assert_eq!(client.code(), "250");
}

#[test]
fn lmtp_replies_for_each_recipient() {
    let site = Site::new("listen 127.0.0.1:0 lmtp\n");
    let daemon = site.start();
    let mut client = daemon.connect();
    assert!(client.reply().starts_with("220 mx.test LMTP"));
    assert_eq!(client.say("LHLO c\r\n"), "250");
    client.send("MAIL FROM:<>\r\nRCPT TO:<alice@here.test>\r\nRCPT TO:<bob@here.test>\r\nDATA\r\n");
    let codes: Vec<String> = (0..4).map(|_| client.code()).collect();
    assert_eq!(codes, ["250", "250", "250", "354"]);
    client.send("A: b\r\n\r\nc\r\n.\r\nQUIT\r\n");
    let codes: Vec<String> = (0..3).map(|_| client.code()).collect();
    assert_eq!(codes, ["250", "250", "221"]);
    assert!(site.submissions()[0].contains("with LMTP\nchannel error\n"));
}

#[test]
fn etrn_is_written_for_the_scheduler() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("ETRN Example.org\r\n"), "250");
    let entry = fs::read_dir(site.spool.transport()).expect("a folder").next();
    let path = entry.expect("a file").expect("an entry").path();
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(text, "T example.org client.test[127.0.0.1]\n");
    assert!(path.to_string_lossy().ends_with("-etrn"));
}

/// Clients that may not relay can ask for domains that this host is a backup for.
#[test]
fn etrn_of_other_clients_is_for_relay_domains_only() {
    let lines = "relay 192.0.2.0/24\nrelay-domain *.backup.test backup.test\n";
    let site = Site::new(&format!("{SMTP}listen 127.0.0.1:0 lmtp\n{lines}"));
    let daemon = site.start();
    let mut client = daemon.connect();
    assert_eq!(client.code(), "220");
    client.send("EHLO client.test\r\n");
    assert!(client.reply().contains("250-ETRN\r\n"));
    for (host, code) in
        [("elsewhere.test", "459"), ("a.backup.test", "250"), ("#Backup.test", "250"), ("/", "501")]
    {
        assert_eq!(client.say(&format!("ETRN {host}\r\n")), code, "{host}");
    }
    assert_eq!(site.count("transport"), 2);
    site.until_logged("client.test[127.0.0.1]: ETRN elsewhere.test refused");
    let mut lmtp = Client::connect(daemon.ports[1]);
    assert_eq!((lmtp.code(), lmtp.say("LHLO c\r\n")), ("220".into(), "250".into()));
    assert_eq!(lmtp.say("ETRN backup.test\r\n"), "550");
}

#[test]
fn configuration_is_checked_and_read_again() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nmax-sise 5\n");
    let output = site.server(&["-t"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains(
            "smtpserver.cf:2:1: error: unknown keyword `max-sise`; did you mean `max-size`?"
        ),
        "{said}"
    );
    site.write_config("smtpserver.cf", SMTP);
    let output = site.server(&["-t"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let daemon = site.start();
    site.write_config("smtpserver.cf", &format!("{SMTP}max-size 1000\n"));
    daemon.signal("-USR1");
    site.until_logged("configuration read");
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<a@b> SIZE=1001\r\n"), "552");
    site.write_config("smtpserver.cf", "listn\n");
    daemon.signal("-USR1");
    site.until_logged("the former configuration stays in force");
    assert_eq!(client.say("NOOP\r\n"), "250");
    // Tables of the router, too.
    site.write_config("smtpserver.cf", SMTP);
    site.write("users", "carol\n");
    daemon.signal("-HUP");
    until("it is read", || site.read("log").matches("configuration read").count() == 2);
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<carol@here.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), "550");
    site.write("router.cf", "hostname mx.test\nlocal\n");
    daemon.signal("-HUP");
    site.until_logged("router.cf:2:1: error:");
    assert_eq!(client.say("RCPT TO:<carol@here.test>\r\n"), "250");
}

/// sd_notify(3), as systemd expects it of a unit with `Type=notify`.
#[test]
fn service_manager_is_notified_of_start_reload_alarm_and_end() {
    let site = Site::new(&format!("{SMTP}relay 192.0.2.0/24\nmax-recipients-per-client 1\n"));
    let path = site.path("service-manager");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let next = || {
        let mut message = [0; 1000];
        let length = socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).trim_end().to_string()
    };
    let after_status = |wanted: &str| {
        let mut found = next();
        while found.starts_with("STATUS=") && found != wanted {
            found = next();
        }
        assert_eq!(found, wanted);
    };
    let mut command = site.server(&[]);
    command.env("NOTIFY_SOCKET", &path);
    let mut daemon = site.start_command(command);
    assert_eq!(next(), "READY=1");
    daemon.signal("-HUP");
    after_status("RELOADING=1");
    after_status("READY=1");
    site.write("smtpserver.cf", "listn\n");
    daemon.signal("-USR1");
    after_status("RELOADING=1");
    after_status("READY=1");
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<a@b>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), "450");
    after_status("STATUS=1 connection; alarm: client 127.0.0.1 at the limit of recipients");
    drop(client);
    daemon.signal("-TERM");
    after_status("STATUS=ending on SIGTERM");
    assert_eq!(next(), "STOPPING=1");
    assert!(daemon.child.wait().expect("ended").success());
}

#[test]
fn server_ends_when_it_is_told_and_only_one_runs() {
    let site = Site::new(SMTP);
    let mut daemon = site.start();
    let output = site.server(&["-i"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("an SMTP server is running on this spool already"), "{said}");
    let mut idle = Client::hello(daemon.ports[0]);
    let mut busy = Client::hello(daemon.ports[0]);
    busy.begin_data();
    daemon.signal("-TERM");
    assert_eq!(idle.code(), "421");
    busy.send("A: b\r\n\r\nc\r\n.\r\n");
    assert_eq!(busy.code(), "250");
    busy.send("QUIT\r\n");
    assert!(daemon.child.wait().expect("ended").success());
    assert_eq!(site.count("router"), 1);
}
