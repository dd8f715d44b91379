//! Postfix's smtpd as the peer, with a configuration and a queue of its own.
//!
//! `.ci/run` unpacks it into the folder `ZSCHED_PEERS`. Its parts run as the user `daemon`, and all
//! mail stays in its queue.

use crate::servers::{
    allow, asked_by_swaks, body, free_port, server, server_of_root, wait_for_port,
};
use crate::support::{agent, agent_with, deliver, outcomes};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use zsched_smtp::dialer::ClientOptions;

const USERS: [&str; 3] = ["ann@b.test", "bob@b.test", "eve@b.test"];

struct Postfix {
    child: Child,
    folder: tempfile::TempDir,
    /// Its programs and libraries.
    programs: PathBuf,
    port: u16,
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // It ends its own processes.
        let pid = self.child.id().to_string();
        let is_sent = Command::new("kill").arg(pid).status().is_ok_and(|status| status.success());
        if is_sent {
            self.child.wait().ok();
        }
    }
}

impl Postfix {
    fn start() -> Option<Postfix> {
        let master = server_of_root("usr/lib/postfix/sbin/master", "postfix")?;
        let programs = master.ancestors().nth(2).expect("a folder").to_path_buf();
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        write_configuration(folder.path(), &programs, port);
        make_queue(folder.path());
        let child = Command::new(master)
            .arg("-c")
            .arg(folder.path().join("conf"))
            .arg("-d")
            .env("LD_LIBRARY_PATH", &programs)
            .stdin(Stdio::null())
            .spawn()
            .expect("Postfix starts");
        let postfix = Postfix { child, folder, programs, port };
        wait_for_port(port, || postfix.log());
        Some(postfix)
    }

    fn host(&self) -> String {
        format!("[127.0.0.1]:{}", self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The texts of the messages in its queue.
    fn messages(&self) -> Vec<String> {
        let queue = fs::read_dir(self.folder.path().join("queue/incoming")).expect("its queue");
        let postcat = server("usr/sbin/postcat", "postfix").expect("a part of Postfix");
        let text = |file: fs::DirEntry| {
            let mut command = Command::new(&postcat);
            command.arg("-c").arg(self.folder.path().join("conf")).arg("-bh").arg(file.path());
            command.env("LD_LIBRARY_PATH", &self.programs);
            String::from_utf8(command.output().expect("postcat").stdout).expect("a text")
        };
        queue.flatten().map(text).collect()
    }
}

fn write_configuration(folder: &Path, programs: &Path, port: u16) {
    let (at, lib) = (folder.display(), programs.display());
    let bin = programs.join("../../sbin");
    let bin = bin.display();
    let conf = folder.join("conf");
    allow(folder, 0o755);
    fs::create_dir(&conf).expect("a folder");
    let (_, certificate, key) = crate::tls::certificate_with_key(&["127.0.0.1"]);
    fs::write(conf.join("cert.pem"), certificate).expect("write a file");
    fs::write(conf.join("key.pem"), key).expect("write a file");
    fs::write(conf.join("body"), "/^spam/ REJECT\n").expect("write a file");
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {at}/queue\ndata_directory = {at}/data\n\
         daemon_directory = {lib}/sbin\ncommand_directory = {bin}\n\
         mail_owner = daemon\nsetgid_group = mail\n\
         import_environment = MAIL_CONFIG LANG=C LD_LIBRARY_PATH={lib}\n\
         myhostname = postfix.test\ninet_interfaces = 127.0.0.1\ninet_protocols = ipv4\n\
         mydestination =\nlocal_recipient_maps =\nalias_maps =\nrelay_domains = b.test c.test\n\
         relay_recipient_maps = inline:{{ ann@b.test=ok, eve@b.test=ok, @c.test=ok }}\n\
         smtpd_recipient_restrictions = \
         check_recipient_access inline:{{ {{ eve@b.test = 450 4.2.1 greylisted }} }}, \
         reject_unauth_destination\n\
         smtpd_recipient_limit = 3\nbody_checks = regexp:{at}/conf/body\n\
         smtpd_tls_security_level = may\nsmtpd_tls_cert_file = {at}/conf/cert.pem\n\
         smtpd_tls_key_file = {at}/conf/key.pem\nsmtpd_tls_received_header = yes\n\
         maillog_file_prefixes = {at}\nmaillog_file = {at}/log\n"
    );
    fs::write(conf.join("main.cf"), main).expect("write a file");
    let services = format!(
        "127.0.0.1:{port} inet n - n - - smtpd\ncleanup unix n - n - 0 cleanup\n\
         rewrite unix - - n - - trivial-rewrite\nanvil unix - - n - 1 anvil\n\
         tlsmgr unix - - n 1000? 1 tlsmgr\npostlog unix-dgram n - n - 1 postlogd\n"
    );
    fs::write(conf.join("master.cf"), services).expect("write a file");
}

/// Makes the folders of a queue, which belong to the user `daemon`.
fn make_queue(folder: &Path) {
    let owner = zsched_sys::find_account("daemon").expect("the accounts").expect("Debian has it");
    for name in ["data", "queue", "queue/pid"] {
        fs::create_dir(folder.join(name)).expect("a folder");
    }
    let own = ["active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming"];
    for name in own.into_iter().chain(["maildrop", "private", "public", "saved", "trace"]) {
        let path = folder.join("queue").join(name);
        fs::create_dir(&path).expect("a folder");
        chown(&path, Some(owner.uid), None).expect("given away");
    }
    chown(folder.join("data"), Some(owner.uid), None).expect("given away");
}

#[test]
fn postfix_answers_for_each_recipient() {
    let Some(postfix) = Postfix::start() else { return };
    let host = postfix.host();
    // Another client gets the same answers.
    if let Some(answers) = asked_by_swaks(postfix.port, &USERS) {
        assert_eq!(answers, "+--");
    }
    for (number, configuration) in
        ["", "[[host]]\nwithout = [\"CHUNKING\"]\n", "[tls]\nlevel = \"none\"\n"]
            .into_iter()
            .enumerate()
    {
        let mut agent = agent_with(configuration, ClientOptions::default(), None);
        let text = format!("{number}\n{}\n", body());
        let run = deliver(&mut agent, &host, &USERS, &text);
        let expected = "ann ok3, bob error2 5.1.1, eve deferred 4.2.1";
        assert_eq!(outcomes(&run, &USERS), expected, "{:?} {}", run.reports, postfix.log());
        let stored = postfix.messages();
        let has = stored.iter().filter(|message| message.ends_with(&text)).count();
        assert_eq!(has, 1, "{stored:?}");
        let with_tls = stored.iter().filter(|message| message.contains("using TLSv1.3")).count();
        assert_eq!(with_tls, (number + 1).min(2), "{stored:?}");
        // Refused as a whole, in the same session.
        let run = deliver(&mut agent, &host, &USERS[..1], "spam\n");
        assert_eq!(outcomes(&run, &USERS[..1]), "ann error2 5.7.1", "{:?}", run.reports);
    }
}

#[test]
fn postfix_limits_recipients_and_sizes() {
    let Some(postfix) = Postfix::start() else { return };
    let many = ["a@c.test", "b@c.test", "c@c.test", "d@c.test", "e@c.test"];
    let run = deliver(&mut agent(), &postfix.host(), &many, "Hello\n");
    let expected = "a ok3, b ok3, c ok3, d ok3, e ok3";
    assert_eq!(outcomes(&run, &many), expected, "{:?} {}", run.reports, postfix.log());
    assert_eq!(postfix.messages().len(), 2);
    // More than message_size_limit.
    let run = deliver(&mut agent(), &postfix.host(), &many[..1], &"x\n".repeat(6_000_000));
    assert_eq!(outcomes(&run, &many[..1]), "a error2 5.3.4", "{:?}", run.reports);
}
