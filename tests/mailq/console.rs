//! The commands with a simulated scheduler: their requests, and their output.

use super::fake_scheduler::{control, full, json};
use super::fake_server::{FakeServer, text};
use super::support::{Site, recorded};
use expect_test::{Expect, expect};
use std::fs;

#[track_caller]
fn check(site: &Site, arguments: &str, expected: &Expect) {
    let shown = site.mailq(arguments).good();
    if let Some((_, width)) = arguments.split_once("--width ") {
        let width: usize = width.parse().expect("a number");
        assert!(shown.lines().all(|line| line.chars().count() <= width), "{shown}");
    }
    expected.assert_eq(&shown);
}

#[test]
fn summary_fits_terminal_width() {
    let site = Site::new();
    let _control = full(&site);
    check(
        &site,
        "summary --width 80",
        &expect![[r#"
            1,203 messages for 2,404 recipients, 3 destinations; the oldest is 1d old
            up 1h14m: 5,384 messages in, 4,181 out; 44,189 recipients in, 41,785 out
            per minute over 1, 5, 15 min: 320, 320, 2.0 recipients in; 310, 300, 0 out
            12 agents, 1 idle; 1 destination on hold
            warning: no command for uucp/* (scheduler.cf:30): mail for 2 destinations stays
                queued

            BUSIEST                    MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE
            smtp/mx.test              1,200  2,400     2,400      1d       0  retry 16:11:43
            smtp/a-host-with-a-rath…      2      3         0     59s       1  at work
            hold/x                        1      1         1      1h       0  on hold

            MOST TROUBLED  UNDELIVERED  SHARE  OLDEST  LAST TEXT
            smtp/mx.test         2,400   100%      1d  ->> 451 4.4.1 ^[[31mnot now, please …
            hold/x                   1   100%      1h  5\u{9b}2J

            CLAUSE   MSGS  DESTS  AGENTS  IDLE  LIMIT
            smtp/*  1,202      2      10     0     10
            hold/*      1      1       2     1     20
        "#]],
    );
    check(
        &site,
        "summary --width 140",
        &expect![[r#"
            1,203 messages for 2,404 recipients, 3 destinations; the oldest is 1d old
            up 1h14m: 5,384 messages in, 4,181 out; 44,189 recipients in, 41,785 out
            per minute over 1, 5, 15 min: 320, 320, 2.0 recipients in; 310, 300, 0 out
            12 agents, 1 idle; 1 destination on hold
            warning: no command for uucp/* (scheduler.cf:30): mail for 2 destinations stays queued

            BUSIEST                                                MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE
            smtp/mx.test                                          1,200  2,400     2,400      1d       0  retry 16:11:43
            smtp/a-host-with-a-rather-long-name.mail.example.org      2      3         0     59s       1  at work
            hold/x                                                    1      1         1      1h       0  on hold

            MOST TROUBLED  UNDELIVERED  SHARE  OLDEST  LAST TEXT
            smtp/mx.test         2,400   100%      1d  ->> 451 4.4.1 ^[[31mnot now, please come back later when there is more room
            hold/x                   1   100%      1h  5\u{9b}2J

            CLAUSE   MSGS  DESTS  AGENTS  IDLE  LIMIT
            smtp/*  1,202      2      10     0     10
            hold/*      1      1       2     1     20
        "#]],
    );
}

#[test]
fn lists_fit_terminal_width() {
    let site = Site::new();
    let _control = full(&site);
    check(
        &site,
        "list --width 80",
        &expect![[r#"
            DESTINATION            MSGS  DEFERRED  OLDEST  STATE             LAST TEXT  …
            smtp/mx.test          1,200     2,400      1d  retry 2001-09-23  ->> 451 4.4.1 …
            smtp/a-host-with-a-…      2         0     59s  at work
            hold/x                    1         1      1h  on hold           5\u{9b}2J
        "#]],
    );
    check(
        &site,
        "list --width 140",
        &expect![[r#"
            DESTINATION                        MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE             LAST TEXT
            smtp/mx.test                      1,200  2,400     2,400      1d       0  retry 2001-09-23  ->> 451 4.4.1 ^[[31mnot now, please come back l…
            smtp/a-host-with-a-rather-long-…      2      3         0     59s       1  at work
            hold/x                                1      1         1      1h       0  on hold           5\u{9b}2J
        "#]],
    );
    check(
        &site,
        "list -m smtp/* --width 80",
        &expect![[r#"
        ID                  DESTINATION   RCPTS  AGE  TRIES  STATE    EXPIRES  LAST TEXT
        S4711AbmKUKEJuveqC  smtp/mx.test      2   1d      6  waiting        -  451 busy
        S4712AbmKUKEJuveqD  smtp/mx.test      1   5s      0  held           -
    "#]],
    );
    check(
        &site,
        "ages --width 80",
        &expect![[r#"
            DESTINATION                                 RCPTS  10  40  160  640     640+
            TOTAL                                     1000003   3   0    0    0  1000000
            smtp/a-host-with-a-rather-long-name.test  1000000   0   0    0    0  1000000
            smtp/b^[.test                                   3   3   0    0    0        0
        "#]],
    );
    check(
        &site,
        "ages --width 140",
        &expect![[r#"
        DESTINATION                                 RCPTS  5  10  20  40  80  160  320  640  1280    1280+
        TOTAL                                     1000003  3   0   0   0   0    0    0    0     0  1000000
        smtp/a-host-with-a-rather-long-name.test  1000000  0   0   0   0   0    0    0    0     0  1000000
        smtp/b^[.test                                   3  3   0   0   0   0    0    0    0     0        0
    "#]],
    );
    check(
        &site,
        "rings --width 80",
        &expect![[r#"
            CLAUSE   MSGS  DESTS  AGENTS  IDLE  LIMIT  PER-DEST  AHEAD
            smtp/*  1,202      2      10     0     10         1      0
            hold/*      1      1       2     1     20         1    150
        "#]],
    );
    check(
        &site,
        "agents --width 80",
        &expect![[r#"
             PID  STATE  CLAUSE  DESTINATION                        JOBS    AGE  HUNGRY  FED
            4712  STUFF  smtp/*  smtp/a-host-with-a-rather-long-n…     2  1m40s      4s   4s
            4713  IDLE   hold/*  -                                     0  1m40s     30s    -
        "#]],
    );
    check(
        &site,
        "orders --width 80",
        &expect![[r#"
            ORDER      SCOPE         BY     SINCE       UNTIL       REASON
            hold       smtp/mx.test  root   2001-09-23  -           they ^[[5mmove house
            maxring=5  ring=smtp/*   uid 0  2001-09-23  2001-09-23
        "#]],
    );
}

#[test]
fn show_prints_all_fields() {
    let site = Site::new();
    let _control = full(&site);
    check(
        &site,
        "show mx.test",
        &expect![[r#"
            destination  smtp/mx.test
            messages     1,200, oldest 1d
            recipients   2,400
            deferred     2,400
            held         0
            state        retry 2001-09-23
            why          smtp/mx.test: 3 messages wait
            clause       smtp/*
            last text    <<- MAIL From:<a@b>
            last text    ->> 451 4.4.1 ^[[31mnot now, please come back later when there is more room

            ID                  DESTINATION   RCPTS  AGE  TRIES  STATE    EXPIRES  LAST TEXT
            S4711AbmKUKEJuveqC  smtp/mx.test      2   1d      6  waiting        -  451 busy
            S4712AbmKUKEJuveqD  smtp/mx.test      1   5s      0  held           -
        "#]],
    );
    check(
        &site,
        "show 4711",
        &expect![[r#"
        S4711AbmKUKEJuveqC
          from	<a@b>^[[2J
        .
    "#]],
    );
    check(
        &site,
        "why smtp/MX.test",
        &expect![[r#"
        smtp/mx.test: 3 messages wait
    "#]],
    );
    check(
        &site,
        "counters",
        &expect![[r#"
        Time_now  5
    "#]],
    );
}

#[test]
fn json_option_prints_answers_unchanged() {
    let site = Site::new();
    let _control = full(&site);
    for (arguments, expected) in [
        ("summary --json", json("summary")),
        ("list --json --limit 1001", json("threads").replace('\u{9b}', "\\u009b")),
        ("rings --json", json("rings")),
        ("agents --json", json("agents")),
        ("orders --json", json("orders")),
        ("list -m smtp/* --json", json("messages")),
        ("show 4711 --json", "{\"id\":\"S4711\\u009b\"}\n".to_string()),
        ("why smtp/mx.test --json", "{\"why\":\"retry\"}\n".to_string()),
        ("counters --json", "{\"time\":5}\n".to_string()),
    ] {
        assert_eq!(site.mailq(arguments).good(), expected, "{arguments}");
    }
}

#[test]
fn lists_say_if_there_are_more_rows() {
    let site = Site::new();
    let (messages, threads) = (json("messages"), json("threads"));
    let repeated = threads.repeat(7);
    let _control = control(
        &site,
        &[
            ("SHOW JSON MESSAGES smtp/* limit=2", &messages),
            ("SHOW JSON MESSAGES smtp/* limit=3", &messages),
            ("SHOW JSON THREADS smtp/* limit=3 sort=backlog", &threads),
            ("SHOW JSON THREADS smtp/* limit=4 sort=backlog", &threads),
            ("SHOW JSON THREADS smtp/* limit=21 sort=backlog", &repeated),
        ],
    );
    for (arguments, lines, end) in [
        ("list -m smtp/* --limit 1", 3, Some("... and more; option --limit sets")),
        ("list -m smtp/* --limit 2", 3, None),
        ("list smtp/* --limit 2", 4, Some("... and more; option --limit sets")),
        ("list smtp/* --limit 3", 4, None),
        ("show smtp/*", 22, Some("... and more; list shows all")),
    ] {
        let shown = site.mailq(arguments).good();
        assert_eq!(shown.lines().count(), lines, "{arguments}: {shown}");
        let last = shown.lines().last().expect("a line");
        assert_eq!(last.starts_with("... and more"), end.is_some(), "{arguments}: {shown}");
        assert!(end.is_none_or(|end| last.starts_with(end)), "{arguments}: {shown}");
    }
}

#[test]
fn show_prints_json_of_each_matching_destination() {
    let site = Site::new();
    let one = "{\"channel\":\"smtp\",\"host\":\"a\"}\n";
    let _control = control(
        &site,
        &[
            ("SHOW JSON THREADS */a limit=1001 sort=backlog", &one.repeat(2)),
            ("SHOW JSON THREADS smtp/* limit=1001 sort=backlog", &one.repeat(1001)),
        ],
    );
    assert_eq!(site.mailq("show a --json").good(), one.repeat(2));
    let run = site.mailq("show smtp/* --json");
    assert_eq!((run.status, run.text()), (0, one.repeat(1000)));
    assert!(run.err.contains("more than 1000 rows match"), "{run:?}");
}

#[test]
fn trace_ends_session_after_failure() {
    let site = Site::new();
    let control = control(&site, &[("SHOW JSON WHY S4711AbmKUKEJuveqC", "-No permission\n")]);
    site.mailq("trace S4711AbmKUKEJuveqC").failed(77, "does not support SHOW JSON WHY");
    assert_eq!(control.take_requests(), ["SHOW JSON WHY S4711AbmKUKEJuveqC", "QUIT"]);
}

#[test]
fn orders_report_affected_mail() {
    let site = Site::new();
    let outcome =
        r#"+OK {"messages":12,"recipients":40,"threads":1,"busy":2,"held":0,"dry_run":false}"#;
    let outcome = format!("{outcome}\n");
    let nothing = "+OK {\"messages\":0}\n".to_string();
    let done = "Put on hold: 12 messages, 40 recipients, 1 destination\n\
        2 recipients are with agents now: the order applies to what they leave undelivered\n";
    let cases = [
        ("hold SMTP/Mx.test --reason moving", "HOLD smtp/mx.test reason=moving", &outcome, done),
        (
            "hold ring=smtp/*",
            "HOLD ring=smtp/*",
            &nothing,
            "The hold is in force. It changes no mail that is queued now.\n",
        ),
        ("release --all", "RELEASE ALL", &nothing, "Hold removed. It held no queued mail.\n"),
    ];
    let vain = [
        (
            "retry mx.test",
            "RETRY */mx.test",
            "mx.test (as a host; a channel is named mx.test/*, a recipient by --recipient)",
        ),
        ("expire 4711 -y", "EXPIRE id=4711", "4711"),
        (
            "delete --sender <> --older 5d --dry-run",
            "DELETE sender=<> older=5d dry-run=yes",
            "sender=<> older=5d",
        ),
        ("reroute --recipient *@a", "REROUTE recipient=*@a", "recipient=*@a"),
    ];
    let other = [
        (
            "set ring=smtp/* maxring=5 --for 2h",
            "SET ring=smtp/* maxring=5 for=2h",
            "Limits changed.\n",
        ),
        ("set maxta=7", "SET ring=*/* maxta=7", "Limits changed.\n"),
        ("unset smtp/a maxthr", "UNSET smtp/a maxthr", "Limits changed.\n"),
        ("retire 4712", "RETIRE 4712", "Agent ends after its current job.\n"),
        ("reload", "RELOAD", "Configuration reloaded.\n"),
        ("log debug", "LOG debug", "Log level: debug.\n"),
    ];
    let mut answers: Vec<(&str, &str)> =
        cases.iter().map(|(_, request, answer, _)| (*request, answer.as_str())).collect();
    answers.extend(vain.iter().map(|(_, request, _)| (*request, nothing.as_str())));
    answers.extend(other.iter().map(|(_, request, _)| (*request, "+OK\n")));
    answers.push(("DELETE id=5", "-the disk is full\n"));
    answers.push(("ETRN x", "-a.cf:1:2: no\ta.cf:3:4: \u{9b}nor\tand 2 more\n"));
    let control = control(&site, &answers);
    for (arguments, request, _, told) in cases {
        assert_eq!(site.mailq(arguments).good(), told, "{arguments}");
        assert_eq!(control.take_requests().first().map(String::as_str), Some(request));
    }
    for (arguments, request, named) in vain {
        let told = format!("mailq: no matching mail now: {named}\n");
        site.mailq(arguments).failed(1, &told);
        assert_eq!(control.take_requests().first().map(String::as_str), Some(request));
    }
    for (arguments, request, told) in other {
        assert_eq!(site.mailq(arguments).good(), told, "{arguments}");
        assert_eq!(control.take_requests().first().map(String::as_str), Some(request));
    }
    site.mailq("delete 5").failed(69, "mailq: the disk is full");
    site.mailq("etrn x").failed(69, "mailq: a.cf:1:2: no\na.cf:3:4: \\u{9b}nor\nand 2 more\n");
    for arguments in ["delete", "set x", "set a b c=1", "hold --older soon", "log loud", "retire x"]
    {
        let run = site.mailq(arguments);
        assert_eq!((run.status, run.text().as_str()), (64, ""), "{run:?}");
    }
    let json = site.mailq("hold smtp/mx.test --reason moving --json").good();
    assert_eq!(format!("+OK {json}"), outcome);
}

#[test]
fn check_prints_line_and_sets_status() {
    let site = Site::new();
    {
        let _control = full(&site);
        for (arguments, status, words) in [
            (
                "",
                1,
                "MAILQ WARNING - no command for uucp/* (scheduler.cf:30): mail for 2 destinations \
                stays queued; 1,203 messages, 2,404 recipients, oldest 1d, 1 destination on hold | \
                messages=1203;;;0 ",
            ),
            ("--warn-age 1h", 1, "MAILQ WARNING - oldest 1d (more than 1h); no command for uucp/*"),
            (
                "--warn-age 1h --crit-count 1000",
                2,
                "MAILQ CRITICAL - oldest 1d (more than 1h); more than 1000",
            ),
            (
                "--crit-count 100 smtp/mx.test",
                2,
                "more than 100 messages; 1,200 messages, 2,400 rec",
            ),
            (
                "--crit-count 10000 smtp/mx.test",
                0,
                "MAILQ OK - 1,200 messages, 2,400 recipients, oldest",
            ),
        ] {
            let run = site.mailq(&format!("check {arguments}"));
            assert_eq!((run.status, run.err.as_str()), (status, ""), "{run:?}");
            let line = run.text();
            assert!(line.contains(words) && line.lines().count() == 1, "{line}");
        }
    }
    let site = Site::new();
    site.write_zenv("MAILQPORT=1\n");
    let run = site.mailq("check");
    assert_eq!((run.status, run.err.as_str()), (2, ""), "{run:?}");
    assert!(run.text().starts_with("MAILQ CRITICAL - the scheduler is not running: there is no "));
    let run = site.ask_command(b"220 mail.example.org ESMTP\r\n", "check");
    assert_eq!(run.status, 3, "{run:?}");
    assert!(run.text().starts_with("MAILQ UNKNOWN - "), "{run:?}");
    // Monitoring systems have only these statuses.
    for arguments in ["--warn-age soon", "--no-such-option", "-Z", "a/b c/d", "-v check"] {
        let run = site.mailq(&format!("check {arguments}"));
        assert_eq!((run.status, run.err.as_str()), (3, ""), "{run:?}");
        let line = run.text();
        assert!(line.starts_with("MAILQ UNKNOWN - ") && line.lines().count() == 1, "{line}");
    }
    assert_eq!(site.mailq("check --help").good().lines().next().map(str::is_empty), Some(false));
    fs::remove_file(site.path("zmailer.conf")).expect("removed");
    assert_eq!(site.mailq("check").status, 3);
}

/// A scheduler of ZMailer gets only requests that it supports.
#[test]
fn commands_work_with_zmailer_schedulers() {
    let site = Site::new();
    let dump = recorded("full.s2c");
    let run = site.ask_command(&dump, "summary --width 100");
    expect![[r#"
        11 messages for 18 recipients, 12 destinations; the oldest is 14s old
        up 14s: 78 messages in, 38 out; 540 recipients in, 477 out
        11 agents, 10 idle

        BUSIEST                  MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE
        smtpx/[127.0.0.66]          3      4         4     14s       0  retry TT:TT:TT
        hold/timeout:2100000000     2      2         2     14s       0  retry TT:TT:TT
        smtp-sim/da.ta.test         1      1         1     14s       0  retry TT:TT:TT
        smtp-sim/db.ta.test         1      1         1     14s       0  retry TT:TT:TT
        smtp-sim/die.ta.test        1      2         0     14s       0  retry TT:TT:TT
        ... and 7 more; list shows all

        MOST TROUBLED            UNDELIVERED  SHARE  OLDEST  LAST TEXT
        smtpx/[127.0.0.66]                 4   100%     14s  smtp; 500 (connect to 127.0.0.66 [127.0.0.66|2…
        hold/timeout:2100000000            2   100%     14s  deferred
        smtp-sim/die.ta.test               2   100%     14s  no agent has reported on it, and it is tried a…
        smtp-sim/da.ta.test                1   100%     14s  sim deferall
        smtp-sim/db.ta.test                1   100%     14s  sim deferback
        ... and 6 more, 16 recipients in all; list --sort undelivered shows all

        CLAUSE       MSGS  DESTS  AGENTS  IDLE  LIMIT
        smtp-sim/*      8      8       1     0      3
        smtpx/*         5      3       3     3      5
        hold/*          2      1       1     1     20
        bitbucket/*     0      0       1     1     20
        error/*         0      0       1     1     20
    "#]].assert_eq(&without_times(&run.good()));
    let run = site.ask_command(&dump, "check --warn-count 3");
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.text().contains("more than 3 messages; 11 messages, 18 recipients, oldest 14s"));
    site.ask_command(&dump, "hold smtp/x").failed(69, "takes no requests");
    site.ask_command(&dump, "list smtp/*").failed(69, "takes no requests");
    let report = recorded("v2/client/opt-Q.out");
    let text_of = "7\t0\ta\t5\t0\t0\t0\t0\t\t451 busy\n";
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("SHOW QUEUE THREADS", text(&report)),
        ("SHOW THREAD smtpx [127.0.0.66]", text(text_of.as_bytes())),
        ("SHOW THREAD smtp-sim host5.ta.test", text(text_of.as_bytes())),
        ("SHOW THREAD smtp-sim mix.ta.test", text(b"")),
        ("SHOW THREAD smtp-sim db.ta.test", text(b"")),
        ("SHOW THREAD smtp-sim da.ta.test", text(b"")),
        ("SHOW THREAD smtp-sim re.ta.test", text(b"")),
        ("SHOW THREAD smtpx [127.0.0.67]", text(b"")),
        ("SHOW THREAD smtpx [127.0.0.1]", text(b"")),
        ("SHOW THREAD hold timeout:2100000000", text(b"")),
    ];
    let ask = |arguments: &str| {
        let fake_server = FakeServer::with_answers(&answers);
        let run = site.mailq(&format!("{arguments} -p {} --server 127.0.0.1", fake_server.port));
        fake_server.end();
        run
    };
    expect![[r#"
        11 messages for 19 recipients, 14 destinations; the oldest is 1m3s old
        up 1m2s: 52 messages in, 15 out; 272 recipients in, 232 out
        9 agents, 9 idle

        BUSIEST                  MSGS  RCPTS  DEFERRED  OLDEST  AGENTS  STATE
        smtpx/[127.0.0.66]          3      4         4    1m3s       0  retry TT:TT:TT
        hold/timeout:2100000000     2      2         0    1m3s       0  its turn
        bitbucket/-                 1      1         0    1m3s       0  retry TT:TT:TT
        smtp-sim/da.ta.test         1      1         0    1m3s       0  its turn
        smtp-sim/db.ta.test         1      1         1    1m3s       0  retry TT:TT:TT
        ... and 9 more; list shows all

        MOST TROUBLED          UNDELIVERED  SHARE  OLDEST  LAST TEXT
        smtpx/[127.0.0.66]               4   100%    1m3s  451 busy
        smtp-sim/die.ta.test             2   100%    1m3s  no agent has reported on it,…
        bitbucket/-                      1   100%    1m3s  no agent has reported on it,…
        smtp-sim/db.ta.test              1   100%    1m3s
        smtp-sim/kill.ta.test            1   100%    1m3s  no agent has reported on it,…
        ... and 4 more, 13 recipients in all; list --sort undelivered shows all

        CLAUSE       MSGS  DESTS  AGENTS  IDLE  LIMIT
        smtp-sim/*      8      8       0     0      3
        smtpx/*         5      3       3     3      5
        hold/*          2      1       1     1     20
        bitbucket/*     1      1       0     0     20
        uucp/*          1      1       1     1     20
    "#]]
    .assert_eq(&without_times(&ask("summary --width 80").good()));
    expect![[r#"
        DESTINATION           MSGS  RCPTS  DEFERRED  OLDEST  STATE           LAST TEXT
        smtpx/[127.0.0.66]       3      4         4    1m3s  retry TT:TT:TT  451 busy
        smtp-sim/die.ta.test     1      2         0    1m3s  retry TT:TT:TT
        smtp-sim/mix.ta.test     1      1         1    1m3s  retry TT:TT:TT
        ... and more; option --limit sets how many are shown
    "#]]
    .assert_eq(&without_times(&ask("list --width 80 --sort undelivered --limit 3").good()));
    expect![[r#"
        CLAUSE       MSGS  DESTS  AGENTS  IDLE  LIMIT  PER-DEST  AHEAD
        smtp-sim/*      8      8       0     0      3         1    150
        uucp/*          1      1       1     1     20         1    150
        hold/*          2      1       1     1     20         1    150
        error/*         0      0       1     1     20         1    150
        bitbucket/*     1      1       0     0     20         1    150
        smtpx/*         5      3       3     3      5         1    150
        local/*         0      0       3     3      5         1    150
    "#]]
    .assert_eq(&ask("rings --width 80").good());
    assert!(ask("check").text().contains("11 messages, 19 recipients, oldest 1m3s"));
    ask("hold smtp/x").failed(77, "HOLD smtp/x was refused for user nobody");
    ask("list -m smtp/x").failed(77, "it requires TT or ALL");
}

/// Returns the text without times of day, which depend on the clock.
fn without_times(shown: &str) -> String {
    let mut parts = shown.split("retry ");
    let mut without = parts.next().unwrap_or_default().to_string();
    for part in parts {
        without.push_str("retry TT:TT:TT");
        without.push_str(&part["TT:TT:TT".len()..]);
    }
    without
}

#[test]
fn events_are_printed_as_they_arrive() {
    let site = Site::new();
    let events = concat!(
        "+OK until LF.LF\n",
        r#"{"time":1795259643.25,"event":"attempt","id":"S4711AbmKUKEJuveqC","channel":"smtp","host":"mx.test","pid":4712,"offset":214,"status":"deferred","text":"\r451 \u001b[2J"}"#,
        "\n",
        r#"{"event":"dropped","count":17}"#,
        "\n"
    );
    let cut = format!("BYE{events}");
    let _control = control(&site, &[("SUBSCRIBE smtp/*", &cut)]);
    let run = site.mailq("events smtp/*");
    // The scheduler has exited.
    run.failed(76, "closes the connection before the end of its answer");
    let expected = "11:14:03  attempt        S4711AbmKUKEJuveqC  smtp/mx.test  process 4712  deferred: \
        451 ^[[2J\n          dropped        17 events\n";
    assert_eq!(run.text(), expected);
    let run = site.mailq("events smtp/* --json");
    let sent: String = events.split_inclusive('\n').skip(1).collect();
    assert_eq!(run.text(), sent);
}
