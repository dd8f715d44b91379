//! What is refused, with which exit status, and what a failure leaves behind.

use crate::support::{Installation, SENDMAIL, not_run, run, start, status_and_text, wait_until};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use zsched_spool::remove_abandoned;

/// Returns a command that a shell runs after `setting`.
fn after(site: &Installation, setting: &str, arguments: &[&str]) -> Command {
    let mut command = site.command("sh");
    command.args(["-c", &format!("{setting}; exec \"$0\" \"$@\""), SENDMAIL]).args(arguments);
    command
}

#[test]
fn unusable_command_line_is_refused() {
    let site = Installation::new();
    for (arguments, text) in [
        (&[][..], "no recipients"),
        (&["-f", "a@b"], "no recipients"),
        (&["-bd", "-q15m"], "no daemon"),
        (&["-bv"], "no recipients"),
        (&["-bt"], "-bt: the modes are"),
        (&["-N", "sometimes", "a@b"], "-N \"sometimes\": it must be NEVER"),
        (&["-f", "a@b\nto <c@d>", "a@b"], "a control character"),
        (&["-f", "a@b", "c d"], "the recipient \"c d\" is not an address"),
        (&["-f", "a@b", "\"c\nd\"@x"], "a control character"),
        (&["-F", "a\nTo: b", "c"], "without control characters"),
        (&["--no-such-option", "a"], "--no-such-option"),
    ] {
        site.assert_refused(site.sendmail(arguments), b"To: a\n\nhi\n", 64, text);
    }
    let wrong = std::os::unix::ffi::OsStringExt::from_vec(b"a\xff@b".to_vec());
    let mut command = site.sendmail(&["-fa"]);
    command.arg::<std::ffi::OsString>(wrong);
    site.assert_refused(command, b"", 64, "UTF-8");
}

#[test]
fn unusable_message_is_refused() {
    let site = Installation::new();
    for (input, text) in [
        (&b"Subject: x\n\nTo: a@b\n"[..], "it has no recipients"),
        (b"", "it has no recipients"),
        (b"To: undisclosed-recipients:;\n\n", "it has no recipients"),
        (b"To: alice bob\n\n", "the To header cannot be read: missing comma"),
        (b"To: j\xf6rg@x\n\n", "not in UTF-8"),
    ] {
        site.assert_refused(site.sendmail(&["-fa", "-t"]), input, 65, text);
    }
    site.add_zenv("MAXMESSAGESIZE=1000");
    let large = vec![b'x'; 1000];
    site.assert_refused(site.sendmail(&["-fa", "b"]), &large, 65, "more than 1000 bytes");
    site.send(&["-fa", "b"], &large[..998]);
    let long = format!("To: {}b\n\n", "a,\n ".repeat(300_000));
    site.assert_refused(
        site.sendmail(&["-fa", "-t"]),
        long.as_bytes(),
        65,
        "more than 1048576 bytes",
    );
    let many: String = (0..250_001).map(|number| format!("Bcc: a{number}\n")).collect();
    site.assert_refused(site.sendmail(&["-fa", "-t"]), many.as_bytes(), 65, "250000 recipients");
    let mut command = site.sendmail(&["-fa", "b"]);
    command.stdin(fs::File::open(site.path("")).expect("a folder"));
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(74), "EX_IOERR: {output:?}");
    site.assert_nothing_is_there();
}

#[test]
fn broken_installation_is_reported() {
    let site = Installation::new();
    fs::remove_dir(site.spool.router()).expect("removed");
    let output = run(site.sendmail(&["-fa", "b"]), b"\nhi\n");
    assert_eq!(output.status.code(), Some(75), "EX_TEMPFAIL: {output:?}");
    assert_eq!(site.names("public"), [""; 0]);
    fs::create_dir(site.spool.router()).expect("a folder");
    fs::remove_dir(site.spool.public()).expect("removed");
    let (status, said) = status_and_text(&run(site.sendmail(&["-fa", "b"]), b"\nhi\n"));
    assert_eq!(status, Some(75), "{said}");
    assert!(said.contains("/public: No such file or directory"), "{said}");
    for (zenv, text) in
        [(Some("MAXMESSAGESIZE=big"), "MAXMESSAGESIZE=big: not a number"), (None, "No such file")]
    {
        match zenv {
            Some(line) => site.add_zenv(line),
            None => fs::remove_file(site.zenv()).expect("removed"),
        }
        let (status, said) = status_and_text(&run(site.sendmail(&["-fa", "b"]), b"\nhi\n"));
        assert_eq!(status, Some(78), "EX_CONFIG: {said}");
        assert!(said.contains(text), "{said}");
    }
}

#[test]
fn limit_on_file_size_leaves_no_files() {
    let site = Installation::new();
    let large = vec![b'x'; 100_000];
    let command = after(&site, "ulimit -f 8", &["-fa", "b"]);
    site.assert_refused(command, &large, 73, "File too large");
}

#[test]
fn full_disk_leaves_no_files() {
    let site = Installation::new();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=256k,mode=755", "small"]).arg(site.spool.postoffice());
    if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return not_run("sendmail with a full disk: needs the right to mount");
    }
    site.spool.create().expect("a spool");
    let output = run(site.sendmail(&["-fa", "b"]), &vec![b'x'; 500_000]);
    let nothing = [site.names("public"), site.names("router")].concat();
    let after = run(site.sendmail(&["-fa", "b"]), b"\nhi\n");
    let names = site.names("router");
    let mut unmount = Command::new("umount");
    assert!(unmount.arg(site.spool.postoffice()).status().expect("it starts").success());
    let (status, said) = status_and_text(&output);
    assert_eq!(status, Some(75), "EX_TEMPFAIL: {said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(nothing, [""; 0]);
    assert_eq!((after.status.code(), names.len()), (Some(0), 1), "there is room again");
}

/// Nobody was told that such a message was accepted, so it must not be sent.
#[test]
fn killed_program_submits_nothing() {
    let site = Installation::new();
    for (signal, files) in
        [(libc::SIGTERM, 0), (libc::SIGINT, 0), (libc::SIGHUP, 0), (libc::SIGKILL, 1)]
    {
        // Where the tests run under `nohup`, `sendmail` ignores SIGHUP, too.
        if zsched_sys::is_ignored(signal) {
            continue;
        }
        let mut child = start(&mut site.sendmail(&["-fa", "b"]));
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"Subject: x\n\nhalf of").expect("written");
        wait_until("it writes", || !site.names("public").is_empty());
        let mut status = None;
        wait_until("it has ended", || {
            zsched_sys::send_signal(child.id(), signal).ok();
            status = child.try_wait().expect("it is our child");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.signal()), Some(signal));
        assert_eq!(site.names("router"), [""; 0]);
        assert_eq!(site.names("public").len(), files, "{signal}");
    }
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let later = std::time::SystemTime::now() + day;
    assert_eq!(remove_abandoned(&site.spool, later).expect("removed"), 1);
    site.assert_nothing_is_there();
}

/// As under `nohup`.
#[test]
fn ignored_signals_stay_ignored() {
    let site = Installation::new();
    let mut child = start(&mut after(&site, "trap '' HUP", &["-fa", "b"]));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"Subject: x\n\nhalf of").expect("written");
    wait_until("it writes", || !site.names("public").is_empty());
    zsched_sys::send_signal(child.id(), libc::SIGHUP).expect("sent");
    input.write_all(b" a line\n").expect("written");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert!(site.take().ends_with("\n\nhalf of a line\n"));
}

/// The names of scratch files can be guessed.
#[test]
fn link_in_place_of_scratch_file_is_not_followed() {
    let site = Installation::new();
    let victim = site.path("victim");
    fs::write(&victim, "precious").expect("written");
    let host: String = zsched_sys::host_name().chars().take(19).collect();
    // The process keeps its number when the shell becomes the program.
    let link =
        format!("ln -s {} {}/\"{host}:$$:0\"", victim.display(), site.spool.public().display());
    let output = run(after(&site, &link, &["-fa", "b"]), b"\nhi\n");
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    let links = site.names("public");
    assert_eq!(links.len(), 1, "the link was in the way");
    fs::remove_file(site.spool.public().join(&links[0])).expect("removed");
    assert_eq!(site.take(), "from <a>\nto <b>\nenv-end\n\nhi\n");
}

/// Whatever the arguments are, a submission has one line for each item of its envelope.
#[test]
fn hostile_arguments_add_no_lines() {
    let site = Installation::new();
    let argument = "(-[tifFNRVBboOqvrGmx]{1,2})?[a<>@,;:\"\\\\(\\[\n\r\t .\u{e9}]{0,8}";
    let arguments = prop::collection::vec(argument, 0..6);
    let config =
        ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    let checked =
        TestRunner::new(config).run(&(arguments, "[a:@,\n ]{0,12}"), |(arguments, input)| {
            // Lists of the queue are another program's.
            prop_assume!(!arguments.iter().any(|argument| argument.starts_with("-b")));
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = run(site.sendmail(&words), input.as_bytes());
            let status = output.status.code();
            prop_assert!(matches!(status, Some(0 | 64 | 65)), "{:?}", output);
            prop_assert_eq!(site.names("public").len(), 0);
            for name in site.names("router") {
                let path = site.spool.router().join(name);
                let text = fs::read_to_string(&path).expect("text");
                fs::remove_file(path).expect("removed");
                let (envelope, _) = text.split_once("env-end\n").expect("an envelope");
                for line in envelope.lines() {
                    let is_item = [
                        "from <",
                        "to <",
                        "fullname ",
                        "todsn NOTIFY=",
                        "envid ",
                        "notaryret ",
                        "bodytype ",
                    ]
                    .iter()
                    .any(|item| line.starts_with(item));
                    prop_assert!(is_item || line == "channel error", "{:?}", text);
                }
            }
            Ok(())
        });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn message_whose_folder_cannot_be_synced_is_taken_back() {
    let site = Installation::new();
    let folder = tempfile::tempdir().expect("a folder");
    let library = zsched_tests::failing_folder_sync(folder.path());
    let mut command = site.sendmail(&["-fa", "b"]);
    command.env("LD_PRELOAD", library);
    site.assert_refused(command, b"\nhi\n", 75, "Input/output error");
}
