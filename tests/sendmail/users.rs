//! Ordinary users send mail, and can do no harm to that of others. Needs root, to be other users.

use crate::support::{Installation, SENDMAIL, allow, not_run, run, start, status_and_text};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use zsched_sys::users;

/// Users and their groups. None of them needs an account.
const ALICE: u32 = 54_001;
const MALLORY: u32 = 54_002;
/// The user of the mail system, who owns the spool, and its group.
const MAIL: u32 = 54_003;

/// Returns an installation whose spool belongs to the mail system, if the test can run.
fn installation(what: &str) -> Option<Installation> {
    if !users::is_root() {
        not_run(&format!("{what}: needs root"));
        return None;
    }
    let site = Installation::new();
    for folder in ["public", "router"] {
        let path = site.spool.postoffice().join(folder);
        let mode = fs::metadata(&path).expect("a folder").mode();
        chown(&path, Some(MAIL), Some(MAIL)).expect("chown");
        allow(&path, mode & 0o7777);
    }
    // The folder of the build may be closed to others. A program that this process itself has
    // written cannot be started while another test starts one.
    let copied = Command::new("cp").arg(SENDMAIL).arg(site.path("sendmail")).status();
    assert!(copied.expect("it starts").success());
    Some(site)
}

/// Lets a user run a program.
fn by(user: u32, mut command: Command) -> Command {
    command.uid(user).gid(user);
    command
}

/// Sends a message as a user. Returns the path of the submission.
fn sent_by(site: &Installation, user: u32, before: &str) -> PathBuf {
    let script = format!("{before} \"$0\" -f me@x you@y");
    let mut command = site.command("sh");
    command.args(["-c", &script]).arg(site.path("sendmail"));
    let output = run(by(user, command), b"Subject: secret\n\nhi\n");
    assert_eq!(status_and_text(&output), (Some(0), String::new()), "{before}");
    assert_eq!(site.names("public"), [""; 0]);
    let names = site.names("router");
    assert_eq!(names.len(), 1, "{names:?}");
    site.spool.router().join(&names[0])
}

/// Returns true if a shell command with the path of a file succeeds for a user.
fn can(site: &Installation, user: u32, command: &str, path: &std::path::Path) -> bool {
    let mut shell = site.command("sh");
    shell.args(["-c", command, "sh"]).arg(path);
    run(by(user, shell), b"").status.success()
}

#[test]
fn submission_belongs_to_its_user_and_is_readable_for_router() {
    let Some(site) = installation("submissions of other users") else { return };
    for before in ["", "umask 077;", "umask 777;", "umask 0;"] {
        let path = sent_by(&site, ALICE, before);
        let file = fs::metadata(&path).expect("a submission");
        let found = (file.uid(), file.gid(), file.mode() & 0o7777);
        assert_eq!(found, (ALICE, MAIL, 0o640), "{before}");
        // The router runs as the owner of the folder.
        assert!(can(&site, MAIL, "ls \"$(dirname \"$1\")\" && cat \"$1\"", &path));
        assert!(can(&site, MAIL, "mv \"$1\" \"$1.taken\" && rm -f \"$1.taken\"", &path));
    }
}

#[test]
fn other_users_cannot_touch_submission() {
    let Some(site) = installation("attacks of other users") else { return };
    let path = sent_by(&site, ALICE, "");
    let content = fs::read(&path).expect("a submission");
    for attack in [
        "ls \"$(dirname \"$1\")\"",
        "ls \"$(dirname \"$1\")/../public\"",
        "cat \"$1\"",
        "echo x >> \"$1\"",
        "rm -f \"$1\"",
        "mv \"$1\" \"$1.mine\"",
        "chmod 666 \"$1\"",
        "echo x > \"$1.mine\"; mv -f \"$1.mine\" \"$1\"",
        "rm -rf \"$(dirname \"$1\")\"",
        "mv \"$(dirname \"$1\")\" \"$(dirname \"$1\").mine\"",
    ] {
        assert!(!can(&site, MALLORY, attack, &path), "{attack}");
    }
    // Linux forbids links to files of others by a setting that Debian and others switch on.
    let setting = fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap_or_default();
    if setting.trim() == "1" {
        assert!(!can(&site, MALLORY, "ln \"$1\" \"$1.mine\"", &path));
    }
    assert_eq!(fs::read(&path).expect("a submission"), content);
    assert!(can(&site, ALICE, "cat \"$1\" && rm \"$1\"", &path), "it is her own");
}

#[test]
fn message_that_is_being_written_is_protected() {
    let Some(site) = installation("attacks on scratch files") else { return };
    let mut command = site.command(site.path("sendmail"));
    command.args(["-fme", "you"]);
    let mut child = start(&mut by(ALICE, command));
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, b"Subject: secret\n\nhi\n").expect("written");
    crate::support::wait_until("it writes", || !site.names("public").is_empty());
    let path = site.spool.public().join(&site.names("public")[0]);
    for attack in ["cat \"$1\"", "echo x >> \"$1\"", "rm -f \"$1\"", "mv \"$1\" \"$1.mine\""] {
        assert!(!can(&site, MALLORY, attack, &path), "{attack}");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert!(site.take().ends_with("Subject: secret\n\nhi\n"));
}

/// Its owner could remove what others put into it.
#[test]
fn folder_of_user_in_router_is_not_used() {
    let Some(site) = installation("folders of other users") else { return };
    site.add_zenv("ROUTERDIRHASH=1");
    let make = "for letter in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z; do mkdir -m 777 \"$1/$letter\"; done";
    assert!(can(&site, MALLORY, make, &site.spool.router()));
    let mut command = site.command(site.path("sendmail"));
    command.args(["-fme", "you"]);
    assert_eq!(run(by(ALICE, command), b"\nhi\n").status.code(), Some(0));
    let names = site.names("router");
    assert_eq!(names.len(), 27, "{names:?}");
    assert!(names.iter().any(|name| name.bytes().all(|byte| byte.is_ascii_digit())), "{names:?}");
}

/// A program with the rights of root that calls `sendmail` for a user must not make it root's mail.
#[test]
fn caller_with_rights_of_its_own_does_not_lend_them() {
    let Some(site) = installation("set-user-id callers") else { return };
    let script = "import os, sys\n\
        os.setgroups([])\n\
        os.setresgid(54001, 0, 0)\n\
        os.setresuid(54001, 0, 0)\n\
        os.execv(sys.argv[1], sys.argv[1:])\n";
    let mut command = site.command("python3");
    command.args(["-c", script]).arg(site.path("sendmail")).args(["-fme", "you"]);
    let output = run(command, b"\nhi\n");
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    let file = fs::metadata(site.spool.router().join(&site.names("router")[0])).expect("a file");
    assert_eq!((file.uid(), file.gid()), (ALICE, MAIL));
    fs::remove_file(site.spool.router().join(&site.names("router")[0])).expect("removed");
    // Nor does it read what its user may not read.
    allow(&site.zenv(), 0o600);
    let mut command = site.command("python3");
    command.args(["-c", script]).arg(site.path("sendmail")).args(["-fme", "you"]);
    site.assert_refused(command, b"\nhi\n", 78, "Permission denied");
}

#[test]
fn folder_closed_to_user_is_reported() {
    let Some(site) = installation("a closed folder") else { return };
    let send = || {
        let mut command = site.command(site.path("sendmail"));
        command.args(["-fme", "you"]);
        by(ALICE, command)
    };
    allow(&site.spool.router(), 0o2750);
    site.assert_refused(send(), b"\nhi\n", 77, "/router: Permission denied");
    allow(&site.spool.public(), 0o2750);
    site.assert_refused(send(), b"\nhi\n", 77, "/public: Permission denied");
}

#[test]
fn user_without_account_must_name_sender() {
    let Some(site) = installation("a user without an account") else { return };
    let mut command = site.command(site.path("sendmail"));
    command.arg("you@y");
    site.assert_refused(by(ALICE, command), b"\nhi\n", 71, "user 54001 has no account");
}
