//! The router as a daemon: notices, signals, reloads.

use super::support::{Site, until};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

const RULES: &str = "local zm.example.test\nusers any\n";
const SUBMISSION: &str = "from <a>\nto <b@far.test>\nenv-end\nSubject: x\n\nbody\n";
const SIGHUP: i32 = 1;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;

#[test]
fn notice_and_scan_find_submissions_and_scheduler_is_notified() {
    let site = Site::new(RULES);
    let scheduler = UnixDatagram::bind(site.spool.notify_socket(None)).expect("bound");
    scheduler.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
    let _router = site.start(&[]);
    let mut buffer = [0; 100];
    let mut heard = || {
        let length = scheduler.recv(&mut buffer).expect("a notice in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let socket = site.spool.router_socket(None);
    let mode = std::fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o222, "all users may send");
    let number = site.submit("first", SUBMISSION);
    let sender = UnixDatagram::unbound().expect("a socket");
    for wrong in ["", "NEW", "NEW router ../../etc/passwd", "NEW router X/../a", "NEW router none"]
    {
        sender.send_to(wrong.as_bytes(), &socket).expect("sent");
    }
    sender.send_to(b"NEW router first", &socket).expect("sent");
    assert_eq!(heard(), format!("NEW {number}"));
    // Without a notice, the scan finds it.
    let number = site.submit("second", SUBMISSION);
    assert_eq!(heard(), format!("NEW {number}"));
}

#[test]
fn second_router_is_refused_and_pid_file_goes() {
    let site = Site::new(RULES);
    let mut router = site.start(&[]);
    let pid = router.child.id();
    assert_eq!(site.read("postoffice/.pid.router"), format!("{pid}\n"));
    for arguments in [&["--once"][..], &["-i"]] {
        let output = site.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("running on this spool already: pid {pid}")), "{said}");
    }
    router.signal(SIGTERM);
    assert!(router.child.wait().expect("ended").success());
    assert!(!site.spool.router_pid_file().exists() && !site.spool.router_socket(None).exists());
    assert!(site.read("log").ends_with(" ended\n"), "{}", site.read("log"));
}

#[test]
fn file_in_place_of_folder_is_named() {
    for folder in ["router", "transport"] {
        let site = Site::new(RULES);
        let path = site.spool.postoffice().join(folder);
        std::fs::remove_dir(&path).expect("an empty folder");
        std::fs::write(&path, "").expect("a file");
        let output = site.run(&["--once"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("{}: Not a directory", path.display())), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn reload_takes_all_or_nothing() {
    let site = Site::new(RULES);
    let router = site.start(&[]);
    let routed = |channel: &str| {
        let number = site.submit("one", SUBMISSION);
        let path = format!("postoffice/transport/{number}");
        until("it is routed", || site.path(&path).exists());
        let made = site.read(&path);
        assert!(
            made.contains(&format!("\nr           {channel} far.test b@far.test 65534\n")),
            "{made}"
        );
    };
    routed("smtp");
    site.configure("route far.test uucp\nroute broken\naliases relative\n");
    router.signal(SIGUSR1);
    until("the errors are logged", || site.read("log").contains("former configuration stays"));
    let log = site.read("log");
    assert!(log.contains("router.cf:3:1: after `route` comes"), "{log}");
    assert!(log.contains("router.cf:4:9: the path `relative` does not begin"), "{log}");
    routed("smtp");
    site.configure("route far.test uucp\n");
    router.signal(SIGUSR1);
    until("the configuration is read", || site.read("log").contains("configuration read"));
    routed("uucp");
}

/// sd_notify(3), as systemd expects it of a unit with `Type=notify`.
#[test]
fn service_manager_is_notified_of_start_reload_and_end() {
    let site = Site::new(RULES);
    let path = site.path("service-manager");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
    let next = || {
        let mut message = [0; 1000];
        let length = socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).trim_end().to_string()
    };
    let mut command = site.router(&[]);
    command.env("NOTIFY_SOCKET", &path);
    let mut router = site.start_command(command);
    assert_eq!(next(), "READY=1");
    for rules in [RULES, "route broken\n"] {
        site.configure(rules);
        router.signal(SIGUSR1);
        assert_eq!([next(), next()], ["RELOADING=1", "READY=1"]);
    }
    router.signal(SIGTERM);
    assert_eq!(next(), "STOPPING=1");
    assert!(router.child.wait().expect("ended").success());
}

/// The system keeps some ten notices for a program that is busy; the others wait for it.
#[test]
fn scheduler_gets_each_of_many_notices() {
    const COUNT: usize = 60;
    let site = Site::new(RULES);
    let scheduler = UnixDatagram::bind(site.spool.notify_socket(None)).expect("bound");
    scheduler.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
    let submit = |number: usize| format!("NEW {}", site.submit(&number.to_string(), SUBMISSION));
    let mut expected: Vec<String> = (0..COUNT).map(submit).collect();
    let _router = site.start(&[]);
    let heard = |_| {
        let mut buffer = [0; 100];
        let length = scheduler.recv(&mut buffer).expect("a notice in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut heard: Vec<String> = (0..COUNT).map(heard).collect();
    expected.sort();
    heard.sort();
    assert_eq!(heard, expected);
}

#[test]
fn log_is_reopened() {
    let site = Site::new(RULES);
    let router = site.start(&[]);
    std::fs::rename(site.path("log"), site.path("log.1")).expect("renamed");
    router.signal(SIGHUP);
    until("the new log is there", || {
        site.path("log").exists() && site.read("log").contains("log reopened")
    });
}

/// A router that is not root leaves what it cannot read.
#[test]
fn unreadable_submission_stays() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let site = Site::new(RULES);
    let number = site.submit("mine", SUBMISSION);
    let chown = |user: &str, path: &std::path::Path| {
        let status = std::process::Command::new("chown").args(["-R", user]).arg(path).status();
        status.expect("chown starts").success()
    };
    if !chown("65534:65534", &site.path("")) {
        eprintln!("not run: only root can give files to another user");
        return;
    }
    site.submit("others", SUBMISSION);
    let others = site.spool.router().join("others");
    std::fs::set_permissions(&others, PermissionsExt::from_mode(0o600)).expect("set");
    assert!(chown("0:0", &others));
    let Ok(output) = site.router(&["--once"]).uid(NOBODY).gid(NOBODY).output() else {
        eprintln!("not run: nobody may not run the program");
        return;
    };
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(75), "{log}");
    assert!(log.contains("warning: router/others: Permission denied"), "{log}");
    assert_eq!(site.names("router"), ["others"]);
    assert_eq!(site.names("queue"), [number.to_string()]);
}

#[test]
fn daemon_detaches_when_it_serves() {
    let site = Site::new(RULES);
    let log = site.path("log");
    let output = site.run(&["-L", log.to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
    assert!(site.spool.router_socket(None).exists(), "it listens already");
    let pid = site.read("postoffice/.pid.router");
    let number = site.submit("one", SUBMISSION);
    until("it is routed", || site.names("transport") == [number.to_string()]);
    let killed = std::process::Command::new("kill").arg(pid.trim()).status();
    assert!(killed.expect("kill starts").success());
    until("it has ended", || !site.spool.router_pid_file().exists());
    let failed = site.run(&["-L", "/nonexistent/log"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("/nonexistent/log: No such file"));
}
