//! The daemon's life cycle: options, pid file, background operation, exit.

use crate::support::{SCHEDULER, Site, allow, processes, until, until_some};
use std::fs;
use std::process::{Command, Output, Stdio};

const COUNT: &str = "c/*\n\tcommand=\"${AGENTS}/count.py c\"\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Output {
    Command::new(SCHEDULER).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

#[test]
fn bad_options_are_refused_with_status_64() {
    for arguments in [
        &["-M", "3"][..],
        &["-M", "0"],
        &["-x"],
        &["-p", "smtp"],
        &["-E", "many"],
        &["-R", "-1"],
        &["-N", "x"],
        &["-L"],
        &["--no-such-option"],
        &["4711"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
    // With this option, the scheduler starts itself when it needs a process that becomes an agent.
    let by_hand = run(&["--become-agent", "32", "-", "-", "-", "-", "/", "/bin/true"]);
    assert_eq!(by_hand.status.code(), Some(127));
    assert!(text(&by_hand.stderr).contains("for internal use by the scheduler"));
    let version = run(&["-V"]);
    assert_eq!(version.status.code(), Some(0));
    assert!(text(&version.stdout).contains(env!("CARGO_PKG_VERSION")));
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("--quick-start"));
}

#[test]
fn option_t_checks_configuration_without_start() {
    let site = Site::new("c/*\n\tmaxring=7 command=\"${AGENTS}/count.py c\"\n");
    site.put_quietly(&["c a.test u"]);
    let good = site.run(&["-t"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let shown = text(&good.stdout);
    assert!(shown.contains("\nc/*") && shown.contains("\tmaxring=7 "), "{shown}");
    // The output is a configuration with the same meaning.
    site.write("scheduler.cf", &shown);
    assert_eq!(site.run(&["-t"]).status.code(), Some(0));
    site.configure("c/*\n\tmaxrink=7\n\tinterval=never\n");
    let bad = site.run(&["-t"]);
    assert_eq!(bad.status.code(), Some(1));
    let errors = text(&bad.stderr);
    for place in ["scheduler.cf:5:2: ", "scheduler.cf:6:11: "] {
        assert!(errors.contains(place), "{place} in {errors}");
    }
    assert_eq!(site.events().0.len(), 0);
    assert!(!site.path("postoffice/.pid.scheduler").exists());
}

/// ZMailer installs the file in this way: readable for all.
#[test]
fn auth_file_readable_for_all_is_warned_about() {
    let site = Site::new(COUNT);
    site.write("auth", "root:nobody-tells:ALL:[127.0.0.1]\n");
    site.configure(&format!("PARAMauthfile=\"${{SITE}}/auth\"\n{COUNT}"));
    let path = site.path("auth");
    let mend = format!("it is not used until `chmod 600 {}`", path.display());
    allow(&path, 0o644);
    let checked = site.run(&["-t"]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(text(&checked.stderr).contains(&mend), "{}", text(&checked.stderr));
    let daemon = site.start();
    until("the advice is there", || (site.read("output") + &site.log()).contains(&mend));
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    allow(&path, 0o600);
    assert!(!text(&site.run(&["-t"]).stderr).contains("chmod"));
}

/// Each obstacle to a start is reported with one reason and status 1, and no file is left behind.
#[test]
fn failed_start_reports_reason_and_leaves_no_files() {
    let site = Site::new(COUNT);
    let missing = site.path("missing").to_string_lossy().into_owned();
    for (first, second) in [("-Z", "-f"), ("-f", "-Z")] {
        let good = site.path(if second == "-Z" { "zmailer.conf" } else { "scheduler.cf" });
        let output = run(&["-i", first, &missing, second, &good.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(1), "{first}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("missing"), "{}", text(&output.stderr));
    }
    for arguments in [
        &["-i", "-P", &missing][..],
        &["-i", "-l", &format!("{missing}/statistics")],
        &["-i", "-L", &format!("{missing}/log")],
        &["-P", &missing, "-L", &format!("{}.log", missing)],
    ] {
        let output = site.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("missing"), "{}", text(&output.stderr));
        assert!(!site.path("postoffice/.pid.scheduler").exists());
    }
}

#[test]
fn second_scheduler_on_same_spool_is_refused() {
    let site = Site::new(COUNT);
    let mut daemon = site.start();
    let log = site.path("other-log").to_string_lossy().into_owned();
    std::thread::scope(|scope| {
        for options in [["-i", "-L", &log], ["-d", "-L", &log]] {
            let mut second = site.scheduler();
            second.args(options).stdin(Stdio::null());
            let pid = daemon.pid();
            scope.spawn(move || {
                let second = second.output().expect("it starts");
                assert_eq!(second.status.code(), Some(1));
                let reason = text(&second.stderr);
                assert!(reason.contains(&format!("already: pid {pid}")), "{reason}");
            });
        }
    });
    daemon.assert_runs();
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
    site.put(&["c a.test u"]);
    until("the first one goes on", || site.events().count("count") == 1);
    // A kill -9 leaves no obstacle.
    daemon.kill();
    assert!(site.path("postoffice/.pid.scheduler").exists());
    let daemon = site.start();
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
}

/// Scripts restart it in this way: SIGTERM to the pid in the file, and a start at once.
#[test]
fn twenty_quick_restarts_leave_one_scheduler() {
    let site = Site::new(COUNT);
    let pid = || site.read("postoffice/.pid.scheduler").trim().parse::<u32>().expect("a pid");
    let start = || {
        let options = [&site.file_options()[..], &["-d".to_string()]].concat();
        site.run(&options.iter().map(String::as_str).collect::<Vec<&str>>())
    };
    assert_eq!(start().status.code(), Some(0));
    for round in 0..20 {
        let former = pid();
        site.put(&["c a.test u"]);
        processes::signal(former, libc::SIGTERM);
        let started = start();
        assert_eq!(started.status.code(), Some(0), "{round}: {}", text(&started.stderr));
        assert!(pid() != former && processes::is_alive(pid()), "{round}");
        // It has released the spool. Its process may need a moment more.
        until("the former one has ended", || !processes::is_alive(former));
    }
    until("it works", || site.is_empty() || site.events().count("count") >= 20);
}

/// The former scheduler exits when its agents have; the next one waits meanwhile and logs that.
#[test]
fn start_waits_for_former_scheduler() {
    let site = Site::new(COUNT);
    let daemon = site.start();
    site.put(&["c a.test wait!u"]);
    until("the agent is at work", || site.events().count("take") == 1);
    daemon.signal(libc::SIGQUIT);
    until("it has heard of the end", || site.logged("ending on SIGQUIT") == 1);
    let next = site.spawn_into("next", &[]);
    let waits =
        format!("waiting up to 60 s for the former scheduler, pid {}, to end", daemon.pid());
    until("the next one waits", || site.read("next").contains(&waits));
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
    site.write("go", "");
    assert_eq!(daemon.wait().code(), Some(0));
    until("it takes the spool", || {
        site.read("postoffice/.pid.scheduler") == format!("{}\n", next.pid())
    });
    until("and logs that it waited", || site.logged(&waits) == 1);
    site.until_empty();
}

/// Any user can open the pid file for reading, which is enough for a lock.
#[test]
fn foreign_lock_on_pid_file_does_not_prevent_start() {
    let site = Site::new(COUNT);
    let first = site.start();
    let file = fs::File::open(site.path("postoffice/.pid.scheduler")).expect("readable for all");
    file.lock().expect("it is not locked");
    assert_eq!(first.end(libc::SIGTERM).code(), Some(0));
    fs::write(site.path("postoffice/.pid.scheduler"), "1\n").expect("written");
    let left = fs::File::open(site.path("postoffice/.pid.scheduler")).expect("readable for all");
    left.lock().expect("it is not locked");
    let second = site.start();
    assert_eq!(second.end(libc::SIGTERM).code(), Some(0));
    let mode = fs::metadata(site.path("postoffice/.scheduler.lock")).expect("a lock file");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn stale_pid_file_does_not_prevent_start() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let mut dead = Command::new("true").spawn().expect("true starts");
    dead.wait().expect("it ends");
    let site = Site::new(COUNT);
    for number in [
        format!("{}\n", sleeper.id()),
        format!("{}\n", dead.id()),
        "1\n".to_string(),
        String::new(),
        "no number\n".to_string(),
        "-1\n".to_string(),
        "99999999999999999999\n".to_string(),
    ] {
        site.write("postoffice/.pid.scheduler", &number);
        let daemon = site.start();
        assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
        assert!(sleeper.try_wait().expect("our child").is_none(), "the process lives");
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        assert!(!site.path("postoffice/.pid.scheduler").exists());
    }
    sleeper.kill().expect("it lives");
    sleeper.wait().expect("our child");
}

/// The number may belong to another spool's scheduler by now.
#[test]
fn pid_of_other_spool_does_not_prevent_start() {
    let (site, other) = (Site::new(COUNT), Site::new(COUNT));
    let mut neighbour = other.start();
    site.write("postoffice/.pid.scheduler", &format!("{}\n", neighbour.pid()));
    let daemon = site.start();
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
    neighbour.assert_runs();
}

#[test]
fn clean_exit_removes_pid_file() {
    let site = Site::new(COUNT);
    for signal in [libc::SIGTERM, libc::SIGQUIT, libc::SIGINT] {
        let daemon = site.start();
        assert!(site.path("postoffice/.pid.scheduler").exists());
        assert_eq!(daemon.end(signal).code(), Some(0), "signal {signal}");
        assert!(!site.path("postoffice/.pid.scheduler").exists(), "signal {signal}");
    }
}

/// `output` waits until standard output and error are closed, so the daemon must close them.
#[test]
fn daemon_leads_its_own_process_group() {
    let site = Site::new(COUNT);
    site.put_quietly(&["c a.test wait!u"]);
    let output = site
        .scheduler()
        .args(site.file_options())
        .arg("-d")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // The starting process exits when the daemon is ready.
    let pid: u32 = site.read("postoffice/.pid.scheduler").trim().parse().expect("a pid");
    assert!(processes::is_alive(pid));
    assert_eq!(processes::group(pid), i64::from(pid));
    assert_eq!(processes::session(pid), i64::from(pid));
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/cwd")).expect("its folder"),
        site.spool.transport()
    );
    let input = fs::read_link(format!("/proc/{pid}/fd/0")).expect("its input");
    assert_eq!(input.to_string_lossy(), "/dev/null");
    for descriptor in [1, 2] {
        let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).expect("its output");
        assert_eq!(target, site.path("log"));
    }
    site.notify("NEW 1");
    let agent = until_some("it starts an agent", || processes::children(pid).first().copied());
    until("which is at work", || site.events().count("take") == 1);
    assert_eq!(processes::group(agent), i64::from(pid));
    // Ctrl-C is for programs in the foreground.
    processes::signal(pid, libc::SIGINT);
    site.put(&["c b.test u"]);
    until("it goes on", || site.events().count("count") == 1);
    // The zmailer script ends it in this way: agents exit after the present message.
    processes::signal_group(pid, libc::SIGTERM);
    until("it has ended", || !processes::is_alive(pid));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
    assert_eq!(site.events().about("signal").iter().filter(|number| *number == "15").count(), 2);
    site.write("go", "");
    until("the agents, too", || site.events().count("end") == 2);
    assert_eq!(site.events().count("count"), 2);
}

#[test]
fn daemon_start_failure_gives_exit_status() {
    let site = Site::new("c/*\n\tmaxrink=1\n");
    let bad = site.scheduler().args(site.file_options()).output().expect("it starts");
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stderr).contains("scheduler.cf:5:2: "), "{}", text(&bad.stderr));
    assert_eq!(site.log(), "");
    // Without -L, the log is in LOGDIR.
    site.configure(COUNT);
    site.add_zenv(&format!("LOGDIR={}", site.path("").display()));
    let good = site.run(&["-d"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let pid = site.read("postoffice/.pid.scheduler").trim().parse().expect("a pid");
    until("it is there", || site.read("scheduler").contains("initial scan complete"));
    processes::signal(pid, libc::SIGQUIT);
    until("it has ended", || !processes::is_alive(pid));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
}

/// -v logs the end of each message, -W only after the initial load.
#[test]
fn verbose_options_log_each_message() {
    for (options, expected) in [(&[][..], 0), (&["-v"], 2), (&["-v", "-W"], 2)] {
        let site = Site::new("c/*\n\tcommand=\"discard -c c\"\n");
        site.put_quietly(&["c a.test early"]);
        let daemon = site.start_with(&[options, &["-S"]].concat());
        site.until_empty();
        site.put(&["c a.test late"]);
        site.until_empty();
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        site.until_logged(" complete (1 recipients, 0 failed)", expected);
    }
}
