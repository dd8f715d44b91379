//! The output, compared with that of ZMailer's client.
//!
//! ZMailer's outputs were recorded some seconds after its scheduler's answer. Its order of channels
//! came from a hash table; in these recordings it is that of the scheduler, as ours always is.
//!
//! Intended differences:
//!
//! | request | ZMailer | ours | why |
//! |---|---|---|---|
//! | `-M` | the counters in shared memory | says so, and the queue | we have no shared memory |
//! | `-Q`, `-QQ`, `-QQQ` | nothing (by UNIX socket: crashes) | the report | its manual says so |
//! | `-c`, `-h` | no effect in version 1 | show only that | otherwise they have no use |
//! | two channels, one host | both under one heading | each under its own | it is wrong |
//! | `-v` of a file without `e` line | no sender | the `s` line's | `e` lines are optional |
//! | `-p` with an unknown word | port 174 | an error | it is a mistake |
//! | a stream without `End:` | never ends | fails, shows nothing | it is not complete |
//! | another host | `[canonical name]` first | `[name as given]` first | the name is enough |
//! | control characters, CR | raw | printable, a blank | terminals would interpret them |
//! | status after a failure | mostly 0 | 64, 69, 72, 76 | scripts need it |

use super::support::{Run, Site, printed, recorded, serve_unix};

/// Returns a scheduler's answer as it would be `seconds` later: times of waiting mail are lower.
fn later(answer: &[u8], seconds: i64) -> String {
    let text = String::from_utf8(answer.to_vec()).expect("a recording in ASCII");
    let text = replace_seconds(&text, "(retry in ", |left| match left - seconds {
        left @ 1.. => format!("(retry in {left}s"),
        _ => "(activation pending, thread inactive".to_string(),
    });
    replace_seconds(&text, ", expires in 59m", |left| {
        format!(", expires in 59m{}s", left - seconds)
    })
}

fn replace_seconds(text: &str, before: &str, replacement: impl Fn(i64) -> String) -> String {
    let mut pieces = text.split(before);
    let mut replaced = pieces.next().expect("a first piece").to_string();
    for piece in pieces {
        let (seconds, rest) = piece.split_once('s').expect("a number of seconds");
        replaced.push_str(&replacement(seconds.parse().expect("a number of seconds")));
        replaced.push_str(rest);
    }
    replaced
}

#[track_caller]
fn assert_same(run: &Run, recording: &str) {
    let expected = String::from_utf8(recorded(recording)).expect("a recording in ASCII");
    assert_eq!(run.good(), printed(&expected), "{recording}");
}

#[test]
fn listing_equals_recording() {
    let site = Site::new();
    let answer = later(&recorded("full.s2c"), 1);
    assert_same(&site.ask(answer.as_bytes(), ""), "opt.out");
    assert_same(&site.ask(answer.as_bytes(), "-t -E x -U nobody/nobody -4"), "opt.out");
    let answer = later(&recorded("tcp.s2c"), 1);
    assert_same(&site.ask(answer.as_bytes(), ""), "tcp.out");
}

#[test]
fn listing_over_unix_socket_equals_recording() {
    let site = Site::new();
    let socket = site.path("mailq");
    let answer = later(&recorded("full.s2c"), 1);
    let server = serve_unix(&socket, answer.into_bytes());
    assert_same(&site.mailq(&format!("-p {}", socket.display())), "opt.out");
    server.join().expect("the client was served");
}

#[test]
fn message_details_equal_recording() {
    let site = Site::with_messages();
    let answer = later(&recorded("full.s2c"), 6);
    assert_same(&site.ask(answer.as_bytes(), "-v"), "opt-v.out");
    // The user who runs the tests owns the files.
    assert_same(&site.ask(answer.as_bytes(), "-i"), "opt-v.out");
}

#[test]
fn message_sizes_and_ages_are_shown() {
    let site = Site::with_messages();
    let hour = std::time::Duration::from_secs(3600 + 120);
    let then = std::time::SystemTime::now() - hour;
    let message = std::fs::File::options().write(true).open(site.spool().join("queue/10101206"));
    message.expect("a message").set_modified(then).expect("its time is set");
    let shown = site.ask(&recorded("full.s2c"), "-vv -h [127.0.0.66] -c smtpx").good();
    let id =
        "\t  id\t<S10101206AbmKUKEc72hCS/20261121100443Z+2@zm.example.test>, 479 bytes, age 1h";
    assert!(shown.contains(id), "{shown}");
    assert!(shown.contains("\t  id\t<two.20261121@zm.example.test>, 486 bytes, age "), "{shown}");
    assert_eq!(shown.matches("\t  to\t").count(), 3, "{shown}");
}

#[test]
fn option_u_shows_only_messages_of_user() {
    let site = Site::with_messages();
    let full = recorded("full.s2c");
    let nobody = site.ask(&full, "-u nobody").good();
    let own = site.ask(&full, "-i").good();
    let is_run_by_nobody = nobody == own;
    assert!(is_run_by_nobody || nobody == "No user messages found\n", "{nobody}");
    assert_eq!(site.ask(&recorded("optionQ.s2c"), "-i").good(), "No user messages found\n");
    site.mailq("-u no-such-user-here").failed(64, "no-such-user-here");
}

#[test]
fn status_lines_equal_recording() {
    let site = Site::with_messages();
    for (file, text) in [
        ("router/1", "x".to_string()),
        ("router/2", "x".to_string()),
        (".pid.router", "99999999\n".to_string()),
        (".pid.scheduler", format!("{}\n", std::process::id())),
    ] {
        std::fs::write(site.spool().join(file), text).expect("written");
    }
    let here = site.spool().display().to_string();
    let recorded_out = String::from_utf8(recorded("opt-s.out")).expect("ASCII");
    let expected = recorded_out.replace("/opt/zm/spool/postoffice", &here);
    let answer = later(&recorded("full.s2c"), 5);
    assert_eq!(site.ask(answer.as_bytes(), "-s").good(), printed(&expected));
    // With two `-s` there is no request to a scheduler.
    let lines = expected.split_inclusive('\n').take(2).collect::<String>();
    assert_eq!(site.mailq("-ss").good(), lines);
    // A well-known monitoring program uses these options.
    let report = site.ask(&recorded("optionQ.s2c"), "-sQQ").good();
    assert!(report.starts_with(&lines) && report.contains("\nKids: 2  Idle:  0"), "{report}");
}

#[test]
fn hidden_messages_give_empty_listing() {
    let site = Site::new();
    let text = "Transport queue is empty -- or scheduler uses -Q -mode\n";
    assert_eq!(site.ask(&recorded("optionQ.s2c"), "").good(), text);
    assert_eq!(site.ask(&recorded("optionQ.s2c"), "-c c").good(), text);
    assert_eq!(site.ask(&recorded("optionQ.s2c"), "--summary").good(), text);
}

#[test]
fn report_equals_recording() {
    let site = Site::new();
    for name in ["full.s2c", "sigusr2.s2c", "no-expiry.s2c", "optionQ.s2c", "tcp.s2c", "unix.s2c"] {
        let answer = String::from_utf8(recorded(name)).expect("ASCII");
        let (_, report) = answer.split_once("\nEnd:\n").expect("a report");
        assert_eq!(site.ask(answer.as_bytes(), "-Q").good(), report, "{name}");
        let without_threads: String =
            report.split_inclusive('\n').filter(|line| !line.starts_with(' ')).collect();
        for level in ["-QQ", "-QQQ", "-QQQQ"] {
            assert_eq!(site.ask(answer.as_bytes(), level).good(), without_threads, "{name}");
        }
    }
}

#[test]
fn channel_and_host_options_filter_listing() {
    let site = Site::new();
    let full = recorded("full.s2c");
    for (options, headings) in [
        ("-c hold", &["hold/timeout:2100000000:"][..]),
        ("-c SMTPX", &["smtpx/[127.0.0.1]:", "smtpx/[127.0.0.66]:", "smtpx/[127.0.0.67]:"]),
        ("-h Kill.ta.test", &["smtp-sim/kill.ta.test:"]),
        ("--channel smtpx --host [127.0.0.67]", &["smtpx/[127.0.0.67]:"]),
    ] {
        let shown = site.ask(&full, options).good();
        let found: Vec<&str> = shown.lines().filter(|line| !line.starts_with('\t')).collect();
        assert_eq!(found, headings, "{options}");
    }
    let nothing = site.ask(&full, "-c hold -h kill.ta.test").good();
    assert_eq!(nothing, "Nothing in the queue for hold/kill.ta.test\n");
    let report = site.ask(&full, "-Q -c hold").good();
    let expected = "hold/*/0\n    hold/timeout:2100000000/0\tN=2   R=2   A=4  W=18s QA=14s\n\
        \tThreads:    1 Msgs:     2 Procs:   1 Idle:   1 Plim:  20 Flim: 150 Tlim: 1\n\
        Kids: 11  Idle: 10  Msgs:  11  Thrds:  12  Rcpnts:   15  Uptime: 14s\n\
        Msgs in 78 out 38 stored 11 Rcpnts in 540 out 477 stored 18\n";
    assert_eq!(report, expected);
}

#[test]
fn thread_sizes_are_shown() {
    let site = Site::with_messages();
    let shown = site.ask(&recorded("full.s2c"), "-S -c smtpx").good();
    let expected = "smtpx/[127.0.0.1]:\n\t  1 file, 427 bytes total, 427 bytes average\n\
        smtpx/[127.0.0.66]:\n\t  3 files, 1735 bytes total, 578 bytes average\n\
        smtpx/[127.0.0.67]:\n\t  1 file, 486 bytes total, 486 bytes average\n";
    assert_eq!(shown, expected);
    let counted = site.ask(&recorded("full.s2c"), "-SS -c hold").good();
    assert_eq!(counted, "hold/timeout:2100000000:\n\t  2 files\n");
    // Its messages are not in our spool.
    let unknown = site.ask(&recorded("tcp.s2c"), "-S -h h0.test").good();
    assert_eq!(unknown, "c/h0.test:\n\t  2 files, no file size info available\n");
}

#[test]
fn summary_shows_totals_of_threads() {
    let site = Site::new();
    let shown = site.ask(&recorded("full.s2c"), "--summary").good();
    expect_test::expect![[r#"
        DESTINATION               MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
        smtpx/[127.0.0.1]            1      1    0      1     0     14s  ->> 450 4.2.1 mailbox busy
        smtpx/[127.0.0.66]           3      4    0      3     0     14s  smtp; 500 (connect to 127.0.0.66 [127.0.0.66|2525|127.0.0.1|...
        smtpx/[127.0.0.67]           1      1    0      1     0     14s  smtp; 500 (connect to 127.0.0.67 [127.0.0.67|2525|127.0.0.1|...
        hold/timeout:2100000000      2      2    0      2     0     14s  deferred
        smtp-sim/host5.ta.test       1      1    0      1     0     14s  sim deferred: host busy
        smtp-sim/die.ta.test         1      2    0      1     0     14s
        smtp-sim/re.ta.test          1      1    0      1     0     14s  come back later
        smtp-sim/db.ta.test          1      1    0      1     0     14s  sim deferback
        smtp-sim/da.ta.test          1      1    0      1     0     14s  sim deferall
        smtp-sim/partial.ta.test     1      1    0      1     0     14s
        smtp-sim/kill.ta.test        1      1    0      1     0     14s
        smtp-sim/mix.ta.test         1      2    1      0     0     14s  sim deferred: host busy
        total                       15     18    1     14     0
    "#]]
    .assert_eq(&shown);
    let shown = site.ask(&recorded("tcp.s2c"), "--summary -h g0.test").good();
    expect_test::expect![[r#"
        DESTINATION  MSGS  RCPTS  RUN  RETRY  WAIT  OLDEST  LAST TEXT
        c/g0.test       1      1    0      0     1      5s
        total           1      1    0      0     1
    "#]]
    .assert_eq(&shown);
}

#[test]
fn option_d_shows_received_lines() {
    let site = Site::new();
    let run = site.ask(b"version zmailer 1.0\nVertices:\nEnd:\n", "-d");
    assert_eq!(run.err, "- version zmailer 1.0\n- Vertices:\n- End:\n");
    assert_eq!(run.status, 0);
}

#[test]
fn shared_memory_option_asks_scheduler() {
    let run = Site::new().ask(&recorded("tcp.s2c"), "-M");
    assert!(run.err.contains("shared memory (-M) is not supported"), "{run:?}");
    assert_eq!((run.status, run.text()), (0, Site::new().ask(&recorded("tcp.s2c"), "").good()));
}

#[test]
fn channels_of_one_host_have_separate_headings() {
    let answer = b"version zmailer 1.0\nVertices:\n1:\t11\t1; 1\t#(x)\n2:\t12\t1; 1\t#(x)\n\
        Channels:\na:\t>1\nb:\t>2\nHosts:\nh:\t>1>2\nEnd:\n";
    let shown = Site::new().ask(answer, "").good();
    assert_eq!(shown, "a/h:\n\t11:\t(x)\nb/h:\n\t12:\t(x)\n");
}
