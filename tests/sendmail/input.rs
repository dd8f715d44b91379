//! From standard input to the submission.

use crate::support::{Installation, SENDMAIL, run, status_and_text, wait_until};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use zsched_tests::program;

#[test]
fn submission_has_envelope_headers_and_body() {
    let site = Installation::new();
    let arguments =
        ["-f", "alice@x", "-F", "Alice \"A\" Ames", "-Nfailure", "bob@y", "Carol <c@z>"];
    let text = "Subject: Gr\u{fc}\u{df}e\r\nBcc: d@w\r\n\r\n.one\r\n\r\n.\r\nnot this\r\n";
    assert_eq!(
        site.send(&arguments, text.as_bytes()),
        "fullname Alice \"A\" Ames\nfrom <alice@x>\ntodsn NOTIFY=FAILURE\nto <bob@y>\ntodsn NOTIFY=FAILURE\nto <c@z>\nenv-end\n\
         Subject: Gr\u{fc}\u{df}e\n\n.one\n\n"
    );
    let text =
        "From me Mon Jan  1 00:00:00 2026\nFrom: c@z\nTo: a@x,\n b@y\nBcc: d@w\nX: \n\n.\nlast";
    assert_eq!(
        site.send(&["-t", "-i", "-f", "<>", "-V", "Q+3D", "-R", "hdrs"], text.as_bytes()),
        "envid Q+3D\nnotaryret HDRS\nchannel error\nto <a@x>\nto <b@y>\nto <d@w>\nenv-end\n\
         From: c@z\nTo: a@x,\n b@y\nX: \n\n.\nlast\n"
    );
    assert_eq!(site.send(&["-fa", "b"], b""), "from <a>\nto <b>\nenv-end\n\n");
}

#[test]
fn bytes_that_are_not_text_are_unchanged() {
    let site = Installation::new();
    let message = b"Subject: Gr\xfc\xdfe\n\n\xe4\0\xf6\r\xfc\n";
    let output = run(site.sendmail(&["-fa", "b"]), message);
    assert_eq!(status_and_text(&output), (Some(0), String::new()));
    let name = &site.names("router")[0];
    let text = fs::read(site.spool.router().join(name)).expect("a submission");
    assert!(text.ends_with(message), "{text:?}");
}

#[test]
fn sender_is_the_caller_by_default() {
    let site = Installation::new();
    let account = zsched_sys::users::account_of(zsched_sys::users::real_user());
    let Some(account) = account.expect("an answer") else {
        return crate::support::not_run("the default sender: the user has no account");
    };
    let mut command = site.sendmail(&["b"]);
    command.env("NAME", "J\u{f6}rg M.");
    run(command, b"\nhi\n");
    let name = account.name;
    let expected =
        format!("fullname =?utf-8?B?SsO2cmcgTS4=?=\nfrom <{name}>\nto <b>\nenv-end\n\nhi\n");
    assert_eq!(site.take(), expected);
}

#[test]
fn router_gets_a_notice() {
    let site = Installation::new();
    let listen = |name: &str| {
        let socket = UnixDatagram::bind(site.path(name)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        socket
    };
    let received = |socket: &UnixDatagram| {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).expect("a notice");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let usual = listen("postoffice/.router.notify");
    run(site.sendmail(&["-fa", "b"]), b"");
    assert_eq!(received(&usual), format!("NEW router {}", site.names("router")[0]));
    site.take();
    let named = listen("socket");
    site.add_zenv(&format!("ROUTERNOTIFY={}\nROUTERDIRHASH=1", site.path("socket").display()));
    for letter in 'A'..='Z' {
        fs::create_dir(site.spool.router().join(letter.to_string())).expect("a folder");
    }
    run(site.sendmail(&["-fa", "b"]), b"");
    let notice = received(&named);
    let path = notice.strip_prefix("NEW router ").expect("a path");
    let file = fs::metadata(site.spool.router().join(path)).expect("the submission");
    let letter = char::from(b'A' + (file.ino() % 26) as u8);
    assert_eq!(path, format!("{letter}/{}", file.ino()));
}

/// The path of a socket may be too long, and a listener may not listen.
#[test]
fn queued_message_gives_success_despite_later_failures() {
    let site = Installation::new();
    site.add_zenv(&format!("ROUTERNOTIFY=/{}", "x".repeat(200)));
    site.send(&["-fa", "b"], b"");
    let mut command = site.command("sh");
    command.args(["-c", "exec \"$0\" -v -fa b </dev/null >/dev/full 2>&1", SENDMAIL]);
    assert_eq!(run(command, b"").status.code(), Some(0));
    site.take();
    let output = run(site.sendmail(&["-v", "-fa", "b", "c"]), b"");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(shown, format!("{}: queued for 2 recipients\n", site.names("router")[0]));
}

/// Messages must not mix with what the program prints, and no file may take the place of a closed
/// descriptor.
#[test]
fn closed_descriptors_do_no_harm() {
    let site = Installation::new();
    for (redirections, status, body) in
        [("<&-", 0, ""), (">&- 2>&-", 0, "hi\n"), ("<&- >&- 2>&-", 0, ""), ("2>&- -W", 64, "")]
    {
        let mut command = site.command("sh");
        command.args(["-c", &format!("exec \"$0\" -v {redirections} -fa b"), SENDMAIL]);
        assert_eq!(run(command, b"\nhi\n").status.code(), Some(status), "{redirections}");
        match status {
            0 => assert_eq!(site.take(), format!("from <a>\nto <b>\nenv-end\n\n{body}")),
            _ => site.assert_nothing_is_there(),
        }
    }
}

#[test]
fn ten_thousand_recipients_are_queued() {
    let site = Installation::new();
    let addresses: Vec<String> =
        (0..10_000).map(|number| format!("user{number}@x.example")).collect();
    let arguments: Vec<&str> =
        ["-fa"].into_iter().chain(addresses.iter().map(String::as_str)).collect();
    let expected: String = addresses.iter().map(|address| format!("to <{address}>\n")).collect();
    let text = site.send(&arguments, b"\nhi\n");
    assert_eq!(text, format!("from <a>\n{expected}env-end\n\nhi\n"));
    let headers = format!("Bcc: {}\n\nhi\n", addresses.join(",\n "));
    assert_eq!(site.send(&["-fa", "-t"], headers.as_bytes()), text);
}

/// The body goes from standard input to the file, whatever its size.
#[test]
fn large_message_does_not_fill_memory() {
    let site = Installation::new();
    let mut command = site.command("sh");
    let script = "ulimit -v 100000; (echo; head -c 150000000 /dev/zero) | \"$0\" -i -fa b";
    command.args(["-c", script, SENDMAIL]);
    assert_eq!(status_and_text(&run(command, b"")), (Some(0), String::new()));
    let name = &site.names("router")[0];
    let size = fs::metadata(site.spool.router().join(name)).expect("a submission").len();
    assert_eq!(size, "from <a>\nto <b>\nenv-end\n\n\n".len() as u64 + 150_000_000);
}

#[test]
fn senders_at_the_same_time_do_not_disturb_each_other() {
    let site = Installation::new();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let site = &site;
            scope.spawn(move || {
                for number in 0..8 {
                    let recipient = format!("u{worker}.{number}");
                    let output = run(site.sendmail(&["-fa", &recipient]), b"\nhi\n");
                    assert_eq!(status_and_text(&output), (Some(0), String::new()));
                }
            });
        }
    });
    let mut recipients: Vec<String> = site
        .names("router")
        .iter()
        .map(|name| fs::read_to_string(site.spool.router().join(name)).expect("a submission"))
        .map(|text| text.lines().nth(1).expect("a recipient").to_string())
        .collect();
    recipients.sort();
    recipients.dedup();
    assert_eq!(recipients.len(), 64);
}

#[test]
fn queue_is_listed_by_mailq() {
    let site = Installation::new();
    let shown = |mut command: std::process::Command| {
        let output = command.output().expect("it starts");
        (output.status.code(), output.stdout, output.stderr)
    };
    let expected = shown(site.command(program("mailq")));
    assert_eq!(shown(site.sendmail(&["-bp"])), expected);
    symlink(SENDMAIL, site.path("mailq")).expect("a link");
    assert_eq!(shown(site.command(site.path("mailq"))), expected);
    let mut named = site.command(site.path("mailq"));
    named.arg("--version");
    let version = shown(named).1;
    assert_eq!(version, format!("mailq {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
}

/// The router itself is not part of this test.
#[test]
fn addresses_are_tried_by_router() {
    let site = Installation::new();
    let bin = site.path("bin");
    fs::create_dir(&bin).expect("a folder");
    let copied = std::process::Command::new("cp").arg(SENDMAIL).arg(&bin).status();
    assert!(copied.expect("it starts").success());
    let mut command = site.command(bin.join("sendmail"));
    command.args(["-bv", "a@b"]);
    site.assert_refused(command, b"", 69, "there is no router beside");
    symlink("/bin/echo", bin.join("router")).expect("a link");
    let mut command = site.command(bin.join("sendmail"));
    command.args(["-bv", "--", "-a@b", "c@d"]);
    assert_eq!(run(command, b"").stdout, b"--try=-a@b --try=c@d\n");
    site.assert_nothing_is_there();
}

#[test]
fn modes_without_a_message_read_nothing() {
    let site = Installation::new();
    symlink(SENDMAIL, site.path("newaliases")).expect("a link");
    let newaliases = site.command(site.path("newaliases"));
    for command in [newaliases, site.sendmail(&["-bi"]), site.sendmail(&["-I"])] {
        let output = run(command, b"");
        assert_eq!(output.status.code(), Some(0));
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("router reads its files of aliases")
        );
    }
    for queue_run in [&["-q"][..], &["-q15m"], &["-qRexample.org", "-v"]] {
        // Standard input stays open: to read it would wait for ever.
        let mut child = crate::support::start(&mut site.sendmail(queue_run));
        let mut status = None;
        wait_until("it ends", || {
            status = child.try_wait().expect("it is our child");
            status.is_some()
        });
        let mut said = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert_eq!((status.and_then(|status| status.code()), &said[..]), (Some(0), ""));
    }
    let printed = |option: &str| {
        let output = run(site.sendmail(&[option]), b"");
        assert_eq!(output.status.code(), Some(0), "{option}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(printed("--version"), format!("sendmail {}\n", env!("CARGO_PKG_VERSION")));
    assert!(printed("--help").contains("Accepted without effect"));
    let completions = run(site.sendmail(&["--completions", "bash"]), b"").stdout;
    assert!(String::from_utf8_lossy(&completions).contains("--zenv"));
    site.assert_nothing_is_there();
}
