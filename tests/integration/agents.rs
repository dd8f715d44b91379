//! Agents that behave well: how they are started, kept and ended.

use crate::support::{
    Client, Daemon, Site, allow, is_root, not_run, processes, until, until_some, until_within,
};
use std::process::Stdio;
use std::time::Duration;

/// Returns the rest of all lines of a text that begin with a word.
fn lines(text: &str, word: &str) -> Vec<String> {
    let matching = text.lines().filter_map(|line| line.strip_prefix(word));
    matching.map(|rest| rest.trim().to_string()).collect()
}

/// Returns the signals in a mask of `/proc/<pid>/status`.
fn mask(status: &str, name: &str) -> u64 {
    let value = &lines(status, &format!("{name}:"))[0];
    u64::from_str_radix(value, 16).expect("a mask")
}

fn has(mask: u64, signal: i32) -> bool {
    mask & 1 << (signal - 1) != 0
}

#[test]
fn workers_do_not_interrupt_event_loop() {
    let site = Site::new("c/*\n\tcommand=\"true\"\n");
    let daemon = site.start();
    for (thread, policy) in [
        ("scheduler", libc::SCHED_OTHER),
        ("reader", libc::SCHED_OTHER),
        ("writer", libc::SCHED_BATCH),
        ("log", libc::SCHED_BATCH),
    ] {
        until(thread, || processes::policy(daemon.pid(), thread) == Some(policy.into()));
    }
}

#[test]
fn agents_get_documented_environment() {
    let site = Site::new(
        "c/*\n\tnice=5 command=\"FOO=bar EMPTY= WHERE=${SITE}/${channel} \
         ${AGENTS}/environment.sh $channel ${host} -x${UNKNOWN}- $host\"\n",
    );
    let mut command = site.scheduler();
    command.arg("-i").args(site.file_options()).args(["-N", "50"]).stdin(Stdio::null());
    command
        .env("TZ", "Europe/Helsinki")
        .env("SECRET", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let daemon = Daemon::new(&site, command.spawn().expect("the scheduler starts"));
    until("it is there", || site.logged("initial scan complete") == 1);
    site.put(&["c A.test u"]);
    site.until_empty();
    let told = site.read("environment");
    assert_eq!(lines(&told, "arguments"), ["c a.test -x- a.test"]);
    assert_eq!(lines(&told, "cwd"), [site.spool.transport().to_string_lossy()]);
    let descriptors = lines(&told, "descriptor");
    let inodes: Vec<&str> = descriptors.iter().map(|line| &line[2..]).collect();
    assert_eq!(descriptors.len(), 3, "nothing but 0, 1 and 2: {told}");
    assert!(inodes[0].starts_with("socket ") && inodes.iter().all(|inode| *inode == inodes[0]));
    assert_eq!(lines(&told, "files"), ["50"]);
    assert_eq!(lines(&told, "niceness"), [(processes::niceness(daemon.pid()) + 5).to_string()]);
    assert_eq!(lines(&told, "policy"), [libc::SCHED_BATCH.to_string()]);

    let mut variables: Vec<String> =
        site.read("environment-variables").lines().map(str::to_string).collect();
    let zenv = site.read("zmailer.conf");
    let path = lines(&zenv, "PATH=")[0].clone();
    let mut expected = [
        "FOO=bar".to_string(),
        "EMPTY=".to_string(),
        format!("WHERE={}/c", site.path("").display().to_string().trim_end_matches('/')),
        "TZ=Europe/Helsinki".to_string(),
        format!("PATH={path}"),
        format!("ZCONFIG={}", site.path("zmailer.conf").display()),
    ];
    variables.sort();
    expected.sort();
    assert_eq!(variables, expected);

    let status = site.read("environment-status");
    assert!(has(mask(&status, "SigIgn"), libc::SIGPIPE), "SIGPIPE is ignored: {status}");
    for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGQUIT, libc::SIGINT, libc::SIGCHLD] {
        assert!(!has(mask(&status, "SigIgn"), signal), "{signal} is not: {status}");
    }
    assert_eq!(mask(&status, "SigBlk"), 0, "{status}");
    if is_root() {
        // These are the defaults of a scheduler that root runs.
        assert_eq!(lines(&status, "Uid:"), ["0\t0\t0\t0"]);
        assert_eq!(lines(&status, "Gid:"), ["1\t1\t1\t1"], "group daemon");
        assert_eq!(lines(&status, "Groups:"), [""]);
    }
}

/// Without a log file, a scheduler in the foreground ignores SIGHUP, and so do its agents.
#[test]
fn sighup_without_log_file_is_ignored() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/environment.sh c\"\n");
    let mut command = site.scheduler();
    let log = || std::fs::File::create(site.path("log")).expect("a file");
    command.arg("-i").stdin(Stdio::null()).stdout(log()).stderr(log());
    let mut daemon = Daemon::new(&site, command.spawn().expect("the scheduler starts"));
    until("it is there", || site.logged("initial scan complete") == 1);
    daemon.signal(libc::SIGHUP);
    site.put(&["c a.test u"]);
    site.until_empty();
    daemon.assert_runs();
    let status = site.read("environment-status");
    assert!(has(mask(&status, "SigIgn"), libc::SIGHUP), "{status}");
}

#[test]
fn agents_run_as_user_and_group_of_clause() {
    if !is_root() {
        return not_run("user= and group=: only root can start agents as another user");
    }
    let site = Site::new(
        "c/*\n\tuser=nobody group=65534 priority=3 command=\"${AGENTS}/environment.sh c\"\n\
         d/*\n\tuser=1 command=\"${AGENTS}/count.py d\"\n",
    );
    for folder in ["", "postoffice", "postoffice/transport"] {
        allow(site.path(folder), 0o777);
    }
    let _daemon = site.start();
    site.owner.set(Some(65534));
    site.put(&["c a.test u"]);
    site.until_empty();
    let status = site.read("environment-status");
    assert_eq!(lines(&status, "Uid:"), ["65534\t65534\t65534\t65534"]);
    assert_eq!(lines(&status, "Gid:"), ["65534\t65534\t65534\t65534"]);
    assert_eq!(lines(&status, "Groups:"), [""]);
    assert_eq!(lines(&site.read("environment"), "niceness"), ["3"]);
    // An agent that may not write to the control file cannot deliver; MAILQ shows that.
    site.put(&["d a.test u"]);
    site.until_shown("the agent found nothing to do in the control file");
    assert_eq!(site.events().of("count").filter(|event| event.agent == "d").count(), 0);
}

/// However the scheduler ends, the example agents finish their job, and no delivery happens twice.
#[test]
fn example_agents_finish_job_when_scheduler_ends() {
    for agent in ["deliver.py", "deliver.sh"] {
        for signal in [libc::SIGQUIT, libc::SIGTERM, libc::SIGKILL] {
            let site = Site::new(&format!(
                "demo/*\n\tcommand=\"${{EXAMPLES}}/{agent} demo ${{SITE}}/program\"\n"
            ));
            site.write(
                "program",
                "#!/bin/sh\necho \"$1\" >>../../begun\n\
                 while ! [ -e ../../go ]; do sleep 0.05; done\n\
                 echo \"$1\" >>../../delivered\n",
            );
            allow(site.path("program"), 0o755);
            let mut daemon = Some(site.start());
            let name = site.put(&["demo a.test one@a.test"]);
            until("it is at work", || site.read("begun").lines().count() == 1);
            daemon.as_ref().expect("it runs").signal(signal);
            if signal != libc::SIGQUIT {
                daemon.take().expect("it runs").wait();
            }
            site.write("go", "");
            let path = site.spool.control_file(&name);
            until(&format!("{agent}, {signal}: it has its tag, or is gone"), || {
                std::fs::read_to_string(&path).map_or(true, |text| text.contains("\nr+ "))
            });
            if let Some(daemon) = daemon {
                assert_eq!(daemon.wait().code(), Some(0), "{agent}");
            }
            let _daemon = site.start();
            site.until_empty();
            assert_eq!(site.read("delivered").lines().count(), 1, "{agent}, signal {signal}");
        }
    }
}

#[test]
fn example_agents_deliver() {
    for agent in ["deliver.py", "deliver.sh"] {
        let site = Site::new(&format!(
            "demo/*\n\tcommand=\"${{EXAMPLES}}/{agent} demo ${{SITE}}/program\"\n"
        ));
        site.write(
            "program",
            // This is a single write, since other agents append at the same time.
            "#!/bin/sh\nprintf 'to: %s\\n%s\\n' \"$1\" \"$(cat)\" >>../../delivered\ncase $1 in\n\
             later*) [ -e ../../open ] || { echo busy; exit 75; } ;;\n\
             fail*) echo 'we do not like this user'; exit 67 ;;\nesac\n",
        );
        allow(site.path("program"), 0o755);
        let _daemon = site.start();
        let names: Vec<String> = (0..15)
            .map(|_| site.put(&["demo A.test one@a.test", "demo a.test two@a.test"]).path())
            .collect();
        site.put(&["demo b.test later@b.test", "demo c.test fail@c.test | NOTIFY=NEVER"]);
        site.until_shown("busy (retry in ");
        until("all others are gone", || {
            names.iter().all(|name| !site.files("transport").contains(name))
        });
        let delivered = site.read("delivered");
        let whole = "to: one@a.test\nSubject: test\n\nThis is the body.\n";
        assert_eq!(delivered.matches(whole).count(), 15, "{agent}");
        assert_eq!(delivered.matches("to: two@a.test\n").count(), 15, "{agent}: {delivered}");
        site.write("open", "");
        site.until_empty();
        assert_eq!(site.files("postman"), [""; 0], "{agent}");
        until("the statistics log has all", || {
            site.read("statistics").matches(" error2 demo/c.test\n").count() == 1
        });
    }
}

#[test]
fn idle_agents_are_reused_and_ended_after_idlemax() {
    let site = Site::new("c/*\n\tmaxring=1 idlemax=2s command=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    for host in ["a.test", "b.test", "a.test"] {
        let before = site.events().count("idle");
        site.put(&[&format!("c {host} u")]);
        until("the agent is idle", || site.events().count("idle") > before);
        until("MAILQ says so", || {
            (site.mailq().total("Kids"), site.mailq().total("Idle")) == (1, 1)
        });
    }
    assert_eq!(site.events().count("start"), 1, "one agent for all");
    let idle_since = site.events().of("idle").last().expect("it is idle").time;
    until("it ends", || site.events().count("end") == 1);
    let events = site.events();
    let ended = events.of("end").next().expect("counted").time;
    assert!((1.9..15.0).contains(&(ended - idle_since)), "after {}", ended - idle_since);
    assert_eq!(events.about("farewell"), [r"b'\n'"], "an empty line, and the end");
    assert_eq!(events.count("signal"), 0);
    until("it is reaped", || daemon.agents().is_empty());
    until("MAILQ shows none", || site.mailq().total("Kids") == 0);
    site.put(&["c a.test u"]);
    until("another one is started", || site.events().count("count") == 4);
}

/// SIGQUIT to the scheduler sends agents two empty lines, end of file and SIGQUIT.
///
/// They end their work, and then the scheduler exits.
#[test]
fn sigquit_ends_agents_before_scheduler() {
    let site = Site::new(
        "c/*\n\tidlemax=1h maxthr=1 overfeed=100 command=\"${AGENTS}/count.py c\"\n\
         d/*\n\tidlemax=1h command=\"${AGENTS}/count.py d\"\n",
    );
    let mut daemon = site.start();
    site.put(&["d a.test d"]);
    until("one agent is idle", || site.events().count("idle") == 1);
    // The other agent is at work and has more jobs.
    site.put(&["c a.test c"]);
    until("it is idle, too, and gets what comes next", || site.events().count("idle") == 2);
    for number in 0..5 {
        site.put_quietly(&[&format!("c a.test wait!{number}")]);
    }
    daemon.signal(libc::SIGALRM);
    until("it is at work", || site.events().count("take") == 3);
    let pid_file = site.path("postoffice/.pid.scheduler");
    assert_eq!(std::fs::read_to_string(&pid_file).expect("it runs"), format!("{}\n", daemon.pid()));

    daemon.signal(libc::SIGQUIT);
    // The idle agent may exit before the signal comes.
    until("the one at work has been told", || {
        site.events().of("signal").any(|event| event.agent == "c")
    });
    until("the idle one has ended", || site.events().count("end") == 1);
    assert_eq!(site.events().about("farewell"), [r"b'\n\n'"]);
    daemon.assert_runs();
    // Mail that comes now waits for the next scheduler.
    site.put(&["c b.test late"]);
    until("it is loaded all the same", || site.mailq().vertices.len() == 6);
    until("the idle one is gone, and no other has come", || daemon.agents().len() == 1);
    assert_eq!(site.events().count("start"), 2);

    site.write("go", "");
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(site.logged("warning"), 0, "a normal end is no warning");
    assert!(!pid_file.exists());
    let events = site.events();
    assert_eq!((events.count("count"), events.count("tag"), events.count("end")), (3, 3, 2));
    until("the statistics log has all", || site.read("statistics").lines().count() == 3);
    assert_eq!(site.files("transport").len(), 5);
    for name in site.files("transport") {
        let text = site.read(&format!("postoffice/transport/{name}"));
        assert!(text.contains("\nr           c "), "no tag is left: {text}");
    }
    let _daemon = site.start();
    site.until_empty();
    let all = ["d", "c", "late"].map(String::from).into_iter();
    site.events().assert_once_each(all.chain((0..5).map(|number| format!("wait!{number}"))));
}

/// SIGQUIT may take as long as the slowest delivery; a SIGTERM after it ends the scheduler at once.
#[test]
fn sigterm_after_sigquit_ends_scheduler_at_once() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let mut daemon = site.start();
    site.put(&["c a.test wait!u"]);
    until("the agent is at work", || site.events().count("take") == 1);
    daemon.signal(libc::SIGQUIT);
    until("it has been told", || site.events().count("signal") == 1);
    daemon.signal(libc::SIGQUIT);
    daemon.signal(libc::SIGHUP);
    daemon.signal(libc::SIGUSR1);
    until("the configuration is read", || site.logged("configuration loaded") == 1);
    daemon.assert_runs();
    assert_eq!(site.events().count("signal"), 1, "it gets one signal");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert!(!site.path("postoffice/.pid.scheduler").exists());
}

/// SIGTERM ends the scheduler at once, and its agents finish their jobs.
///
/// The agents get no signal.
///
/// A new scheduler leaves their recipients alone. Waits for its second look at the locked file,
/// after 32 s.
#[test]
fn sigterm_lets_agents_finish_their_jobs() {
    let site = Site::new("c/*\n\toverfeed=100 command=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    site.put(&["c a.test pause!first"]);
    until("the agent works", || site.events().count("take") == 1);
    for number in 0..10 {
        site.put_quietly(&[&format!("c a.test wait!{number}")]);
    }
    daemon.signal(libc::SIGALRM);
    until("they are queued", || site.mailq().vertices.len() == 11);
    site.write("on", "");
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    until("the agent has all of them", || {
        let threads = client.ask("SHOW JSON THREADS");
        threads.contains("\"with_agents\":10,") && site.events().count("take") == 2
    });
    let agent = daemon.agents()[0];
    let (pid_file, pid) = (site.path("postoffice/.pid.scheduler"), daemon.pid());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert!(!pid_file.exists() && !processes::is_alive(pid));
    assert!(processes::is_alive(agent), "the scheduler has not waited for the agent");

    let daemon = site.start();
    site.write("go", "");
    until("the first agent has ended", || !processes::is_alive(agent));
    until_within(Duration::from_secs(60), "everything is delivered and removed", || {
        site.is_empty()
    });
    let events = site.events();
    assert_eq!(events.count("signal"), 0);
    assert_eq!(events.about("farewell")[0], "nothing", "{events:?}");
    let all = (0..10).map(|number| format!("wait!{number}"));
    events.assert_once_each(all.chain(["pause!first".to_string()]));
    let of_first = events.of("count").filter(|event| event.pid == agent).count();
    assert!(of_first > 3, "it did more than one after the end of the scheduler: {of_first}");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

/// An agent whose command names the host serves only that host, and gets jobs without a host.
#[test]
fn command_with_host_gives_agents_for_one_host() {
    let site = Site::new("c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c 0 $host\"\n");
    let _daemon = site.start();
    for host in ["a.test", "b.test", "a.test"] {
        let before = site.events().count("idle");
        site.put(&[&format!("c {host} u")]);
        until("the agent is idle", || site.events().count("idle") > before);
    }
    let events = site.events();
    let agents: Vec<&str> = events.of("start").map(|event| &event.agent[..]).collect();
    assert_eq!(agents, ["a.test", "b.test"]);
    assert!(events.about("job").iter().all(|job| job.ends_with(" -")), "{events:?}");
    let job = until_some("the third job", || events.of("job").nth(2).cloned());
    assert_eq!(job.agent, "a.test");
}
