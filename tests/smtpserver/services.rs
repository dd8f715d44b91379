//! Services of other programs that are asked about clients: a policy service, Dovecot.

use crate::support::{Client, Site};
use crate::tls_and_logins::site;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time in which the server answers what needs no service, on a busy machine.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn policy_service_decides_about_recipients() {
    let site = Site::new("listen 127.0.0.1:0 smtp\npolicy unix:DIR/policy\n");
    let listener = UnixListener::bind(site.path("policy")).expect("bound");
    let service = std::thread::spawn(move || {
        let actions = [
            "DUNNO",
            "PREPEND X-Policy: seen",
            "PREPEND X-Policy: seen",
            "REJECT 5.7.99 not today",
            "DEFER later",
            "HOLD",
            "",
            "421 4.7.0 go away",
        ];
        let mut asked = Vec::new();
        for action in actions {
            let (stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream);
            let mut text = String::new();
            while reader.read_line(&mut text).expect("a line") > 1 {}
            asked.push(text);
            if !action.is_empty() {
                let reply = format!("action={action}\n\n");
                reader.get_mut().write_all(reply.as_bytes()).expect("written");
            }
        }
        asked
    });
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    assert_eq!(client.say("MAIL FROM:<s@x.test> SIZE=5\r\n"), "250");
    for expected in [
        "250 2.1.5 Ok",
        "250 2.1.5 Ok",
        "250 2.1.5 Ok",
        "554 5.7.99 not today",
        "450 4.7.1 later",
        "451 4.3.5 The policy of this host cannot be carried out",
        "451 4.3.5 The policy service does not answer",
    ] {
        client.send("RCPT TO:<bob@here.test>\r\n");
        assert_eq!(client.reply().trim_end(), expected);
    }
    assert_eq!(client.say("DATA\r\n"), "354");
    assert_eq!(client.say("Subject: x\r\n\r\nbody\r\n.\r\n"), "250");
    let stored = &site.submissions()[0];
    assert!(stored.ends_with("\nenv-end\nX-Policy: seen\nSubject: x\n\nbody\n"), "{stored}");
    assert_eq!(client.say("MAIL FROM:<>\r\n"), "250");
    client.send("RCPT TO:<bob@here.test>\r\n");
    assert_eq!(client.reply().trim_end(), "421 4.7.0 go away");
    assert!(client.is_closed());
    let asked = service.join().expect("it ends");
    let port = format!("server_port={}", daemon.ports[0].port());
    for line in [
        "request=smtpd_access_policy",
        "protocol_state=RCPT",
        "sender=s@x.test",
        "recipient=bob@here.test",
        "client_address=127.0.0.1",
        "server_address=127.0.0.1",
        &port,
        "helo_name=client.test",
        "sasl_method=",
        "encryption_keysize=0",
        "size=5",
    ] {
        assert!(asked[0].lines().any(|found| found == line), "{line}: {}", asked[0]);
    }
    let instance = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("instance=")).expect("an instance");
        line.to_string()
    };
    assert_eq!(instance(&asked[0]), instance(&asked[6]), "of one message");
    assert_ne!(instance(&asked[0]), instance(&asked[7]), "of another one");
}

/// A socket on which nobody accepts, with a short listen queue.
fn hung_service(site: &Site, name: &str) -> UnixListener {
    let listener = UnixListener::bind(site.path(name)).expect("bound");
    rustix::net::listen(&listener, 1).expect("it listens");
    listener
}

/// Sends a line on several connections at a time. Returns the codes of the replies.
fn ask_together(count: usize, port: std::net::SocketAddr, before: &str, line: &str) -> Vec<String> {
    let ask = || {
        let mut client = Client::hello(port);
        assert!(before.is_empty() || client.say(before) == "250");
        client.say(line)
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().map(|client| client.join().expect("it ends")).collect()
    })
}

/// The listen queue of the policy service is full.
#[test]
fn hung_policy_service_defers_its_recipients_only() {
    let site = Site::new("listen 127.0.0.1:0 smtp\npolicy unix:DIR/policy\n");
    let _hung = hung_service(&site, "policy");
    let daemon = site.start();
    let port = daemon.ports[0];
    let began = Instant::now();
    let sender = "MAIL FROM:<s@x.test>\r\n";
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask_together(40, port, sender, "RCPT TO:<bob@here.test>\r\n"));
        // What needs no policy does not wait.
        let mut client = Client::hello(port);
        assert_eq!(client.say(sender), "250");
        assert_eq!(client.say("RCPT TO:<unknown@here.test>\r\n"), "550");
        assert_eq!(client.say("RSET\r\n"), "250");
        assert_eq!(client.say("ETRN here.test\r\n"), "250");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(asked.join().expect("it ends"), vec!["451"; 40]);
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    site.until_logged("error: the policy service: Resource temporarily unavailable");
    // Then it is not asked for a while.
    let began = Instant::now();
    let codes = ask_together(20, port, sender, "RCPT TO:<bob@here.test>\r\n");
    assert_eq!(codes, vec!["451"; 20]);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// The policy service accepts connections, and says nothing.
#[test]
fn silent_policy_service_defers_all_recipients_in_time() {
    let site = Site::new("listen 127.0.0.1:0 smtp\npolicy unix:DIR/policy\n");
    let _silent = UnixListener::bind(site.path("policy")).expect("bound");
    let daemon = site.start();
    let began = Instant::now();
    let (sender, recipient) = ("MAIL FROM:<s@x.test>\r\n", "RCPT TO:<bob@here.test>\r\n");
    assert_eq!(ask_together(40, daemon.ports[0], sender, recipient), vec!["451"; 40]);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// Dovecot with its authentication service only. It knows `alice` with the password `pencil`.
struct Dovecot {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // It ends its own processes when it gets SIGTERM.
        let pid = self.child.id().to_string();
        let is_sent = Command::new("kill").arg(pid).status().is_ok_and(|status| status.success());
        if is_sent {
            drop(self.child.wait());
        }
    }
}

impl Dovecot {
    fn start() -> Option<Dovecot> {
        let mut command = crate::support::peer("usr/sbin/dovecot")?;
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).expect("our folder");
        for name in ["run", "state"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let user = match zsched_sys::users::is_root() {
            true => "dovecot".to_string(),
            false => std::env::var("USER").unwrap_or_default(),
        };
        let at = folder.path().display();
        let configuration = format!(
            "protocols =\nbase_dir = {at}/run\nstate_dir = {at}/state\nssl = no\n\
             default_internal_user = {user}\ndefault_login_user = {user}\nlog_path = {at}/log\n\
             auth_mechanisms = plain login\nauth_failure_delay = 0\n\
             passdb {{\n driver = passwd-file\n args = scheme=PLAIN {at}/users\n}}\n\
             userdb {{\n driver = static\n args = uid=nobody gid=nogroup home={at}\n}}\n\
             service auth {{\n unix_listener auth-client {{\n mode = 0666\n }}\n}}\n\
             service anvil {{\n chroot =\n}}\n"
        );
        std::fs::write(folder.path().join("users"), "alice@here.test:pencil\n").expect("written");
        std::fs::write(folder.path().join("dovecot.conf"), configuration).expect("written");
        command.args(["-F", "-c"]).arg(folder.path().join("dovecot.conf")).stdin(Stdio::null());
        let dovecot = Dovecot { child: command.spawn().expect("it starts"), folder };
        crate::support::until("Dovecot listens", || {
            std::os::unix::net::UnixStream::connect(dovecot.socket()).is_ok()
        });
        Some(dovecot)
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("run/auth-client")
    }
}

#[test]
fn dovecot_decides_about_logins() {
    let Some(dovecot) = Dovecot::start() else { return };
    let logins = format!("logins dovecot:{}\n", dovecot.socket().display());
    let site = site("");
    let config = site.read("smtpserver.cf");
    site.write("smtpserver.cf", config.replace("logins ", "#logins ") + &logins);
    let daemon = site.start();
    // Several at a time: each is a connection to Dovecot of its own.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(daemon.ports[2]);
                assert_eq!(client.code(), "220");
                client.send("EHLO c\r\n");
                let hello = client.reply();
                assert!(hello.contains("250-AUTH PLAIN LOGIN\r\n"), "{hello}");
                assert_eq!(client.say("AUTH SCRAM-SHA-256 biws\r\n"), "504");
                assert_eq!(client.say("AUTH PLAIN AGFsaWNlQGhlcmUudGVzdAB3cm9uZw==\r\n"), "535");
                assert_eq!(client.say("AUTH LOGIN\r\n"), "334");
                assert_eq!(client.say("QUxJQ0VASGVyZS50ZXN0\r\n"), "334");
                assert_eq!(client.say("cGVuY2ls\r\n"), "235");
                client.begin_data();
                assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
            });
        }
    });
    // Dovecot's name of the user, who wrote ALICE.
    let stored = site.submissions();
    assert_eq!(stored.len(), 8);
    assert!(stored.iter().all(|text| text.contains("\nauthinfo alice@here.test\n")));
    drop(dovecot);
    let mut client = Client::hello(daemon.ports[2]);
    assert_eq!(client.say("AUTH PLAIN AGFsaWNlQGhlcmUudGVzdABwZW5jaWw=\r\n"), "454");
    site.until_logged("error: Dovecot's authentication service: No such file or directory");
}

/// The listen queue of Dovecot is full. Logins are refused, mail without a login is not.
#[test]
fn hung_dovecot_holds_up_no_mail() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nlogins dovecot:DIR/auth\n");
    let _hung = hung_service(&site, "auth");
    let daemon = site.start();
    let (port, began) = (daemon.ports[0], Instant::now());
    std::thread::scope(|scope| {
        let logins = scope.spawn(|| ask_together(40, port, "", "AUTH PLAIN AGEAYg==\r\n"));
        let mut client = Client::hello(port);
        client.begin_data();
        assert_eq!(client.say("A: b\r\n\r\nc\r\n.\r\n"), "250");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(logins.join().expect("it ends"), vec!["454"; 40]);
    });
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

#[test]
fn service_that_is_no_dovecot_gets_no_password() {
    let site = Site::new("listen 127.0.0.1:0 smtp\nlogins dovecot:DIR/auth\n");
    let listener = UnixListener::bind(site.path("auth")).expect("bound");
    let daemon = site.start();
    let mut client = Client::hello(daemon.ports[0]);
    client.send("AUTH PLAIN AGEAYg==\r\n");
    let mut asked = listener.accept().expect("a login").0;
    asked.write_all(b"220 mx.test\nDONE\n").expect("written");
    assert_eq!(client.code(), "454");
    site.until_logged("Dovecot has no mechanism PLAIN");
    let mut heard = String::new();
    std::io::Read::read_to_string(&mut asked, &mut heard).expect("the end");
    assert!(!heard.contains("resp="), "{heard}");
}
