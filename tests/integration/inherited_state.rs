//! Inherited signals, limits and descriptors: the scheduler resets them, or runs despite them.

use crate::support::{Daemon, Site, not_run, until, until_some};
use std::fs;
use std::process::{Command, Stdio};

const DISCARD: &str = "c/*\n\tmaxring=4 command=\"discard -c c\"\n";

/// Returns the scheduler in the foreground, started by a Python program that runs `prelude` first.
fn command(site: &Site, prelude: &str) -> Command {
    let script = format!(
        "import ctypes, os, resource, signal, sys\n{prelude}\nos.execv(sys.argv[1], sys.argv[1:])"
    );
    let scheduler = site.scheduler();
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(scheduler.get_program()).args(scheduler.get_args());
    command.arg("-i").args(site.file_options()).env_remove("TZ").stdin(Stdio::null());
    command
}

fn start<'s>(site: &'s Site, prelude: &str) -> Daemon<'s> {
    let output = || fs::File::create(site.path("output")).expect("a file for its output");
    let mut command = command(site, prelude);
    let child = command.stdout(output()).stderr(output()).spawn().expect("python3 starts");
    let mut daemon = Daemon::new(site, child);
    until("the scheduler has looked through the spool", || {
        daemon.assert_runs();
        site.logged("initial scan complete") > 0
    });
    daemon
}

/// Returns a field of `/proc/<pid>/status`, as a number in this base.
fn status(pid: u32, field: &str, base: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    u64::from_str_radix(value.expect("such a field").trim(), base).expect("a number")
}

#[test]
fn blocked_and_ignored_signals_are_reset() {
    let site = Site::new(
        "c/*\n\tmaxring=4 idlemax=1h command=\"discard -c c\"\n\
         d/*\n\tmaxring=1 idlemax=1h command=\"${AGENTS}/count.py d\"\n",
    );
    let daemon = start(
        &site,
        "for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1):\n\
         \x20   signal.signal(number, signal.SIG_IGN)\n\
         signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n\
         signal.setitimer(signal.ITIMER_PROF, 0.05)\n\
         os.umask(0o777)\n\
         [os.close(number) for number in (0, 1, 2)]",
    );
    for number in 0..24 {
        site.put_quietly(&[&format!("c {number}.test u")]);
    }
    daemon.signal(libc::SIGALRM);
    site.until_empty();
    site.put(&["d a.test wait!u"]);
    let started = || site.events().of("start").next().map(|event| event.pid);
    let agent = until_some("an agent that tells its pid", started);
    let bit = |signal: i32| 1u64 << (signal - 1);
    // An agent may ignore SIGHUP; 32 and 33 are for the C library alone.
    let left_out = bit(libc::SIGHUP) | bit(32) | bit(33);
    for pid in [daemon.pid(), agent] {
        assert_eq!(status(pid, "SigBlk", 16), 0);
        let ignored = status(pid, "SigIgn", 16) & !left_out;
        assert_eq!(ignored, bit(libc::SIGPIPE) | bit(libc::SIGXFSZ));
        assert_eq!(status(pid, "Umask", 8), 0o022);
    }
    for descriptor in 0..3 {
        let target = fs::read_link(format!("/proc/{}/fd/{descriptor}", daemon.pid()));
        let target = target.expect("it is open");
        let expected = if descriptor == 0 { "/dev/null".into() } else { site.path("log") };
        assert_eq!(target, expected);
    }
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

const CAP_SYS_RESOURCE: u32 = 24;
/// Takes from root, too, the right to lift limits.
const NO_PRIVILEGE: &str = "PR_CAPBSET_DROP, CAP_SYS_RESOURCE = 24, 24\n\
     ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE)";

#[test]
fn file_size_limit_is_lifted() {
    let is_privileged = status(std::process::id(), "CapEff", 16) & (1 << CAP_SYS_RESOURCE) != 0;
    if !is_privileged {
        return not_run("the upper bound of a limit can be raised with CAP_SYS_RESOURCE only");
    }
    let site = Site::new(DISCARD);
    let daemon = start(&site, "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))");
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max file size")).expect("a line");
    assert_eq!(line.matches("unlimited").count(), 2, "{line}");
}

#[test]
fn fixed_file_size_limit_does_not_end_scheduler() {
    let site = Site::new(DISCARD);
    let limit = 4000;
    let mut daemon = start(
        &site,
        &format!(
            "{NO_PRIVILEGE}\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n\
             resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
        ),
    );
    site.until_logged("no file can be larger than 4000 bytes (RLIMIT_FSIZE", 1);
    until("the log has reached the limit", || {
        daemon.assert_runs();
        daemon.signal(libc::SIGHUP);
        site.log().len() as u64 == limit
    });
    site.put(&["c a.test u"]);
    site.until_empty();
    daemon.assert_runs();
}

#[test]
fn low_descriptor_limit_warns_and_too_low_one_is_refused() {
    let limit =
        |count: u64| format!("resource.setrlimit(resource.RLIMIT_NOFILE, ({count}, {count}))");
    let site = Site::new(DISCARD);
    let output = command(&site, &limit(40)).output().expect("python3 starts");
    assert_eq!(output.status.code(), Some(1));
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reason.contains("only 40 files can be open at a time"), "{reason}");
    assert!(reason.contains("at least 64 are needed"), "{reason}");

    let daemon = start(&site, &limit(64));
    site.until_logged("only 64 files can be open at a time", 1);
    for number in 0..24 {
        site.put(&[&format!("c {number}.test u")]);
    }
    site.until_empty();
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}
