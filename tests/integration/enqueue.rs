//! `enqueue`: from an alias into the queue, also by hostile users, and with no scheduler.

use crate::support::{Site, allow, is_root, not_run, until};
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use zsched_tests::program;

/// A list whose program keeps what it gets in the folder `mail`.
const LISTS: &str = "list/*\n\tmaxring=2 overfeed=0 idlemax=1h\n\
     \tcommand=\"runner --user ${RUN_AS} --command /bin/sh ${SITE}/keep ${SITE}/mail\"\n";
const KEEP: &str = "while IFS=\"$(printf '\\t')\" read -r path domain list function sender to; do
    case $path in '#ping') echo 0; continue ;; esac
    { echo \"$sender $to\"; cat \"$path\"; } >>\"$1/$list.$function\" && echo 0 kept
done
";
/// Users without accounts, and the group of the drop folder.
const ALICE: u32 = 54_001;
const DROP: u32 = 54_004;

fn site() -> Site {
    let site = Site::new(LISTS);
    site.add_zenv(&format!("RUN_AS={}", zsched_sys::users::effective_user()));
    site.write("keep", KEEP);
    site
}

fn enqueue(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("enqueue"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(arguments);
    command
}

/// Runs a command with an input.
fn run(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // A program that refuses its command line does not read its input.
    drop(child.stdin.take().expect("a pipe").write_all(input));
    child.wait_with_output().expect("it ends")
}

fn status_and_text(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn message_reaches_program_of_its_list() {
    let site = site();
    let _daemon = site.start();
    let text = b"From alice@y.test Mon Nov 23 21:00:00 2026\nSubject: hi\n\nbody\nFrom here\n";
    let output = run(enqueue(&site, &["X.test/talk/owner"]), text);
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    let expected = "alice@y.test talk-owner@x.test\nSubject: hi\n\nbody\nFrom here\n";
    until("it is delivered", || site.read("mail/talk.owner") == expected);
    site.until_empty();
    assert_eq!(site.files("drop"), [""; 0]);
    // An option is worth more than the line, and `<>` is the null sender.
    for (sender, shown) in [("<>", "<>"), ("bob@z.test", "bob@z.test")] {
        let name = format!("x.test/{}/list", shown.trim_matches(['<', '>']).len());
        let output = run(enqueue(&site, &["-f", sender, &name]), text);
        assert_eq!(status_and_text(&output), (Some(0), String::new()));
        let list = name.split('/').nth(1).expect("a list");
        let head = format!("{shown} {list}@x.test\nSubject");
        let file = format!("mail/{list}.list");
        until("it is delivered", || site.read(&file).starts_with(&head));
    }
}

#[test]
fn message_waits_in_drop_folder_until_next_start() {
    let site = site();
    for number in 0..3 {
        let output = run(enqueue(&site, &["x.test/talk/list"]), b"Subject: x\n\nbody\n");
        assert_eq!(status_and_text(&output), (Some(0), String::new()), "{number}");
    }
    assert_eq!(site.files("drop").len(), 3);
    // What a killed writer has left is no message, and stays for a day.
    site.write("postoffice/drop/new:1:0", "host x/y/list\n");
    let _daemon = site.start();
    until("all are delivered", || site.read("mail/talk.list").matches("body").count() == 3);
    assert_eq!(site.files("drop"), ["new:1:0"]);
}

/// As with systemd: the first message of `enqueue` starts the scheduler, which takes the socket.
#[test]
fn first_message_starts_scheduler_with_passed_socket() {
    let site = site();
    let path = site.spool.poke_socket();
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let inode = fs::symlink_metadata(&path).expect("it is there").ino();
    let output = run(enqueue(&site, &["x.test/talk/list"]), b"Subject: x\n\nfirst\n");
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    let mut poke = [0; 16];
    socket.set_nonblocking(true).expect("set");
    assert!(socket.recv(&mut poke).is_ok(), "something is there that starts the scheduler");
    let scheduler = site.scheduler();
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"", "sh"]);
    command.arg(scheduler.get_program()).args(scheduler.get_args()).arg("-i");
    command.args(site.file_options()).stdin(OwnedFd::from(socket)).stdout(Stdio::null());
    // The interval of scans is so long that only a poke can be the reason.
    command.arg("--timeouts-scale=1").env_remove("TZ");
    let mut child = command.spawn().expect("it starts");
    until("the first is delivered", || site.read("mail/talk.list").contains("first"));
    let output = run(enqueue(&site, &["x.test/talk/list"]), b"Subject: x\n\nsecond\n");
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    until("the second is delivered", || site.read("mail/talk.list").contains("second"));
    let now = fs::symlink_metadata(&path).expect("it is there").ino();
    assert_eq!(now, inode, "the socket of the service manager stays");
    zsched_sys::send_signal(child.id(), libc::SIGTERM).expect("sent");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn wrong_calls_and_obstacles_have_clear_statuses() {
    let site = site();
    site.write("small.conf", &(site.read("zmailer.conf") + "MAXMESSAGESIZE=10\n"));
    site.write("nowhere.conf", "POSTOFFICE=/nonexistent\n");
    let conf = |name: &str| site.path(name).to_string_lossy().into_owned();
    let (small, nowhere) = (conf("small.conf"), conf("nowhere.conf"));
    let message = &b"Subject: x\n\nbody\n"[..];
    for (arguments, input, status, text) in [
        (&[][..], message, 64, "no list is named\nusage: "),
        (&["x/../list"], message, 64, "the list is not of the form domain/list/function"),
        (&["-f", "a b", "x/y/list"], message, 64, "the sender has a blank"),
        (&["x/y/list"], b"", 66, "standard input has no message"),
        (&["x/y/list"], b"From \x01 x\n\n", 65, "the sender has a blank or a control character"),
        (&["-Z", &small, "x/y/list"], message, 65, "the message has more than 10 bytes"),
        (&["-Z", &nowhere, "x/y/list"], message, 75, "/nonexistent/drop: No such file"),
        (&["-Z", "/nonexistent", "x/y/list"], message, 75, "/nonexistent: No such file"),
    ] {
        let output = run(enqueue(&site, arguments), input);
        let (found, said) = status_and_text(&output);
        assert_eq!(found, Some(status), "{arguments:?}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
        assert_eq!(site.files("drop"), [""; 0], "{arguments:?}: nothing is left");
    }
    let name = "y".repeat(4096);
    let long = format!("From {name}{name}");
    let output = run(enqueue(&site, &["x/y/list"]), long.as_bytes());
    assert_eq!(output.status.code(), Some(65));
    // The limit of the caller on the size of files.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).arg(program("enqueue"));
    shell.arg("-Z").arg(site.path("zmailer.conf")).arg("x/y/list");
    let output = run(shell, &[b'x'; 100_000]);
    let (status, said) = status_and_text(&output);
    assert_eq!((status, said.contains("File too large")), (Some(75), true), "{said}");
    // Closed descriptors, and no others to be had.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec <&- >&- 2>&-; exec \"$@\"", "sh"]).arg(program("enqueue"));
    shell.arg("-Z").arg(site.path("zmailer.conf")).arg("x/y/list");
    assert_eq!(run(shell, message).status.code(), Some(66));
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 3; exec \"$@\"", "sh"]).arg(program("enqueue"));
    shell.arg("-Z").arg(site.path("zmailer.conf")).arg("x/y/list");
    assert_ne!(run(shell, message).status.code(), Some(0));
    assert_eq!(site.files("drop"), [""; 0]);
}

/// A site whose drop folder belongs to a group, and `enqueue` set-group-id for it.
fn lent_group(what: &str) -> Option<(Site, PathBuf)> {
    if !is_root() {
        not_run(&format!("{what}: needs root"));
        return None;
    }
    let site = site();
    let folder = site.spool.drop_folder();
    chown(&folder, None, Some(DROP)).expect("chown");
    allow(&folder, 0o3730);
    allow(site.spool.postoffice(), 0o755);
    // A program that this process itself has written cannot be started while another test starts
    // one.
    let copy = site.path("enqueue");
    let copied = Command::new("cp").arg(program("enqueue")).arg(&copy).status();
    assert!(copied.expect("it starts").success());
    chown(&copy, None, Some(DROP)).expect("chown");
    allow(&copy, 0o2755);
    Some((site, copy))
}

/// Runs a shell command as Alice, with the program as `$0` and the ZENV file as `$1`.
fn by_alice(site: &Site, program: &std::path::Path, script: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(program).arg(site.path("zmailer.conf"));
    shell.arg(site.spool.postoffice()).uid(ALICE).gid(ALICE).current_dir("/");
    run(shell, b"Subject: x\n\nbody\n")
}

#[test]
fn users_reach_the_drop_folder_only_by_enqueue() {
    let Some((site, program)) = lent_group("enqueue by other users") else { return };
    let send = "\"$0\" -Z \"$1\" x.test/talk/list";
    for before in ["", "umask 0;", "umask 777;", "umask 77;"] {
        let output = by_alice(&site, &program, &format!("{before} {send}"));
        assert_eq!(status_and_text(&output), (Some(0), String::new()), "{before}");
    }
    let names = site.files("drop");
    assert_eq!(names.len(), 4);
    for name in &names {
        let file = fs::metadata(site.spool.drop_folder().join(name)).expect("a file");
        let found = (file.uid(), file.gid(), file.mode() & 0o7777);
        assert_eq!(found, (ALICE, DROP, 0o640));
        // Not even the owner reaches the file: it cannot be changed after the checks.
        for command in ["cat", "rm -f", "chmod 666", "touch"] {
            let script = format!("{command} \"$2/drop/{name}\"");
            assert!(!by_alice(&site, &program, &script).status.success(), "{command}");
        }
        let script = format!("ln \"$2/drop/{name}\" \"/tmp/link-{name}\"");
        assert!(!by_alice(&site, &program, &script).status.success());
    }
    for script in ["ls \"$2/drop\"", ": >\"$2/drop/77\"", "mv \"$2/drop\" \"$2/x\""] {
        assert!(!by_alice(&site, &program, script).status.success(), "{script}");
    }
    let _daemon = site.start();
    until("all are delivered", || site.read("mail/talk.list").matches("body").count() == 4);
}

#[test]
fn lent_group_is_used_for_nothing_else() {
    let Some((site, program)) = lent_group("enqueue by other users") else { return };
    // A file that only the group may read is no ZENV file, and its text is not shown.
    site.write("secret.conf", "POSTOFFICE=secret\n");
    chown(site.path("secret.conf"), None, Some(DROP)).expect("chown");
    allow(site.path("secret.conf"), 0o640);
    let secret = site.path("secret.conf").display().to_string();
    let output = by_alice(&site, &program, &format!("\"$0\" -Z {secret} x/y/list"));
    let (status, said) = status_and_text(&output);
    assert_eq!((status, said.contains("Permission denied")), (Some(75), true), "{said}");
    // A folder of the caller is no drop folder, nor is one that all may write to.
    let evil = site.path("mail/evil").display().to_string();
    let script = format!(
        "mkdir -p {evil}/drop && chmod 777 {evil} {evil}/drop && echo POSTOFFICE={evil} >{evil}/z \
         && \"$0\" -Z {evil}/z x/y/list"
    );
    let (status, said) = status_and_text(&by_alice(&site, &program, &script));
    assert_eq!(status, Some(75), "{said}");
    assert!(said.contains("it does not belong to the group of this program"), "{said}");
    // Nor is a link to the drop folder; and the environment names no ZENV file.
    let script =
        format!("rmdir {evil}/drop; ln -s \"$2/drop\" {evil}/drop; \"$0\" -Z {evil}/z x/y/list");
    assert_eq!(by_alice(&site, &program, &script).status.code(), Some(75));
    let script = format!("ZCONFIG={evil}/z \"$0\" x/y/list 2>&1 | grep -c {evil}");
    assert_eq!(String::from_utf8_lossy(&by_alice(&site, &program, &script).stdout), "0\n");
    allow(site.spool.drop_folder(), 0o3777);
    let output = by_alice(&site, &program, "\"$0\" -Z \"$1\" x/y/list");
    let (status, said) = status_and_text(&output);
    assert!(status == Some(75) && said.contains("others may write to it"), "{said}");
    assert_eq!(site.files("drop"), [""; 0]);
}

#[test]
fn poke_socket_takes_datagrams_of_its_group_only() {
    let Some((site, program)) = lent_group("the poke socket") else { return };
    let daemon = site.start_with(&["--timeouts-scale=1"]);
    let socket = site.spool.poke_socket();
    until("the socket is there", || socket.exists());
    let found = || {
        let file = fs::symlink_metadata(&socket).expect("a socket");
        (file.gid(), file.mode() & 0o777)
    };
    until("it has its rights", || found() == (DROP, 0o220));
    // Scans are rare: the poke of a program with the group arrives.
    let output = by_alice(&site, &program, "\"$0\" -Z \"$1\" x.test/talk/list");
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    until("it is delivered", || site.read("mail/talk.list").contains("body"));
    let script = "python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX, \
                  socket.SOCK_DGRAM); s.sendto(b\"x\", sys.argv[1] + \"/.scheduler.poke\")' \"$2\"";
    assert!(!by_alice(&site, &program, script).status.success(), "others may not");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

/// Kills the scheduler while messages come. Each is delivered once or twice at most: twice only if
/// an agent was killed, which it is not here.
#[test]
fn kills_of_scheduler_lose_and_repeat_nothing() {
    const MESSAGES: usize = 60;
    let site = site();
    let mut daemon = site.start();
    for number in 0..MESSAGES {
        let text = format!("Subject: x\n\nbody {number}.\n");
        let output = run(enqueue(&site, &["x.test/talk/list"]), text.as_bytes());
        assert_eq!(status_and_text(&output), (Some(0), String::new()));
        if number % 10 == 9 {
            daemon.kill();
            daemon = site.start();
        }
    }
    let count = |number| site.read("mail/talk.list").matches(&format!("body {number}.")).count();
    until("all are delivered", || (0..MESSAGES).all(|number| count(number) >= 1));
    let listed = site.read("postoffice/.scheduler.duplicates").lines().count();
    let twice = (0..MESSAGES).filter(|number| count(*number) > 1).count();
    assert!(twice <= listed, "{twice} twice, {listed} listed");
    drop(daemon);
}
