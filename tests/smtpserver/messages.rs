//! What becomes of messages.

use crate::support::{Client, Daemon, Site, until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

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

/// The router is told at once, and queues the message under the same id.
#[test]
fn message_goes_through_the_router() {
    let site = Site::new(SMTP);
    let daemon = site.start();
    let reply = send_one(&daemon, "Subject: x\r\n\r\nhello");
    let id = reply.trim_end().rsplit_once(' ').expect("an id").1;
    let mut router = Command::new(zsched_tests::program("router"));
    router.arg("-1").arg("-P").arg(site.spool.postoffice()).arg("-f").arg(site.path("router.cf"));
    let output = router.output().expect("the router runs");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let entry = fs::read_dir(site.spool.transport()).expect("a folder").next();
    let entry = entry.unwrap_or_else(|| panic!("{log}")).expect("an entry");
    let control = fs::read_to_string(entry.path()).expect("a control file");
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
