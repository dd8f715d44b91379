//! The daemon's life: its options, its pid file, into the background and back out of existence.

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
fn bad_options_are_refused_with_the_status_for_that() {
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
    // With this, the scheduler starts itself when it needs a process that becomes an agent.
    let by_hand = run(&["--become-agent", "32", "-", "-", "-", "-", "/", "/bin/true"]);
    assert_eq!(by_hand.status.code(), Some(127));
    assert!(text(&by_hand.stderr).contains("of use to the scheduler only"));
    let version = run(&["-V"]);
    assert_eq!(version.status.code(), Some(0));
    assert!(text(&version.stderr).contains(env!("CARGO_PKG_VERSION")), "as the original does");
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("--quick-start"));
}

#[test]
fn option_t_checks_the_configuration_and_starts_nothing() {
    let site = Site::new("c/*\n\tmaxring=7 command=\"${AGENTS}/count.py c\"\n");
    site.put_quietly(&["c a.test u"]);
    let good = site.run(&["-t"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let shown = text(&good.stdout);
    assert!(shown.contains("\nc/*") && shown.contains("\tmaxring=7 "), "{shown}");
    // What it prints is a configuration that means the same.
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

/// As the original installs it: readable for all.
#[test]
fn an_auth_file_for_all_to_read_is_a_warning_of_option_t_and_of_the_start() {
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
    assert!(site.read("output").contains(&mend) || site.log().contains(&mend), "{}", site.log());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    allow(&path, 0o600);
    assert!(!text(&site.run(&["-t"]).stderr).contains("chmod"));
}

/// What cannot be started is refused with one reason and status 1; nothing is left behind.
#[test]
fn what_keeps_it_from_starting_is_said_and_nothing_is_left() {
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
fn a_second_scheduler_on_the_same_spool_is_refused() {
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
    // After kill -9 there is no obstacle.
    daemon.kill();
    assert!(site.path("postoffice/.pid.scheduler").exists());
    let daemon = site.start();
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
}

/// As scripts restart it: SIGTERM to the pid in the file, and a start at once.
#[test]
fn twenty_restarts_without_a_pause_leave_one_scheduler_running() {
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
        assert!(!processes::is_alive(former), "{round}: it holds the spool when the start returns");
        assert!(pid() != former && processes::is_alive(pid()), "{round}");
    }
    until("it works", || site.is_empty() || site.events().count("count") >= 20);
}

/// It ends when its agents have ended, which takes its time; the next one waits meanwhile, and says so.
#[test]
fn a_former_scheduler_that_waits_for_agents_is_waited_for() {
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

/// Everybody can open the pid file for reading, which is all that a lock needs.
#[test]
fn a_lock_on_the_pid_file_keeps_no_scheduler_from_starting() {
    let site = Site::new(COUNT);
    let first = site.start();
    let file = fs::File::open(site.path("postoffice/.pid.scheduler")).expect("readable for all");
    file.lock().expect("nobody holds a lock on it");
    assert_eq!(first.end(libc::SIGTERM).code(), Some(0));
    fs::write(site.path("postoffice/.pid.scheduler"), "1\n").expect("written");
    let left = fs::File::open(site.path("postoffice/.pid.scheduler")).expect("readable for all");
    left.lock().expect("nobody holds a lock on it");
    let second = site.start();
    assert_eq!(second.end(libc::SIGTERM).code(), Some(0));
    let mode = fs::metadata(site.path("postoffice/.scheduler.lock")).expect("a lock file");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn a_stale_pid_file_is_no_obstacle() {
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
        assert!(sleeper.try_wait().expect("our child").is_none(), "nobody was killed");
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        assert!(!site.path("postoffice/.pid.scheduler").exists());
    }
    sleeper.kill().expect("it lives");
    sleeper.wait().expect("our child");
}

/// The number may be that of a scheduler by now, but one of another spool.
#[test]
fn the_pid_of_another_spool_s_scheduler_is_no_obstacle() {
    let (site, other) = (Site::new(COUNT), Site::new(COUNT));
    let mut neighbour = other.start();
    site.write("postoffice/.pid.scheduler", &format!("{}\n", neighbour.pid()));
    let daemon = site.start();
    assert_eq!(site.read("postoffice/.pid.scheduler"), format!("{}\n", daemon.pid()));
    neighbour.assert_runs();
}

#[test]
fn every_good_end_removes_the_pid_file() {
    let site = Site::new(COUNT);
    for signal in [libc::SIGTERM, libc::SIGQUIT, libc::SIGINT] {
        let daemon = site.start();
        assert!(site.path("postoffice/.pid.scheduler").exists());
        assert_eq!(daemon.end(signal).code(), Some(0), "signal {signal}");
        assert!(!site.path("postoffice/.pid.scheduler").exists(), "signal {signal}");
    }
}

/// `output` waits until nobody holds the pipes of standard output and error: the daemon must let go.
#[test]
fn in_the_background_it_leads_its_own_group_and_ends_with_it() {
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
    // The starter comes back when the daemon is ready.
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
    // As the zmailer script ends it: agents end when they are through with the present message.
    processes::signal_group(pid, libc::SIGTERM);
    until("it has ended", || !processes::is_alive(pid));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
    assert_eq!(site.events().about("signal").iter().filter(|number| *number == "15").count(), 2);
    site.write("go", "");
    until("the agents, too", || site.events().count("end") == 2);
    assert_eq!(site.events().count("count"), 2);
}

#[test]
fn in_the_background_a_failed_start_shows_in_the_status() {
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
    until("it is there", || site.read("scheduler").contains("has been looked through"));
    processes::signal(pid, libc::SIGQUIT);
    until("it has ended", || !processes::is_alive(pid));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
}

/// -v says what becomes of each recipient, -W only once what was there is loaded.
#[test]
fn more_is_said_on_request() {
    for (options, expected) in [(&[][..], 0), (&["-v"], 2), (&["-v", "-W"], 2)] {
        let site = Site::new("c/*\n\tcommand=\"discard -c c\"\n");
        site.put_quietly(&["c a.test early"]);
        let daemon = site.start_with(&[options, &["-S"]].concat());
        site.until_empty();
        site.put(&["c a.test late"]);
        site.until_empty();
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        assert_eq!(site.logged(" status=ok3 "), expected, "{options:?}: {}", site.log());
        assert_eq!(site.logged(" complete (1 recipients, 0 failed)"), expected, "{}", site.log());
    }
}
