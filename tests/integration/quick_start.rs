//! `scheduler --quick-start FOLDER`, `sendmail` and `submit`, as a new user tries them.

use crate::support::{Site, allow, holds_before_deadline, is_root, not_run, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use zsched_tests::program;

/// Kills a program when it is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the scheduler for `folder`; `run` starts programs.
fn start(folder: &Path, run: &impl Fn(&str) -> Command) -> KillOnDrop {
    // This writes the files without a start. The port is the only thing that we change.
    let check = run("scheduler").arg("--quick-start").arg(folder).arg("-t").output();
    let check = check.expect("the scheduler starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    let zenv = folder.join("zmailer.conf");
    let text = fs::read_to_string(&zenv).expect("a ZENV file");
    // 10174, unless that is taken.
    let port = text.lines().find(|line| line.starts_with("MAILQPORT=")).expect("a port");
    fs::write(&zenv, text.replace(port, "MAILQPORT=0")).expect("changed");
    let server = folder.join("smtpserver.cf");
    fs::write(server, "listen 127.0.0.1:0 smtp\n").expect("changed");

    let log = fs::File::create(folder.join("log")).expect("a log");
    let errors = log.try_clone().expect("another descriptor");
    let mut scheduler = run("scheduler");
    scheduler.args(["--timeouts-scale", "0.1"]);
    scheduler.arg("--quick-start").arg(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
    let scheduler = KillOnDrop(scheduler.spawn().expect("the scheduler starts"));
    let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    until("it serves MAILQ", || log().contains("MAILQ is served on TCP 127.0.0.1:"));
    scheduler
}

/// Writes the port of the running scheduler to the ZENV file, and returns the path of that.
fn name_port(folder: &Path) -> PathBuf {
    let zenv = folder.join("zmailer.conf");
    let log = fs::read_to_string(folder.join("log")).expect("a log");
    let port = log.split("TCP 127.0.0.1:").nth(1).and_then(|rest| rest.lines().next());
    let text = fs::read_to_string(&zenv).expect("a ZENV file");
    let text = text.replace("MAILQPORT=0", &format!("MAILQPORT={}", port.expect("a port")));
    // The router and the SMTP server may be reading the file at this moment.
    let changed = folder.join("zmailer.conf.new");
    fs::write(&changed, text).expect("written");
    fs::rename(&changed, &zenv).expect("changed");
    zenv
}

/// Port of the SMTP server.
fn smtp_port(folder: &Path) -> String {
    let log = || fs::read_to_string(folder.join("smtpserver")).unwrap_or_default();
    until("the SMTP server listens", || log().contains("smtp on 127.0.0.1:"));
    let log = log();
    let port = log.split("smtp on 127.0.0.1:").nth(1).and_then(|rest| rest.lines().next());
    port.expect("a port").to_string()
}

/// Submits a message for `user`.
fn send(folder: &Path, run: &impl Fn(&str) -> Command, user: &str) {
    let mut submit = run("submit");
    submit.arg("-Z").arg(folder.join("zmailer.conf"));
    submit.args(["-f", "me", user]).stdout(Stdio::null());
    let mut submit = submit.stdin(Stdio::piped()).spawn().expect("submit starts");
    let input = submit.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut { input }, b"Subject: first\n\nIt works.\n").expect("written");
    assert!(submit.wait().expect("submit ends").success());
}

/// Tries the programs in `folder`; `run` starts them.
fn try_out(folder: &Path, run: impl Fn(&str) -> Command) {
    let mut scheduler = start(folder, &run);
    send(folder, &run, "somebody");
    let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
    let mailbox = folder.join("mailboxes/somebody");
    until("the message is in the mailbox", || {
        assert!(scheduler.0.try_wait().expect("our child").is_none(), "it ended: {}", log());
        fs::read_to_string(&mailbox).is_ok_and(|text| text.contains("It works."))
    });
    let count =
        |name: &str| fs::read_dir(folder.join("postoffice").join(name)).map(Iterator::count);
    until("the spool is empty", || {
        ["queue", "transport"].iter().all(|name| count(name).is_ok_and(|count| count == 0))
    });
    // A second start finds all files and changes none.
    let read = || {
        ["zmailer.conf", "scheduler.cf", "router.cf", "smtpserver.cf"]
            .map(|name| fs::read_to_string(folder.join(name)).expect("a file"))
    };
    let before = read();
    drop(run("scheduler").arg("--quick-start").arg(folder).arg("-t").output());
    assert_eq!(read(), before);
}

#[test]
fn quick_start_works_for_current_user() {
    let site = Site::new("");
    try_out(&site.path("trial"), |name| Command::new(program(name)));
}

#[test]
fn quick_start_works_without_root() {
    if !is_root() {
        return not_run("quick start as another user: only root can become one");
    }
    let as_nobody = |name: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program(name));
        command
    };
    match as_nobody("scheduler").arg("-V").output() {
        Ok(output) if output.status.success() => {}
        _ => return not_run("quick start as another user: setpriv cannot run the scheduler so"),
    }
    let site = Site::new("");
    let folder = site.path("trial");
    fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).expect("given away");
    try_out(&folder, as_nobody);
}

/// The commands of README for the second terminal.
fn readme_commands() -> Vec<String> {
    let readme = fs::read_to_string(zsched_tests::source().join("README.md")).expect("README");
    let after = readme.split_once("In another terminal").expect("the second terminal").1;
    let block = after.lines().skip_while(|line| !line.starts_with("    "));
    let commands = block.map_while(|line| line.strip_prefix("    "));
    commands.filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// Pid of the running router.
fn router_pid(folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(folder.join("postoffice/.pid.router")).ok()?;
    text.trim().parse().ok().filter(|pid| zsched_sys::process_exists(*pid))
}

#[test]
fn commands_of_readme_close_circle() {
    let site = Site::new("");
    // Programs of the tests are not in target/release.
    let programs = site.path("target/release");
    fs::create_dir_all(&programs).expect("a folder");
    for name in ["mailq", "sendmail", "submit"] {
        std::os::unix::fs::symlink(program(name), programs.join(name)).expect("a link");
    }
    let folder = site.path("var");
    let _scheduler = start(&folder, &|name: &str| Command::new(program(name)));
    name_port(&folder);
    let mut commands = readme_commands();
    let setup = commands.remove(0);
    let port = smtp_port(&folder);
    let run = |command: &str| {
        let command = command.replace("2525", &port);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{setup}; {command}")).current_dir(site.path(""));
        shell.stdin(Stdio::null()).output().expect("sh starts")
    };
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands.into_iter().filter(|command| command != "mailq top") {
        // Mailboxes appear when mail is delivered, and the trace when it is logged.
        let mut last = None;
        let has_succeeded = holds_before_deadline(|| last.insert(run(&command)).status.success());
        assert!(has_succeeded, "`{command}` with port {port} does not succeed: {last:#?}");
    }
    // How mail came by SMTP.
    for (command, expected) in [
        ("mailq trace carol@localhost", "[127.0.0.1] by smtp for 1 recipient, "),
        ("mailq summary", "SMTP: 1 message accepted for 1 recipient, 0 refused"),
        ("mailq stats", "By SMTP: 1 message accepted for 1 recipient, 0 refused"),
        ("mailq summary --json", "\"smtp\":{"),
    ] {
        let said = || String::from_utf8(run(command).stdout).expect("UTF-8");
        until(&format!("`{command}` says {expected}"), || said().contains(expected));
    }
    let report = String::from_utf8(run("cat var/mailboxes/$(id -un)").stdout).expect("UTF-8");
    for expected in [
        "multipart/report",
        "Final-Recipient: rfc822; nobody@unknown.example",
        "Action: failed",
        "Status: 5.1.2",
        "no mail leaves this trial installation",
        "Subject: x",
    ] {
        assert!(report.contains(expected), "{expected} is missing in {report}");
    }
    // The report goes to the sender alone, and is not reported itself.
    let mailboxes = || fs::read_dir(folder.join("mailboxes")).expect("mailboxes").count();
    until("there are three mailboxes and no locks", || mailboxes() == 3);
    let left = fs::read_dir(folder.join("postoffice/postman")).expect("the folder");
    assert_eq!(left.count(), 0);
}

#[test]
fn router_is_started_again_and_ends_with_scheduler() {
    let site = Site::new("");
    let folder = site.path("trial");
    let run = |name: &str| Command::new(program(name));
    let mut scheduler = start(&folder, &run);
    until("the router runs", || router_pid(&folder).is_some());
    let first = router_pid(&folder).expect("a pid");
    zsched_sys::send_signal(first, libc::SIGKILL).expect("killed");
    until("another router runs", || router_pid(&folder).is_some_and(|pid| pid != first));
    let log = fs::read_to_string(folder.join("log")).expect("a log");
    assert!(log.contains("warning: the router has ended; it is started again in 0."), "{log}");
    let second = router_pid(&folder).expect("a pid");
    // The port may be another one than README says.
    let port = smtp_port(&folder);
    until("the port is named", || {
        let log = fs::read_to_string(folder.join("log")).expect("a log");
        log.contains(&format!("smtpserver: SMTP on 127.0.0.1:{port}\n"))
    });
    let server = fs::read_to_string(folder.join("postoffice/.pid.smtpserver")).expect("a pid");
    let server = server.trim().parse().expect("a pid");
    scheduler.0.kill().expect("killed");
    scheduler.0.wait().expect("ended");
    until("the router has ended, too", || !zsched_sys::process_exists(second));
    until("the SMTP server has ended, too", || !zsched_sys::process_exists(server));
    // A clean end is the same.
    let mut scheduler = start(&folder, &run);
    until("the router runs", || router_pid(&folder).is_some());
    let third = router_pid(&folder).expect("a pid");
    zsched_sys::send_signal(scheduler.0.id(), libc::SIGTERM).expect("sent");
    assert!(scheduler.0.wait().expect("ended").success());
    until("the router has ended", || !zsched_sys::process_exists(third));
}

#[test]
fn user_who_may_give_no_orders_is_told_who_may() {
    if !is_root() {
        return not_run("orders of another user: only root can become one");
    }
    let site = Site::new("");
    let folder = site.path("trial");
    let _scheduler = start(&folder, &|name: &str| Command::new(program(name)));
    let zenv = name_port(&folder);
    for path in [site.path(""), folder.clone()] {
        allow(path, 0o755);
    }
    let is_refused = || {
        let mut mailq = Command::new("setpriv");
        mailq.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program("mailq"));
        let output = mailq.arg("-Z").arg(&zenv).args(["hold", "*/*"]).output();
        let output = output.expect("setpriv starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("only root may do this, over "), "{error}");
        assert_eq!(output.status.code(), Some(77));
    };
    is_refused();
    // It is the same where no port is served.
    let text = fs::read_to_string(&zenv).expect("a ZENV file");
    let others = text.lines().filter(|line| !line.starts_with("MAILQPORT="));
    let others: Vec<&str> = others.chain(["MAILQPORT=1"]).collect();
    fs::write(&zenv, others.join("\n") + "\n").expect("changed");
    is_refused();
}

#[test]
fn broken_mailbox_does_not_delay_other_users() {
    let site = Site::new("");
    let folder = site.path("trial");
    let run = |name: &str| Command::new(program(name));
    let _scheduler = start(&folder, &run);
    // A mailbox must have a single name.
    let mailbox = folder.join("mailboxes/carl");
    fs::write(&mailbox, "").expect("a mailbox");
    fs::hard_link(&mailbox, folder.join("carl")).expect("another name");
    send(&folder, &run, "carl");
    let trace = || {
        let mut mailq = run("mailq");
        mailq.arg("-Z").arg(folder.join("zmailer.conf")).args(["trace", "carl"]);
        String::from_utf8_lossy(&mailq.output().expect("mailq starts").stdout).into_owned()
    };
    until("carl's message was tried", || trace().contains("(tried once; last: "));
    let next = trace();
    let next = next.lines().find(|line| line.starts_with("  next: ")).expect("what happens next");
    assert!(next.contains("to be tried again"), "{next}");
    assert!(!next.contains("unreachable"), "{next}");
    // Carl's message is not due before a minute has passed.
    send(&folder, &run, "frank");
    until("frank has his message", || folder.join("mailboxes/frank").is_file());
    assert!(trace().contains("(tried once; last: "), "{}", trace());
}
