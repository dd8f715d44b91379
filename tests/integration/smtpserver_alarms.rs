//! Limits of clients and logins of the SMTP server: `mailq summary` shows who has reached one.

use crate::circle::circle_site;
use crate::smtpserver_kills::{Client, start_server};
use crate::support::until;
use std::process::Command;
use zsched_mailq_protocol::scram::StoredPassword;
use zsched_tests::program;

/// AUTH PLAIN of user0 with the password `pencil`.
const LOGIN: &str = "AUTH PLAIN AHVzZXIwAHBlbmNpbA==";

#[test]
fn limits_that_are_reached_are_in_summary() {
    let site = circle_site();
    let stored = StoredPassword::with_salt("pencil", b"sixteen bytes it".to_vec(), 4096);
    site.write("logins", &format!("user0:{stored}\n"));
    site.write(
        "smtpserver.cf",
        "listen 127.0.0.1:0 smtp\nrelay 192.0.2.0/24\nlogins ${SITE}/logins\n\
         max-connections-per-client 3\nmax-connections-per-login 1\n\
         max-recipients-per-client 1\nmax-recipients-per-login 1\n",
    );
    let _scheduler = site.start();
    let (_server, address) = start_server(&site);
    let mut clients = [(); 3].map(|()| Client::connect(address).expect("a session"));
    assert!(Client::connect(address).is_none(), "a fourth connection");
    let [with_login, other_login, without_login] = &mut clients;
    assert_eq!(with_login.say(LOGIN).as_deref(), Some("235"));
    assert_eq!(other_login.say(LOGIN).as_deref(), Some("454"));
    for client in [with_login, without_login] {
        for (command, code) in [
            ("MAIL FROM:<a@b.test>", "250"),
            ("RCPT TO:<user0>", "250"),
            ("RCPT TO:<user1>", "450"),
        ] {
            assert_eq!(client.say(command).as_deref(), Some(code), "{command}");
        }
    }
    let expected = [
        "the client 127.0.0.1 has 3 connections and wants another one; more are refused",
        "the login user0 of 127.0.0.1 has 1 connection and wants another one; more are refused",
        "the login user0 of 127.0.0.1 has reached the limit of 1 recipient in an hour; more are deferred",
        "the client 127.0.0.1 has reached the limit of 1 recipient in an hour; more are deferred",
    ];
    let mut summary = String::new();
    until("the alarms are shown", || {
        let mut mailq = Command::new(program("mailq"));
        mailq.arg("-Z").arg(site.path("zmailer.conf")).args(["summary", "--width", "300"]);
        summary = String::from_utf8(mailq.output().expect("it runs").stdout).expect("text");
        expected.iter().all(|alarm| summary.contains(alarm))
    });
    assert!(summary.contains("421 4.7.0 Too many connections at a time"), "{summary}");
    let log = site.read("smtpserver-log");
    for alarm in expected {
        assert_eq!(log.matches(&format!("error: alarm: {alarm}")).count(), 1, "{alarm}: {log}");
    }
}

/// Without a router, an accepted message is neither lost nor invisible.
#[test]
fn accepted_message_is_shown_while_it_waits_for_the_router() {
    let site = circle_site();
    site.write("smtpserver.cf", "listen 127.0.0.1:0 smtp\n");
    let scheduler = site.start();
    let (server, address) = start_server(&site);
    let mut client = Client::connect(address).expect("a session");
    for (command, code) in [
        ("MAIL FROM:<a@b.test>", "250"),
        ("RCPT TO:<user0>", "250"),
        ("DATA", "354"),
        ("Subject: x\r\n\r\nbody\r\n.", "250"),
    ] {
        assert_eq!(client.say(command).as_deref(), Some(code), "{command}");
    }
    // A worker writes the log.
    until("the log has it", || site.read("smtpserver-log").contains(": accepted, "));
    let log = site.read("smtpserver-log");
    let line = log.lines().find(|line| line.contains(": accepted, ")).expect("a line");
    let id = line.split_whitespace().find(|word| word.starts_with('S')).expect("an id");
    let id = id.trim_end_matches(':');
    let mailq = |arguments: &[&str]| {
        let mut mailq = Command::new(program("mailq"));
        mailq.arg("-Z").arg(site.path("zmailer.conf")).args(arguments);
        String::from_utf8(mailq.output().expect("it runs").stdout).expect("text")
    };
    let traced = mailq(&["trace", id]);
    assert!(traced.contains("next: waits for the router"), "{traced}");
    let shown = mailq(&["show", id]);
    assert!(shown.contains("waits for the router, in router/"), "{shown}");
    assert!(shown.contains("came from    c ([127.0.0.1]:"), "{shown}");
    let waits = "1 file in router/ without a router: none runs";
    until("the check says it", || mailq(&["check", "--width", "500"]).contains(waits));
    // Files tell as much without the scheduler.
    drop(scheduler);
    let summary = mailq(&["summary", "--width", "500"]);
    assert!(summary.contains("SMTP: 1 message accepted for 1 recipient"), "{summary}");
    assert!(summary.contains(waits), "{summary}");
    drop(server);
    let checked = mailq(&["check", "--width", "500"]);
    assert!(checked.starts_with("MAILQ CRITICAL - "), "{checked}");
    for expected in [waits, "the SMTP server has ended without a stop"] {
        assert!(checked.contains(expected), "{checked}");
    }
}
