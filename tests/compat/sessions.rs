//! Complete sessions of agents with ZMailer's scheduler, replayed; see [`crate::replay`].

use crate::recording::{End, Session, StepKind, agent_log, run};
use crate::replay::{SessionSettings, replay};
use std::time::Duration;

/// Intended differences: the session, the first one in it, and the reason.
const DIFFERENCES: [(&str, &str, &str); 0] = [];

/// Settings of the runs. In most sessions the age of the mail is unknown and does not matter.
const RUNS: SessionSettings =
    SessionSettings { overfeed: 150, keywords: "", age: Duration::ZERO, is_last_chance: false };
/// Settings of sessions in which some mail was past its expiry.
const RUN_WITH_OLD_MAIL: SessionSettings = SessionSettings {
    overfeed: 150,
    keywords: "expiry=4m",
    age: Duration::from_secs(370),
    is_last_chance: true,
};

/// Logs that agents wrote themselves, and the number of agents in each.
const AGENT_LOGS: [(&str, usize); 15] = [
    ("expiry", 7),
    ("hash-level-1", 3),
    ("hash-level-2", 3),
    ("limit-maxchannel-3", 5),
    ("limit-maxring-2", 2),
    ("limit-maxta-2", 5),
    ("limit-maxthr", 6),
    ("locks-live-and-dead", 5),
    ("malformed-control-files", 3),
    ("misc-options-notify-idle", 4),
    ("option-p-procsel", 1),
    ("overfeed-0-3-default", 3),
    ("queueonly-etrn", 2),
    ("resync-while-locked", 2),
    ("status-words-and-misformed", 12),
];

fn check(sessions: &[Session], circumstances: impl Fn(&Session) -> SessionSettings) {
    let heard = sessions.iter().filter_map(|session| {
        let difference = replay(session, circumstances(session)).err()?;
        Some((session.name.as_str(), difference))
    });
    let heard: Vec<(&str, String)> = heard.collect();
    let is_here = |name: &str| sessions.iter().any(|session| session.name == name);
    let on_purpose = DIFFERENCES.into_iter().filter(|(name, ..)| is_here(name));
    let on_purpose: Vec<(&str, String)> =
        on_purpose.map(|(name, difference, _)| (name, difference.to_string())).collect();
    assert_eq!(heard, on_purpose);
}

fn check_run(name: &str, expected: usize) {
    let sessions = run(name);
    assert_eq!(sessions.len(), expected);
    check(&sessions, |session| match session.name.as_str() {
        "run1/smtpx.7945" => RUN_WITH_OLD_MAIL,
        _ => RUNS,
    });
}

#[test]
fn run_1_with_deaths_noise_and_idle_agents_is_reproduced() {
    check_run("run1", 40);
}

#[test]
fn run_2_with_shutdown_is_reproduced() {
    check_run("run2", 25);
}

#[test]
fn run_3_with_late_mail_is_reproduced() {
    check_run("run3", 11);
}

#[test]
fn run_4_with_hash_folders_and_host_agents_is_reproduced() {
    check_run("run4", 2);
}

#[test]
fn sessions_in_agent_logs_are_reproduced() {
    for (name, expected) in AGENT_LOGS {
        let sessions = agent_log(name);
        assert_eq!(sessions.len(), expected, "{name}");
        check(&sessions, |session| match (name, session.channel.as_str()) {
            ("overfeed-0-3-default", "of3") => SessionSettings { overfeed: 3, ..RUNS },
            ("queueonly-etrn", "c") => {
                SessionSettings { overfeed: 0, keywords: "queueonly", ..RUNS }
            }
            _ => SessionSettings { overfeed: 0, ..RUNS },
        });
    }
}

#[test]
fn recordings_have_expected_counts() {
    let runs = ["run1", "run2", "run3", "run4"];
    let sessions: Vec<Session> = runs.iter().flat_map(|name| run(name)).collect();
    let count = |counts: &dyn Fn(&StepKind) -> usize| {
        let steps = sessions.iter().flat_map(|session| &session.steps);
        steps.map(|step| counts(&step.what)).sum::<usize>()
    };
    let jobs = |with_host: bool| {
        count(&|what| match what {
            StepKind::Jobs(jobs) => {
                jobs.iter().filter(|job| job.host().is_some() == with_host).count()
            }
            _ => 0,
        })
    };
    let idle = count(&|what| usize::from(matches!(what, StepKind::Idle { .. })));
    let farewells = |text: &str| {
        count(&|what| usize::from(matches!(what, StepKind::EndLines(said) if said == text)))
    };
    let ends = |end: fn(End) -> bool| sessions.iter().filter(|session| end(session.end)).count();
    assert_eq!((jobs(true), jobs(false), idle), (257, 7, 77));
    assert_eq!((farewells("\n"), farewells("\n\n")), (19, 10));
    // Numbers of agents that were killed, that failed, and that outlived the scheduler.
    assert_eq!(ends(|end| matches!(end, End::Signalled(_))), 15);
    assert_eq!(ends(|end| matches!(end, End::Exited(status) if status != 0)), 16);
    assert_eq!(ends(|end| end == End::SchedulerGone), 18);
}
