//! Messages of a real scheduler, with what is in the spool: `list -m`, `show`, `events`, `cat`, and
//! held mail in the listing.

use super::real_scheduler::{Scheduler, submit, submit_text, wait_for};
use super::support::{DEADLINE, Site, run};
use super::terminal::on_terminal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEADERS: &str = "From: alice@here.test\nSubject: =?utf-8?Q?Gr=C3=BC=1B[2J=C3=9Fe?=\n";

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Submits a message for three recipients, two of them for one destination, and waits for it.
fn site_with_message() -> (Site, Scheduler, String) {
    let site = Site::new();
    let recipients = ["slow y bob@y.test", "slow y carol@y.test", "slow z dave@z.test"];
    let name = submit_text(&site, HEADERS, &"x".repeat(3000), &recipients);
    let scheduler = Scheduler::start(&site);
    wait_for(&site, "", |text| text.contains("slow/y:") && text.contains("slow/z:"));
    (site, scheduler, name)
}

#[test]
fn list_has_sender_recipients_size_and_subject() {
    let (site, _scheduler, name) = site_with_message();
    let shown = site.mailq("list -m").good();
    let subject = "Gr\u{fc}^[[2J\u{df}e";
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = shown.lines().map(words).collect();
    let titles = "ID DESTINATION FROM TO RCPTS SIZE AGE TRIES STATE EXPIRES SUBJECT LAST TEXT";
    assert_eq!(lines[0].join(" "), titles);
    assert_eq!(
        lines[1][1..7].join(" "),
        "slow/y alice@here.test bob@y.test, carol@y.test 2 3.0k",
        "{shown}"
    );
    assert!(lines[2].join(" ").contains("slow/z alice@here.test dave@z.test 1 3.0k "), "{shown}");
    assert!(shown.lines().skip(1).all(|line| line.contains(subject)), "{shown}");

    let narrow = site.mailq("list -m slow/y --width 100").good();
    let lines: Vec<&str> = narrow.lines().collect();
    assert!(lines[0].starts_with("ID ") && !lines[0].contains("SUBJECT"), "{narrow}");
    assert_eq!(
        lines[2],
        format!("    from alice@here.test to bob@y.test, carol@y.test, size 3.0k: {subject}")
    );
    assert!(site.mailq("list -m --width 80").good().lines().all(|line| line.chars().count() <= 80));
    let destination = site.mailq("show slow/y --width 100").good();
    assert!(destination.contains("\n    from alice@here.test to "), "{destination}");

    site.mailq("list --larger 3k").failed(1, "mailq: no matching mail now: larger=3k\n");
    assert_eq!(site.mailq("list --larger 2k --smaller 1M").good().lines().count(), 3);
    let held = site.mailq("hold --larger 2k --dry-run").good();
    assert_eq!(
        held,
        "Would be put on hold: 1 message, 3 recipients\n\
         Only messages that are queued now are held, not those that come.\n"
    );
    site.mailq("hold --larger 2kB").failed(64, "2kB is not a size");
    let ages = site.mailq("ages slow/*").good();
    let ages: Vec<Vec<&str>> = ages.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(ages[1][..3], ["TOTAL", "3", "3"]);
    assert_eq!(ages[2][..3], ["slow/y", "2", "2"]);

    let json = site.mailq("list -m slow/z --json").good();
    let message = object(&json);
    assert_eq!(message["to"], Value::from(vec!["dave@z.test"]), "{json}");
    assert_eq!(
        (&message["sender"], &message["channel"]),
        (&"alice@here.test".into(), &"slow".into())
    );
    assert_eq!((&message["size"], &message["message_id"]), (&3066.into(), &"<1@here.test>".into()));
    assert_eq!(message["subject"], "Gr\u{fc}\u{1b}[2J\u{df}e");
    let message = object(&site.mailq(&format!("show {name} --json")).good());
    assert_eq!(message["to"].as_array().map(Vec::len), Some(3), "{message}");
    assert!(message["destinations"].is_array(), "{message}");
}

#[test]
fn lists_of_messages_are_sorted() {
    let site = Site::new();
    for (size, host) in [(2000, "b"), (9000, "c"), (10, "a")] {
        submit_text(&site, HEADERS, &"x".repeat(size), &[&format!("hold {host} bob@{host}")]);
    }
    let _scheduler = Scheduler::start(&site);
    wait_for(&site, "", |text| text.matches("hold/").count() >= 3);
    let hosts = |options: &str| {
        let shown = site.mailq(&format!("list -m {options} --json")).good();
        let hosts = shown.lines().map(|line| object(line)["host"].clone());
        hosts.map(|host| host.as_str().expect("a host").to_string()).collect::<String>()
    };
    assert_eq!(hosts("--sort size"), "cba");
    assert_eq!(hosts("--sort size --limit 1"), "c");
    assert_eq!(hosts("--sort oldest").len(), 3);
    let listed = site.mailq("list -m --sort size --limit 2").good();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[1].contains("hold/c") && lines[2].contains("hold/b"), "{listed}");
    assert!(lines[3].starts_with("... and more"), "{listed}");
    for options in ["-m --sort backlog", "--sender x --sort undelivered", "--sort size"] {
        assert_eq!(site.mailq(&format!("list {options}")).status, 64, "{options}");
    }
}

#[test]
fn all_limits_are_unset() {
    let (site, _scheduler, _) = site_with_message();
    site.mailq("set slow/y maxthr=3").good();
    site.mailq("set ring=slow/* maxring=9 overfeed=2").good();
    let unset = site.mailq("unset --all").good();
    assert!(unset.starts_with("slow/y: maxthr 3 -> "), "{unset}");
    assert_eq!(unset.matches("ring=slow/*: ").count(), 2, "{unset}");
    site.mailq("unset --all").failed(1, "mailq: no matching limit now");
    assert_eq!(site.mailq("unset").status, 64);
}

#[test]
fn what_is_not_there_has_one_sentence_and_status() {
    let (site, _scheduler, _) = site_with_message();
    for (command, named) in [
        ("list slow/nowhere", "slow/nowhere\n"),
        ("list --json slow/nowhere", "slow/nowhere\n"),
        ("list nowhere", "nowhere (as a host, a channel and a recipient)\n"),
        ("show slow/nowhere", "slow/nowhere\n"),
        ("show 999", "999\n"),
        ("why slow/nowhere", "slow/nowhere\n"),
        ("why 999", "999\n"),
        ("why --json nowhere", "nowhere (as a host, a channel and a recipient)\n"),
        ("ages slow/nowhere", "slow/nowhere\n"),
        ("hold 999", "999\n"),
        ("hold nowhere", "nowhere (as a host), so nothing is held"),
        ("retry slow/nowhere", "slow/nowhere\n"),
        ("delete --sender nobody@x -y", "sender=nobody@x\n"),
        ("expire 999 -y --json", "999\n"),
        ("etrn nowhere", "nowhere (as a host)\n"),
        ("cat 999", "999\n"),
        ("cat nobody@x", "nobody@x\n"),
    ] {
        let told = format!("mailq: no matching mail now: {named}");
        site.mailq(command).failed(1, &told);
    }
    site.mailq("retire 1").failed(1, "mailq: no matching agent now\n");
    site.mailq("release slow/y").failed(1, "mailq: no matching hold now");
    site.mailq("unset slow/y maxthr").failed(1, "mailq: no matching limit now");
    let checked = site.mailq("check slow/nowhere");
    assert!(checked.text().contains(", no matching mail now: slow/nowhere"), "{checked:?}");
}

#[test]
fn show_and_cat_print_envelope_and_text() {
    let (site, _scheduler, name) = site_with_message();
    let id = object(site.mailq("list -m slow/z --json").good().trim())["id"].clone();
    let id = id.as_str().expect("an id").to_string();
    let shown = site.mailq(&format!("show {id}")).good();
    for line in [
        "sender       alice@here.test\n",
        "subject      Gr\u{fc}^[[2J\u{df}e\n",
        "message id   <1@here.test>\n",
        "size         3,066 bytes\n",
        "recipient    bob@y.test by slow/y: queued\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    for what in [&id, &name, "1@here.test", "<1@here.test>"] {
        let shown = site.mailq(&format!("cat {what}")).good();
        let (envelope, headers) = shown.split_once("\n\n").expect("two parts");
        assert!(
            envelope.starts_with(&format!("spool id    {id}\nfile        {name}\n")),
            "{shown}"
        );
        assert!(envelope.ends_with("\nrecipient   dave@z.test by slow/z: queued"), "{shown}");
        assert_eq!(headers, HEADERS);
    }
    let part = |options: &str| site.mailq(&format!("cat {name} {options}")).good();
    assert_eq!(part("--headers --body"), format!("{HEADERS}\n{}", "x".repeat(3000)));
    assert_eq!(part("--body"), "x".repeat(3000));
    assert!(part("--all").ends_with(&part("--headers --body")) && part("--all").len() > 3100);
    site.mailq("cat 99").failed(1, "mailq: no matching mail now: 99\n");
    for what in ["Bob@Y.test", "<dave@z.test>", "alice@here.test"] {
        assert_eq!(
            site.mailq(&format!("cat {what}")).good(),
            site.mailq(&format!("cat {id}")).good()
        );
    }
    let narrow = site.mailq(&format!("cat {id} --envelope --width 30")).good();
    assert!(narrow.lines().all(|line| line.len() <= 30), "{narrow}");
    submit(&site, &["slow y eve@y.test"]);
    site.mailq("cat <1@here.test>").failed(1, "is not unique; name one of ");
    // Other programs than ours may name a file with more than its number.
    for folder in ["queue", "transport"] {
        let path = site.spool().join(folder);
        fs::rename(path.join(&name), path.join(format!("{name}-23"))).expect("renamed");
    }
    for what in [&id, &name, &format!("{name}-23")] {
        let shown = site.mailq(&format!("cat {what}")).good();
        assert!(shown.contains(&format!("\nfile        {name}-23\n")), "{shown}");
        let traced = site.mailq(&format!("trace {what} --width 40"));
        assert!(traced.text().contains("to dave@z.test"), "{traced:?}");
        assert!(traced.text().lines().all(|line| line.len() <= 40), "{traced:?}");
    }
}

#[test]
fn cat_is_raw_in_pipes_and_printable_on_terminals() {
    let site = Site::new();
    let text = "a\x1b[2J\u{9b}2J\n\u{e9}\n";
    let name = submit_text(&site, "Subject: \x1b]0;title\x07\n", text, &["slow y a\x1bb"]);
    let raw = site.mailq(&format!("cat {name} --all")).good();
    assert!(raw.ends_with(&format!("Subject: \x1b]0;title\x07\n\n{text}")), "{raw:?}");
    let shown = on_terminal(&site, 80, "", &format!("cat {name} --all"), &[]).good();
    let expected = "Subject: ^[]0;title^G\r\n\r\na^[[2J\\u{9b}2J\r\n\u{e9}\r\n";
    assert!(shown.ends_with(expected) && shown.contains("a^[b by slow/y"), "{shown:?}");
    // A control file may be damaged, and its message may be missing.
    fs::write(site.spool().join("transport/5"), b"i 5\n\0\xff").expect("written");
    site.mailq("cat 5").failed(1, "no matching mail now: 5");
    fs::write(site.spool().join("queue/5"), "").expect("written");
    site.mailq("cat 5").failed(72, "transport/5: ");
    fs::remove_file(site.spool().join("queue").join(&name)).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", site.spool().join("transport/6")).expect("a link");
    site.mailq("cat 6").failed(72, "transport/6: ");
}

#[test]
fn list_without_rights_to_spool_says_so() {
    if zsched_sys::users::effective_user() != 0 {
        return;
    }
    let site = Site::new();
    submit(&site, &["slow y bob@y.test"]);
    let mode = |path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode is set");
    };
    fs::write(site.path("accounts"), "nobody:nobody:TT:\n").expect("written");
    mode(site.path("accounts"), 0o600);
    let _scheduler = Scheduler::start_with(&site, "PARAMauthfile=\"${FOLDER}accounts\"\n");
    wait_for(&site, "", |text| text.contains("slow/y:"));
    mode(site.path(""), 0o755);
    mode(site.spool().join("transport"), 0o700);
    let program = site.path("mailq-of-all");
    // A process that another test starts meanwhile must not inherit the open file.
    run(Command::new("cp").arg(env!("CARGO_BIN_EXE_mailq")).arg(&program)).good();
    let mut command = Command::new(program);
    command.arg("-Z").arg(site.path("zmailer.conf")).arg("-p").arg(site.path("mailq"));
    let shown = run(command.args(["list", "-m"]).uid(65534).gid(65534));
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(
        shown.err.contains("1 message in ") && shown.err.contains("cannot be read"),
        "{shown:?}"
    );
    let shown = shown.text();
    let row: Vec<&str> = shown.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[1..6], ["slow/y", "-", "-", "1", "-"], "{shown}");
}

/// `trace` needs the spool, the log and the control socket.
#[test]
fn user_without_rights_is_told_who_has_them() {
    if !zsched_sys::users::is_root() {
        eprintln!("not run: only root can become another user");
        return;
    }
    let (site, _scheduler, name) = site_with_message();
    fs::set_permissions(site.path(""), Permissions::from_mode(0o755)).expect("permitted");
    for folder in ["transport", "queue"] {
        let folder = site.spool().join(folder);
        fs::set_permissions(folder, Permissions::from_mode(0o700)).expect("forbidden");
    }
    fs::write(site.path("status"), "").expect("written");
    fs::set_permissions(site.path("status"), Permissions::from_mode(0o600)).expect("forbidden");
    let as_other = |arguments: &str| {
        let mut command = site.command(arguments);
        run(command.uid(65534).gid(65534))
    };
    let log = site.path("status").display().to_string();
    let traced = as_other(&format!("trace {name} --status-log {log}"));
    for expected in [
        "transport: permission denied; only root may read it",
        &format!("{log}: permission denied; only root may read it"),
    ] {
        traced.failed(77, expected);
    }
    let by_id = as_other(&format!("trace S4711AbmKUKEJuveqC --status-log {log}"));
    by_id.failed(77, "only root may use it");
    as_other(&format!("cat {name}")).failed(77, "permission denied; only root may read it");
}

#[test]
fn events_name_sender_recipients_size_and_subject() {
    let site = Site::new();
    let _scheduler = Scheduler::start(&site);
    wait_for(&site, "", |_| true);
    let follow = |arguments: &str| {
        let mut events = site.command(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(events.stdout.take().expect("a pipe")).lines();
        let (sender, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        (events, received)
    };
    let (mut people, lines) = follow("events");
    let (mut program, objects) = follow("events --json");
    let started = Instant::now();
    let wanted = |line: &str| line.contains(" arrived ") || line.contains(" attempt ");
    let (mut arrived, mut tried, mut objected) = (None, None, None);
    // Each message has a destination of its own, so that each is attempted at once.
    for time in 2_100_000_000_u64.. {
        if arrived.is_some() && tried.is_some() && objected.is_some() {
            break;
        }
        assert!(started.elapsed() < DEADLINE, "{arrived:?} {tried:?} {objected:?}");
        submit_text(&site, HEADERS, "x", &[&format!("hold timeout:{time} bob@there.test")]);
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
            match line.contains(" arrived ") {
                true => arrived = Some(line),
                false if wanted(&line) => tried = Some(line),
                false => {}
            }
        }
        objected = objects.try_iter().find(|line| line.contains("\"attempt\"")).or(objected);
    }
    let arrived = arrived.expect("an event");
    let (sender, subject) = ("from alice@here.test to bob@there.test", "Gr\u{fc}^[[2J\u{df}e");
    assert!(arrived.contains(&format!("  {sender}, size 67: {subject}")), "{arrived}");
    let tried = tried.expect("an event");
    assert!(tried.contains("  to bob@there.test  process "), "{tried}");
    let object = object(&objected.expect("an event"));
    assert_eq!(object["to"], Value::from(vec!["bob@there.test"]), "{object}");
    assert!(object["subject"].as_str().is_some_and(|text| text.starts_with("Gr")), "{object}");
    for events in [&mut people, &mut program] {
        events.kill().expect("it runs");
        events.wait().expect("it is our child");
    }
}

#[test]
fn held_mail_shows_as_held() {
    for accounts in ["", "nobody:nobody:TT:\n"] {
        let site = Site::new();
        fs::write(site.path("accounts"), accounts).expect("written");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(site.path("accounts"), mode).expect("its mode is set");
        let one = submit(&site, &["slow y bob@y.test"]);
        submit(&site, &["slow z carol@z.test"]);
        submit(&site, &["hold timeout:2100000000 dave@z.test"]);
        let lines = match accounts {
            "" => "",
            _ => "PARAMauthfile=\"${FOLDER}accounts\"\n",
        };
        let _scheduler = Scheduler::start_with(&site, lines);
        let tried = if accounts.is_empty() { "tries=1)" } else { "(1 tries" };
        wait_for(&site, "", |text| text.contains("slow/z:") && text.contains(tried));
        for what in [one.as_str(), "slow/z", "hold/*"] {
            site.mailq(&format!("hold {what}")).good();
        }
        let listing = wait_for(&site, "", |_| true);
        let held = listing.lines().filter(|line| line.contains("(held, ")).count();
        assert_eq!(held, 3, "{listing}");
        let report = wait_for(&site, "-Q", |_| true);
        assert_eq!(report.matches("pend=Held").count(), 3, "{report}");
        assert!(!report.contains(" W="), "{report}");
        let counts = wait_for(&site, "--summary", |_| true);
        let total = counts.lines().last().expect("a last line");
        assert_eq!(total.split_whitespace().collect::<Vec<_>>()[1..], ["3", "3", "0", "0", "3"]);
    }
}
