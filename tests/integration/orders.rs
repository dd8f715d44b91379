//! Orders over MAILQ version 2, with the real scheduler and agents at work.

use crate::support::{Client, Site, control_file, hold_for, processes, until};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

const NO_HOLD: &str = "no matching hold now; mailq orders lists the holds";
/// The interval is so long that retries do not happen by themselves.
const CLAUSES: &str = "*/*\n\tinterval=1h retries=1 expiry=3d\n\
     c/*\n\tmaxring=2 idlemax=1h command=\"${AGENTS}/count.py c\"\n\
     d/*\n\tidlemax=1h command=\"${AGENTS}/count.py d\"\n\
     q/*\n\tqueueonly command=\"${AGENTS}/count.py q\"\n";
const HELD_MEANWHILE: Duration = Duration::from_millis(300);

fn control(site: &Site) -> Client<UnixStream> {
    Client::local(site, "postoffice/.scheduler.control")
}

/// Waits until MAILQ shows this number of recipients.
fn until_known(client: &mut Client<UnixStream>, recipients: usize) {
    let ending = format!("Rcpnts: {recipients:4}  ");
    until("all is loaded", || client.ask("SHOW SNMP").contains(&ending));
}

#[test]
fn destinations_are_held_and_released() {
    let site = Site::new(CLAUSES);
    let mut daemon = site.start();
    let mut client = control(&site);
    let held = client.order_after_dry_run("HOLD C/*.test reason=\"looking into it\"");
    assert_eq!((held["threads"].as_u64(), held["recipients"].as_u64()), (Some(0), Some(0)));
    assert_eq!(client.refused("HOLD c/*.test"), "already held");
    assert_eq!(client.refused("HOLD c/*.test dry-run=yes"), "already held");
    for number in 0..3 {
        site.put(&[&format!("c a.test {number}"), &format!("c b.test {number}b")]);
    }
    site.put(&["c other free"]);
    until("the other one is delivered", || site.events().count("count") == 1);
    until_known(&mut client, 6);
    hold_for(HELD_MEANWHILE, "what is held stays", || site.events().count("count") == 1);
    assert!(client.ask("SHOW WHY c/a.test").contains("looking into it"));
    // A second hold covers a part, and stays in force when the first is released.
    let part = client.order_after_dry_run("HOLD c/b.test");
    assert_eq!(part["threads"], 0, "already held: {part}");
    let released = client.order_after_dry_run("RELEASE c/*.test");
    assert_eq!((&released["threads"], &released["recipients"]), (&1.into(), &3.into()));
    until("a.test is delivered", || site.events().count("count") == 4);
    hold_for(HELD_MEANWHILE, "b.test is not", || site.events().count("count") == 4);
    assert_eq!(client.refused("RELEASE c/*.test"), NO_HOLD);
    assert_eq!(client.order_after_dry_run("RELEASE ALL")["recipients"], 3);
    assert_eq!(client.refused("RELEASE ALL"), NO_HOLD);
    site.until_empty();
    until("it is logged", || site.logged(": \"HOLD C/*.test reason") >= 1);
    daemon.assert_runs();
}

#[test]
fn rings_and_messages_are_held() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    let unknown = client.refused("HOLD ring=x/*");
    assert!(unknown.ends_with("no clause of the configuration has the pattern x/*"), "{unknown}");
    client.order("HOLD ring=c/*");
    client.order("HOLD ring=d/*");
    let first = site.put(&["c a.test one", "d a.test two"]);
    let second = site.put(&["c a.test three"]);
    until_known(&mut client, 3);
    assert_eq!(client.order_after_dry_run(&format!("HOLD id={first}"))["recipients"], 2);
    assert_eq!(client.refused(&format!("HOLD id={first}")), "already held");
    assert_eq!(client.refused("HOLD id=1"), "no matching mail now");
    assert_eq!(client.refused("HOLD id=S1AbmKUKEJuveqC"), "no matching mail now");
    assert_eq!(client.order_after_dry_run("RELEASE ring=c/*")["recipients"], 2, "of the thread");
    client.order("RELEASE ring=d/*");
    until("the second is delivered", || site.events().count("count") == 1);
    hold_for(HELD_MEANWHILE, "the first stays", || site.events().count("count") == 1);
    assert_eq!(client.refused(&format!("RELEASE id={second}")), NO_HOLD);
    // The message is named by its spool id, as in the log and by agents.
    let why = client.ask(&format!("SHOW JSON MESSAGE {first}"));
    let message: serde_json::Value = serde_json::from_str(&why).expect("an object");
    let id = message["id"].as_str().expect("a spool id");
    assert_eq!(client.order_after_dry_run(&format!("RELEASE id={id}"))["recipients"], 2);
    site.until_empty();
}

/// Returns a control file with a group for each of these senders and recipients.
fn groups(name: &str, groups: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (sender, recipients) in groups {
        let whole = control_file(name, recipients).replace("local - sender@x 0", sender);
        match text.is_empty() {
            true => text = whole,
            false => text += &whole[whole.find("s ").expect("a sender")..],
        }
    }
    text
}

/// Sizes are those of the message files.
#[test]
fn messages_are_selected_by_size() {
    let site = Site::new(CLAUSES);
    let put = |recipients: &[&str], size: u64| {
        let name = site.put_quietly(recipients);
        let message = File::options().write(true).open(site.spool.message_file(&name));
        message.expect("the message").set_len(size).expect("its size is set");
        name
    };
    let large = put(&["q a.test one", "q b.test two"], 5 << 20);
    put(&["q a.test three"], 100 << 10);
    let _daemon = site.start();
    let mut client = control(&site);
    until_known(&mut client, 3);
    for (words, count) in [
        ("larger=10k", 3),
        ("larger=100k", 2),
        ("larger=1M smaller=5M", 0),
        ("smaller=5M", 1),
        ("q/a.* larger=1M", 1),
        ("larger=1M recipient=two", 1),
        ("larger=1M recipient=three", 0),
    ] {
        let found = client.ask(&format!("SHOW JSON MESSAGES {words}"));
        assert_eq!(found.lines().count(), count, "{words}: {found}");
    }
    assert_eq!(client.order_after_dry_run("HOLD larger=1M reason=large")["messages"], 1);
    assert!(client.ask(&format!("SHOW WHY {large}")).contains("large"));
    std::fs::remove_file(site.spool.message_file(&large)).expect("removed");
    assert_eq!(client.order_after_dry_run("DELETE larger=1")["messages"], 1, "the other is gone");
    assert!(client.ask("DELETE larger=1T").starts_with("-at byte 14: a size is "));
}

/// Senders and recipients are in the control files only.
#[test]
fn messages_are_selected_by_addresses() {
    let site = Site::new(CLAUSES);
    for (name, sender, recipients) in [
        ("101", "local - ann@x.test 0", &["q a.test bob", "q b.test carol"][..]),
        ("102", "smtp h dan@x.test 0", &["q a.test bob"]),
        ("103", "smtp h DAN@X.test 0", &["q b.test eve"]),
        ("104", "error - - 0", &["q c.test x"]),
    ] {
        site.put_file(name, groups(name, &[(sender, recipients)]).as_bytes());
    }
    let _daemon = site.start();
    let mut client = control(&site);
    for (selection, messages, recipients) in [
        ("sender=ann@*", 1, 2),
        ("sender=dan@x.test", 2, 2),
        ("sender=<>", 1, 1),
        ("recipient=BOB", 2, 2),
        ("recipient=?ob sender=dan*", 1, 1),
        ("q/b.test sender=*", 2, 2),
        ("sender=nobody", 0, 0),
        ("*/* older=1h", 0, 0),
        ("id=101 recipient=carol", 1, 1),
        ("*/*", 4, 5),
    ] {
        let found = client.order(&format!("DELETE {selection} dry-run=yes"));
        let counts = (found["messages"].as_u64(), found["recipients"].as_u64());
        assert_eq!(counts, (Some(messages), Some(recipients)), "{selection}");
    }
    // Messages are held as a whole.
    let held = client.order_after_dry_run("HOLD recipient=bob sender=ann*");
    assert_eq!((&held["messages"], &held["recipients"]), (&1.into(), &2.into()));
    assert_eq!(client.order_after_dry_run("HOLD recipient=bob")["messages"], 1, "the other one");
    let retried = client.order_after_dry_run("RETRY */*");
    assert_eq!((&retried["recipients"], &retried["held"]), (&2.into(), &3.into()));
    until("what is not held is delivered", || site.events().count("count") == 2);
    assert_eq!(client.order_after_dry_run("RELEASE sender=dan*")["messages"], 1);
    client.order("RETRY */*");
    until("the second one is delivered", || site.events().count("count") == 3);
    assert_eq!(client.order("RELEASE sender=nobody")["messages"], 0);
    assert_eq!(client.order_after_dry_run("DELETE recipient=carol")["recipients"], 1);
    assert_eq!(client.order_after_dry_run("RELEASE */* older=0s")["messages"], 1);
    client.order("RETRY */*");
    site.until_empty();
    let delivered = site.events().deliveries();
    assert_eq!(
        delivered.into_iter().collect::<Vec<_>>(),
        [("bob".into(), 2), ("eve".into(), 1), ("x".into(), 1)]
    );
}

#[test]
fn retry_makes_waiting_mail_due() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    let first = site.put(&["c a.test deferred!1"]);
    site.put(&["c a.test deferred!2"]);
    site.put(&["c b.test deferred!3"]);
    let tries = |address: &str| {
        let about = site.events().about("take");
        about.iter().filter(|taken| taken.ends_with(&format!(" {address}"))).count()
    };
    until("all were tried", || (1..=3).all(|n| tries(&format!("deferred!{n}")) == 1));
    until("and wait", || client.order("RETRY */* dry-run=yes")["recipients"] == 3);
    assert_eq!(client.order_after_dry_run(&format!("RETRY id={first}"))["recipients"], 1);
    until("one is tried again", || tries("deferred!1") == 2);
    assert_eq!((tries("deferred!2"), tries("deferred!3")), (1, 1));
    until("it waits again", || client.order("RETRY */* dry-run=yes")["recipients"] == 3);
    let retried = client.order_after_dry_run("RETRY c/*");
    assert_eq!((&retried["messages"], &retried["started"]), (&3.into(), &true.into()));
    until("all are tried again", || {
        (tries("deferred!1"), tries("deferred!2"), tries("deferred!3")) == (3, 2, 2)
    });
    site.write("open", "");
    until("it waits again", || client.order("RETRY */* dry-run=yes")["recipients"] == 3);
    client.order("RETRY older=0s");
    site.until_empty();
}

#[test]
fn expire_ends_mail_as_failed() {
    let site = Site::new(CLAUSES);
    let name = site.put_quietly(&["c a.test deferred!1", "q b.test two"]).to_string();
    let other = site.put_quietly(&["q b.test three"]).to_string();
    let _daemon = site.start();
    let mut client = control(&site);
    until("it waits", || client.order(&format!("RETRY id={name} dry-run=yes"))["recipients"] == 2);
    let transport = |name: &str| site.read(&format!("postoffice/transport/{name}"));
    assert_eq!(client.order_after_dry_run(&format!("EXPIRE c/* id={name}"))["recipients"], 1);
    let control = transport(&name);
    assert!(control.contains("\nr-") && control.contains("\nr  "), "stored: {control}");
    let note = control.lines().rfind(|line| line.starts_with('d')).expect("a note").to_string();
    assert!(note.contains("was given up by"), "{note}");
    assert_eq!(client.order_after_dry_run(&format!("EXPIRE id={name}"))["recipients"], 1);
    until("it has left", || !site.files("transport").contains(&name));
    let report = site.until_submission();
    assert_eq!(report.matches("\nAction: failed\n").count(), 2, "{report}");
    assert_eq!(report.matches("\nStatus: 5.4.7 ").count(), 2, "{report}");
    assert!(transport(&other).contains("\nr  "), "nothing has become of the other one");
}

#[test]
fn delete_removes_mail_that_an_agent_has() {
    let site = Site::new(CLAUSES);
    let daemon = site.start();
    let mut client = control(&site);
    site.put(&["c a.test wait!1"]);
    until("the agent has it", || site.events().count("take") == 1);
    site.put(&["c b.test deferred!2"]);
    until("the other one waits", || {
        let found = client.order("DELETE */* dry-run=yes");
        (found["recipients"] == 1) && (found["busy"] == 1)
    });
    for _ in 0..1200 {
        site.put_quietly(&["q c.test u", "q d.test u"]);
    }
    daemon.signal(libc::SIGALRM);
    until_known(&mut client, 2402);
    let deleted = client.order_after_dry_run("DELETE */*");
    assert_eq!((&deleted["messages"], &deleted["busy"]), (&1202.into(), &1.into()));
    assert_eq!(deleted["recipients"], 2401);
    let to_do = |name: &String| {
        site.read(&format!("postoffice/transport/{name}"))
            .lines()
            .any(|line| line.starts_with("r  "))
    };
    let left: Vec<String> = site.files("transport").into_iter().filter(to_do).collect();
    assert_eq!(left, [""; 0], "it is stored when it is answered");
    site.write("go", "");
    site.until_empty();
    assert_eq!(site.events().count("count"), 1, "what was delivered is delivered");
    assert!(site.files("postman").is_empty());
}

/// All recipients with the same sender and headers are in one submission.
#[test]
fn reroute_gives_mail_to_router() {
    let site = Site::new(CLAUSES);
    let (ann, null) = ("local - ann@x.test 0", "error - - 0");
    let list = "local - owner-list@x.test 0";
    let text = groups(
        "101",
        &[
            (ann, &["q a.test bob@a", "q b.test carol@b"]),
            (null, &["q a.test dan@a"]),
            (list, &["q a.test fay@a"]),
        ],
    );
    site.put_file("101", text.replacen("\ns ", "\nn QQ\ns ", 1).as_bytes());
    site.put_file("102", groups("102", &[(ann, &["q c.test eve@c"])]).as_bytes());
    let _daemon = site.start();
    let mut client = control(&site);
    let rerouted = client.order_after_dry_run("REROUTE id=101");
    assert_eq!((&rerouted["messages"], &rerouted["recipients"]), (&1.into(), &4.into()));
    let submissions: Vec<String> = site
        .files("router")
        .iter()
        .map(|name| site.read(&format!("postoffice/router/{name}")))
        .collect();
    assert_eq!(submissions.len(), 3, "{submissions:?}");
    let of = |start: &str| submissions.iter().find(|text| text.starts_with(start)).expect(start);
    let of_ann = of("envid QQ\nfrom <ann@x.test>\n");
    assert!(of_ann.contains("\nto <bob@a>\n") && of_ann.contains("\nto <carol@b>\n"), "{of_ann}");
    assert!(of_ann.contains("\nenv-end\nSubject: test\n\nThis is the body.\n"), "{of_ann}");
    assert!(of("channel error\n").contains("\nto <dan@a>\n"));
    assert!(of("from <owner-list@x.test>\n").contains("\nto <fay@a>\n"), "not its envelope");
    until("it has left", || site.files("transport") == ["102"]);
    assert!(site.files("postman").is_empty());
}

#[test]
fn mail_on_hold_is_selected() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    let one = site.put(&["q a.test bob@a", "q b.test carol@b"]);
    let two = site.put(&["q b.test dan@b", "q c.test eve@c"]);
    until_known(&mut client, 4);
    client.order(&format!("HOLD id={one}"));
    client.order("HOLD q/c.test");
    let listed = client.ask("SHOW JSON MESSAGES held=yes");
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split('"').nth(7)).collect();
    // Messages are listed by number; the second may have the lower one.
    let mut expected = [one.path(), one.path(), two.path()];
    expected.sort_by_key(|name| name.parse::<u64>().expect("a number"));
    assert_eq!(names, expected, "{listed}");
    let deleted = client.order_after_dry_run("DELETE q/* held=yes");
    assert_eq!((&deleted["messages"], &deleted["recipients"]), (&2.into(), &3.into()));
    until("what was not held is left", || {
        client.ask("SHOW JSON MESSAGES */*").matches("\"host\":\"b.test\"").count() == 1
    });
    assert_eq!(client.ask("SHOW JSON MESSAGES held=yes").lines().count(), 0);
}

#[test]
fn limits_can_be_set_and_unset() {
    let site = Site::new(CLAUSES);
    let daemon = site.start();
    let mut client = control(&site);
    for number in 0..8 {
        site.put(&[&format!("c h{number}.test wait!{number}")]);
    }
    until("two agents are at work", || site.events().count("take") == 2);
    hold_for(HELD_MEANWHILE, "no more", || site.events().count("take") == 2);
    client.order("SET ring=c/* maxring=5 for=1h");
    until("five are", || site.events().count("take") == 5);
    hold_for(HELD_MEANWHILE, "no more", || site.events().count("take") == 5);
    for (request, why) in [
        (
            "SET c/* maxring=5",
            "this limit is one of clauses (ring=channel/host); only maxthr can also be that of a \
             destination",
        ),
        ("SET ring=c/* maxring=0", "the value is out of range (1 to 1000000; overfeed 0 to 10000)"),
        (
            "SET ring=c/* overfeed=99999999",
            "the value is out of range (1 to 1000000; overfeed 0 to 10000)",
        ),
        (
            "UNSET ring=c/* maxthr",
            "no matching limit now; mailq orders lists the limits that were set",
        ),
        (
            "SET ring=c/*",
            "at byte 12: a limit is missing: maxta, maxchannel, maxring, maxthr, overfeed",
        ),
        (
            "SET c/* maxthr=1 maxring=1",
            "this limit is one of clauses (ring=channel/host); only maxthr can also be that of a \
             destination",
        ),
        (
            "SET ring=c/a.test maxthr=4 overfeed=10",
            "at byte 9: no clause of the configuration has the pattern c/a.test; maxta, maxchannel, \
             maxring and overfeed are limits of a clause, only maxthr can also be that of a \
             destination (mailq rings lists the clauses)",
        ),
        ("SET ring=c/* maxring=x", "at byte 21: expected a number"),
        ("UNSET ring=c/*", "at byte 14: the name of a limit is missing"),
        (
            "UNSET c/* foo",
            "at byte 10: a limit is one of maxta, maxchannel, maxring, maxthr, overfeed",
        ),
    ] {
        assert_eq!(client.refused(request), why, "{request}");
    }
    assert_eq!(client.order("SET c/h1* maxthr=3")["threads"], 1);
    client.order("SET c/h1.test maxthr=2");
    // The other limit covers it now.
    let changed = client.order("UNSET c/h1.test maxthr");
    let expected = serde_json::json!([{"limit": "maxthr", "old": 2, "new": 3}]);
    assert_eq!(changed["limits"], expected);
    assert_eq!(client.order("UNSET c/h1* maxthr")["threads"], 1);
    // A new scheduler has it, too.
    site.write("go", "");
    site.until_empty();
    daemon.kill();
    std::fs::remove_file(site.path("go")).expect("removed");
    until("the agents have ended", || processes::working_in(&site.path("")).is_empty());
    site.write("events", "");
    for number in 0..8 {
        site.put_quietly(&[&format!("c h{number}.test wait!{number}")]);
    }
    let _daemon = site.start();
    until("five are at work", || site.events().count("take") == 5);
    let mut client = control(&site);
    client.order("UNSET ring=c/* maxring");
    site.write("go", "");
    site.until_empty();
}

#[test]
fn retire_ends_agent_after_its_job() {
    let site = Site::new(CLAUSES);
    let daemon = site.start();
    let mut client = control(&site);
    site.put(&["c a.test wait!1"]);
    until("an agent is at work", || site.events().count("take") == 1);
    let agent = daemon.agents()[0];
    assert_eq!(client.refused("RETIRE 1"), "no matching agent now");
    assert_eq!(client.order(&format!("RETIRE {agent}"))["agents"], 1);
    hold_for(HELD_MEANWHILE, "it goes on", || daemon.agents().contains(&agent));
    site.write("go", "");
    site.until_empty();
    until("it has ended", || daemon.agents().is_empty());
    site.put(&["c a.test 2"]);
    until("another one delivers", || site.events().count("count") == 2);
    assert_ne!(daemon.agents(), [agent]);
}

#[test]
fn reload_reads_configuration() {
    let site = Site::new(CLAUSES);
    let mut daemon = site.start();
    let mut client = control(&site);
    site.put(&["new a.test u"]);
    site.configure(&format!("{CLAUSES}new/*\n\tcommand=\"${{AGENTS}}/count.py new\"\n"));
    assert_eq!(client.ask("RELOAD"), "+OK\n");
    site.until_empty();
    site.configure("c/*\n\tmaxring=x\n\tinterval=x\n\tmaxthr=x\n");
    let answer = client.refused("RELOAD");
    let errors: Vec<&str> = answer.split('\t').collect();
    for (error, place) in errors.iter().zip(["5:10", "6:11", "7:9"]) {
        assert!(error.contains(&format!("scheduler.cf:{place}: ")), "{answer}");
    }
    assert_eq!(errors.len(), 3);
    site.configure(&"c/*\n\tmaxring=x\n".repeat(25));
    assert!(client.refused("RELOAD").ends_with("\tand 5 more, see the log"));
    site.until_logged("not usable; the former configuration stays in force", 2);
    site.put(&["new a.test u2"]);
    site.until_empty();
    std::fs::remove_file(site.path("scheduler.cf")).expect("removed");
    assert!(client.refused("RELOAD").contains("scheduler.cf"));
    let configuration = format!("PARAMmailqsock=/elsewhere\n{CLAUSES}\tsysnice=5\n");
    site.write("scheduler.cf", &configuration);
    site.add_zenv("OTHER=1");
    let remark = "changes that wait for a restart: PARAMmailqsock, sysnice, variables of the ZENV \
                  file";
    for count in 1..=2 {
        assert_eq!(client.ask("RELOAD"), format!("+OK; {remark}\n"));
        site.until_logged(&format!("scheduler.cf: {remark}"), count);
    }
    daemon.assert_runs();
}

#[test]
fn log_level_can_be_changed() {
    let site = Site::new(CLAUSES);
    let mut daemon = site.start();
    let mut client = control(&site);
    let mut deliver = |level: &str, user: &str| {
        assert_eq!(client.ask(&format!("LOG {level}")), "+OK\n");
        site.put(&[&format!("c a.test {user}")]);
        site.until_empty();
    };
    deliver("info", "first");
    site.until_logged("to=<first>", 1);
    site.until_logged("log level: info, set by ", 1);
    assert_eq!(site.logged(" complete ("), 0);
    deliver("debug", "second");
    site.until_logged(" complete (1 recipients, 0 failed)", 1);
    deliver("trace", "third");
    deliver("warn", "fourth");
    deliver("error", "fifth");
    deliver("info", "last");
    site.until_logged("to=<last>", 1);
    let has_level = |client: &mut Client<UnixStream>| {
        client.ask("SHOW JSON SUMMARY").contains("\"log_level\":\"warn\"")
    };
    assert!(!has_level(&mut client), "that of the command line");
    assert_eq!(client.ask("LOG warn"), "+OK\n");
    assert!(has_level(&mut client));
    site.until_logged("log level: warn, set by ", 2);
    for (user, count) in [("second", 1), ("third", 1), ("fourth", 0), ("fifth", 0)] {
        assert_eq!(site.logged(&format!("to=<{user}>")), count, "{user}");
    }
    site.until_logged(" complete (", 2);
    for (request, why) in [
        ("LOG", "at byte 3: a level, one of error, warn, info, debug, trace, is missing"),
        ("LOG loud", "at byte 4: a level is one of error, warn, info, debug, trace"),
        ("LOG info x", "at byte 9: unexpected word"),
    ] {
        assert_eq!(client.refused(request), why);
    }
    daemon.assert_runs();
}

/// The test waits until messages have the age.
#[test]
fn messages_are_selected_by_age() {
    let site = Site::new(CLAUSES);
    let old = site.put_quietly(&["q a.test old"]);
    let file = std::fs::File::options().write(true).open(site.spool.message_file(&old));
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    file.and_then(|file| file.set_modified(long_ago)).expect("made older");
    site.put_quietly(&["q a.test new"]);
    let _daemon = site.start();
    let mut client = control(&site);
    assert_eq!(client.order_after_dry_run("RETRY older=1h")["recipients"], 1);
    // The message is delivered, and the scheduler has the report.
    until("the old one is gone", || site.files("transport").len() == 1);
    assert!(site.events().about("count")[0].ends_with(" old"));
    assert_eq!(client.order_after_dry_run("DELETE */* older=1h")["recipients"], 0);
    assert_eq!(client.order_after_dry_run("DELETE older=0s")["recipients"], 1);
    site.until_empty();
}

#[test]
fn limits_set_together_are_answered_with_old_and_new_values() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    let changes = |answer: serde_json::Value| -> Vec<(String, Option<u64>, Option<u64>)> {
        let limits = answer["limits"].as_array().expect("limits").clone();
        let change = |limit: &serde_json::Value| {
            let name = limit["limit"].as_str().expect("a name").to_string();
            (name, limit["old"].as_u64(), limit["new"].as_u64())
        };
        limits.iter().map(change).collect()
    };
    let (ring, thread) = ("maxring".to_string(), "maxthr".to_string());
    let set = changes(client.order("SET ring=c/* maxring=5 maxthr=3"));
    assert_eq!(set, [(ring.clone(), Some(2), Some(5)), (thread.clone(), Some(1), Some(3))]);
    // One wrong value, and none of them is set.
    assert_eq!(
        client.refused("SET ring=c/* maxring=7 overfeed=99999999"),
        "the value is out of range (1 to 1000000; overfeed 0 to 10000)"
    );
    let set = changes(client.order("SET ring=c/* maxring=6"));
    assert_eq!(set, [(ring.clone(), Some(5), Some(6))]);
    let unset = changes(client.order("UNSET ring=c/* maxring maxthr"));
    assert_eq!(unset, [(ring, Some(6), Some(2)), (thread, Some(3), Some(1))]);
}

#[test]
fn retry_of_held_mail_does_nothing_and_says_so() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    site.put(&["q a.test 1", "q b.test 2"]);
    until_known(&mut client, 2);
    client.order("HOLD q/*");
    let retried = client.order_after_dry_run("RETRY q/*");
    assert_eq!((retried["recipients"].as_u64(), retried["held"].as_u64()), (Some(0), Some(2)));
    client.order("RELEASE q/*");
    hold_for(HELD_MEANWHILE, "it waits as before", || site.events().count("count") == 0);
}

#[test]
fn messages_are_selected_by_message_id() {
    let site = Site::new(CLAUSES);
    let _daemon = site.start();
    let mut client = control(&site);
    let name = site.put(&["q a.test 1", "q b.test 2"]);
    until_known(&mut client, 2);
    assert_eq!(
        client.order("DELETE message-id=<ID@x> progress=yes")["messages"],
        0,
        "case matters"
    );
    let listed = client.ask("SHOW JSON MESSAGES message-id=<id@x>");
    assert_eq!(listed.matches(&format!("\"name\":\"{name}\"")).count(), 2, "{listed}");
    let deleted = client.order_after_dry_run("DELETE message-id=<id@x>");
    assert_eq!((deleted["messages"].as_u64(), deleted["recipients"].as_u64()), (Some(1), Some(2)));
    site.until_empty();
}
