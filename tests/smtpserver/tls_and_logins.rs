//! TLS by `openssl`, and logins by Python's `smtplib`.

use crate::support::{Client, Site, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use zsched_mailq_protocol::scram::StoredPassword;

const PORTS: &str = "listen 127.0.0.1:0 smtp\nlisten 127.0.0.1:0 submissions\n\
    listen 127.0.0.1:0 submission\nrelay 192.0.2.0/24\n\
    certificate DIR/cert.pem DIR/key.pem\nlogins DIR/logins\n";

/// Makes a certificate with this name.
fn make_certificate(folder: &Path, name: &str) {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-nodes", "-days", "30", "-subj", &format!("/CN={name}")]);
    command.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(folder);
    let output = command.output().expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub fn site(lines: &str) -> Site {
    let root = tempfile::tempdir().expect("a temporary folder");
    make_certificate(root.path(), "mx.test");
    let stored = StoredPassword::with_salt("pencil", b"sixteen bytes it".to_vec(), 4096);
    std::fs::write(root.path().join("logins"), format!("alice:{stored}\n")).expect("written");
    Site::in_folder(root, &format!("{PORTS}{lines}"))
}

/// Runs `openssl s_client`, and returns what it says. Its input comes after the greeting.
fn s_client(port: u16, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-crlf"]).args(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = Vec::new();
    // With STARTTLS, s_client itself has read the greeting.
    let reads_greeting = !arguments.contains(&"-starttls");
    while reads_greeting && !String::from_utf8_lossy(&said).contains("220 mx.test") {
        if output.read_until(b'\n', &mut said).expect("a line") == 0 {
            break;
        }
    }
    // It may have ended.
    drop(child.stdin.as_mut().expect("a pipe").write_all(input.as_bytes()));
    drop(child.stdin.take());
    output.read_to_end(&mut said).expect("the rest");
    said.extend(child.wait_with_output().expect("it ends").stderr);
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn tls_begins_at_once_or_by_starttls() {
    let site = site("");
    let daemon = site.start();
    let quiet = ["-quiet", "-ign_eof"];
    let said = s_client(daemon.ports[1].port(), &quiet, "NOOP\nQUIT\n");
    assert!(said.contains("220 mx.test ESMTP") && said.contains("221 2.0.0 Bye"), "{said}");
    let by_starttls = [&quiet[..], &["-starttls", "smtp"]].concat();
    let said = s_client(daemon.ports[0].port(), &by_starttls, "NOOP\nQUIT\n");
    assert!(said.contains("250 2.0.0 Ok") && said.contains("221 2.0.0 Bye"), "{said}");
    // TLS 1.2 is good, older versions are not.
    let said = s_client(daemon.ports[1].port(), &["-tls1_2"], "QUIT\n");
    assert!(said.contains("Protocol  : TLSv1.2") || said.contains("New, TLSv1.2"), "{said}");
    let said = s_client(daemon.ports[1].port(), &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "");
    assert!(said.contains("alert") || said.contains("no protocols"), "{said}");
}

/// What a test of a server's TLS checks: versions, ciphers, renegotiation, compression.
#[test]
fn tls_is_not_older_or_weaker_than_it_should_be() {
    let site = site("");
    let daemon = site.start();
    let port = daemon.ports[1].port();
    let weak = "@SECLEVEL=0";
    for (arguments, is_good) in [
        (&["-tls1_3"][..], true),
        (&["-tls1_2"], true),
        (&["-tls1_1", "-cipher", &format!("ALL:{weak}")], false),
        (&["-tls1", "-cipher", &format!("ALL:{weak}")], false),
        (&["-tls1_2", "-cipher", "ECDHE+AESGCM"], true),
        (&["-tls1_2", "-cipher", &format!("AES128-SHA:AES256-GCM-SHA384:{weak}")], false),
        (&["-tls1_2", "-cipher", &format!("ECDHE-ECDSA-AES128-SHA:{weak}")], false),
        (&["-tls1_2", "-cipher", &format!("aNULL:eNULL:{weak}")], false),
        (&["-tls1_3", "-groups", "X25519"], true),
        (&["-servername", "unknown.test"], true),
    ] {
        let said = s_client(port, &[&["-quiet", "-ign_eof"], arguments].concat(), "QUIT\n");
        assert_eq!(said.contains("221 2.0.0 Bye"), is_good, "{arguments:?}: {said}");
    }
    let said = s_client(port, &["-tls1_2"], "");
    assert!(said.contains("Secure Renegotiation IS supported"), "{said}");
    assert!(said.contains("Compression: NONE"), "{said}");
    // A line with R alone is s_client's command to negotiate again.
    let said = s_client(port, &["-tls1_2"], "R\n");
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(said.contains("no renegotiation") || said.contains("error"), "{said}");
    site.until_logged("lost connection");
    assert_eq!(Client::hello(daemon.ports[0]).say("NOOP\r\n"), "250");
}

/// Records that are damaged, too long, or in the clear after the keys are there.
#[test]
fn bad_records_end_their_connection_only() {
    let site = site("");
    let daemon = site.start();
    let script = "\
import socket, ssl, sys
context = ssl._create_unverified_context()
def attempt(damage):
    sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 30)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    def exchange(step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                data = sock.recv(65536)
                if not data:
                    return 'closed'
                incoming.write(data)
    exchange(tls.do_handshake)
    assert exchange(lambda: tls.read(1000)).startswith(b'220 ')
    tls.write(b'EHLO c\\r\\n')
    sock.sendall(damage(bytearray(outgoing.read())))
    try:
        print(exchange(lambda: tls.read(1000)))
    except (ssl.SSLError, ConnectionResetError) as error:
        print('error', getattr(error, 'reason', None))
def flip(record):
    record[-1] ^= 1
    return record
attempt(flip)
attempt(lambda record: b'\\x17\\x03\\x03\\xff\\xff' + record)
attempt(lambda record: b'\\x15\\x03\\x03\\x00\\x02\\x02\\x28')
attempt(lambda record: b'\\x17\\x03\\x03\\x00\\x05EHLO ')
attempt(lambda record: b'EHLO c\\r\\nMAIL FROM:<evil@x>\\r\\n')
";
    let said = python(script, &[daemon.ports[1].port().to_string()]);
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.lines().all(|line| line.starts_with("error ") || line == "closed"), "{said}");
    assert_eq!(said.lines().next(), Some("error SSLV3_ALERT_BAD_RECORD_MAC"), "{said}");
    assert!(!site.read("log").contains("evil"));
    assert_eq!(Client::hello(daemon.ports[0]).say("NOOP\r\n"), "250");
}

/// The commands of a mail program such as Thunderbird, which sends several in one packet.
#[test]
fn mail_program_submits() {
    let site = site("");
    let daemon = site.start();
    let script = "\
import base64, socket, ssl, sys
sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 30)
reader = sock.makefile('rb')
def reply():
    lines = [reader.readline().decode()]
    while lines[-1][3] == '-':
        lines.append(reader.readline().decode())
    print(lines[-1][:3], end=' ')
    return lines
def say(text, replies=1):
    sock.sendall(text.replace('\\n', '\\r\\n').encode())
    return [reply() for _ in range(replies)]
reply()
assert '250-STARTTLS\\r\\n' in say('EHLO [192.168.1.5]\\n')[0]
say('STARTTLS\\n')
sock = ssl._create_unverified_context().wrap_socket(sock)
reader = sock.makefile('rb')
hello = say('EHLO [192.168.1.5]\\n')[0]
assert any(line.startswith('250-AUTH ') and ' PLAIN' in line for line in hello), hello
text = 'Subject: x\\n\\nGr\u{fc}\u{df}e\\n..\\n'
say('AUTH PLAIN ' + base64.b64encode(b'\\0alice\\0pencil').decode() + '\\n')
say('MAIL FROM:<alice@here.test> BODY=8BITMIME SIZE=%d\\nRCPT TO:<a@elsewhere.test>\\n'
    'RCPT TO:<nobody@here.test>\\nRCPT TO:<bob@here.test>\\nDATA\\n' % len(text), 5)
say(text + '.\\nQUIT\\n', 2)
print(len(reader.read()))
";
    let said = python(script, &[daemon.ports[2].port().to_string()]);
    assert_eq!(said.trim(), "220 250 220 250 235 250 250 550 250 354 250 221 0");
    let stored = &site.submissions()[0];
    assert!(stored.contains("rcvdfrom [192.168.1.5] ([127.0.0.1]:"), "{stored}");
    assert!(stored.contains("\nauthinfo alice\nbodytype 8BITMIME\n"), "{stored}");
    assert!(stored.contains("\nto <a@elsewhere.test>\nto <bob@here.test>\n"), "{stored}");
    assert!(stored.ends_with("\nGr\u{fc}\u{df}e\n.\n"), "{stored}");
}

#[test]
fn curl_and_swaks_log_in_over_tls() {
    let site = site("");
    let daemon = site.start();
    site.write("message", "Subject: by curl\r\n\r\nx\r\n");
    for (scheme, port) in [("smtp", 2), ("smtps", 1)] {
        let mut curl = Command::new("curl");
        curl.args([
            "-sSk",
            "--ssl-reqd",
            "--user",
            "alice:pencil",
            "--mail-from",
            "alice@here.test",
        ]);
        curl.args(["--mail-rcpt", "a@elsewhere.test", "--upload-file"]).arg(site.path("message"));
        curl.arg(format!("{scheme}://{}/client.test", daemon.ports[port]));
        let output = curl.output().expect("curl starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(site.count("router"), 2);
    assert!(site.submissions().iter().all(|text| text.contains("\nauthinfo alice\n")));
    let Some(mut swaks) = crate::support::peer("usr/bin/swaks") else { return };
    swaks.args(["--server", &daemon.ports[2].to_string(), "--tls", "--auth", "PLAIN"]);
    swaks.args(["--auth-user", "alice", "--auth-password", "pencil", "--from", "alice@here.test"]);
    let output = swaks.args(["--to", "a@elsewhere.test"]).output().expect("swaks starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("requires Net::SSLeay") || said.contains("TLS not available") {
        return skip("swaks has no TLS here (Debian package libnet-ssleay-perl)");
    }
    assert!(said.contains("250 2.0.0 Ok: queued as S"), "{said}");
}

#[test]
fn text_before_tls_counts_for_nothing() {
    let site = site("");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.send("STARTTLS\r\nMAIL FROM:<evil@x>\r\n");
    assert_eq!(client.code(), "554");
    assert!(client.is_closed());
    // What is no TLS ends the connection, and no other.
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("STARTTLS\r\n"), "220");
    client.send("EHLO c\r\nMAIL FROM:<evil@x>\r\n");
    client.reply();
    let mut other = Client::connect(daemon.ports[1]);
    other.send("EHLO c\r\n");
    site.until_logged("lost connection");
    assert_eq!(Client::hello(daemon.ports[0]).say("NOOP\r\n"), "250");
}

#[test]
fn changed_certificate_is_used_by_itself() {
    let site = site("");
    let daemon = site.start();
    let subject = || s_client(daemon.ports[1].port(), &[], "QUIT\n");
    assert!(subject().contains("CN = mx.test") || subject().contains("CN=mx.test"));
    make_certificate(&site.path(""), "new.test");
    crate::support::until("the new certificate is shown", || {
        let said = subject();
        said.contains("CN = new.test") || said.contains("CN=new.test")
    });
    site.write("key.pem", "no key");
    daemon.signal("-HUP");
    site.until_logged("the former configuration stays in force");
    assert!(subject().contains("220 mx.test") || subject().contains("new.test"));
}

/// Runs a script with `smtplib`. It prints what the test compares.
fn python(script: &str, arguments: &[String]) -> String {
    let output = Command::new("python3").arg("-c").arg(script).args(arguments).output();
    let output = output.expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn login_is_needed_to_relay() {
    let site = site("max-recipients-per-login 3\nmax-connections-per-login 2\n");
    let daemon = site.start();
    let script = "\
import smtplib, ssl, sys
context = ssl._create_unverified_context()
port, implicit = int(sys.argv[1]), int(sys.argv[2])
def client(user=None, password=None):
    smtp = smtplib.SMTP('127.0.0.1', port)
    smtp.starttls(context=context)
    smtp.ehlo()
    if user:
        print(smtp.login(user, password)[0])
    return smtp
def attempt(smtp, to):
    try:
        smtp.sendmail('alice@here.test', [to], 'Subject: x\\r\\n\\r\\nhello\\r\\n')
        print('sent')
    except smtplib.SMTPRecipientsRefused as error:
        print(error.recipients[to][0])
    except smtplib.SMTPSenderRefused as error:
        print(error.smtp_code)
attempt(client(), 'a@elsewhere.test')
try:
    client('alice', 'wrong')
except smtplib.SMTPAuthenticationError as error:
    print(error.smtp_code)
smtp = client('alice', 'pencil')
for n in range(4):
    attempt(smtp, 'a@elsewhere.test')
first = smtp
smtp = smtplib.SMTP_SSL('127.0.0.1', implicit, context=context)
smtp.ehlo()
print(smtp.esmtp_features['auth'].split(), smtp.has_extn('starttls'))
smtp.user, smtp.password = 'alice', 'pencil'
print(smtp.auth('LOGIN', smtp.auth_login)[0])
try:
    client('alice', 'pencil')
except smtplib.SMTPAuthenticationError as error:
    print(error.smtp_code)
first.quit()
client('alice', 'pencil')
";
    let arguments = [daemon.ports[2].port().to_string(), daemon.ports[1].port().to_string()];
    let said = python(script, &arguments);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(
        said,
        [
            "530",
            "535",
            "235",
            "sent",
            "sent",
            "sent",
            "450",
            "['SCRAM-SHA-256', 'PLAIN', 'LOGIN'] False",
            "235",
            "454",
            "235"
        ]
    );
    site.until_logged(
        "error: alarm: the login alice of 127.0.0.1 has reached the limit of 3 recipients in an hour",
    );
    site.until_logged(
        "error: alarm: the login alice of 127.0.0.1 has 2 connections and wants another one",
    );
    let log = site.read("log");
    assert!(log.contains("tls=TLSv1.3 cipher=TLS_AES_256_GCM_SHA384 login=alice"), "{log}");
    assert!(log.contains("login failed"), "{log}");
    assert!(!log.contains("pencil"), "a password in the log");
    let text = &site.submissions()[0];
    assert!(text.contains("with ESMTPSA tls TLS_AES_256_GCM_SHA384\nauthinfo alice\n"), "{text}");
}

/// Passwords cannot be guessed on connections that end at once, either.
#[test]
fn failed_logins_of_closed_connections_count() {
    let site = site("");
    let daemon = site.start();
    let wrong = "AUTH PLAIN AGFsaWNlAHdyb25n\r\n";
    let guess = || {
        let mut client = Client::hello(daemon.ports[0]);
        client.send(wrong);
        client.shut();
        client.code()
    };
    for number in 0..10 {
        assert_eq!(guess(), "535", "guess {number}");
    }
    assert_eq!(guess(), "454");
    site.until_logged("warning: 10 failed logins as alice from 127.0.0.1 in an hour");
    // Other users of the same host log in. So does this one after a reload.
    let login = |line: &str| Client::hello(daemon.ports[2]).say(line);
    assert_eq!(login("AUTH PLAIN AGJvYgBwZW5jaWw=\r\n"), "535");
    assert_eq!(login("AUTH PLAIN AGFsaWNlAHBlbmNpbA==\r\n"), "454");
    daemon.signal("-HUP");
    site.until_logged("configuration read");
    assert_eq!(login("AUTH PLAIN AGFsaWNlAHBlbmNpbA==\r\n"), "235");
}

#[test]
fn failed_logins_from_one_client_are_limited() {
    let site = site("max-failed-logins-per-client 3\nmax-failed-logins-per-login 2\n");
    let daemon = site.start();
    let login = |line: &str| Client::hello(daemon.ports[2]).say(line);
    let (bob, carol, alice) = (
        "AUTH PLAIN AGJvYgBwZW5jaWw=\r\n",
        "AUTH PLAIN AGNhcm9sAHg=\r\n",
        "AUTH PLAIN AGFsaWNlAHBlbmNpbA==\r\n",
    );
    assert_eq!([login(bob), login(bob), login(bob)], ["535", "535", "454"]);
    site.until_logged("error: alarm: 2 failed logins as bob in an hour");
    assert_eq!([login(alice), login(carol), login(alice)], ["235", "535", "454"]);
    site.until_logged("error: alarm: 3 failed logins from 127.0.0.1 in an hour");
}

/// A login counts no more when its session is over, even if the client does not hang up.
#[test]
fn login_ends_with_its_session() {
    let site = site("max-connections-per-login 1\n");
    let daemon = site.start();
    let alice = "AUTH PLAIN AGFsaWNlAHBlbmNpbA==\r\n";
    let mut first = Client::hello(daemon.ports[2]);
    assert_eq!(first.say(alice), "235");
    assert_eq!(Client::hello(daemon.ports[2]).say(alice), "454");
    assert_eq!(first.say("QUIT\r\n"), "221");
    assert_eq!(Client::hello(daemon.ports[2]).say(alice), "235");
    assert!(first.is_closed());
}

/// More replies than TLS keeps for a client that does not read.
#[test]
fn lmtp_by_tls_replies_for_all_recipients() {
    let site = site("max-recipients 5000\n");
    let config =
        site.read("smtpserver.cf").replace("127.0.0.1:0 submission\n", "127.0.0.1:0 lmtp\n");
    site.write("smtpserver.cf", config);
    site.write_config("router.cf", "hostname mx.test\nusers any\nlocal here.test\n");
    let daemon = site.start();
    let script = "\
import socket, ssl, sys, time
sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 60)
reader = sock.makefile('rb')
def reply():
    while True:
        line = reader.readline()
        if line[3:4] != b'-':
            return line[:3]
def say(text):
    sock.sendall(text)
    return reply()
reply(), say(b'LHLO c\\r\\n'), say(b'STARTTLS\\r\\n')
sock = ssl._create_unverified_context().wrap_socket(sock)
reader = sock.makefile('rb')
say(b'LHLO c\\r\\n'), say(b'MAIL FROM:<a@b>\\r\\n')
for i in range(0, 4000, 100):
    sock.sendall(b''.join(b'RCPT TO:<u%d@here.test>\\r\\n' % n for n in range(i, i + 100)))
    assert {reply() for _ in range(100)} == {b'250'}
say(b'DATA\\r\\n')
sock.sendall(b'A: b\\r\\n\\r\\nx\\r\\n.\\r\\n')
print(sum(reply() == b'250' for _ in range(4000)))
";
    let said = python(script, &[daemon.ports[2].port().to_string()]);
    assert_eq!(said.trim(), "4000");
}

/// On a port with TLS, too, the greeting comes first.
#[test]
fn client_that_speaks_first_by_tls_is_refused() {
    let site = site("greeting-delay 2s\n");
    let daemon = site.start();
    let script = "\
import socket, ssl, sys
def connect():
    sock = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 60)
    return ssl._create_unverified_context().wrap_socket(sock)
sock = connect()
sock.sendall(b'EHLO c\\r\\n')
print(sock.makefile('rb').readline().decode().strip())
print(connect().makefile('rb').readline().decode().strip())
";
    let said = python(script, &[daemon.ports[1].port().to_string()]);
    let expected =
        "554 5.5.1 Commands sent too early: wait for the greeting\n220 mx.test ESMTP zsched\n";
    assert_eq!(said, expected);
}

/// SCRAM by the client's side that `mailq` has.
#[test]
fn scram_login_needs_no_tls() {
    use zsched_mailq_protocol::scram;
    let site = site("");
    let daemon = site.start();
    for (user, password, is_right) in
        [("alice", "pencil", true), ("alice", "wrong", false), ("eve", "pencil", false)]
    {
        let mut client = Client::hello(daemon.ports[2]);
        let login = scram::Client::new(user, password).expect("random numbers");
        client.send(format!("AUTH SCRAM-SHA-256 {}\r\n", login.first()));
        let reply = client.reply();
        let first = reply.trim_end().strip_prefix("334 ").expect(&reply);
        let (proof, verifier) = login.prove(first.as_bytes()).expect("a good message");
        client.send(format!("{proof}\r\n"));
        let reply = client.reply();
        assert_eq!(reply.starts_with("334 "), is_right, "{reply}");
        if is_right {
            let last = reply.trim_end().strip_prefix("334 ").expect(&reply);
            assert_eq!(verifier.verify(last.as_bytes()), Ok(()));
            assert_eq!(client.say("\r\n"), "235");
            assert_eq!(client.say("MAIL FROM:<alice@here.test>\r\n"), "250");
            assert_eq!(client.say("RCPT TO:<a@elsewhere.test>\r\n"), "250");
        }
    }
}

#[test]
fn file_of_logins_with_an_error_is_not_used() {
    let site = site("");
    let daemon = site.start();
    let login = |code: &str| {
        let mut client = Client::hello(daemon.ports[2]);
        assert_eq!(client.say("AUTH PLAIN AGFsaWNlAHBlbmNpbA==\r\n"), code);
    };
    login("235");
    site.write("logins", "alice:pencil\n");
    site.until_logged("logins:1:7: error: this is no hash of a password");
    login("235");
    site.write("logins", "");
    site.until_logged("configuration read");
    login("535");
    assert!(!site.read("log").contains("pencil"));
    assert_eq!(site.read("log").matches("logins:1:7").count(), 1, "it is not read again");
}
