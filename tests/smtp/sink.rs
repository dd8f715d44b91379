//! Postfix's smtp-sink as the peer.
//!
//! `.ci/run` names it in `ZSCHED_SMTP_SINK`, where the tests fail without it. Elsewhere they look
//! for an installed one, and say so if there is none.

use crate::servers::free_port;
use crate::support::{agent, deliver, outcomes};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(30);

struct Sink(Child);

impl Drop for Sink {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The path of the program, if there is one.
fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ZSCHED_SMTP_SINK") {
        return Some(path.into());
    }
    let path = PathBuf::from("/usr/sbin/smtp-sink");
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "smtp-sink is missing: see .ci/run");
    eprintln!("*** NOT RUN: smtp-sink: Postfix is not installed");
    None
}

/// Starts the sink on a free port; messages go to files in `folder`.
fn start(folder: &std::path::Path, options: &[&str]) -> Option<(Sink, String)> {
    let program = program()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut command = Command::new(program);
    // As root it wants to know as whom to run.
    if zsched_sys::users::is_root() {
        command.args(["-u", "root"]);
    }
    command.args(options).current_dir(folder).args([&address.to_string(), "100"]);
    let sink = Sink(command.spawn().expect("the sink starts"));
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(started.elapsed() < DEADLINE, "the sink does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some((sink, format!("[127.0.0.1]:{}", address.port())))
}

#[test]
fn sink_gets_messages_unchanged() {
    for options in [&["-d", "m."][..], &["-p", "-d", "m."]] {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((_sink, host)) = start(folder.path(), options) else { return };
        let body = ".\n..a\nGr\u{fc}\u{df}e\nend".to_string() + &"x".repeat(5000) + "\n";
        let run = deliver(&mut agent(), &host, &["ann@b.test", "bob@b.test"], &body);
        assert_eq!(outcomes(&run, &["ann@b.test", "bob@b.test"]), "ann ok3, bob ok3");
        let files = fs::read_dir(folder.path()).expect("the folder");
        let texts: Vec<String> = files
            .map(|file| fs::read_to_string(file.expect("a file").path()).expect("its text"))
            .filter(|text| text.contains("Subject"))
            .collect();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains(&format!("\nSubject: test\n\n{body}")), "{texts:?}");
    }
}

#[test]
fn sink_that_refuses_is_believed() {
    for (options, expected) in [
        (&["-r", "RCPT"][..], "ann deferred"),
        (&["-f", "RCPT"], "ann error2"),
        (&["-f", "."], "ann error2"),
        (&["-q", "DATA"], "ann deferred 4.4.2"),
        (&["-f", "connect"], "ann deferall"),
        (&["-e"], "ann ok3"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let Some((_sink, host)) = start(folder.path(), options) else { return };
        let run = deliver(&mut agent(), &host, &["ann@b.test"], "Hello\n");
        let found = outcomes(&run, &["ann@b.test"]);
        assert!(found.starts_with(expected), "{options:?}: {found} {:?}", run.reports);
    }
}

#[test]
fn eight_bit_text_is_refused_where_it_is_not_offered() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_sink, host)) = start(folder.path(), &["-8"]) else { return };
    let run = deliver(&mut agent(), &host, &["ann@b.test"], "Grüße\n");
    assert_eq!(outcomes(&run, &["ann@b.test"]), "ann error2 5.6.3");
}
