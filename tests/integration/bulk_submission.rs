//! Bulk jobs of programs: streams, and jobs over a socket.

use crate::support::{Site, until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use zsched_tests::program;

const COUNT: &str = "c/*\n\tmaxring=6 maxthr=2 command=\"${AGENTS}/count.py c\"\n";
const MESSAGE: &str = "Subject: news\n\nbody\n";

fn submit(site: &Site) -> Command {
    let mut command = Command::new(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf"));
    command
}

fn result_file(site: &Site, job: &str) -> PathBuf {
    site.path("postoffice").join("bulk").join(job).join("result")
}

#[test]
fn stream_is_delivered_before_its_end_and_resumes() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    site.write("message", MESSAGE);
    let stream = || {
        let mut command = submit(&site);
        command.args(["-c", "c", "-f", "list@example.org", "--stream", "--key", "news", "--bulk"]);
        command.args(["-", "--message"]).arg(site.path("message"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("submit starts")
    };
    let addresses = |numbers: std::ops::Range<u32>| {
        numbers.map(|n| format!("u{n}@h{}.test\n", n % 3)).collect::<String>()
    };
    let mut first = stream();
    let mut input = first.stdin.take().expect("a pipe");
    // The producer pauses within a line.
    input.write_all((addresses(0..50) + "u50@").as_bytes()).expect("written");
    until("what came first is delivered", || site.events().deliveries().len() >= 50);
    first.kill().expect("killed");
    first.wait().expect("its end");
    // A malformed line leaves what is before it submitted.
    let text = addresses(0..70);
    let mut second = stream();
    second.stdin.take().expect("a pipe").write_all((text.clone() + "<>\n").as_bytes()).ok();
    let output = second.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("standard input:71:1: "), "{error}");
    assert!(error.contains("submit all of them again with the same key"), "{error}");
    let mut third = stream();
    let text = text + &addresses(0..80);
    third.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let output = third.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    let job = String::from_utf8_lossy(&output.stdout).trim().to_string();
    until("the job is finished", || result_file(&site, &job).exists());
    let expected = addresses(0..80);
    site.events().assert_once_each(expected.lines().map(str::to_string));
    let result = fs::read_to_string(result_file(&site, &job)).expect("a result");
    assert_eq!(result.lines().filter(|line| line.starts_with("delivered\t")).count() as u32, 80);
    assert_eq!(result.lines().count(), 80);
}

/// `submit --listen`, which ends with this value.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(site: &Site) -> Server {
        let socket = site.path("bulk.socket");
        let process = submit(site).arg("--listen").arg(&socket).spawn().expect("submit starts");
        until("it listens", || UnixStream::connect(&socket).is_ok());
        Server { process, socket }
    }

    fn connect(&self) -> UnixStream {
        let client = UnixStream::connect(&self.socket).expect("a connection");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        client
    }

    /// Sends a job. Returns all lines of the answer.
    fn send(&self, text: &str) -> Vec<String> {
        let mut client = self.connect();
        client.write_all(text.as_bytes()).expect("written");
        client.shutdown(Shutdown::Write).expect("shut down");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer");
        answer.lines().map(str::to_string).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn job(options: &str, recipients: &str) -> String {
    format!("{options}message {}\n{MESSAGE}{recipients}", MESSAGE.len())
}

#[test]
fn programs_submit_jobs_over_a_socket() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    let server = Server::start(&site);
    let mode = fs::metadata(&server.socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let options = "--channel=c\n--from=list@example.org\n--key=news 1\n--list=news\n";
    let sent = server.send(&job(options, "a@h.test\nb@h.test\na@h.test\n.\n"));
    let [answer] = &sent[..] else { panic!("one line: {sent:?}") };
    let words: Vec<&str> = answer.split(' ').collect();
    let ["ok", id, "1"] = words[..] else { panic!("{answer}") };
    until("the job is finished", || result_file(&site, id).exists());
    site.events().assert_once_each(["a@h.test", "b@h.test"].map(str::to_string));
    assert_eq!(server.send(&job(options, "c@h.test\n.\n")), [format!("known {id} 0")]);
    // Nothing is submitted of what is refused.
    for (text, expected) in [
        (
            "--message=/etc/passwd\n".to_string(),
            "error 64 \"--message=/etc/passwd\" is not an option of a job",
        ),
        (
            "--postoffice=/tmp\n".to_string(),
            "error 64 \"--postoffice=/tmp\" is not an option of a job",
        ),
        ("x@y\n".to_string(), "error 64 \"x@y\" is not an option of a job"),
        (
            "--share=0\nmessage 0\n".to_string(),
            "error 64 invalid value '0' for '--share <PERCENT>'",
        ),
        ("--key=k\n".to_string(), "error 64 the options end without a line `message LENGTH`"),
        ("message many\n".to_string(), "error 64 \"message many\": expected a number"),
        ("message 999999999999\n".to_string(), "error 65 the message has more than 67108864 bytes"),
        ("message 10\nshort".to_string(), "error 65 the input has ended in the message"),
        (
            job("--channel=c\n", "a@h.test\nb@h."),
            "error 65 the list of recipients has ended before the line \".\"",
        ),
        (job("--channel=c\n", ".\n"), "error 65 the job has no recipients"),
        (
            job("--channel=c\n", "a@h\n<>\n.\n"),
            "error 65 the list of recipients:2:1: the address is empty",
        ),
    ] {
        let answer = server.send(&text).pop().expect("an answer");
        assert!(answer.starts_with(expected), "{text:?}: {answer}");
    }
    assert_eq!(fs::read_dir(site.path("postoffice/bulk")).expect("listed").count(), 1);
    let second = submit(&site).arg("--listen").arg(&server.socket).output().expect("it runs");
    assert_eq!(second.status.code(), Some(69), "{second:?}");
}

#[test]
fn stream_over_a_socket_reports_what_is_on_disk() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    let server = Server::start(&site);
    let mut client = server.connect();
    client.write_all(job("--channel=c\n--key=k\n--stream\n", "").as_bytes()).expect("written");
    let mut idle: Vec<UnixStream> = Vec::new();
    until("a client too many is turned away", || {
        let (mut text, mut next) = (String::new(), server.connect());
        next.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let is_turned_away = next.read_to_string(&mut text).is_ok();
        idle.push(next);
        is_turned_away && text == "error 75 too many clients; try again later\n"
    });
    assert!(idle.len() <= 32, "{} clients are served", idle.len());
    drop(idle);
    let mut answers = BufReader::new(client.try_clone().expect("another descriptor")).lines();
    // More than a segment, of which the first lines may be synced at once.
    let many: String = (0..30_000).map(|n| format!("u{n}@h{}.test\n", n % 9)).collect();
    client.write_all(many.as_bytes()).expect("written");
    let mut answer = || answers.next().expect("a line").expect("an answer");
    // The client pauses within a line.
    client.write_all(b"last@").expect("written");
    while answer() != "synced 30000" {}
    until("some are delivered", || site.events().deliveries().len() > 100);
    client.write_all(b"h.test\n").expect("written");
    assert_eq!(answer(), "synced 30001");
    client.write_all(b".\n").expect("written");
    let last = loop {
        let line = answer();
        if line != "synced 30001" {
            break line;
        }
    };
    assert!(last.starts_with("ok ") && last.ends_with(" 0"), "{last}");
}

#[test]
fn fields_are_merged_into_the_body_by_agents() {
    let site = Site::new("local/*\n\tmaxring=2 command=\"mailbox -u -M -d ${SITE}/mail\"\n");
    let _daemon = site.start();
    site.write("message", "Subject: {{subject}}\n\nDear {{name}},\nbye {{name}} {{other\n");
    site.write("recipients", "ann\tname=Ann\tsubject=one\nbob\tname=Bob\tsubject=two\n");
    let mut command = submit(&site);
    command.args(["-f", "list@example.org", "--merge-body", "--bulk"]).arg(site.path("recipients"));
    let output = command.arg("--message").arg(site.path("message")).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let job = String::from_utf8_lossy(&output.stdout).trim().to_string();
    until("the job is finished", || result_file(&site, &job).exists());
    for (user, name, subject) in [("ann", "Ann", "one"), ("bob", "Bob", "two")] {
        let folder = site.path("mail").join(user).join("new");
        let letters: Vec<_> = fs::read_dir(folder).expect("a Maildir").flatten().collect();
        let [letter] = &letters[..] else { panic!("one letter: {letters:?}") };
        let text = fs::read_to_string(letter.path()).expect("a letter");
        let expected = format!("\n\nDear {name},\nbye {name} {{{{other\n");
        assert!(
            text.ends_with(&expected) && text.contains(&format!("Subject: {subject}\n")),
            "{text}"
        );
    }
}
