//! Agents that misbehave: their work is deferred, with a diagnostic that says why; their locks are
//! cleared, and other mail is delivered.

use crate::support::{Daemon, Site, allow, hold_for, processes, until};
use std::time::Duration;

/// Creates a site with agents for the channels `bad` and `good`.
fn site(mode: &str, keywords: &str) -> Site {
    Site::new(&format!(
        "bad/*\n\tinterval=5s {keywords} command=\"${{AGENTS}}/bad.py {mode} bad\"\n\
         good/*\n\tidlemax=1h command=\"${{AGENTS}}/count.py good\"\n"
    ))
}

/// Fails unless other mail is delivered, and quickly.
#[track_caller]
fn assert_others_are_served(site: &Site) {
    let good = |site: &Site| site.events().of("count").filter(|e| e.agent == "good").count();
    let before = good(site);
    site.put(&["good a.test u", "good b.test u"]);
    until("others are served", || good(site) == before + 2);
}

/// Waits until no recipient of any control file is locked.
#[track_caller]
fn until_unlocked(site: &Site) {
    until("all locks are cleared", || {
        let files = site.files("transport");
        let mut texts = files.iter().map(|name| site.read(&format!("postoffice/transport/{name}")));
        texts.all(|text| !text.contains("\nr~"))
    });
}

/// Fails if a line of the log about an agent lacks the agent's clause.
#[track_caller]
fn assert_agents_are_named(site: &Site) {
    let clause = format!("({}:", site.path("scheduler.cf").display());
    let log = site.log();
    for line in log.lines() {
        let agent = line.split_once("agent ").map(|(_, rest)| rest);
        if agent.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            assert!(line.contains(" of bad/") || line.contains(" of good/"), "{line}");
            assert!(line.contains(&clause), "{line}");
        }
    }
}

/// Fails unless a message whose agent fails in some way waits, and MAILQ shows why.
#[track_caller]
fn assert_deferred(mode: &str, keywords: &str, diagnostic: &str) -> Site {
    let site = site(mode, keywords);
    let mut daemon = site.start();
    site.put(&["bad a.test u"]);
    let shown = site.until_shown(diagnostic);
    assert!(shown.contains(" (retry in ") && shown.contains("tries="), "{shown}");
    until_unlocked(&site);
    assert_others_are_served(&site);
    daemon.assert_runs();
    until("only this message is left", || site.files("transport").len() == 1);
    drop(daemon);
    assert_agents_are_named(&site);
    site
}

#[test]
fn agent_that_exits_with_status_costs_a_deferral() {
    let site = assert_deferred(
        "status",
        "",
        "the transport agent ended with status 75 while it had this job (it said: # cannot open the \
         frobnicator)",
    );
    let clause = site.path("scheduler.cf").display().to_string();
    let is_named = |line: &str| {
        line.contains(" of bad/a.test (")
            && line.contains(&format!("({clause}:"))
            && line.contains(") ended with status 75")
    };
    until("the log names destination and clause", || site.log().lines().any(is_named));
}

#[test]
fn agent_killed_by_signal_costs_a_deferral() {
    assert_deferred(
        "crash",
        "",
        "the transport agent was ended by signal 11 while it had this job",
    );
}

/// An incomplete line is ignored, whatever its content.
#[test]
fn incomplete_last_line_is_ignored() {
    let site = assert_deferred("partial", "", "ended with status 0 while it had this job");
    until("it is logged", || site.logged("ended within a line") > 0);
}

#[test]
fn malformed_answers_cost_a_deferral() {
    assert_deferred("garbage", "", "the agent ended the job without a word about this recipient");
}

/// A report with an unknown status word counts as an attempt, and not as a delivery. MAILQ shows a
/// text.
#[test]
fn unknown_status_word_costs_a_deferral() {
    let site = site("unknown", "");
    let _daemon = site.start();
    site.put(&["bad a.test u"]);
    site.until_shown("tries=1");
    let shown = site.until_shown("retry in");
    assert!(!shown.starts_with('('), "why does it wait? {shown}");
}

#[test]
fn oversized_line_is_dropped() {
    let site = site("long_line", "");
    let daemon = site.start();
    let before = processes::memory(daemon.pid());
    site.put(&["bad a.test u"]);
    assert_others_are_served(&site);
    site.until_empty();
    site.until_logged("too long by 9934464 bytes", 1);
    let grown = processes::memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 8_000_000, "its memory has grown by {grown} bytes");
}

#[test]
fn random_output_is_ignored() {
    let site = site("binary", "");
    let mut daemon = site.start();
    for _ in 0..5 {
        site.put(&["bad a.test u"]);
    }
    assert_others_are_served(&site);
    site.until_empty();
    daemon.assert_runs();
    assert!(site.read("log").len() < 1_000_000, "the log has not been flooded");
}

/// Noise is no progress, so the agent's timeout still applies.
#[test]
fn endless_output_does_not_reset_agent_timeout() {
    let site = site("flood", "agent-timeout=3s");
    let daemon = site.start();
    let before = processes::memory(daemon.pid());
    site.put(&["bad a.test u"]);
    until("it writes", || site.events().count("flood") == 1);
    for _ in 0..3 {
        assert_others_are_served(&site);
        site.mailq();
    }
    let shown = site.until_shown("the transport agent");
    assert!(shown.contains("was ended by signal 9 while it had this job"), "{shown}");
    let grown = processes::memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 16_000_000, "its memory has grown by {grown} bytes");
    assert!(site.read("log").len() < 100_000, "the log has not been flooded");
}

#[test]
fn agent_silent_since_start_is_killed() {
    assert_deferred(
        "mute",
        "agent-timeout=2s",
        "the transport agent was silent for too long, and was ended by signal 9 before it asked for work",
    );
}

#[test]
fn agent_silent_during_job_is_killed() {
    assert_deferred(
        "stop_talking",
        "agent-timeout=2s",
        "the transport agent was silent for too long, and was ended by signal 9 while it had this job",
    );
}

/// The agent gets hundreds of jobs and reads none. After it is killed, only one of them waits for a
/// retry.
#[test]
fn agent_that_never_reads_jobs_defers_only_one() {
    let site = site("deaf", "agent-timeout=2s overfeed=1000");
    for _ in 0..600 {
        site.put_quietly(&["bad a.test user-with-a-long-name-so-that-the-socket-fills@a.test"]);
    }
    let mut daemon = site.start_with(&["-S"]);
    assert_others_are_served(&site);
    let shown = site.until_shown("was silent for too long, and was ended by signal 9");
    assert!(shown.contains("while it had this job"), "{shown}");
    daemon.assert_runs();
    assert_others_are_served(&site);
    until("nothing else is left, and nothing is lost", || site.files("transport").len() == 600);
}

/// The agent closes its end, but its process goes on; it has 10 s to exit.
#[test]
fn agent_that_closes_its_socket_is_killed() {
    let site = site("close", "");
    let daemon = site.start();
    site.put(&["bad a.test u"]);
    until("it has its job", || site.events().count("job") == 1);
    assert_others_are_served(&site);
    let cpu = processes::cpu_time(daemon.pid());
    site.until_shown("was ended by signal 9 while it had this job");
    until_unlocked(&site);
    let used = processes::cpu_time(daemon.pid()) - cpu;
    assert!(used < Duration::from_millis(1500), "it was waited for patiently: {used:?}");
}

#[test]
fn agent_that_exits_at_once_costs_a_deferral() {
    assert_deferred(
        "early",
        "",
        "the transport agent ended with status 3 before it asked for work (it said: the licence has \
         expired)",
    );
}

#[test]
fn excess_hungry_lines_do_not_fill_log() {
    let site = site("glutton", "");
    let mut daemon = site.start();
    for _ in 0..10 {
        site.put(&["bad a.test u"]);
    }
    site.until_shown("the agent ended the job without a word about this recipient");
    assert_others_are_served(&site);
    daemon.assert_runs();
    // The agent goes on asking; that must not fill the log.
    until("others were served meanwhile", || {
        assert_others_are_served(&site);
        site.events().count("count") >= 20
    });
    let size = site.read("log").len();
    assert!(size < 1_000_000, "the log has grown to {size} bytes");
}

#[test]
fn reports_about_other_messages_are_ignored() {
    let site = site("stranger", "");
    let mut daemon = site.start();
    site.put(&["bad a.test u"]);
    site.until_empty();
    daemon.assert_runs();
    site.events().assert_once_each(["u".to_string()]);
    until("there is a line for it", || site.read("statistics").lines().count() == 1);
    site.until_logged("reports about 4711, which is not loaded", 1);
    until("it is logged", || site.logged(": no such recipient") >= 2);
    assert_others_are_served(&site);
}

/// The agent exits, but its child keeps the socket and writes to it without end.
#[test]
fn child_that_keeps_socket_does_not_block_ring() {
    let site = site("orphan", "idlemax=1h");
    let mut daemon = site.start();
    for number in 0..3 {
        site.put(&["bad a.test u"]);
        until("it is delivered", || site.events().of("count").any(|e| e.agent == "bad"));
        until("the agent is gone", || site.events().count("end") > number);
        site.until_empty();
    }
    assert_others_are_served(&site);
    daemon.assert_runs();
    until("only the good one is left", || site.mailq().total("Kids") <= 2);
    let cpu = processes::cpu_time(daemon.pid());
    hold_for(Duration::from_secs(1), "it runs", || processes::is_alive(daemon.pid()));
    let used = processes::cpu_time(daemon.pid()) - cpu;
    assert!(used < Duration::from_millis(200), "the children cost CPU time: {used:?}");
    assert_eq!(daemon.end(libc::SIGQUIT).code(), Some(0));
}

/// The agent dies during its job, but a program that it has started delivers.
///
/// The scheduler does not try again before that program has exited.
#[test]
fn retry_waits_for_child_of_dead_agent() {
    let site = Site::new("bad/*\n\tinterval=1s retries=1 command=\"${SITE}/agent\"\n");
    site.write(
        "agent",
        "#!/bin/sh\necho '#hungry'\nread -r job\necho begun >>../../told\n\
         (sleep 3; echo delivered >>../../told) &\nkill -9 $$\n",
    );
    allow(site.path("agent"), 0o755);
    let _daemon = site.start();
    site.put(&["bad a.test u"]);
    until("it is tried again", || site.read("told").matches("begun").count() == 2);
    assert_eq!(site.read("told"), "begun\ndelivered\nbegun\n", "{}", site.log());
    until("it is logged", || {
        site.logged("exited in the middle of a job; its child processes are still running") >= 1
    });
    site.until_shown("was ended by signal 9 while it had this job");
}

/// The programs cannot be started.
#[test]
fn program_that_cannot_be_started_is_reported() {
    let site = Site::new(
        "gone/*\n\tcommand=\"${SITE}/gone\"\n\
         plain/*\n\tcommand=\"${SITE}/plain\"\n\
         folder/*\n\tcommand=\"${SITE}/mail\"\n\
         unknown/*\n\tcommand=\"no-such-agent\"\n\
         good/*\n\tcommand=\"${AGENTS}/count.py good\"\n",
    );
    site.write("plain", "#!/bin/sh\n");
    allow(site.path("plain"), 0o644);
    let daemon: Daemon<'_> = site.start();
    for (channel, reason) in [
        ("gone", "/gone: No such file or directory"),
        ("plain", "/plain: Permission denied"),
        ("folder", "/mail: Permission denied"),
        ("unknown", "/no-such-agent: No such file or directory"),
    ] {
        site.put(&[&format!("{channel} a.test u")]);
        let shown = site.until_shown(reason);
        let begin = "the transport agent could not be started: /";
        assert!(shown.starts_with(begin) && shown.contains(" (retry in "), "{shown}");
    }
    // No clause names this channel.
    site.put(&["nowhere a.test u"]);
    until("the report says so", || {
        let dump = site.mailq();
        let thread = dump.thread("nowhere/a.test");
        thread.is_some_and(|thread| thread.contains(" pend=ConfBUG:NoCmdDefined!"))
    });
    assert_others_are_served(&site);
    until("there are no half-started agents", || daemon.agents().len() <= 2);
}
