//! Behaviour that all agents share: orders, locks, refusals.

use crate::support::{
    Agent, DISCARD, EXPIRER, HOLD, MAILBOX, PIPE, REROUTE, Spool, control_file, offset, wait_until,
};

/// The agents that need no options.
const AGENTS: [&str; 5] = [DISCARD, EXPIRER, HOLD, MAILBOX, REROUTE];

#[test]
fn agent_is_hungry_at_start_and_after_each_order() {
    for agent in AGENTS {
        let spool = Spool::new();
        assert_eq!(spool.session(agent, &[], ""), "#hungry\n");
        assert_eq!(spool.session(agent, &[], "\n"), "#hungry\n");
        assert_eq!(spool.session(agent, &[], "\n1\th\n"), "#hungry\n");
        let answers = spool.session(agent, &[], "#idle\n#idle\nnothing\th\n");
        let answers = answers.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>();
        assert_eq!(answers, ["#hungry", "#hungry", "#hungry", "#resync nothing", "#hungry"]);
    }
}

#[test]
fn incomplete_last_line_is_not_an_order() {
    for agent in AGENTS {
        let spool = Spool::new();
        let control = control_file("7", "local - a@x", &["smtp h u@x"]);
        spool.put("7", &control, "body\n");
        assert_eq!(spool.session(agent, &["-c", "smtp"], "7\th"), "#hungry\n");
        assert_eq!(spool.read("transport/7"), control);
    }
}

#[test]
fn bad_command_line_gives_status_64() {
    for agent in AGENTS.into_iter().chain([PIPE]) {
        let spool = Spool::new();
        let (_, status) = Agent::start(&spool, agent, &["--no-such-option"]).end();
        assert_eq!(status.code(), Some(64));
        let (help, status) = Agent::start(&spool, agent, &["--help"]).end();
        assert_eq!(status.code(), Some(0));
        assert!(help.contains("--channel"), "{help}");
    }
}

/// Returns the options in a help text, each with its short and long name.
fn options_in(help: &str) -> Vec<Vec<String>> {
    // The texts are indented further.
    let lines = help.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let lines =
        lines.filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with('-'));
    let names = |line: &str| {
        let words =
            line.split([' ', ',']).take_while(|word| word.is_empty() || word.starts_with('-'));
        words
            .filter_map(|word| word.trim_end_matches('.').strip_prefix('-'))
            .filter(|name| !name.is_empty())
            .map(str::to_string)
            .collect()
    };
    lines.map(names).collect()
}

#[test]
fn manual_pages_have_every_option() {
    for agent in AGENTS.into_iter().chain([PIPE]) {
        let spool = Spool::new();
        let (help, _) = Agent::start(&spool, agent, &["--help"]).end();
        let name = std::path::Path::new(agent).file_name().expect("a name").to_string_lossy();
        let page = zsched_tests::source().join(format!("man/{name}.8"));
        let page = std::fs::read_to_string(&page).expect("a manual page").replace('\\', "");
        let words: Vec<&str> = page.split([' ', '\n']).collect();
        let has = |option: &String| words.contains(&option.as_str());
        let options = options_in(&help);
        assert!(options.len() >= 4, "{help}");
        // Some pages leave out the long name, and --help.
        let is_missing = |names: &&Vec<String>| !names.iter().any(has) && **names != ["-help"];
        let missing: Vec<_> = options.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{name}.8 has no {missing:?}");
    }
}

#[test]
fn jobs_can_name_files_in_hash_folders() {
    let spool = Spool::new();
    for folder in ["transport/Z", "transport/Z/F", "queue/Z", "queue/Z/F"] {
        std::fs::create_dir(spool.path(folder)).expect("make a folder");
    }
    let control = control_file("4711-x", "local - a@x", &["local bob bob@x"]);
    spool.put("Z/F/4711-x", &control, "body\n");
    let answers = spool.deliver(&[], "Z/F/4711-x\tbob\n");
    let place = format!("4711/{}\t\tok3 ", offset(&control, 0));
    assert!(answers.contains(&place), "{answers}");
    assert!(spool.read("mail/bob").contains("\nbody\n"));
}

#[test]
fn agent_for_one_host_accepts_jobs_without_host() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["smtp one u@x", "smtp TWO v@x"]);
    spool.put("7", &control, "body\n");
    spool.session(DISCARD, &["-c", "smtp", "-h", "two"], "7\n");
    assert_eq!(spool.lines("7", 'r')[0], "r           smtp one u@x 0");
    assert_eq!(spool.lines("7", 'r')[1], "r+          smtp TWO v@x 0");
    spool.session(DISCARD, &["-c", "smtp"], "7\n");
    assert_eq!(spool.lines("7", 'r')[0], "r+          smtp one u@x 0");
}

#[test]
fn odd_files_are_refused_at_once() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["hold h u@x"]);
    spool.put("7", &control, "body\n");
    std::os::unix::fs::symlink("7", spool.path("transport/8")).expect("a link");
    std::fs::create_dir(spool.path("transport/9")).expect("a folder");
    let fifo = spool.path("transport/10");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo starts");
    assert!(made.success());
    spool.write("transport/11", "");
    spool.write("transport/12", "T some.host 10.0.0.1\n");
    spool.write("transport/13", "i 13\ns local - a 0\nr           hold h\nm\n\n");
    spool.write("transport/x7", &control);
    for name in ["8", "9", "10", "11", "12", "13", "x7", "gone", "../../etc/passwd", "a\0b", "/"] {
        let answers = spool.session(HOLD, &[], &format!("{name}\th\n"));
        let expected = format!("#resync {name}\n#hungry\n");
        assert!(answers.ends_with(&expected), "{name:?}: {answers:?}");
    }
    assert_eq!(spool.read("transport/7"), control);
}

#[test]
fn irregular_message_file_counts_as_missing() {
    for make in ["ln -s ../transport/7 7", "mkdir 7", "mkfifo 7", "true"] {
        let spool = Spool::new();
        let control = control_file("7", "local - a@x", &["hold h u@x"]);
        spool.write("transport/7", &control);
        let mut shell = std::process::Command::new("sh");
        let made = shell.args(["-c", make]).current_dir(spool.path("queue")).status();
        assert!(made.expect("sh starts").success());
        let answers = spool.session(HOLD, &[], "7\th\n");
        let reported = format!("#hungry\n7/{}\t\terror2 ", offset(&control, 0));
        assert!(answers.starts_with(&reported), "{make}: {answers:?}");
        assert!(answers.ends_with("#resync 7\n#hungry\n"), "{make}: {answers:?}");
        assert_eq!(spool.lines("7", 'r'), ["r-          hold h u@x 0"], "{make}");
    }
}

#[test]
fn damaged_message_is_deferred() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["hold h u@x"]);
    spool.write("transport/7", &control);
    spool.write("queue/7", "short");
    let answers = spool.session(HOLD, &[], "7\th\n");
    assert!(answers.contains("\tdeferred cannot read the message: "), "{answers}");
    assert!(!answers.contains("#resync"), "{answers}");
    assert_eq!(spool.read("transport/7"), control);
}

#[test]
fn only_one_of_two_agents_gets_a_recipient() {
    for round in 0..20 {
        let spool = Spool::new();
        let control = control_file("7", "local - a@x", &["local bob bob@x", "local bob bob@y"]);
        spool.put("7", &control, "body\n");
        let mail = spool.mail();
        let start = || {
            let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
            agent.read_until("#hungry");
            agent
        };
        let mut agents = [start(), start()];
        for agent in &mut agents {
            agent.send("7\tbob\n");
        }
        let answers = agents.map(|agent| agent.end().0).concat();
        assert_eq!(answers.matches("\tok3 ").count(), 2, "round {round}: {answers}");
        assert_eq!(spool.read("mail/bob").matches("\nbody\n").count(), 2, "round {round}");
        assert!(spool.lines("7", 'r').iter().all(|line| line.starts_with("r+      ")));
    }
}

#[test]
fn killed_agent_leaves_only_its_lock() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local bob bob@x"]);
    spool.put("7", &control, "body\n");
    spool.write("mail/bob.lock", "");
    let mail = spool.mail();
    let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
    agent.send("7\tbob\n");
    let locked = format!("r~{:6}    local bob bob@x 0", agent.pid() % 1_000_000);
    wait_until("the recipient is locked", || spool.lines("7", 'r') == [locked.as_str()]);
    agent.signal("KILL");
    let (answers, status) = agent.end();
    assert_eq!((answers.as_str(), status.code()), ("#hungry\n", None));
    assert_eq!(spool.lines("7", 'r'), [locked.as_str()]);
    // The next agent leaves the recipient alone, and makes the scheduler read the file again.
    let answers = spool.deliver(&[], "7\tbob\n");
    assert_eq!(answers, "#hungry\n#resync 7\n#hungry\n");
    assert_eq!(spool.lines("7", 'r'), [locked]);
    assert!(!spool.path("mail/bob").exists());
}

#[test]
fn killed_agent_leaves_one_of_many_recipients_locked() {
    let spool = Spool::new();
    let users = ["ann", "bob", "eve"].map(|user| format!("local h {user}@x"));
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let control = control_file("7", "local - a@x", &users);
    spool.put("7", &control, "body\n");
    spool.write("mail/bob.lock", "");
    let mail = spool.mail();
    let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
    agent.send("7\th\n");
    wait_until("bob is locked", || spool.lines("7", 'r')[1].starts_with("r~"));
    agent.signal("KILL");
    let locked = format!("r~{:6}    local h bob@x 0", agent.pid() % 1_000_000);
    agent.end();
    let lines = ["r           local h ann@x 0", &locked, "r+          local h eve@x 0"];
    assert_eq!(spool.lines("7", 'r'), lines);
    // The next agent delivers to unlocked recipients, and leaves the other one to the scheduler.
    let answers = spool.deliver(&[], "7\th\n");
    let delivered = format!("#hungry\n7/{}\t\tok3 ", offset(&control, 0));
    assert!(answers.starts_with(&delivered), "{answers}");
    assert_eq!(answers.lines().count(), 3, "{answers}");
    assert_eq!(spool.lines("7", 'r')[1], locked);
}

#[test]
fn verbose_file_gets_diagnostics() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["hold h u@x"]);
    let control = control.replacen("i 7", "v ../public/v_watch\ni 7", 1);
    spool.put("7", &control, "body\n");
    // The file does not exist, and is not created.
    spool.session(HOLD, &[], "7\th\n");
    assert!(!spool.path("public/v_watch").exists());
    spool.write("public/v_watch", "scheduler: ...\n");
    spool.session(HOLD, &[], "7\th\n");
    let log = spool.read("public/v_watch");
    assert!(log.starts_with("scheduler: ...\nDIAG: <u@x> deferred "), "{log}");
    assert_eq!(log.lines().count(), 2);
    // Nothing is written to a file that may belong to another user.
    std::fs::rename(spool.path("public/v_watch"), spool.path("secret")).expect("move");
    std::os::unix::fs::symlink("../secret", spool.path("public/v_watch")).expect("a link");
    spool.session(HOLD, &[], "7\th\n");
    assert_eq!(spool.read("secret"), log);
    std::fs::remove_file(spool.path("public/v_watch")).expect("remove");
    std::fs::hard_link(spool.path("secret"), spool.path("public/v_watch")).expect("a name");
    spool.session(HOLD, &[], "7\th\n");
    assert_eq!(spool.read("secret"), log);
}
