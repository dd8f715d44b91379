//! Lines in the system log, in the forms of ZMailer, and in the verbose file of a message.

use crate::support::{Client, Site, control_file, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const CLAUSES: &str = "\
local/*
\tcommand=\"mailbox -u -d ${SITE}/mail\"
q/*
\tqueueonly command=\"${AGENTS}/count.py q\"
silent/*
\tinterval=1h agent-timeout=1s command=\"${AGENTS}/bad.py mute silent\"
broken/*
\tinterval=1h command=\"${SITE}/broken\"
";

/// The system log of a site, which must be opened before the scheduler starts.
struct SystemLog(UnixDatagram);

impl SystemLog {
    fn of(site: &Site, flags: &str) -> SystemLog {
        let path = site.path("syslog");
        site.add_zenv(&format!("SYSLOGFLG={flags}\nSYSLOGSOCKET={}", path.display()));
        let socket = UnixDatagram::bind(&path).expect("bound");
        // Agents may run as other users.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("permitted");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        SystemLog(socket)
    }

    /// The next line with a text, as `<priority>`, program, and text with spool ids as `ID`.
    fn line_with(&self, text: &str) -> String {
        let mut line = [0; 2048];
        loop {
            let length = self.0.recv(&mut line).unwrap_or_else(|_| panic!("no line has {text:?}"));
            let line = String::from_utf8(line[..length].to_vec()).expect("text");
            if line.contains(text) {
                return without_numbers(&line);
            }
        }
    }
}

/// Removes time, pid, and spool id of a line.
fn without_numbers(line: &str) -> String {
    let (priority, rest) = line.split_at("<22>".len());
    let rest = &rest["Nov 23 09:27:31 ".len()..];
    let (program, rest) = rest.split_once('[').expect("a pid");
    let text = rest.split_once("]: ").expect("a text").1;
    match text.split_once(": ") {
        Some((id, text)) if id.starts_with('S') && !id.contains(' ') => {
            format!("{priority}{program} ID: {text}")
        }
        _ => format!("{priority}{program} {text}"),
    }
}

#[test]
fn system_log_has_events_of_messages_and_outcomes_of_recipients() {
    let site = Site::new(CLAUSES);
    let log = SystemLog::of(&site, "cT");
    let daemon = site.start();
    let text = control_file("101", &["local - alice", "local - |x | NOTIFY=FAILURE"]);
    site.put_file("101", text.as_bytes());
    site.notify("NEW 101");
    let line = log.line_with("to=<|x>");
    let (head, rest) = line.split_once(", delay=").expect("a delay");
    assert_eq!(head, "<22>mailbox ID: to=<|x>");
    assert!(rest.contains(", xdelay=00:00:0"), "{line}");
    assert!(rest.contains(", mailer=local, stat=error2 "), "{line}");
    let line = log.line_with("Created");
    let created = "<22>scheduler ID: Created 'delivery' report on spoolid: ";
    assert!(line.starts_with(created), "{line}");
    assert_eq!(
        log.line_with("complete"),
        "<22>scheduler ID: complete (total 2 recipients, 1 failed)"
    );
    site.put_file("102", control_file("102", &["q - a", "q x b"]).as_bytes());
    site.notify("NEW 102");
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    until("it is loaded", || client.order("DELETE */* dry-run=yes")["recipients"] == 2);
    client.order_after_dry_run("DELETE q/x");
    assert_eq!(log.line_with("killed"), "<22>scheduler ID: 102 killed (1 recipients, 1 left)");
    client.order_after_dry_run("DELETE q/*");
    assert_eq!(log.line_with("killed"), "<22>scheduler ID: 102 killed");
    assert_eq!(
        log.line_with("complete"),
        "<22>scheduler ID: complete (total 2 recipients, 0 failed)"
    );
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

#[test]
fn system_log_without_flags_has_errors_only() {
    let site = Site::new(CLAUSES);
    site.write("broken", "#!/bin/sh\nexit 70\n");
    fs::set_permissions(site.path("broken"), fs::Permissions::from_mode(0o755)).expect("set");
    let log = SystemLog::of(&site, "x");
    let _daemon = site.start();
    site.put(&["local - alice"]);
    site.until_empty();
    site.put(&["broken - a"]);
    let line = log.line_with("");
    assert!(line.starts_with("<16>scheduler agent "), "{line}");
    assert!(line.ends_with(" ended with status 70 (EX_SOFTWARE)"), "{line}");
    site.put(&["silent h a"]);
    let line = log.line_with("HA=");
    assert!(line.starts_with("<19>scheduler agent "), "{line}");
    assert!(line.contains("is silent, and is killed; silent/*/h HA="), "{line}");
}

#[test]
fn verbose_file_gets_each_step_of_scheduler() {
    let site = Site::new(CLAUSES);
    fs::write(site.path("postoffice/public/v_1"), "").expect("written");
    let text = control_file("101", &["local - alice"]);
    let text = text.replacen("i 101", "v ../public/v_1\ni 101", 1);
    let _daemon = site.start();
    site.put_file("101", text.as_bytes());
    site.notify("NEW 101");
    let path = "postoffice/public/v_1";
    until("the last line is written", || site.read(path).contains("scheduler done with 101\n"));
    let shown = site.read(path);
    assert!(shown.starts_with("scheduler: read 101: 1 recipients, 1 to deliver\n"), "{shown}");
    assert!(shown.contains("\nscheduler: given to agent "), "{shown}");
    assert!(shown.contains(", command mailbox -u -d ${SITE}/mail: 101 -\n"), "{shown}");
    assert!(shown.ends_with("scheduler done with 101\n"), "{shown}");
}

#[test]
fn verbose_file_tells_why_message_is_not_delivered() {
    let site = Site::new(CLAUSES);
    fs::write(site.path("postoffice/public/v_1"), "").expect("written");
    fs::write(site.path("postoffice/public/v_2"), "").expect("written");
    let _daemon = site.start();
    let put = |number: &str, change: &dyn Fn(&str) -> String| {
        let text = control_file(number, &["local - alice"]);
        let verbose = format!("v ../public/v_{}\ni {number}", &number[2..]);
        let text = change(&text).replacen(&format!("i {number}"), &verbose, 1);
        site.put_file(number, text.as_bytes());
        site.notify(&format!("NEW {number}"));
    };
    // Bits of a format that does not exist.
    put("101", &|text| format!("@ 0x00000100\n{}", text.split_once('\n').expect("lines").1));
    until("it is aborted", || site.read("postoffice/public/v_1").contains("aborted 101: "));
    // A recipient that this process has locked.
    let locked = format!("r~{:6}    local", std::process::id());
    put("102", &|text| text.replace("r           local", &locked));
    let reason = format!("skipped 102: process {} has locked a recipient", std::process::id());
    until("it is skipped", || site.read("postoffice/public/v_2").contains(&reason));
}
