//! What others see of the server: the status log, and the counters for `mailq summary`.

use crate::support::{Client, Daemon, Site, until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// The lines of the status log.
fn lines(site: &Site) -> Vec<Value> {
    let text = site.read("logs/status");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The counters.
fn traffic(site: &Site) -> Value {
    let text = fs::read(site.spool.smtpserver_traffic_file()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

#[test]
fn accepted_and_refused_mail_is_logged_and_counted() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    // A folder of its own, in which the confined server may make a file.
    fs::create_dir(site.path("logs")).expect("a folder");
    let status = site.path("logs/status");
    let status = status.to_string_lossy();
    let mut server = site.start_command(site.server(&["--status-log", &status]));
    let mut client = Client::hello(server.ports[0]);
    assert_eq!(client.say("MAIL FROM:<me@x.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<alice@here.test>\r\n"), "250");
    assert_eq!(client.say("RCPT TO:<no@here.test>\r\n"), "550");
    assert_eq!(client.say("DATA\r\n"), "354");
    client.send("Subject: x\r\n\r\nbody\r\n.\r\n");
    let reply = client.reply();
    let id = reply.split_whitespace().last().expect("an id").to_string();
    until("two lines are written", || lines(&site).len() == 2);
    let [refused, accepted] = &lines(&site)[..] else { panic!("two lines") };
    assert_eq!(refused["status"], "refused");
    assert_eq!(refused["recipient"], "no@here.test");
    assert!(refused["reply"].as_str().is_some_and(|reply| reply.starts_with("550 5.1.1")));
    assert_eq!(accepted["status"], "accepted");
    assert_eq!(accepted["spool_id"], id);
    assert_eq!((&accepted["sender"], &accepted["recipients"]), (&"me@x.test".into(), &1.into()));
    assert_eq!(accepted["smtp"]["client"], "client.test[127.0.0.1]");
    assert_eq!(accepted["smtp"]["service"], "smtp");
    until("the counters are written", || traffic(&site)["refused"] == 1);
    let counted = traffic(&site);
    assert_eq!((&counted["messages"], &counted["recipients"]), (&1.into(), &1.into()));
    assert_eq!((&counted["ended"], &counted["connections"]), (&false.into(), &1.into()));
    assert_eq!(counted["reasons"][0]["count"], 1);
    assert_eq!(counted["recent"][0]["messages"], 1);
    // A log that was renamed makes room for a new one.
    fs::rename(site.path("logs/status"), site.path("logs/status.1")).expect("renamed");
    until("the new log has a line", || {
        assert_eq!(client.say("MAIL FROM:<me@x.test>\r\n"), "250");
        assert_eq!(client.say("RCPT TO:<no@here.test>\r\n"), "550");
        assert_eq!(client.say("RSET\r\n"), "250");
        client = Client::hello(server.ports[0]);
        !lines(&site).is_empty()
    });
    drop(client);
    server.signal("-TERM");
    assert!(server.child.wait().expect("it ends").success());
    assert_eq!(traffic(&site)["ended"], true);
}

#[test]
fn full_status_log_does_not_stop_mail() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let server = site.start_command(site.server(&["--status-log", "/dev/full"]));
    for _ in 0..3 {
        let mut client = Client::hello(server.ports[0]);
        client.begin_data();
        assert_eq!(client.say("Subject: x\r\n\r\nbody\r\n.\r\n"), "250");
    }
    site.until_logged("/dev/full: No space left on device (os error 28); ");
    assert_eq!(site.submissions().len(), 3);
    assert_eq!(site.read("log").matches("of the status log are lost").count(), 1, "once");
}

/// The log is a pipe that nobody reads. Lines that it has no room for are lost, mail is not.
#[test]
fn log_that_takes_no_lines_does_not_stop_mail() {
    let site = Site::new("listen 127.0.0.1:0 smtp\n");
    let mut command = site.server(&["-i"]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut server = Daemon { child, ports: Vec::new() };
    let mut log = BufReader::new(server.child.stderr.take().expect("a pipe"));
    while server.ports.is_empty() {
        let mut line = String::new();
        assert_ne!(log.read_line(&mut line).expect("a line"), 0);
        server.ports = line.trim().split(" on ").filter_map(|word| word.parse().ok()).collect();
    }
    // 100 bytes for each, which is several times the size of the pipe.
    for _ in 0..200 {
        let mut client = Client::hello(server.ports[0]);
        assert_eq!(client.say("MAIL FROM:<me@x.test>\r\n"), "250");
        for _ in 0..20 {
            assert_eq!(client.say("RCPT TO:<a-name-that-is-not-known@here.test>\r\n"), "550");
        }
    }
    let mut client = Client::hello(server.ports[0]);
    client.begin_data();
    assert_eq!(client.say("Subject: x\r\n\r\nbody\r\n.\r\n"), "250");
}
