//! MAILQ version 2: recorded sessions are replayed.

use crate::mailq_lines::check_report;
use crate::mailq_session::{ACCOUNTS, MailqSession, challenge};
use crate::support::{START, data, files_under, spool_name};
use crate::world::World;
use zsched_core::{AgentId, Event};
use zsched_format::control_file::parse;
use zsched_mailq_server::v2::{DiskSpace, HostFacts, MAX_REQUEST_LEN};
use zsched_spool::Arrival;

fn recorded(name: &str) -> String {
    String::from_utf8(data(&format!("mailq-v2/{name}"))).expect("recordings are text")
}

/// Replays a recorded session. Returns our answers, and the recorded ones.
fn replay(name: &str, world: &mut World) -> (String, String) {
    let expected = recorded(&format!("{name}.s2c"));
    let line = expected.lines().nth(1).expect("a challenge");
    let (mut talk, greeting) = MailqSession::open(ACCOUNTS, challenge(line));
    let answers = talk.say(world, recorded(&format!("{name}.c2s")));
    assert!(talk.session.is_over(), "{name}");
    (format!("{greeting}{answers}"), expected)
}

/// Where the queue does not matter, every byte is equal.
#[test]
fn sessions_equal_recordings() {
    for name in [
        "01-greeting-quit",
        "07-auth-fail-badpw",
        "08-auth-fail-baduser",
        "09-no-auth",
        "10-unknown-cmds",
        "16-kill-msg-notfound",
    ] {
        let (ours, expected) = replay(name, &mut World::with_disk("c/* command=x\n"));
        assert_eq!(ours, expected, "{name}");
    }
}

/// Returns a text with a `#` for each number.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !out.ends_with('#') {
            out.push(c);
        }
    }
    out
}

#[test]
fn account_with_attribute_snmp_sees_only_totals() {
    let (ours, expected) = replay("11-acl-snmponly", &mut World::with_disk("c/* command=x\n"));
    let squeezed = |text: &str| without_numbers(text).replace("  ", " ").replace("  ", " ");
    assert_eq!(squeezed(&ours), squeezed(&expected));
}

/// Rows and their order are equal, and values end in the same column.
#[test]
fn counters_have_rows_of_zmailer() {
    let mut world = World::with_disk("c/* command=x\n");
    let mut talk = MailqSession::as_user("root", "sekret");
    let space =
        DiskSpace { free_kb: 82_325_292, used_kb: 12_960_596, free_files: 1, used_files: 2 };
    talk.host = HostFacts { pid: 5693, load: Some((0.44, 0.25)), disks: [space; 3] };
    talk.say(&mut world, "SHOW SNMP\nFOO\nETRN x.test\nSHOW QUEUE SHORT\n");
    let ours = talk.say(&mut world, "SHOW COUNTERS\n");
    let recorded = recorded("13-counters.s2c");
    let expected: Vec<&str> =
        recorded.lines().skip_while(|line| !line.starts_with("+OK until")).collect();
    let expected = &expected[..expected.len() - 1];
    let label = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    let lines: Vec<&str> = ours.lines().collect();
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(label(line), label(expected));
        let is_row = !line.is_empty() && *line != "." && !line.contains("OK until LF");
        assert!(!is_row || line.len() == 42 || line.starts_with("ZMailer"), "{line:?}");
    }
    for row in [
        "ZMailer SHM segment dump; Magic=0x00000000",
        "Time_now                        1795255200",
        "SYS.Load-Avg-1-min-G                  0.44",
        "SYS.SchedulerMasterPID                5693",
        "SYS.SpoolFreeSpace-kB-G           82325292",
        "SC.StoredMessages-G                      0",
        "SC.MQ2Commands                           6",
        "SC.MQ2CommandsRej                        1",
        "SC.MQ2CommandETRN                        1",
        "SC.MQ2CommandShowQueueVeryShort          1",
        "SC.MQ2CommandShowCounters                1",
    ] {
        assert!(lines.contains(&row), "{row} is not in\n{ours}");
    }
}

/// The requests are those of `root`.
#[test]
fn requests_have_replies_of_zmailer() {
    let unknown = |verb: &str, rest: &str| {
        format!(
            "-MAILQ2 Unknown command, or refused by access control; VERB='{verb}' REST='{rest}'\n"
        )
    };
    let empty = "+OK until LF.LF\n.\n".to_string();
    let killed = "+OK; KILLed something.\n\n".to_string();
    let not_known = "-Unknown request.\n\n".to_string();
    let not_started = "+OK; an ETRN didn't start anything.\n".to_string();
    let totals = "+OK until LF.LF\n\
        Kids: 0  Idle:  0  Msgs:   0  Thrds:   0  Rcpnts:    0  Uptime: 0 sec\n\
        Msgs in 0 out 0 stored 0 Rcpnts in 0 out 0 stored 0\n.\n"
        .to_string();
    let short = totals.replace("0 sec", "0s");
    for (said, expected) in [
        ("show snmp", unknown("show", "snmp")),
        ("SHOW QUEUE FOO", unknown("SHOW", "QUEUE")),
        ("FOO bar baz", unknown("FOO", "bar baz")),
        ("", unknown("", "")),
        ("   ", unknown("", "")),
        ("AUTH nobody x", unknown("AUTH", "nobody x")),
        ("REROUTE a b c", unknown("REROUTE", "a")),
        ("HELP", unknown("HELP", "")),
        ("X\u{1b}[2J \tb\u{7}", unknown("X?[2J", "b?")),
        ("KILL MSG nosuchid", killed.clone()),
        ("KILL MSG", killed.clone()),
        ("KILL MSG S10101219AbmKUKLde7g9d", killed),
        ("KILL THREAD a b", not_known.clone()),
        ("KILL FOO", not_known.clone()),
        ("KILL", not_known),
        ("SHOW THREAD nosuch host", empty.clone()),
        ("SHOW THREAD smtpx", empty.clone()),
        ("SHOW THREAD", empty.clone()),
        ("SHOW QUEUE THREADS2", empty),
        ("SHOW SNMP", totals.clone()),
        ("SHOW SNMP x", totals.clone()),
        ("SHOW \t SNMP\r", totals.clone()),
        ("SHOW SNMP\0 nobody sees this", totals),
        ("SHOW  QUEUE  SHORT x", short.clone()),
        ("SHOW QUEUE THREADS", short),
        ("ETRN", not_started.clone()),
        ("ETRN host4.ta.test smtp-sim", not_started),
        ("exit", "+Bye bye\n".to_string()),
        ("QuIt now", "+Bye bye\n".to_string()),
    ] {
        let mut talk = MailqSession::as_user("root", "sekret");
        let answer = talk.say(&mut World::with_disk("c/* command=x\n"), format!("{said}\n"));
        assert_eq!(answer, expected, "{said:?}");
        assert_eq!(talk.session.is_over(), answer.starts_with("+Bye"), "{said:?}");
    }
}

#[test]
fn logins_are_counted_and_end() {
    let mut world = World::with_disk("c/* command=x\n");
    let line = "220 MAILQ-V2-CHALLENGE: 1795255951.209815.10";
    let good = "5c02bd806c204b81693a0cb92c112b31";
    let (mut talk, _) = MailqSession::open(ACCOUNTS, challenge(line));
    for wrong in [good.to_uppercase(), format!("{good} "), good[1..].to_string()] {
        let answer = talk.say(&mut world, format!("AUTH root {wrong}\n"));
        assert_eq!(answer, "-BAD USER OR PASSWORD\n");
    }
    assert_eq!(talk.say(&mut world, " AUTH root x\n"), "-BAD; USER MUST AUTHENTICATE\n");
    assert_eq!(talk.say(&mut world, "auth root x\n"), "-BAD; USER MUST AUTHENTICATE\n");
    assert_eq!(talk.say(&mut world, format!("AUTH \t root   {good}\r\nSHOW")), "+OK\n");
    assert!(talk.log_lines.iter().any(|r| r.contains("127.0.0.1 logged in as \\\"root\\\": ALL")));
    assert!(!talk.log_lines.iter().any(|r| r.contains(good)), "{:?}", talk.log_lines);

    let (mut talk, _) = MailqSession::open(ACCOUNTS, challenge(line));
    let answer = talk.say(&mut world, "AUTH root x\n".repeat(20));
    assert_eq!(answer, "-BAD USER OR PASSWORD\n".repeat(10));
    assert!(talk.session.is_over());
    assert_eq!(talk.request_counters.refused_logins, 10);

    // A hash does not work as a password.
    let hash = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let (mut talk, _) = MailqSession::open(&format!("root:{hash}:ALL:\n"), challenge(line));
    let answer = challenge(line).answer(hash.as_bytes());
    let answer = talk.say(&mut world, format!("AUTH root {answer}\n"));
    assert_eq!(answer, "-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n", "as if there were none");

    let (talk, greeting) = MailqSession::open("root:sekret:ALL:[10.0.0.0]/8\n", challenge(line));
    assert_eq!(greeting, "version zmailer 2.0\n550 NO ACCESS FOR YOU\n");
    assert!(talk.session.is_over());
}

/// The limit holds before and after a login.
#[test]
fn oversized_lines_end_session() {
    let mut world = World::with_disk("c/* command=x\n");
    let mut talk = MailqSession::as_user("root", "sekret");
    let long = "x".repeat(MAX_REQUEST_LEN - 4);
    assert!(talk.say(&mut world, format!("FOO {long}\n")).contains(&long), "just short enough");
    assert_eq!(talk.say(&mut world, "x".repeat(20_000)), "-the request is too long\n");
    let line = "220 MAILQ-V2-CHALLENGE: 1.2.3";
    let (mut talk, _) = MailqSession::open(ACCOUNTS, challenge(line));
    assert_eq!(talk.say(&mut world, "x".repeat(20_000)), "-BAD; USER MUST AUTHENTICATE\n");
    assert!(talk.session.is_over());
}

/// Creates a queue with three recorded control files for a dead host.
fn dead_host() -> World {
    let clause = "*/*\n\tinterval=63s retries=1 expiry=4m\n\tcommand=x maxring=5 overfeed=150\n";
    let mut world = World::with_disk(clause);
    world.cannot_start_agents = true;
    let files = files_under("control-files").into_iter();
    for number in ["10101217", "10101639", "10101206"] {
        let path = files.clone().find(|path| path.ends_with(&format!("/transport.{number}")));
        let path = path.expect("it was recorded");
        let control = parse(data(&format!("control-files/{path}"))).expect("it is good");
        world.handle(Event::Arrived(Box::new(Arrival::new(
            spool_name(number),
            &control,
            START,
            START,
        ))));
    }
    world.cannot_start_agents = false;
    world
}

const REFUSED: &str = "smtp; 500 (connect to 127.0.0.66 [127.0.0.66|2525|127.0.0.1|39941]: Connection \
                       refused)";

#[test]
fn show_thread_has_lines_of_zmailer() {
    let mut world = dead_host();
    world.handle(Event::Etrn(b"[127.0.0.66]"));
    let agent = *world.agents.keys().next().expect("it was started");
    world.agent_writes(agent, b"#hungry");
    assert_eq!(world.take_input(agent), "10101217\t[127.0.0.66]\n");
    for _ in 0..3 {
        world.agent_writes(agent, format!("10101217/229\t\tdeferall {REFUSED}").as_bytes());
    }
    world.agent_writes(agent, b"#hungry");
    let mut talk = MailqSession::as_user("nobody", "nobody");
    for number in ["10101217", "10101639", "10101206"] {
        talk.addresses.insert(number.to_string(), "games@zm.example.test");
    }
    let ours = talk.say(&mut world, "SHOW THREAD smtpx [127.0.0.66]\n");
    let recorded = recorded("06-show-thread.s2c");
    let expected = &recorded[recorded.find("#smtpx").expect("the thread")..];
    let expected = &expected[..expected.find("\n.\n").expect("its end")];
    let expected = format!("+OK until LF.LF\n{expected}\n.\n");
    assert_eq!(fields(&ours), fields(&expected), "{ours}\n{expected}");
}

/// Returns a text as fields, with a `#` for times and numbers of tries.
///
/// Lines are sorted by message; ZMailer's have no order.
fn fields(text: &str) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let mut fields: Vec<String> = line.split('\t').map(str::to_string).collect();
        if fields.len() == 10 {
            for index in [4, 5, 6] {
                let is_time = fields[index] == "0" || fields[index].len() == 10;
                assert!(is_time, "{line}");
                fields[index] = if fields[index] == "0" { "0" } else { "#" }.to_string();
            }
            fields[7] = "#".to_string();
            fields[8] = fields[8].split_inclusive("in ").next().unwrap_or_default().to_string();
        } else {
            fields = vec![without_numbers(line)];
        }
        lines.push(fields);
    }
    lines.sort();
    lines
}

/// Texts keep their CR, which clients turn into lines.
#[test]
fn multiline_texts_stay_in_their_field() {
    let mut world = World::with_disk("c/*\n\tinterval=10s retries=1 expiry=1h command=x\n");
    let text = b"i 7\ns l - a@x.test 0\nr           c h.test u 0\nm\n\n".to_vec();
    let file = parse(text).expect("it is good");
    world.handle(Event::Arrived(Box::new(Arrival::new(spool_name("7"), &file, START, START))));
    let agent: AgentId = *world.agents.keys().next().expect("it was started");
    world.agent_writes(agent, b"#hungry");
    world.agent_writes(agent, b"7/21\t\tdeferred \r<<- MAIL\tFrom:<>\r->> 450 busy");
    let mut talk = MailqSession::as_user("nobody", "nobody");
    let ours =
        talk.say(&mut world, "SHOW THREAD c h.test\nSHOW QUEUE THREADS2\nSHOW QUEUE THREADS\n");
    let head = "#c/h.test/0  N=1   R=1   A=1  P={5001} HA={0}s FA={0}s OF={1} S={STUFF} UF=0 QA=0s";
    let expiry = START.seconds() + 3600;
    let fed = START.seconds();
    let texts = "\r<<- MAIL From:<>\r->> 450 busy";
    let record = format!("7\t0\t(null)\t21\t{expiry}\t0\t{fed}\t1\tthread\t{texts}");
    assert!(ours.starts_with(&format!("+OK until LF.LF\n{head}\n{record}\n.\n")), "{ours:?}");
    assert!(ours.contains("\nc\th.test\tN=1\tR=1\tA=1\tP={5001}\tHA={0}s\t"), "{ours}");
}

#[test]
fn reports_have_lines_of_zmailer() {
    let mut world = dead_host();
    world.handle(Event::Etrn(b"[127.0.0.66]"));
    let mut talk = MailqSession::as_user("root", "sekret");
    let answer = talk.say(&mut world, "SHOW QUEUE THREADS\n");
    let report = answer.strip_prefix("+OK until LF.LF\n").and_then(|text| text.strip_suffix(".\n"));
    assert_eq!(check_report(report.expect("a text")), Ok(()), "{answer}");
    let count = |text: &str, what: &str| text.lines().filter(|line| line.starts_with(what)).count();
    let threads = count(&answer, "    ");
    assert!(threads > 3);
    let short = talk.say(&mut world, "SHOW QUEUE SHORT\n");
    assert_eq!(
        (count(&short, "    "), count(&short, "\tThreads:")),
        (0, count(&answer, "\tThreads:"))
    );
    let fields = talk.say(&mut world, "SHOW QUEUE THREADS2\n");
    assert_eq!(fields.lines().count(), threads + 2);
    for line in fields.lines().skip(1).take(threads) {
        let [channel, host, ..] = line.split('\t').collect::<Vec<&str>>()[..] else {
            panic!("{line}");
        };
        let shown = talk.say(&mut world, format!("SHOW THREAD {channel} {host}\n"));
        assert!(shown.contains(&format!("\n#{channel}/{host}/0  N=")), "{shown}");
    }
}

/// `KILL` removes matching mail from the spool; the reply is that of ZMailer.
#[test]
fn kill_removes_mail() {
    let mut world = dead_host();
    let mut talk = MailqSession::as_user("root", "sekret");
    let killed = "+OK; KILLed something.\n\n";
    assert_eq!(talk.say(&mut world, "KILL MSG A/10101206\n"), killed);
    assert!(world.removed().is_empty(), "names have no folders here");
    assert_eq!(talk.say(&mut world, "KILL MSG 10101206\n"), killed);
    assert_eq!(world.removed().len(), 1);
    assert_eq!(talk.say(&mut world, "KILL THREAD smtpx [127.0.0.66]\n"), killed);
    assert_eq!(talk.say(&mut world, "SHOW THREAD smtpx [127.0.0.66]\n"), "+OK until LF.LF\n.\n");
    let again = talk.say(&mut world, "KILL THREAD smtpx [127.0.0.66]\n");
    assert_eq!(again, "-Unknown request.\n\n");
    assert_eq!((talk.request_counters.kill_message, talk.request_counters.kill_thread), (2, 2));
}

#[test]
fn etrn_reports_if_mail_was_started() {
    let mut world = dead_host();
    let mut talk = MailqSession::as_user("nobody", "nobody");
    assert_eq!(
        talk.say(&mut world, "ETRN [127.0.0.66]\nETRN [127.0.0.66]\nETRN nosuch.test\n"),
        "+OK; an ETRN started something.\n\
         +OK; an ETRN didn't start anything.\n+OK; an ETRN didn't start anything.\n"
    );
    assert_eq!(talk.say(&mut world, "ETRN HOST3.ta.test\n"), "+OK; an ETRN started something.\n");
}

/// A thread with many messages is shown and killed in steps.
#[test]
fn large_threads_are_shown_and_killed_in_steps() {
    let mut world = World::with_disk("c/*\n\tqueueonly command=x\n");
    let text = b"i 7\ns l - a@x.test 0\nr           c .h.test u 0\nm\n\n".to_vec();
    let file = parse(text).expect("it is good");
    for number in 1..=1000 {
        let name = spool_name(&number.to_string());
        world.handle(Event::Arrived(Box::new(Arrival::new(name, &file, START, START))));
    }
    let mut talk = MailqSession::as_user("root", "sekret");
    let shown = talk.say(&mut world, "SHOW THREAD c .h.test\nQUEUE\n");
    assert_eq!(shown.lines().filter(|line| line.matches('\t').count() == 9).count(), 1000);
    let killed = talk.say(&mut world, "KILL THREAD c .h.test\n");
    assert_eq!(killed, "+OK; KILLed something.\n\n");
    assert_eq!(world.removed().len(), 1000);
}
