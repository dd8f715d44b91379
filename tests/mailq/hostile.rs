//! Servers that mean us harm, or are broken.

use super::support::{Server, Site, recorded};
use std::fs;
use std::io::Write;

/// A queue of one message of this file and text.
fn one_message(file: &str, text: &str) -> String {
    format!(
        "version zmailer 1.0\nVertices:\n1:\t{file}\t1; 67\t#{text}\nChannels:\nc:\t>1\nHosts:\n\
         h:\t>1\nEnd:\nKids: 0\n"
    )
}

#[test]
fn an_answer_that_is_cut_is_not_shown() {
    let site = Site::new();
    let full = recorded("full.s2c");
    let end = full.windows(5).position(|window| window == b"End:\n").expect("an end");
    for cut in [20, 30, 100, 1500, end - 1, end, end + 3] {
        for options in ["", "-Q", "--summary"] {
            let run = site.ask(&full[..cut], options);
            run.failed(76, "breaks off");
            assert_eq!(run.text(), "", "{cut} {options}");
        }
    }
    // The listing needs no report; who asks for it gets what there is.
    assert_eq!(site.ask(&full[..end + 5], "").status, 0);
    let run = site.ask(&full[..full.len() - 10], "-Q");
    run.failed(76, "the report breaks off");
    assert!(run.text().starts_with("smtp-sim/*/0\n"));
}

#[test]
fn lines_have_bounds() {
    let site = Site::new();
    for options in ["", "-Q"] {
        let server = Server::new(|mut stream| {
            let greeting = b"version zmailer 1.0\nVertices:\n";
            stream.write_all(greeting).expect("sent");
            // It is cut off long before the end.
            let chunk = vec![b'x'; 1 << 16];
            let sent = (0..1 << 14).take_while(|_| stream.write_all(&chunk).is_ok()).count();
            assert!(sent < 1 << 10, "{sent} chunks were taken");
        });
        let run = site.mailq(&format!("-p {} {options} 127.0.0.1", server.port));
        run.failed(76, "line 3 of the answer is longer than 50331648 bytes");
        server.end();
    }
    // Elsewhere, shorter ones will do.
    site.ask(&b"x".repeat((1 << 20) + 1), "")
        .failed(76, "line 1 of the answer is longer than 1048576");
    // What a channel of many messages has to have.
    let keys = (1..=300_000).map(|key| format!(">{key}")).collect::<String>();
    let answer = format!(
        "version zmailer 1.0\nVertices:\n1:\t7\t1; 67\t#x\nChannels:\nc:\t{keys}\nHosts:\n\
         h:\t>1\nEnd:\nKids: 0\n"
    );
    site.ask(answer.as_bytes(), "").failed(76, "299999 keys that are unknown");
    assert_eq!(site.ask(answer.as_bytes(), "-Q").good(), "Kids: 0\n");
    // A line that is long, but not too long.
    let text = "x".repeat(1_000_000);
    assert_eq!(site.ask(one_message("7", &text).as_bytes(), "").good().len(), 1_000_010);
}

#[test]
fn nonsense_is_complained_about() {
    let site = Site::new();
    let answer = b"version zmailer 1.0\nVertices:\n1:\t7\t1; 67\t#text (x)\nnonsense \x1b[2J\n\
        2:\t8\t2; 1,2,3,4\t#(x)\n3:\t9\t99999999999; 1\t#(x)\n4:\tx\t0; \t#(x)\n\
        Channels:\nc:\t>1>2>3>77\nChannels:\nnothing\nHosts:\nh:\t>1>2\nEnd:\n";
    let run = site.ask(answer, "");
    run.failed(76, "mailq: line 4: no entry of a message in \"nonsense ^[[2J\"\n");
    run.failed(76, "mailq: line 5: 4 offsets for 2 recipients in ");
    run.failed(76, "such as 77,");
    let expected = "c/?:\n\t9/99999999999:\t(x)\nc/h:\n\t8/2:\t(x)\n\t7:\ttext (x)\n";
    assert_eq!(run.text(), expected);
}

#[test]
fn a_lot_of_nonsense_is_not_repeated() {
    let mut answer = b"version zmailer 1.0\nVertices:\n".to_vec();
    answer.extend(b"nonsense\n".repeat(100_000));
    answer.extend(b"End:\n");
    let run = Site::new().ask(&answer, "");
    run.failed(76, "mailq: and 99990 more like these");
    assert_eq!(run.err.lines().count(), 11);
}

#[test]
fn sections_may_be_missing() {
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
fn names_of_files_do_not_lead_out_of_the_spool() {
    let site = Site::with_messages();
    let control = site.spool().join("transport/10101206");
    fs::copy(&control, site.spool().join("10101206")).expect("copied");
    for file in ["../10101206", "/etc/passwd", "..", "A/../10101206"] {
        let run = site.ask(one_message(file, "x").as_bytes(), "-v");
        assert_eq!(run.text(), format!("c/h:\n\t{file}:\tx\n"));
        assert!(run.err.contains("is no name in a spool"), "{run:?}");
    }
    let run = site.ask(one_message("10101206", "x").as_bytes(), "-v");
    assert!(run.good().contains("\t  id\t"));
}

#[test]
fn what_is_in_the_spool_may_be_odd() {
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

#[test]
fn a_pipe_gets_no_control_characters() {
    let text = "a\r\u{1b}[31mb\u{7}";
    let shown = Site::new().ask(one_message("7", text).as_bytes(), "").good();
    assert_eq!(shown, "c/h:\n\t7:\ta\r^[[31mb^G\n");
}

#[test]
fn control_characters_do_not_get_to_a_terminal() {
    let site = Site::new();
    let server = Server::with_answer(one_message("7", "a\r\u{1b}[31mb\u{7}").as_bytes());
    // Has the program run on a terminal, and copies what it prints.
    let mut command = std::process::Command::new("python3");
    command.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]);
    command.arg(env!("CARGO_BIN_EXE_mailq")).arg("-Z").arg(site.path("zmailer.conf"));
    command.arg("-p").arg(server.port.to_string()).arg("-t").arg("127.0.0.1");
    let run = super::support::run(&mut command);
    assert_eq!(run.good().replace("\r\n", "\n"), "c/h:\n\t7:\ta ^[[31mb^G\n");
    server.end();
}
