//! An answer that comes after its connection has gone.

use crate::support::{Client, Daemon, Site};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A policy service whose answers wait for the test.
fn policy_service(site: &Site) -> Receiver<(String, UnixStream)> {
    let listener = UnixListener::bind(site.path("policy")).expect("bound");
    let (sender, questions) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a client"));
            let (mut line, mut recipient) = (String::new(), String::new());
            while reader.read_line(&mut line).expect("a line") > 1 {
                if let Some(address) = line.strip_prefix("recipient=") {
                    recipient = address.trim().into();
                }
                line.clear();
            }
            if sender.send((recipient, reader.into_inner())).is_err() {
                return;
            }
        }
    });
    questions
}

/// A client that resets its connection while its commands are on their way.
///
/// The server, which is stopped meanwhile, reads them, asks the policy service, and cannot reply.
fn vanish_with_question(daemon: &Daemon, questions: &Receiver<(String, UnixStream)>) -> UnixStream {
    let mut client = Client::connect(daemon.ports[0]);
    assert_eq!(client.code(), "220");
    client.send("EHLO c\r\n");
    // An end of a connection with bytes that were not read is a reset.
    client.wait_for_bytes();
    daemon.signal("-STOP");
    client.send("MAIL FROM:<s@x.test>\r\nRCPT TO:<alice@here.test>\r\n");
    drop(client);
    daemon.signal("-CONT");
    let (recipient, stream) = questions.recv().expect("a question");
    assert_eq!(recipient, "alice@here.test");
    stream
}

/// A connection has the place of a former one, whose answer is still to come.
#[test]
fn late_answer_is_not_taken_for_that_of_another_connection() {
    let site = Site::new("listen 127.0.0.1:0 smtp\npolicy unix:DIR/policy\n");
    let questions = policy_service(&site);
    let daemon = site.start();
    let mut late = vanish_with_question(&daemon, &questions);
    site.until_logged("lost connection in an envelope");
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<s@x.test>\r\n"), "250");
    client.send("RCPT TO:<bob@here.test>\r\n");
    let (recipient, mut own) = questions.recv().expect("a question");
    assert_eq!(recipient, "bob@here.test");
    late.write_all(b"action=REJECT 5.7.99 not alice\n\n").expect("written");
    // The server has the answer when it closes the connection.
    assert_eq!(late.read(&mut [0; 10]).expect("the end"), 0);
    let mut other = Client::hello(daemon.ports[0]);
    assert_eq!(other.say("NOOP\r\n"), "250", "the loop has gone on");
    own.write_all(b"action=DUNNO\n\n").expect("written");
    assert_eq!(client.reply(), "250 2.1.5 Ok\r\n");
}
