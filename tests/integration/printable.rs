//! Hostile bytes in control files, diagnostics and file names: no text output contains them.

use crate::support::{Client, Site, control_file, until};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use zsched_format::printable::is_printable;

/// Part of a name: ESC, a C1 character, DEL and a character that changes the writing direction.
const ODD: &str = "\u{1b}[31m\u{9b}2j\u{7f}\u{202e}";
/// Printed form of [`ODD`].
const SHOWN: &str = r"^[[31m\u{9b}2j^?\u{202e}";
/// Printed form of the beginning of the agent's text.
const SAID: &str = r"a b^[[31m^G^?\u{9b}2J\u{202e}";

#[track_caller]
fn assert_printable(what: &str, bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let is_kept = |c: char| is_printable(c) || matches!(c, '\t' | '\n');
    let odd: Vec<char> = text.chars().filter(|c| !is_kept(*c)).collect();
    assert!(odd.is_empty(), "{what}: {odd:?} in {text}");
    text
}

/// Returns both outputs of `mailq`.
fn mailq(site: &Site, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(zsched_tests::program("mailq"));
    command.args(arguments).arg("-Z").arg(site.path("zmailer.conf"));
    let output = command.output().expect("mailq starts");
    [output.stdout, output.stderr].concat()
}

#[test]
fn hostile_mail_is_printed_without_control_characters() {
    let site = Site::new(
        "*/*\n\tinterval=1h retries=1 expiry=1h\n\
         c/*\n\tcommand=\"${AGENTS}/bad.py hostile c\"\n",
    );
    let status = site.path("status");
    site.add_zenv(&format!("STATUSLOG={}", status.display()));
    let host = format!("h{ODD}");
    let recipients = [format!("c {host} u{ODD}"), format!("c {host} x{ODD}")];
    let text = control_file("101", &[&recipients[0], &recipients[1]]).replace("<id@x>", ODD);
    site.put_file("101", text.as_bytes());
    // One file has a name that no control file has, and one is malformed.
    site.put_file(&format!("102{ODD}"), b"x");
    site.put_file("103", format!("@ {ODD}\n").as_bytes());
    let daemon = site.start_with(&["-v"]);
    until("an attempt is over", || {
        let shown = mailq(&site, &["show", "101", "--json"]);
        String::from_utf8_lossy(&shown).contains("[31m")
            && site.read("statistics").lines().count() == 1
    });
    site.notify(&format!("NEW 1{ODD}"));
    site.notify(ODD);
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    client.send(&format!("ETRN {host}\n"));
    client.line();
    until("the agent has been heard", || site.logged("stray") > 0);
    until("the name is passed over", || site.logged("102") > 0);

    daemon.signal(libc::SIGUSR2);
    let path = site.path("rendezvous");
    until("the dump is complete", || {
        fs::metadata(&path).is_ok_and(|data| data.mtime() < data.ctime() && data.len() > 0)
    });
    for (name, expected) in [("log", SAID), ("rendezvous", SAID), ("statistics", SHOWN)] {
        let text = assert_printable(name, &fs::read(site.path(name)).expect(name));
        assert!(text.contains(expected), "{name}: {text}");
    }
    let statistics = site.read("statistics");
    let id = statistics.split(' ').next().expect("a spool id");
    let thread = format!("c/{host}");
    let socket = site.path("mailq").display().to_string();
    for arguments in [
        &["-p", &socket][..],
        &["-p", &socket, "-v"],
        &["-p", &socket, "-Q"],
        &["-p", &socket, "--summary"],
        &["-p", &socket, "-d"],
        &["--why", "101"],
        &["summary"],
        &["list"],
        &["list", "-m"],
        &["list", "--json"],
        &["show", "101"],
        &["show", "101", "--json"],
        &["why", &thread],
        &["trace", id],
        &["trace", id, "--json"],
        &["hold", &thread],
    ] {
        let text = assert_printable(&format!("{arguments:?}"), &mailq(&site, arguments));
        let is_shown = ["^[[31m", r"\u001b[31m"].iter().any(|shown| text.contains(shown));
        // A request with control characters is refused.
        assert!(is_shown || arguments.contains(&thread.as_str()), "{arguments:?}: {text}");
    }
}

#[test]
fn hostile_configuration_is_refused_without_control_characters() {
    let site = Site::new("");
    let folder = site.path("").join(OsStr::from_bytes(b"f\x1b[31m\xc2\x9b\xff"));
    fs::create_dir(&folder).expect("a folder");
    for text in [&b"c\x1b[31m/*\n\tno\xc2\x9bword=1\n"[..], b"c/*\n\tuser=\"\xe2\x80\xaex\"\n"] {
        let path = folder.join("scheduler.cf");
        fs::write(&path, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
        command.arg("-Z").arg(site.path("zmailer.conf")).arg("-t").arg("-f").arg(&path);
        let output = command.output().expect("the scheduler starts");
        assert!(!output.status.success());
        assert_printable("standard error", &output.stderr);
        assert_printable("standard output", &output.stdout);
    }
}
