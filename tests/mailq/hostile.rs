//! Hostile and broken servers.

use super::fake_scheduler::{control, json};
use super::support::{Run, Server, Site, recorded, run};
use super::terminal::on_terminal;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use zsched_format::printable::is_printable;

/// Returns a queue with one message that has this file name and text.
fn one_message(file: &str, text: &str) -> String {
    format!(
        "version zmailer 1.0\nVertices:\n1:\t{file}\t1; 67\t#{text}\nChannels:\nc:\t>1\nHosts:\n\
         h:\t>1\nEnd:\nKids: 0\n"
    )
}

#[test]
fn cut_answer_is_not_shown() {
    let site = Site::new();
    let full = recorded("full.s2c");
    let end = full.windows(5).position(|window| window == b"End:\n").expect("an end");
    for cut in [20, 30, 100, 1500, end - 1, end, end + 3] {
        for options in ["", "-Q", "--summary"] {
            let run = site.ask(&full[..cut], options);
            run.failed(76, "is incomplete");
            assert_eq!(run.text(), "", "{cut} {options}");
        }
    }
    // The listing does not need the report. With -Q the received part is shown.
    assert_eq!(site.ask(&full[..end + 5], "").status, 0);
    let run = site.ask(&full[..full.len() - 10], "-Q");
    run.failed(76, "the report is incomplete");
    assert!(run.text().starts_with("smtp-sim/*/0\n"));
}

#[test]
fn oversized_lines_are_refused() {
    let site = Site::new();
    for options in ["", "-Q"] {
        let server = Server::new(|mut stream| {
            let greeting = b"version zmailer 1.0\nVertices:\n";
            stream.write_all(greeting).expect("sent");
            // The client closes the connection long before the end.
            let chunk = vec![b'x'; 1 << 16];
            let sent = (0..1 << 14).take_while(|_| stream.write_all(&chunk).is_ok()).count();
            assert!(sent < 1 << 10, "{sent} chunks were taken");
        });
        let run = site.mailq(&format!("-p {} {options} 127.0.0.1", server.port));
        run.failed(76, "line 3 of the answer is longer than 50331648 bytes");
        server.end();
    }
    // Outside of these sections, the limit is lower.
    site.ask(&b"x".repeat((1 << 20) + 1), "")
        .failed(76, "line 1 of the answer is longer than 1048576");
    // A channel with many messages needs such a line.
    let keys = (1..=300_000).map(|key| format!(">{key}")).collect::<String>();
    let answer = format!(
        "version zmailer 1.0\nVertices:\n1:\t7\t1; 67\t#x\nChannels:\nc:\t{keys}\nHosts:\n\
         h:\t>1\nEnd:\nKids: 0\n"
    );
    site.ask(answer.as_bytes(), "").failed(76, "299999 keys that are unknown");
    assert_eq!(site.ask(answer.as_bytes(), "-Q").good(), "Kids: 0\n");
    // This line is long, but within the limit.
    let text = "x".repeat(1_000_000);
    assert_eq!(site.ask(one_message("7", &text).as_bytes(), "").good().len(), 1_000_010);
}

#[test]
fn malformed_lines_are_reported() {
    let site = Site::new();
    let answer = b"version zmailer 1.0\nVertices:\n1:\t7\t1; 67\t#text (x)\nnonsense \x1b[2J\n\
        2:\t8\t2; 1,2,3,4\t#(x)\n3:\t9\t99999999999; 1\t#(x)\n4:\tx\t0; \t#(x)\n\
        Channels:\nc:\t>1>2>3>77\nChannels:\nnothing\nHosts:\nh:\t>1>2\nEnd:\n";
    let run = site.ask(answer, "");
    run.failed(76, "mailq: line 4: not a message entry in \"nonsense ^[[2J\"\n");
    run.failed(76, "mailq: line 5: 4 offsets for 2 recipients in ");
    run.failed(76, "such as 77,");
    let expected = "c/?:\n\t9/99999999999:\t(x)\nc/h:\n\t8/2:\t(x)\n\t7:\ttext (x)\n";
    assert_eq!(run.text(), expected);
}

#[test]
fn reports_of_malformed_lines_are_limited() {
    let mut answer = b"version zmailer 1.0\nVertices:\n".to_vec();
    answer.extend(b"nonsense\n".repeat(100_000));
    answer.extend(b"End:\n");
    let run = Site::new().ask(&answer, "");
    run.failed(76, "mailq: and 99990 more like these");
    assert_eq!(run.err.lines().count(), 11);
}

#[test]
fn missing_sections_are_tolerated() {
    let site = Site::new();
    for (answer, output) in [
        ("Vertices:\n1:\t7\t1; 67\t#x\nEnd:\n", "?/?:\n\t7:\tx\n"),
        ("Vertices:\n1:\t7\t1; 67\t#x\nChannels:\nc:\t>1\nEnd:\n", "c/?:\n\t7:\tx\n"),
        ("Channels:\nEnd:\n", ""),
        ("End:\n", ""),
    ] {
        let run = site.ask(format!("version zmailer 1.0\n{answer}").as_bytes(), "");
        assert_eq!((run.status, run.text().as_str()), (76, output), "{answer}");
    }
}

#[test]
fn file_names_cannot_leave_spool() {
    let site = Site::with_messages();
    let control = site.spool().join("transport/10101206");
    fs::copy(&control, site.spool().join("10101206")).expect("copied");
    for file in ["../10101206", "/etc/passwd", "..", "A/../10101206"] {
        let run = site.ask(one_message(file, "x").as_bytes(), "-v");
        assert_eq!(run.text(), format!("c/h:\n\t{file}:\tx\n"));
        assert!(run.err.contains("is not a spool file name"), "{run:?}");
    }
    let run = site.ask(one_message("10101206", "x").as_bytes(), "-v");
    assert!(run.good().contains("\t  id\t"));
}

#[test]
fn odd_files_in_spool_are_tolerated() {
    let site = Site::with_messages();
    let transport = site.spool().join("transport");
    fs::write(transport.join("1"), "nonsense").expect("written");
    fs::create_dir(transport.join("2")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", transport.join("3")).expect("a link");
    let status = std::process::Command::new("mkfifo").arg(transport.join("4")).status();
    assert!(status.expect("mkfifo runs").success());
    for file in ["1", "2", "3", "4", "5"] {
        let run = site.ask(one_message(file, "x").as_bytes(), "-vv");
        assert_eq!((run.status, run.text()), (0, format!("c/h:\n\t{file}:\tx\n")));
        assert_eq!(run.err.is_empty(), file != "1", "{run:?}");
    }
}

/// Bytes that a terminal would interpret, or that would make texts look alike.
const HOSTILE: &[u8] = b"a\r\x1b[31mb\x07\x7f\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\x9b\xff";
/// Printed form of [`HOSTILE`].
const SHOWN: &str = r"a ^[[31mb^G^?\u{9b}2J\u{202e}\u{2028}\x9b\xff";

/// Returns a queue in which all names and texts are hostile.
fn hostile_queue() -> Vec<u8> {
    let mut answer = b"version zmailer 1.0\nVertices:\n1:\t7\t1; 67\t#".to_vec();
    for part in [&b" (retry in 5s)\nChannels:\nc"[..], b":\t>1\nHosts:\nh", b":\t>1\nEnd:\nc/"] {
        answer.extend_from_slice(HOSTILE);
        answer.extend_from_slice(part);
    }
    answer.extend_from_slice(HOSTILE);
    answer.extend_from_slice(b"/0\n    c/");
    answer.extend_from_slice(HOSTILE);
    answer.extend_from_slice(b"/0\tR=1   A=3  W=7s QA=54s\nKids: 0\n");
    answer
}

#[track_caller]
fn assert_printable(run: &Run) {
    let is_kept = |c: char| is_printable(c) || matches!(c, '\t' | '\n');
    let odd: Vec<char> =
        run.text().chars().chain(run.err.chars()).filter(|c| !is_kept(*c)).collect();
    assert!(odd.is_empty(), "{odd:?} in {run:?}");
}

#[test]
fn hostile_queue_is_printed_without_control_characters() {
    let site = Site::new();
    let run = site.ask(&hostile_queue(), "");
    let shown = format!("c{SHOWN}/h{SHOWN}:\n\t7:\t{SHOWN} (retry in 5s)\n");
    assert_eq!(run.text(), shown);
    for options in ["-Q", "-QQ", "-v", "-vv", "-S", "-SS", "--summary", "-d"] {
        let run = site.ask(&hostile_queue(), options);
        assert_printable(&run);
        assert!(run.text().contains(r"\u{9b}"), "{options}: {run:?}");
    }
    for command in ["summary", "list", "list --json", "rings", "show 7", "why c/h", "check"] {
        assert_printable(&site.ask_command(&hostile_queue(), command));
    }
}

#[test]
fn hostile_answers_to_all_commands_are_printed_without_control_characters() {
    let site = Site::new();
    let hostile = String::from_utf8_lossy(HOSTILE).into_owned();
    // Each text that a scheduler can choose is hostile.
    let spoil = |name: &str| {
        let spoilt = |line: &str| {
            let mut object: Value = serde_json::from_str(line).expect("an object");
            spoil_texts(&mut object, &hostile);
            format!("{object}\n")
        };
        json(name).lines().map(spoilt).collect::<String>()
    };
    let lines = format!("{hostile}\n\t{hostile}\n");
    let raw = |request: &str| (request.to_string(), lines.clone());
    let attempt = json!({
        "event": "attempt", "time": 1.0, "id": hostile, "channel": hostile, "host": hostile,
        "pid": 7, "offset": 9, "status": hostile, "report": hostile, "text": hostile,
    });
    let events = format!("{attempt}\n{}\n", json!({"event": hostile, "time": 1.0}));
    let mut answers = vec![
        ("SHOW JSON SUMMARY".to_string(), spoil("summary")),
        ("SHOW JSON RINGS".to_string(), spoil("rings")),
        ("SHOW JSON AGENTS".to_string(), spoil("agents")),
        ("SHOW JSON ORDERS".to_string(), spoil("orders")),
        ("SHOW JSON MESSAGES smtp/* limit=1001".to_string(), spoil("messages")),
        ("SHOW JSON MESSAGE 4711".to_string(), lines.clone()),
        ("SUBSCRIBE".to_string(), events),
        ("RELOAD".to_string(), format!("-{hostile}\t{hostile}\n")),
        ("KILL MSG 4711".to_string(), format!("+OK; {hostile}\n")),
        ("ETRN x".to_string(), format!("+OK; {hostile}\n")),
    ];
    for request in ["SHOW MESSAGE 4711", "SHOW WHY smtp/x", "SHOW JSON WHY smtp/x", "SHOW COUNTERS"]
    {
        answers.push(raw(request));
    }
    for sort in [
        "limit=20 sort=backlog",
        "limit=20 sort=undelivered",
        "limit=1001 sort=backlog",
        "limit=200 sort=backlog",
        "limit=200 sort=undelivered",
    ] {
        answers.push((format!("SHOW JSON THREADS {sort}"), spoil("threads")));
    }
    let answers: Vec<(&str, &str)> =
        answers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let _control = control(&site, &answers);
    for arguments in [
        "summary",
        "list",
        "list --json --limit 1001",
        "list -m smtp/*",
        "list -m smtp/* --json --limit 1001",
        "rings",
        "rings --json",
        "agents",
        "agents --json",
        "orders",
        "orders --json",
        "show 4711",
        "show 4711 --json",
        "why smtp/x",
        "why smtp/x --json",
        "counters",
        "check",
        "events",
        "events --json",
        "reload",
        "etrn x",
        "--why smtp/x",
    ] {
        let run = site.mailq(arguments);
        assert_printable(&run);
        let all = format!("{}{}", run.text(), run.err);
        let is_shown = ["^[[31mb", r"\u001b[31mb"].iter().any(|text| all.contains(text));
        assert!(is_shown || arguments == "check", "{arguments}: {all}");
    }
    let top = on_terminal(&site, 140, "", "top", &[("^[[31mb", "q")]);
    let text = top.text();
    assert!(text.contains("^[[31mb"), "{text:?}");
    // The program itself draws with escape sequences.
    for forbidden in ["\x1b[31mb", "\u{7}", "\u{7f}", "\u{9b}", "\u{202e}", "\u{2028}"] {
        assert!(!text.contains(forbidden), "{forbidden:?} in {text:?}");
    }
}

/// Appends `hostile` to each text in a value, except those that select the display.
fn spoil_texts(value: &mut Value, hostile: &str) {
    match value {
        Value::String(text) => text.push_str(hostile),
        Value::Array(values) => values.iter_mut().for_each(|value| spoil_texts(value, hostile)),
        Value::Object(fields) => {
            let is_free = |name: &str| !matches!(name, "why" | "place" | "time" | "started");
            let free = fields.iter_mut().filter(|(name, _)| is_free(name));
            free.for_each(|(_, value)| spoil_texts(value, hostile));
        }
        _ => {}
    }
}

#[test]
fn command_lines_are_repeated_without_control_characters() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new();
    let hostile = OsStr::from_bytes(HOSTILE);
    let with_option = OsStr::from_bytes(b"--x\x1b[31m\xc2\x9b");
    for program in ["mailq", "submit", "schedsim", "scheduler", "hold"] {
        let path = Path::new(env!("CARGO_BIN_EXE_mailq")).with_file_name(program);
        for arguments in [
            vec![with_option],
            vec![OsStr::new("-Z"), hostile],
            vec![OsStr::new("trace"), hostile],
            vec![OsStr::new("explain"), hostile],
            vec![OsStr::new("-P"), hostile, hostile],
            vec![hostile],
        ] {
            if program == "hold" && arguments[0] != with_option {
                continue;
            }
            let run = run(Command::new(&path).args(&arguments).env("PATH", "/nonexistent"));
            assert_printable(&run);
            assert_ne!(run.status, 0, "{program} {arguments:?}: {run:?}");
        }
    }
    drop(site);
}

#[test]
fn control_characters_are_escaped_on_terminal() {
    let site = Site::new();
    let server = Server::with_answer(&hostile_queue());
    let run = on_terminal(&site, 140, "", &format!("-p {} -t 127.0.0.1", server.port), &[]);
    assert_eq!(
        run.text().replace("\r\n", "\n"),
        format!("c{SHOWN}/h{SHOWN}:\n\t7:\t{SHOWN} (retry in 5s)\n")
    );
    server.end();
}
