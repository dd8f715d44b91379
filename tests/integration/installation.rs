//! What an installation needs: a spool made by the scheduler, programs that find it, and messages
//! to the service manager.

use crate::support::{SCHEDULER, Site, processes, until_some};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use zsched_tests::program;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

#[test]
fn error_about_missing_spool_names_command_that_makes_it() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let spool = site.path("var/new");
    let start = || {
        let mut scheduler = site.scheduler();
        scheduler.args(site.file_options()).arg("-P").arg(&spool).arg("-i").stdin(Stdio::null());
        scheduler
    };
    let refused = start().output().expect("it starts");
    assert_eq!(refused.status.code(), Some(1));
    let order = format!("scheduler --init {}", spool.display());
    assert!(text(&refused.stderr).contains(&order), "{}", text(&refused.stderr));

    let init = || succeed(Command::new(SCHEDULER).arg("--init").arg(&spool));
    init();
    for (folder, mode) in [("transport", 0o2750), ("queue", 0o2750), ("router", 0o3773)] {
        let made = fs::metadata(spool.join(folder)).expect(folder);
        assert_eq!(made.permissions().mode() & 0o7777, mode, "{folder}");
    }
    fs::write(spool.join("queue/17"), "mail").expect("written");
    init();
    assert!(spool.join("queue/17").exists(), "a spool that exists stays as it is");
}

#[test]
fn submit_finds_spool_by_zconfig() {
    let site = Site::new("");
    let mut submit = Command::new(program("submit"));
    succeed(submit.env("ZCONFIG", site.path("zmailer.conf")).args(["-c", "hold", "-n", "h", "u"]));
    assert_eq!(site.files("transport").len(), 1);
    let missing = site.path("missing");
    let mut submit = Command::new(program("submit"));
    let refused = submit.env("ZCONFIG", &missing).arg("u").stdin(Stdio::null()).output();
    let refused = refused.expect("it starts");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("missing"), "{}", text(&refused.stderr));
}

#[test]
fn check_shows_what_is_requested_and_ends_with_verdict() {
    let site = Site::new("c/*\n\tmaxring=7\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let check = |show: &str| {
        let output = site.run(&["-t", "--show", show]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (all, verdict) = check("all");
    assert!(all.contains("#maxthr=1") && all.contains("\tmaxring=7"), "{all}");
    assert!(verdict.ends_with("scheduler.cf: can be used, no warnings\n"), "{verdict}");
    let (set, _) = check("set");
    assert!(set.contains("\tmaxring=7") && !set.contains("maxthr"), "{set}");
    assert_eq!(check("none").0, "");
    site.configure("c/*\n\tcommand=\"no-such-agent\"\n");
    let (_, verdict) = check("none");
    assert!(verdict.ends_with("scheduler.cf: can be used, 1 warning\n"), "{verdict}");
}

/// sd_notify(3), as systemd expects it of a unit with `Type=notify`.
#[test]
fn service_manager_is_notified_of_start_reload_and_end() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let path = site.path("service-manager");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_nonblocking(true).expect("a mode");
    let next = || {
        let mut message = [0; 1000];
        let length = until_some("a message", || socket.recv(&mut message).ok());
        text(&message[..length])
    };
    let mut scheduler = site.scheduler();
    let scheduler = scheduler.env("NOTIFY_SOCKET", &path).arg("-i").stdin(Stdio::null());
    let mut scheduler = scheduler.stderr(Stdio::null()).spawn().expect("it starts");
    assert_eq!(next(), "READY=1\n");
    site.put(&["c a.test u"]);
    // Agents must not speak for the scheduler.
    let agent = until_some("an agent", || processes::children(scheduler.id()).first().copied());
    let environment = fs::read(format!("/proc/{agent}/environ")).unwrap_or_default();
    assert!(!text(&environment).contains("NOTIFY_SOCKET"));
    processes::signal(scheduler.id(), libc::SIGUSR1);
    assert_eq!(next(), "RELOADING=1\n");
    assert_eq!(next(), "READY=1\n");
    processes::signal(scheduler.id(), libc::SIGTERM);
    assert_eq!(next(), "STATUS=ending on SIGTERM\n");
    assert_eq!(next(), "STOPPING=1\n");
    assert_eq!(scheduler.wait().expect("our child").code(), Some(0));
}
