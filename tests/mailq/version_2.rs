//! Version 2: requests, and the output for answers of ZMailer's scheduler, compared with that of
//! ZMailer's client.
//!
//! Intended differences:
//!
//! | request | ZMailer | ours | why |
//! |---|---|---|---|
//! | two threads and more | a warning for each but the first | none | they are no errors |
//! | `-v` where there is a text | crashes | what its manual says | |
//! | `-c` or `-h` alone | none; the host in channel `smtp` | show only that | as in version 1 |
//! | `-i`, `-u`, `-S`, `--summary` | no effect | as in version 1 | so does our manual |
//! | an empty queue | nothing, or anything | the text of version 1 | scripts expect it |
//! | no expiry | a huge negative time | nothing | it is wrong |
//! | an answer that is cut | never ends | fails | it is not complete |
//! | a refused login or request | status 0 | status 77, and advice | scripts need it |
//! | a refused login or request | status 0 | status 77, and advice | scripts want to know |

use super::fake_server::{FakeServer, RecordedSession, text};
use super::support::{Run, Site, printed, recorded};
use std::time::{SystemTime, UNIX_EPOCH};

fn ask(site: &Site, fake_server: FakeServer, options: &str) -> (Run, Vec<String>) {
    let run = site.mailq(&format!("-p {} {options} 127.0.0.1", fake_server.port));
    (run, fake_server.end())
}

fn client_output(name: &str) -> String {
    String::from_utf8(recorded(&format!("v2/client/{name}.out"))).expect("ASCII")
}

/// Format in which a scheduler writes about recipients.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    /// The format of 2023: a head, and ten parts.
    New,
    /// The format before that: no head.
    Classic,
    /// The oldest format: no head and no index.
    Ancient,
}

/// Returns answers for which ZMailer's client printed this listing: two recipients a message.
fn answers(listing: &str, dialect: Dialect) -> Vec<(String, Vec<u8>)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    // The listing shows 2m59s and a fraction.
    let expiry = now + 179;
    let mut names = Vec::new();
    let mut answers: Vec<(String, Vec<u8>)> = Vec::new();
    for line in listing.lines() {
        let Some(entry) = line.strip_prefix('\t') else {
            let (channel, host) = line.trim_end_matches(':').split_once('/').expect("a heading");
            let head = format!("#{channel}/{host}/0  N=1   R=2   A=2  W=7s QA=54s\n");
            names.push(format!("{channel}\t{host}\tN=1\tR=2\tA=2\tW=7s\tQA=54s\n"));
            let head = if dialect == Dialect::New { head } else { String::new() };
            answers.push((format!("SHOW THREAD {channel} {host}"), head.into_bytes()));
            continue;
        };
        let (file, rest) = entry.split_once(": (").expect("a file");
        let (tries, rest) = rest.split_once(" tries, expires in ").expect("tries");
        let (_, message) = rest.split_once(") ").expect("an end of the parenthesis");
        let answer = &mut answers.last_mut().expect("a heading before").1;
        let common = format!("{expiry}\t1795256010\t0\t{tries}\tretry in 7s\t{message}\n");
        match dialect {
            Dialect::Ancient => {
                answer.extend(format!("{file}\tgames@zm.example.test\t229\t{common}").bytes())
            }
            _ => {
                for index in 0..2 {
                    let start = format!("{file}\t{index}\tgames@zm.example.test\t{}", 229 - index);
                    answer.extend(format!("{start}\t{common}").bytes());
                }
            }
        }
    }
    for (_, answer) in &mut answers {
        *answer = text(answer);
    }
    answers.push(("SHOW QUEUE THREADS2".to_string(), text(names.concat().as_bytes())));
    answers
}

fn fake_server(answers: &[(String, Vec<u8>)]) -> FakeServer {
    let answers: Vec<(&str, Vec<u8>)> =
        answers.iter().map(|(request, answer)| (request.as_str(), answer.clone())).collect();
    FakeServer::with_answers(&answers)
}

/// Returns the listing with one time in all lines: some seconds may pass.
fn with_one_time(listing: &str) -> String {
    let mut listing = listing.to_string();
    for seconds in 0..=59 {
        listing = listing.replace(&format!("expires in 2m{seconds}s"), "expires in 2m59s");
    }
    listing
}

#[test]
fn listing_equals_recording_in_all_dialects() {
    let site = Site::new();
    let expected = client_output("opt");
    for dialect in [Dialect::New, Dialect::Classic, Dialect::Ancient] {
        for (options, at) in [("", 0), ("-t -E x -U nobody/nobody -4", 1)] {
            let (run, requests) = ask(&site, fake_server(&answers(&expected, dialect)), options);
            assert_eq!(with_one_time(&run.good()), printed(&expected));
            assert_eq!(requests.len(), 17 + at, "{requests:?}");
            assert_eq!(requests.last().map(String::as_str), Some("QUIT"));
            // MD5 of the server's challenge and of "nobody".
            assert_eq!(requests[at], "AUTH nobody 88bbbc3cdd69786f76501fe4c30de4c1");
        }
    }
}

#[test]
fn one_thread_is_requested_and_shown() {
    let site = Site::new();
    let expected = client_output("opt-c-h");
    let answers = answers(&expected, Dialect::New);
    let (run, requests) = ask(&site, fake_server(&answers), "-c smtpx -h [127.0.0.66]");
    let seconds = expected.replace("2m50s", "2m59s");
    assert_eq!(with_one_time(&run.good()), printed(&seconds));
    assert_eq!(requests[1..], ["SHOW THREAD smtpx [127.0.0.66]", "QUIT"]);
}

#[test]
fn status_lines_equal_recording_in_version_2() {
    let site = Site::with_messages();
    for (file, text) in [
        (".pid.router", "99999999\n".to_string()),
        (".pid.scheduler", format!("{}\n", std::process::id())),
    ] {
        std::fs::write(site.spool().join(file), text).expect("written");
    }
    for name in 1..=4 {
        std::fs::write(site.spool().join(format!("router/{name}")), "x").expect("written");
    }
    let here = site.spool().display().to_string();
    let expected = client_output("opt-s").replace("/opt/zm/spool/postoffice", &here);
    let (status, listing) = expected.split_once("smtp-sim/mix").expect("a listing");
    let answers = answers(&format!("smtp-sim/mix{listing}"), Dialect::New);
    let (run, _) = ask(&site, fake_server(&answers), "-s");
    let shown = run.good();
    assert_eq!(with_one_time(&shown), with_one_time(&printed(&expected)));
    assert!(shown.starts_with(status));
}

#[test]
fn reports_are_printed_unchanged() {
    let site = Site::new();
    for (options, request, output) in [
        ("-Q", "SHOW QUEUE THREADS", "opt-Q"),
        ("-QQ", "SHOW QUEUE SHORT", "opt-QQ"),
        ("-QQQ", "SHOW SNMP", "opt-QQQ"),
        ("-QQQQ", "SHOW COUNTERS", "opt-QQQQ"),
    ] {
        let expected = client_output(output);
        let fake_server = FakeServer::with_answers(&[(request, text(expected.as_bytes()))]);
        let (run, requests) = ask(&site, fake_server, options);
        assert_eq!(run.good(), expected, "{options}");
        assert_eq!(requests[1..], [request, "QUIT"]);
    }
    let threads = client_output("opt-Q");
    let answer = || FakeServer::with_answers(&[("SHOW QUEUE THREADS", text(threads.as_bytes()))]);
    let (run, _) = ask(&site, answer(), "-QQ -c hold");
    let expected = "hold/*/0\n\tThreads:    1 Msgs:     2 Procs:   1 Idle:   1 Plim:  20 Flim: 150 \
        Tlim: 1\nKids: 9  Idle:  9  Msgs:  11  Thrds:  14  Rcpnts:   17  Uptime: 1m2s\n\
        Msgs in 52 out 15 stored 11 Rcpnts in 272 out 232 stored 19\n";
    assert_eq!(run.good(), expected);
    let (run, _) = ask(&site, answer(), "-QQQQQ");
    run.failed(64, "four times at most");
}

/// These are the recorded bytes of ZMailer's scheduler.
#[test]
fn recorded_sessions_are_accepted() {
    let site = Site::new();
    for (name, options, count) in [
        ("02-auth-ok-show-snmp", "-QQQ", 3),
        ("03-show-queue-short", "-QQ", 3),
        ("04-show-queue-threads", "-Q", 3),
        ("13-counters", "-QQQQ -U root:sekret", 4),
    ] {
        let session = RecordedSession::recorded(name);
        let answer = String::from_utf8(session.answers[1].1.clone()).expect("ASCII");
        let body = answer.strip_prefix("+OK until LF.LF\n").and_then(|a| a.strip_suffix(".\n"));
        let body = body.expect("a text").to_string();
        let (run, requests) = ask(&site, FakeServer::of(session), options);
        assert_eq!(run.good(), body, "{name}");
        assert_eq!(requests.len(), count, "{requests:?}");
    }
    let (run, _) = ask(
        &site,
        FakeServer::of(RecordedSession::recorded("06-show-thread")),
        "-c smtpx -h [127.0.0.66]",
    );
    let refused = "smtp; 500 (connect to 127.0.0.66 [127.0.0.66|2525|127.0.0.1|39941]: Connection \
        refused)";
    let lines: Vec<String> =
        run.good().lines().map(|line| without_expiry(line).to_string()).collect();
    let expected: Vec<String> = std::iter::once("smtpx/[127.0.0.66]:".to_string())
        .chain([10101217, 10101639, 10101206].map(|file| format!("\t{file}: (3 tries) {refused}")))
        .collect();
    assert_eq!(lines, expected);
    let (run, _) = ask(
        &site,
        FakeServer::of(RecordedSession::recorded("14-show-thread-multiline-diag")),
        "-c smtpx -h [127.0.0.1]",
    );
    let shown = run.good();
    assert!(
        shown.contains(")  <<- MAIL From:") && shown.ends_with(" ->> 450 4.2.1 mailbox busy\n")
    );
    // The answer about an unknown thread is empty.
    let (run, _) = ask(
        &site,
        FakeServer::of(RecordedSession::recorded("06-show-thread")),
        "-c nosuch -h host",
    );
    assert_eq!(run.good(), "Nothing in the queue for nosuch/host\n");
}

fn without_expiry(line: &str) -> String {
    match line.split_once(", expires in ") {
        Some((before, rest)) => {
            format!("{before}{}", &rest[rest.find(')').expect("a parenthesis")..])
        }
        None => line.to_string(),
    }
}

#[test]
fn message_details_are_shown_in_version_2() {
    let site = Site::with_messages();
    // This is as recorded, but with the offsets of the recorded control file.
    let control = std::fs::read(site.spool().join("transport/10101639")).expect("a file");
    let control = String::from_utf8_lossy(&control).into_owned();
    let offset = control.find("\nr").expect("a recipient") + 1;
    let address = control[offset..].split_ascii_whitespace().nth(3).expect("an address");
    let size = |name: &str| std::fs::metadata(site.spool().join(name)).expect("a file").len();
    let answer = |offset: usize| {
        text(
            format!(
                "#c/h/0  N=1   R=2   A=6 QA=1d18h\n10101639\t0\t\t{offset}\t0\t5\t0\t2\tthread\t\r<<- a\r->> b\n\
                 10101639\t1\tx@y\t99999\t0\t5\t0\t2\tthread\t\n4711\t0\tx@y\t99\t0\t5\t0\t2\tthread\tz\n"
            )
            .as_bytes(),
        )
    };
    for options in ["-v", "-vv", "-i"] {
        let fake_server = FakeServer::with_answers(&[("SHOW THREAD c h", answer(offset))]);
        let (run, _) = ask(&site, fake_server, &format!("-c c -h h {options}"));
        let shown = run.good();
        let sizes = format!("{}+{} bytes", size("transport/10101639"), size("queue/10101639"));
        let mut expected = format!(
            "c/h:\n\t10101639: (2 tries, age AGE, {sizes})\n\t  id\t<two.20261121@zm.example.test>\n\
             \t  from\t<>\n\t  to\t{address}\n\t  diag\t<<- a\n\t  diag\t->> b\n\t  to-ptr bad: 99999\n"
        );
        // There is no such file, so the message has no owner.
        if options != "-i" {
            expected += "\t4711: (2 tries)\n\t  from\tx@y\n\t  diag\tz\n";
        }
        let (before, rest) = shown.split_once("age ").expect("an age");
        let (_, after) = rest.split_once(',').expect("an end of the age");
        assert_eq!(format!("{before}age AGE,{after}"), expected);
    }
}

#[test]
fn summary_shows_totals_of_threads_in_version_2() {
    let site = Site::with_messages();
    let answers = answers(&client_output("opt-c-h"), Dialect::New);
    let (run, _) = ask(&site, fake_server(&answers), "--summary");
    expect_test::expect![[r#"
        DESTINATION         MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
        smtpx/[127.0.0.66]     3      6    0      3     0     54s  smtp; 500 (connect to 127.0.0.66 [127.0.0.66|2525|127.0.0.1|...
        total                  3      6    0      3     0
    "#]]
    .assert_eq(&run.good());
    let (run, _) = ask(&site, fake_server(&answers), "-SS");
    assert_eq!(run.good(), "smtpx/[127.0.0.66]:\n\t  3 files\n");
    let (run, _) = ask(&site, fake_server(&answers), "-S -c smtpx");
    assert!(run.good().contains("3 files, 1735 bytes total"), "{run:?}");
}

#[test]
fn channel_and_host_options_filter_requests() {
    let site = Site::new();
    let answers = answers(&client_output("opt"), Dialect::New);
    for (options, headings) in [
        ("-c hold", &["hold/timeout:2100000000:"][..]),
        ("-h Kill.ta.test", &["smtp-sim/kill.ta.test:"]),
        ("-c SMTPX", &["smtpx/[127.0.0.67]:", "smtpx/[127.0.0.66]:", "smtpx/[127.0.0.1]:"]),
    ] {
        let (run, requests) = ask(&site, fake_server(&answers), options);
        let shown = run.good();
        let found: Vec<&str> = shown.lines().filter(|line| !line.starts_with('\t')).collect();
        assert_eq!(found, headings, "{options}");
        assert_eq!(requests.len(), 3 + headings.len(), "{requests:?}");
    }
}

#[test]
fn empty_queue_has_text_of_version_1() {
    let site = Site::new();
    let fake_server = FakeServer::with_answers(&[("SHOW QUEUE THREADS2", text(b""))]);
    let (run, _) = ask(&site, fake_server, "");
    assert_eq!(run.good(), "Transport queue is empty -- or scheduler uses -Q -mode\n");
}

#[test]
fn etrn_and_kill_print_reply() {
    let site = Site::new();
    for (name, command, said) in [
        ("12-etrn", "etrn [127.0.0.66]", "an ETRN started something.\n"),
        ("12-etrn", "etrn Q.hold.test", "an ETRN didn't start anything.\n"),
        ("16-kill-msg-notfound", "-K nosuchid", "KILLed something.\n"),
        ("17-kill-msg-byfile", "--kill 10101219", "KILLed something.\n"),
    ] {
        let fake_server = FakeServer::of(RecordedSession::recorded(name));
        let port = fake_server.port;
        let run = site.mailq(&format!("-p {port} -U root/sekret --server 127.0.0.1 {command}"));
        assert_eq!(run.good(), said, "{command}");
        fake_server.end();
    }
    let run = site.ask(&recorded("full.s2c"), "-K 5");
    run.failed(69, "speaks MAILQ version 1, and takes no requests");
    assert_eq!(run.text(), "");
}

#[test]
fn failed_logins_are_explained() {
    let site = Site::new();
    for (name, login, words) in [
        (
            "07-auth-fail-badpw",
            "nobody/wrong",
            "the password of user nobody\nmailq: put user/password",
        ),
        (
            "08-auth-fail-baduser",
            "fred/wrong",
            "does not accept user fred from this host: BAD USER OR AUTH",
        ),
    ] {
        let (run, _) = ask(
            &site,
            FakeServer::of(RecordedSession::recorded(name)),
            &format!("-QQQ -U {login}"),
        );
        run.failed(77, words);
        assert_eq!(run.text(), "");
    }
}

#[test]
fn login_file_is_used() {
    let site = Site::new();
    let path = site.path("login");
    std::fs::write(&path, "root/sekret\nmore\n").expect("written");
    let options = format!("--login-file {} etrn [127.0.0.66]", path.display());
    let fake_server = FakeServer::of(RecordedSession::recorded("12-etrn"));
    let run = site.mailq(&format!("-p {} --server 127.0.0.1 {options}", fake_server.port));
    assert_eq!(run.good(), "an ETRN started something.\n");
    fake_server.end();
    site.mailq("--server 127.0.0.1 --login-file /no/such/file")
        .failed(64, "/no/such/file: No such file");
}

#[test]
fn refused_requests_are_explained() {
    let site = Site::new();
    for (options, needs) in [("", "TT"), ("-Q", "TT"), ("-QQ", "QQ"), ("-QQQ", "SNMP")] {
        let (run, _) = ask(&site, FakeServer::with_answers(&[]), options);
        run.failed(77, "was refused for user nobody: MAILQ2 Unknown command");
        run.failed(77, &format!("it requires {needs} or ALL"));
        assert_eq!(run.text(), "");
    }
    let refused = b"-No ETRN allowed for you.\n".to_vec();
    let fake_server = FakeServer::with_answers(&[("ETRN a.test", refused)]);
    let run = site.mailq(&format!("-p {} --server 127.0.0.1 etrn a.test", fake_server.port));
    run.failed(77, "ETRN a.test was refused for user nobody: No ETRN allowed for you.");
    fake_server.end();
}

#[test]
fn cut_answer_fails() {
    let site = Site::new();
    let listing = client_output("opt");
    let mut answers = answers(&listing, Dialect::New);
    // Everything behind the third thread is missing.
    answers[3].1.truncate(60);
    let whole: usize = 3;
    let end = |name: &str| answers.iter().position(|(request, _)| request == name).expect(name);
    assert_eq!(end("SHOW QUEUE THREADS2"), 14);
    let bytes: Vec<u8> = std::iter::once(b"version zmailer 2.0\n220 x\n+OK\n".to_vec())
        .chain([answers[14].1.clone()])
        .chain(answers[..=whole].iter().map(|(_, answer)| answer.clone()))
        .flatten()
        .collect();
    let run = site.ask(&bytes, "");
    run.failed(76, "closes the connection before the end of its answer");
    let shown = with_one_time(&run.text());
    assert!(listing.starts_with(&shown), "{shown}");
    assert_eq!(shown.lines().filter(|line| !line.starts_with('\t')).count(), whole);
}

#[test]
fn malformed_lines_are_reported_in_version_2() {
    let site = Site::new();
    let answer = text(b"#\nx\n7\t0\ta\tb\t0\t0\t0\t0\t\tz\n7\t0\ta\t5\t0\t0\t0\t0\t\t\x1b[2J\n");
    let (run, _) =
        ask(&site, FakeServer::with_answers(&[("SHOW THREAD c h", answer)]), "-c c -h h");
    run.failed(76, "incomplete line of a recipient in \"x\"");
    run.failed(76, "a number is missing in \"7 0 a b");
    assert_eq!(run.text(), "c/h:\n\t7: (0 tries) ^[[2J\n");
    let (run, _) =
        ask(&site, FakeServer::with_answers(&[("SHOW QUEUE THREADS2", text(b"x\n"))]), "");
    run.failed(76, "no destination in \"x\"");
}
