//! SIGUSR1, SIGHUP and SIGUSR2: reload of the configuration, log rotation, the rendezvous file.

use crate::support::{Dump, Site, until};
use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::process::{Command, Output};

const IN_FORCE: &str = "scheduler.cf: configuration loaded";

#[test]
fn reload_changes_limits_and_commands() {
    let site = Site::new("c/*\n\tmaxring=1 command=\"${AGENTS}/count.py c 0 old\"\n");
    let daemon = site.start();
    for host in 0..10 {
        site.put_quietly(&[&format!("c {host}.test wait!{host}")]);
    }
    daemon.signal(libc::SIGALRM);
    until("one agent is at work", || site.events().count("take") == 1);
    site.configure("c/*\n\tmaxring=3 command=\"${AGENTS}/count.py c 0 old\"\n");
    daemon.signal(libc::SIGUSR1);
    until("three are", || site.events().count("take") == 3);
    until("MAILQ agrees", || site.mailq().total("Kids") == 3);

    site.configure("c/*\n\tmaxring=2 command=\"${AGENTS}/count.py c 0 new\"\n");
    daemon.signal(libc::SIGUSR1);
    until("new agents are started", || {
        site.events().of("start").filter(|event| event.agent == "new").count() == 2
    });
    site.until_logged(IN_FORCE, 2);
    site.write("go", "");
    site.until_empty();
    let events = site.events();
    events.assert_once_each((0..10).map(|host| format!("wait!{host}")));
    let of = |name: &str| events.of("count").filter(|event| event.agent == name).count();
    assert_eq!((of("old"), of("new")), (3, 7), "old agents finish what they have, and end");
    until("the old ones have ended", || {
        site.events().of("end").filter(|event| event.agent == "old").count() == 3
    });
}

#[test]
fn malformed_configuration_is_not_loaded() {
    let site = Site::new("c/*\n\tmaxring=1 command=\"${AGENTS}/count.py c\"\n");
    let mut daemon = site.start();
    site.put(&["c a.test wait!1"]);
    until("the agent is at work", || site.events().count("take") == 1);
    let agents = daemon.agents();
    // The lines are: socket, */*, its keywords, then ours.
    site.configure("c/*\n\tmaxring=2\n\tmaxrink=3 user=nobody-of-this-name\n\tinterval=soon\n");
    daemon.signal(libc::SIGUSR1);
    until("it is refused", || site.logged("the former configuration stays in force") == 1);
    let log = site.log();
    let place = |line: u32, column: u32| {
        format!("{}:{line}:{column}: ", site.path("scheduler.cf").display())
    };
    for (line, column, text) in
        [(6, 2, "`maxrink`"), (6, 17, "`nobody-of-this-name`"), (7, 11, "`soon`")]
    {
        let begin = place(line, column);
        let found = log.lines().find(|logged| logged.contains(&begin));
        assert!(found.is_some_and(|logged| logged.contains(text)), "{begin}{text}: {log}");
    }
    // The file does not exist.
    fs::remove_file(site.path("scheduler.cf")).expect("removed");
    daemon.signal(libc::SIGUSR1);
    until("it is refused, too", || site.logged("the former configuration stays in force") == 2);
    assert_eq!(site.logged(IN_FORCE), 0);
    daemon.assert_runs();
    site.put(&["c b.test wait!2"]);
    site.write("go", "");
    site.until_empty();
    assert_eq!(site.events().about("start").len(), 1, "the agent goes on, and no other may");
    assert_eq!(agents, daemon.agents());
}

#[test]
fn frequent_reloads_lose_nothing() {
    let site = Site::new("");
    let clauses = |round: usize| {
        let (ring, name) = (1 + round % 5, round % 3);
        format!(
            "c/*\n\tmaxring={ring} maxthr={} overfeed={} command=\"${{AGENTS}}/count.py c 0 v{name}\"\n",
            1 + round % 2,
            round % 7
        )
    };
    site.configure(&clauses(0));
    let mut daemon = site.start();
    let addresses: Vec<String> = (0..600).map(|number| format!("u{number}")).collect();
    for (round, addresses) in addresses.chunks(15).enumerate() {
        for address in addresses {
            site.put(&[&format!("c {}.test {address}", round % 13)]);
        }
        site.configure(&clauses(round));
        daemon.signal(libc::SIGUSR1);
    }
    site.until_empty();
    daemon.assert_runs();
    site.events().assert_once_each(addresses);
    until("most are logged", || site.logged(IN_FORCE) > 10);
    let kinds: Vec<_> = ["v0", "v1", "v2"]
        .iter()
        .filter(|name| site.events().of("start").any(|event| event.agent == **name))
        .collect();
    assert_eq!(kinds.len(), 3, "agents of all versions have run");
}

#[test]
fn renamed_logs_are_reopened_on_sighup() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    site.put(&["c a.test 1"]);
    until("it is in the statistics", || site.read("statistics").lines().count() == 1);
    for name in ["log", "statistics"] {
        fs::rename(site.path(name), site.path(&format!("{name}.0"))).expect("renamed");
    }
    site.put(&["c a.test 2"]);
    until("the old file is used on", || site.read("statistics.0").lines().count() == 2);
    daemon.signal(libc::SIGHUP);
    until("there is a new log", || site.logged("logs reopened") == 1);
    site.put(&["c a.test 3"]);
    until("the new file is used", || site.read("statistics").lines().count() == 1);
    assert_eq!(site.read("statistics.0").lines().count(), 2);
    let old = site.read("log.0");
    assert!(!old.contains("logs reopened") && old.contains("started on"), "{old}");
    // A log that cannot be opened does not end the scheduler.
    fs::rename(site.path("log"), site.path("log.1")).expect("renamed");
    fs::create_dir(site.path("log")).expect("in the way");
    daemon.signal(libc::SIGHUP);
    until("the log says so", || site.read("log.1").contains("the log cannot be reopened"));
    fs::remove_dir(site.path("log")).expect("out of the way");
    site.put(&["c a.test 4"]);
    until("it goes on", || site.read("statistics").lines().count() == 2);
}

/// ZMailer's installation rotates in this way: `mv`, `touch`, no signal. Waits for the check every
/// 10 s.
#[test]
fn renamed_logs_are_reopened_without_signal() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let status = site.path("status").to_string_lossy().into_owned();
    let _daemon = site.start_with(&["--status-log", &status]);
    site.put(&["c a.test 1"]);
    until("it is in the status log", || site.read("status").lines().count() == 1);
    let logs = ["log", "statistics", "status"];
    for name in logs {
        fs::rename(site.path(name), site.path(&format!("{name}.0"))).expect("renamed");
    }
    for name in &logs[..2] {
        site.write(name, "");
    }
    until("the log goes on under its name", || {
        site.logged("the log was renamed and reopened") == 1
    });
    until("only the scheduler made a new status log", || site.path("status").exists());
    site.put(&["c a.test 2"]);
    until("both are used", || {
        site.read("statistics").lines().count() == 1 && site.read("status").lines().count() == 1
    });
    for name in &logs[1..] {
        assert_eq!(site.read(&format!("{name}.0")).lines().count(), 1);
    }
}

#[test]
fn sigusr2_writes_dump_to_rendezvous_file() {
    let site = Site::new("c/*\n\tqueueonly command=\"${AGENTS}/count.py c\"\n");
    for number in 0..2000 {
        site.put_quietly(&[&format!("c {}.test user{number}", number % 50)]);
    }
    let daemon = site.start();
    let path = site.path("rendezvous");
    daemon.signal(libc::SIGUSR2);
    // The file is complete a moment before the scheduler knows that.
    let refused = Cell::new(0);
    let request_again_if_refused = || {
        if site.logged("the former dump is still being written") > refused.get() {
            refused.set(refused.get() + 1);
            daemon.signal(libc::SIGUSR2);
        }
    };
    let is_complete = || {
        fs::metadata(&path).is_ok_and(|data| {
            (data.mtime(), data.mtime_nsec()) < (data.ctime(), data.ctime_nsec()) && data.len() > 0
        })
    };
    until("the dump is complete", is_complete);
    let dump = Dump::parse(&site.read("rendezvous"));
    assert_eq!(dump.vertices.len(), 2000);
    assert_eq!(dump.hosts.as_ref().map(|hosts| hosts.len()), Some(50));
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o644);
    let text =
        |dump: &Dump| dump.vertices.iter().map(|v| (v.file.clone(), v.offsets.clone())).collect();
    let (there, here): (Vec<_>, Vec<_>) = (text(&dump), text(&site.mailq()));
    assert_eq!(there, here, "the same as MAILQ shows");

    // A second dump replaces the first.
    fs::write(&path, "x".repeat(1_000_000)).expect("written");
    daemon.signal(libc::SIGUSR2);
    until("the dump is complete again", || {
        request_again_if_refused();
        is_complete() && site.read("rendezvous").len() < 1_000_000
    });
    assert_eq!(Dump::parse(&site.read("rendezvous")).vertices.len(), 2000);

    // The dump does not follow a symbolic link, which any user could put there.
    site.write("precious", "untouched");
    fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink(site.path("precious"), &path).expect("a link");
    daemon.signal(libc::SIGUSR2);
    until("it cannot be written", || {
        request_again_if_refused();
        site.logged("the queue dump cannot be written") == 1
    });
    assert_eq!(site.read("precious"), "untouched");
    // A pipe without a reader does not block the scheduler.
    fs::remove_file(&path).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo starts");
    assert!(made.success());
    daemon.signal(libc::SIGUSR2);
    until("it cannot be written, either", || {
        request_again_if_refused();
        site.logged("the queue dump cannot be written") == 2
    });
    assert_eq!(site.mailq().vertices.len(), 2000);
    // The scheduler waits for a reader of the pipe, however slow it is.
    let reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let mut reader = reader.expect("it can be read");
    daemon.signal(libc::SIGUSR2);
    until("the pipe is full", || {
        daemon.signal(libc::SIGUSR2);
        site.logged("the former dump is still being written") > refused.get()
    });
    let mut text = Vec::new();
    until("the whole dump has been read", || match reader.read_to_end(&mut text) {
        Ok(_) => !text.is_empty(),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    });
    assert_eq!(Dump::parse(&String::from_utf8_lossy(&text)).vertices.len(), 2000);
}

#[test]
fn check_warns_of_configuration_on_disk() {
    const CLAUSES: &str = "c/*\n\tcommand=\"${AGENTS}/count.py c\"\n";
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mailq = |command: &str| -> Output {
        let mut mailq = Command::new(zsched_tests::program("mailq"));
        let mailq = mailq.arg("-Z").arg(site.path("zmailer.conf")).arg(command);
        mailq.output().expect("mailq starts")
    };
    let check = || String::from_utf8(mailq("check").stdout).expect("text");
    assert!(!check().contains("configuration"), "{}", check());
    site.configure(&format!("{CLAUSES}new/*\n\tcommand=\"hold\"\n"));
    let said = check();
    assert!(
        said.contains("configuration on disk is not in force: mailq reload loads it"),
        "{said}"
    );
    site.configure("c/*\n\tmaxring=x\n");
    let said = check();
    assert!(said.contains("the configuration on disk cannot be used: "), "{said}");
    assert!(said.contains("scheduler.cf:5:10: "), "{said}");
    let said = String::from_utf8(mailq("reload").stderr).expect("text");
    assert!(said.ends_with("The former configuration stays in force.\n"), "{said}");
    site.configure(CLAUSES);
    assert!(!check().contains("configuration"), "{}", check());
}
