//! The program `submit`: what it puts into the spool, what it refuses, and how it reports
//! obstacles.

use crate::support::{Site, is_root, not_run, until};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::{Command, Output, Stdio};
use zsched_tests::program;

const COUNT: &str =
    "c/*\n\tcommand=\"${AGENTS}/count.py c\"\nlocal/*\n\tcommand=\"mailbox -u -d ${SITE}/mail\"\n";

/// Returns `submit` with the ZENV file of the site.
fn submit(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(arguments);
    command
}

/// Runs a command with an input.
fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // A program that refuses its command line does not read its input.
    drop(child.stdin.take().expect("a pipe").write_all(input));
    child.wait_with_output().expect("it ends")
}

fn submitted(site: &Site, arguments: &[&str], input: &[u8]) -> String {
    let mut command = submit(site, arguments);
    command.stdout(Stdio::piped());
    let output = run(command, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a name").trim().to_string()
}

fn assert_nothing_is_there(site: &Site) {
    for folder in ["transport", "queue", "public", "router"] {
        assert_eq!(site.files(folder), [""; 0], "{folder}");
    }
}

#[test]
fn arguments_cannot_add_lines_to_control_file() {
    let site = Site::new(COUNT);
    let evil = "a@b\n\nr           c h u 0\nm";
    for arguments in [
        &["-f", evil, "bob"][..],
        &["-c", "c", "-n", "h", "-f", "a@b", evil],
        &["-c", "c\nr           c h u 0", "bob"],
        &["-n", "h\r", "bob"],
        &["-F", evil, "bob"],
        &["-N", "NEVER\nr           c h u 0", "bob"],
        &["-N", "SOMETIMES", "bob"],
        &["-bs", "bob"],
        &[],
    ] {
        let output = run(submit(&site, arguments), b"Subject: x\n\nhi\n");
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty());
        assert_nothing_is_there(&site);
    }
    let output = run(submit(&site, &["-t"]), b"To: alice bob\n\nhi\n");
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert_nothing_is_there(&site);
    // A line of the message does not become a line of the control file.
    let name = submitted(&site, &["-c", "c", "bob"], b"A: b\nr           c h u 0\n\nm\n");
    let control = site.read(&format!("postoffice/transport/{name}"));
    assert_eq!(control.matches("\nr").count(), 1, "{control}");
    assert!(control.ends_with("\n\n"), "{control}");
}

/// On a failure the caller would try again, and the mail would come twice.
#[test]
fn queued_message_gives_success_despite_later_failures() {
    let site = Site::new(COUNT);
    // The notify socket is one that takes no datagrams, then a path that is too long.
    let stream = site.path("stream");
    let _listener = std::os::unix::net::UnixListener::bind(&stream).expect("a socket");
    for socket in [stream.display().to_string(), format!("/{}", "x".repeat(200))] {
        let zenv = site.path("other.conf");
        let text = site.read("zmailer.conf");
        fs::write(&zenv, format!("{text}SCHEDULERNOTIFY={socket}\n")).expect("written");
        let mut command = Command::new(program("submit"));
        command.arg("-Z").arg(&zenv).args(["-c", "c", "bob"]).stdout(Stdio::null());
        let output = run(command, b"\nhi\n");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("is queued"), "{output:?}");
    }
    // The output cannot be written.
    let full = || fs::File::options().write(true).open("/dev/full").expect("a device");
    let mut command = submit(&site, &["-c", "c", "bob"]);
    command.stdout(full());
    assert_eq!(run(command, b"\nhi\n").status.code(), Some(0));
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" >&- 2>/dev/full", "sh"]).arg(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(["-c", "c", "bob"]);
    assert_eq!(run(command, b"\nhi\n").status.code(), Some(0));
    assert_eq!(site.files("transport").len(), 4);
    assert_eq!(site.files("queue"), site.files("transport"));
    let _daemon = site.start();
    site.until_empty();
}

/// A limit on the size of files has the effect of a full disk.
#[test]
fn full_disk_leaves_no_files() {
    let site = Site::new(COUNT);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]).arg(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(["-c", "c", "bob"]);
    let output = run(command, &[b'x'; 100_000]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_nothing_is_there(&site);
}

#[test]
fn bytes_that_are_not_text_are_unchanged() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    let message =
        b"From me Mon Jan  1 00:00:00 2026\nSubject: Gr\xfc\xdfe\n\n\xe4\xf6\xfc\n.\nend\n";
    submitted(&site, &["-oi", "-f", "erna@x", "-F", "Erna X.", "--", "alice"], message);
    site.until_empty();
    let mailbox = fs::read(site.path("mail/alice")).expect("a mailbox");
    let contains = |text: &[u8]| mailbox.windows(text.len()).any(|window| window == text);
    assert!(contains(b"Subject: Gr\xfc\xdfe\n") && contains(b"\n\n\xe4\xf6\xfc\n.\nend\n"));
    assert!(contains(b"From: \"Erna X.\" <erna@x>\n"), "{}", site.read("mail/alice"));
    assert!(!contains(b"1 00:00:00 2026"));
}

#[test]
fn submit_accepts_sendmail_options() {
    let site = Site::new(COUNT);
    let text = b"To: One <one@a.test>, two@b.test\nBcc: three@c.test\n\nhi\n";
    let name = submitted(&site, &["-c", "c", "-t", "-i", "-bm", "-N", "failure", "-f", "<>"], text);
    let control = site.read(&format!("postoffice/transport/{name}"));
    assert!(control.contains("\ns error <> <> "), "{control}");
    let recipients: Vec<&str> = control.lines().filter(|line| line.starts_with("r ")).collect();
    assert_eq!(
        recipients,
        [
            "r           c a.test one@a.test 65534",
            "r           c b.test two@b.test 65534",
            "r           c c.test three@c.test 65534",
        ]
    );
    assert_eq!(control.matches("\nN NOTIFY=FAILURE\n").count(), 3, "{control}");
    let message = site.read(&format!("postoffice/queue/{name}"));
    assert!(!control.contains("Bcc") && !message.contains("Bcc"), "{message}");
    let name = submitted(&site, &["-c", "c", "-f", "me@x", "bob@x"], text);
    let us = fs::metadata(site.path("")).expect("ours").uid();
    let control = site.read(&format!("postoffice/transport/{name}"));
    assert!(control.contains(&format!("\ns local - me@x {us}\n")), "{control}");
}

#[test]
fn unknown_level_in_zenv_leaves_option_in_force() {
    let site = Site::new(COUNT);
    site.add_zenv("SCHEDULERDIRHASH=0");
    let name = submitted(&site, &["-H", "-c", "c", "bob"], b"\nhi\n");
    assert_eq!(name.len(), name.trim_start_matches(|c: char| c.is_ascii_uppercase()).len() + 1);
    until("both files are in a folder", || {
        site.files("transport") == [name.clone()] && site.files("queue") == [name.clone()]
    });
    // Files are for their owner alone, and the folder has the mode of its parent.
    for top in ["transport", "queue"] {
        let mode = |path: &str| {
            let path = site.path("postoffice").join(top).join(path);
            fs::metadata(path).expect("it is there").mode() & 0o7777
        };
        assert_eq!(mode(&name), 0o600);
        assert_eq!((mode(&name[..1]), mode("")), (0o2750, 0o2750));
    }
}

/// Otherwise a scheduler that is not root could not use the message.
#[test]
fn files_submitted_by_root_belong_to_spool_owner() {
    const OTHER_UID: u32 = 65534;
    if !is_root() {
        return not_run("submitting for another user: only root can give files away");
    }
    let site = Site::new(COUNT);
    for top in ["transport", "queue"] {
        let path = site.path("postoffice").join(top);
        chown(&path, Some(OTHER_UID), Some(OTHER_UID)).expect("given away");
    }
    let name = submitted(&site, &["-H", "-c", "c", "bob"], b"\nhi\n");
    for top in ["transport", "queue"] {
        for path in [&name, &name[..1]] {
            let path = site.path("postoffice").join(top).join(path);
            let metadata = fs::metadata(&path).expect("it is there");
            assert_eq!((metadata.uid(), metadata.gid()), (OTHER_UID, OTHER_UID), "{path:?}");
        }
    }
}
