//! Real programs that send mail, with our `sendmail` in the place of `/usr/sbin/sendmail`.
//!
//! `.ci/run` installs them. A program that is absent is reported, and is an error where `CI` is set
//! in the environment.

use crate::support::{
    Installation, SENDMAIL, absent, allow, has_program, not_run, run, status_and_text, wait_until,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Fails unless the command succeeds. Returns the submission.
#[track_caller]
fn sent(site: &Installation, command: Command, input: &[u8]) -> String {
    let shown = format!("{command:?}");
    let output = run(command, input);
    let said =
        format!("{} {}", String::from_utf8_lossy(&output.stdout), status_and_text(&output).1);
    assert!(output.status.success(), "{shown}: {said}");
    site.take()
}

/// Files that only our cron sees take the place of those of the system.
const CRON: &str = "set -e\n\
    cp /usr/sbin/cron cron\n\
    mount --bind tabs /var/spool/cron/crontabs\n\
    mount --bind run /run\n\
    mount --bind sbin /usr/sbin\n\
    exec ./cron -f\n";

/// A job that runs when cron starts, and prints something.
#[test]
fn cron_mails_output_of_job() {
    let site = Installation::new();
    if !Path::new("/usr/sbin/cron").exists() {
        return absent("cron");
    }
    let may_mount =
        Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return not_run("cron: this user cannot mount its files (`unshare --mount`)");
    }
    ["tabs", "run", "sbin"].iter().for_each(|name| fs::create_dir(site.path(name)).expect("made"));
    symlink(SENDMAIL, site.path("sbin/sendmail")).expect("a link");
    fs::write(site.path("tabs/root"), "@reboot echo one; echo .; echo two\n").expect("written");
    allow(&site.path("tabs/root"), 0o600);
    let mut command = site.command("unshare");
    command.args(["--mount", "sh", "-c", CRON]).stdin(Stdio::null());
    let mut cron = command.spawn().expect("it starts");
    wait_until("cron has sent the output", || site.names("router").len() == 1);
    cron.kill().expect("killed");
    cron.wait().expect("ended");
    let text = site.take();
    assert!(text.contains("\nto <root>\nenv-end\nFrom: root (Cron Daemon)\n"), "{text}");
    assert!(text.contains("\nX-Cron-Env: <LOGNAME=root>\n"), "{text}");
    assert!(text.ends_with("\n\none\n.\ntwo\n"), "{text}");
}

/// PHP passes `sendmail_path` to a shell, with the fifth argument of `mail()` behind it.
#[test]
fn php_sends_by_function_mail() {
    let site = Installation::new();
    if !has_program("php") {
        return;
    }
    let script = "mail('bob@example.net', 'Order', \"Thank you.\\r\\n.\\r\\nBye.\", \
                  \"From: Shop <shop@example.org>\\r\\nCc: carol@example.net\", \
                  '-fwww@example.org') or exit(1);";
    let mut command = site.command("php");
    command.args(["-n", "-d", &format!("sendmail_path={SENDMAIL} -t -i"), "-r", script]);
    assert_eq!(
        sent(&site, command, b""),
        "from <www@example.org>\nto <bob@example.net>\nto <carol@example.net>\nenv-end\n\
         To: bob@example.net\nSubject: Order\nFrom: Shop <shop@example.org>\n\
         Cc: carol@example.net\n\nThank you.\n.\nBye.\n"
    );
}

/// The `mail` command of Debian and others; its `mta` is a path.
#[test]
fn s_nail_sends() {
    let site = Installation::new();
    if !has_program("s-nail") {
        return;
    }
    let mut command = site.command("s-nail");
    command.args(["-n", "-S", &format!("mta={SENDMAIL}"), "-S", "sendwait"]);
    command.args(["-s", "A subject", "-r", "me@example.org", "-c", "carol@example.net"]);
    command.args(["-b", "dave@example.net", "bob@example.net"]).env("HOME", site.path(""));
    let text = sent(&site, command, b"one\n.\ntwo\n");
    let (envelope, message) = text.split_once("env-end\n").expect("an envelope");
    assert!(envelope.starts_with("from <me@example.org>\n"), "{text}");
    for user in ["bob", "carol", "dave"] {
        assert!(envelope.contains(&format!("to <{user}@example.net>\n")), "{text}");
    }
    assert!(message.contains("\nSubject: A subject\n") && !message.contains("dave"), "{text}");
    assert!(message.ends_with("\n\none\n.\ntwo\n"), "{text}");
}

#[test]
fn python_sends_email_message() {
    let site = Installation::new();
    if !has_program("python3") {
        return;
    }
    let script = "import subprocess, sys\n\
        from email.message import EmailMessage\n\
        message = EmailMessage()\n\
        message['From'] = 'Al\u{ef}ce <alice@example.org>'\n\
        message['To'] = 'Bob <bob@example.net>, carol@example.net'\n\
        message['Bcc'] = 'dave@example.net'\n\
        message.set_content('One\\n.\\nTwo\\n')\n\
        subprocess.run([sys.argv[1], '-t', '-oi'], input=message.as_bytes(), check=True)\n";
    let mut command = site.command("python3");
    command.args(["-c", script, SENDMAIL]).env("PYTHONIOENCODING", "utf-8");
    let text = sent(&site, command, b"");
    let recipients: Vec<&str> = text.lines().filter(|line| line.starts_with("to ")).collect();
    assert_eq!(
        recipients,
        ["to <bob@example.net>", "to <carol@example.net>", "to <dave@example.net>"]
    );
    assert!(text.ends_with("\n\nOne\n.\nTwo\n") && !text.contains("Bcc"), "{text}");
}

/// Returns the `git` that has `send-email`, which is a package of its own.
fn git_with_send_email() -> Option<&'static str> {
    ["git", "/usr/bin/git"].into_iter().find(|git| {
        let output = Command::new(git).arg("--exec-path").output();
        output.is_ok_and(|output| {
            let folder = String::from_utf8_lossy(&output.stdout).into_owned();
            Path::new(folder.trim()).join("git-send-email").exists()
        })
    })
}

#[test]
fn git_sends_patches_of_repository() {
    let site = Installation::new();
    let Some(git) = git_with_send_email() else { return absent("git send-email") };
    let repository = site.path("repository");
    fs::create_dir(&repository).expect("a folder");
    let git = |arguments: &[&str]| {
        let mut command = site.command(git);
        let settings =
            ["user.name=Al\u{ef}ce", "user.email=alice@example.org", "commit.gpgsign=false"];
        command.args(settings.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        command.current_dir(&repository).env("HOME", site.path("")).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    };
    let done = |arguments: &[&str]| {
        let output = run(git(arguments), b"");
        assert_eq!(output.status.code(), Some(0), "{}", status_and_text(&output).1);
    };
    done(&["init", "--quiet"]);
    for (name, subject) in [("first", "Begin"), ("second", "Add t\u{fc}r"), ("third", "End")] {
        fs::write(repository.join(name), ".\nFrom here\n").expect("written");
        done(&["add", name]);
        done(&["commit", "--quiet", "-m", subject]);
    }
    let server = format!("--smtp-server={SENDMAIL}");
    done(&[
        "send-email",
        "--quiet",
        "--confirm=never",
        "--suppress-cc=all",
        &server,
        "--envelope-sender=bounces@example.org",
        "--to=Bob <bob@example.net>",
        "--cc=list@example.net",
        "--bcc=dave@example.net",
        "-2",
    ]);
    let mut found = site.take_all();
    found.sort_by_key(|text| text.contains("[PATCH 2/2]"));
    assert_eq!(found.len(), 2);
    let envelope = "from <bounces@example.org>\nto <bob@example.net>\nto <list@example.net>\n\
                    to <dave@example.net>\nenv-end\nFrom: ";
    for (text, subject) in found.iter().zip([
        "\nSubject: [PATCH 1/2] =?UTF-8?q?Add=20t=C3=BCr?=\n",
        "\nSubject: [PATCH 2/2] End\n",
    ]) {
        assert!(text.starts_with(envelope), "{text}");
        assert!(text.contains(subject) && !text.contains("Bcc: "), "{text}");
        assert!(text.contains("\n+.\n+From here\n"), "{text}");
    }
}
