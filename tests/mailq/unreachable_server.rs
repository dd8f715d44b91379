//! Servers that cannot be reached: the message, and the exit status.

use super::support::{Server, Site, recorded, run, serve_unix};
use std::fs;
use std::process::{Command, Stdio};
use zsched_tests::RefusingPort;

#[test]
fn refused_connection_is_explained() {
    let site = Site::new();
    let port = RefusingPort::connect();
    let ask = || site.mailq(&format!("-p {} 127.0.0.1", port.number()));
    let pid_file = site.spool().join(".pid.scheduler");
    ask().failed(69, "Connection refused");
    ask().failed(69, "the scheduler is not running: there is no ");
    fs::write(&pid_file, "99999999\n").expect("written");
    ask().failed(69, "names process 99999999, which has ended");
    fs::write(&pid_file, format!("{}\n", std::process::id())).expect("written");
    ask().failed(69, &format!("a scheduler is running as process {}", std::process::id()));
    fs::remove_dir_all(site.spool()).expect("removed");
    ask().failed(69, "is the scheduler running? Option -Z");
}

/// Another scheduler may serve the default port of this host.
#[test]
fn default_port_is_not_asked_for_a_stopped_scheduler() {
    let site = Site::new();
    for command in ["", "-Q", "summary", "check"] {
        let run = site.mailq(command);
        let said = run.text() + &run.err;
        assert!(said.contains("the scheduler is not running: there is no "), "{said}");
        assert!(run.status != 0 && !said.contains("cannot connect"), "{command}: {said}");
    }
}

#[test]
fn missing_spool_is_reported_with_the_command_that_makes_it() {
    let site = Site::new();
    fs::remove_dir_all(site.spool()).expect("removed");
    let expected = format!("`scheduler --init {}` makes a spool", site.spool().display());
    for command in ["", "-Q", "-s", "summary", "list", "check", "hold smtp/*"] {
        let run = site.mailq(command);
        let said = run.text() + &run.err;
        assert!(run.status != 0 && said.contains(&expected), "{command}: {said}");
        assert!(!said.contains("cannot connect"), "{command}: {said}");
    }
}

#[test]
fn missing_socket_is_reported() {
    let site = Site::new();
    let path = site.path("mailq");
    let ask = || site.mailq(&format!("-p {}", path.display()));
    ask().failed(69, "No such file or directory");
    // A killed scheduler leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    ask().failed(69, "Connection refused");
}

#[test]
fn unknown_host_is_reported() {
    let site = Site::new();
    site.mailq("-p 1 no-such-host.invalid").failed(69, "no-such-host.invalid");
    site.mailq("no-such-command").failed(69, "no-such-command is no command, either; --help lists");
    site.mailq("sumary").failed(69, "did you mean \"summary\"?");
    site.mailq("holt smtp/x").failed(64, "holt is no command; did you mean \"hold\"?");
    site.mailq("-6 -p 1 127.0.0.1").failed(69, "-6");
}

#[test]
fn other_protocols_are_refused() {
    let site = Site::new();
    for (answer, status, words) in [
        (&b""[..], 69, "closes the connection without a greeting"),
        (b"500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n", 69, "TCP-WRAPPER"),
        (b"220 mail.example.org ESMTP\r\n", 76, "is not a MAILQ server"),
        (b"\x1b[2J\x07", 76, "it begins with \"^[[2J^G\""),
        (
            b"version zmailer 2.0\n220 MAILQ-V2-CHALLENGE: 1.2.3\n",
            76,
            "before it answers the login",
        ),
        (b"version zmailer 2.0\n550 NO ACCESS FOR YOU\n", 77, "550 NO ACCESS FOR YOU"),
        (b"version zmailer 2.0\n", 69, "closes the connection after its greeting"),
    ] {
        for options in ["", "-Q", "--summary"] {
            let run = site.ask(answer, options);
            run.failed(status, words);
            assert_eq!(run.text(), "", "{options}");
        }
    }
}

#[test]
fn bad_command_lines_give_status_64() {
    let site = Site::new();
    for arguments in
        ["-K", "-r x", "-x", "a b", "-v etrn x", "-p 0", "-p 70000", "-p no-such-service", "-h"]
    {
        let run = site.mailq(arguments);
        assert_eq!((run.status, run.text().as_str()), (64, ""), "{arguments}: {run:?}");
        assert!(!run.err.is_empty(), "{arguments}");
    }
    let version = site.mailq("-V");
    assert_eq!(version.good(), format!("mailq {}\n", env!("CARGO_PKG_VERSION")));
    assert!(site.mailq("--help").good().contains("Usage: mailq"));
}

#[test]
fn completions_contain_all_options() {
    for shell in ["bash", "fish", "zsh"] {
        let script = Site::new().mailq(&format!("completions {shell}")).good();
        for word in ["login-file", "etrn", "completions"] {
            assert!(script.contains(word), "{shell} {word}");
        }
    }
}

#[test]
fn missing_installation_is_reported() {
    let site = Site::new();
    fs::remove_file(site.path("zmailer.conf")).expect("removed");
    site.mailq("").failed(72, "zmailer.conf: No such file or directory");
    site.write_zenv("MAILQPORT=nonsense here\n");
    site.mailq("").failed(72, "MAILQPORT: ");
    // Without a spool, the scheduler's answer is still shown.
    site.write_zenv("");
    fs::remove_dir_all(site.spool()).expect("removed");
    let tcp = recorded("tcp.s2c");
    let listing = site.ask(&tcp, "").good();
    for options in ["-v", "-s"] {
        let run = site.ask(&tcp, options);
        run.failed(72, "No such file or directory");
        assert_eq!(run.text(), listing, "{options}");
    }
    site.ask(&tcp, "-i").failed(72, "No such file or directory");
    site.mailq("-ss").failed(72, "No such file or directory");
}

#[test]
fn port_comes_from_zenv_file() {
    let site = Site::new();
    let server = Server::with_answer(&recorded("tcp.s2c"));
    site.write_zenv(&format!("MAILQPORT={}\nMAILSERVER=127.0.0.1\n", server.port));
    assert!(site.mailq("").good().starts_with("c/h2.test:\n"));
    server.end();
    // The option overrides the ZENV file.
    let socket = site.path("mailq");
    let server = serve_unix(&socket, recorded("optionQ.s2c"));
    let shown = site.mailq(&format!("-p UNIX:{}", socket.display())).good();
    assert!(shown.starts_with("Transport queue is empty"), "{shown}");
    server.join().expect("the client was served");
}

#[test]
fn closed_output_is_no_error() {
    let server = Server::with_answer(&recorded("full.s2c"));
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3>&1; { \"$@\"; echo $? >&3; } | :", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_mailq")).arg("-p").arg(server.port.to_string());
    command.arg("127.0.0.1").stdin(Stdio::null());
    let run = run(&mut command);
    assert_eq!((run.text().trim(), run.err.as_str()), ("0", ""));
    server.end();
}
