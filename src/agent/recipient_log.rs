//! Lines of agents in the system log: one for each outcome, in the form of ZMailer's agents.
//!
//! They are sent if SYSLOGFLG in the environment has a `T`, or a `t` for fields that TABs separate.
//! The scheduler passes it from the ZENV file, and SYSLOGSOCKET, which names another socket than
//! `/dev/log`.

use crate::Outcome;
use crate::job_file::JobFile;
use crate::outcome::Note;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use zsched_format::control_file::Recipient;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_spool::{Spool, SpoolId};
use zsched_sys::{SYSLOG_SOCKET, SyslogLevel, SyslogSocket, syslog_line};

/// Time without lines after one that could not be sent. No agent waits for a broken system log.
const PAUSE: Duration = Duration::from_secs(60);

/// The system log; `None` if no lines are wanted.
static LOG: LazyLock<Option<RecipientLog>> = LazyLock::new(RecipientLog::of_environment);

struct RecipientLog {
    separator: &'static str,
    program: String,
    sender: Mutex<Sender>,
}

struct Sender {
    socket: SyslogSocket,
    paused_until: Option<Instant>,
}

impl RecipientLog {
    fn of_environment() -> Option<RecipientLog> {
        let separator = separator(&std::env::var("SYSLOGFLG").ok()?)?;
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        let path = std::env::var_os("SYSLOGSOCKET").unwrap_or_else(|| SYSLOG_SOCKET.into());
        let socket = SyslogSocket::new(Path::new(&path));
        let sender = Mutex::new(Sender { socket, paused_until: None });
        Some(RecipientLog { separator, program: printable::line(&*program).to_string(), sender })
    }
}

/// What separates the fields; `None` if no lines are wanted.
fn separator(flags: &str) -> Option<&'static str> {
    match () {
        () if flags.contains('t') => Some("\t"),
        () if flags.contains('T') => Some(", "),
        () => None,
    }
}

/// Logs the outcome of a recipient. `began` is the begin of the job.
///
/// Nothing depends on it, so errors are ignored.
pub(crate) fn add(
    spool: &Spool,
    file: &JobFile,
    recipient: &Recipient,
    outcome: &Outcome,
    began: Instant,
) {
    let Some(log) = &*LOG else { return };
    let mut sender = log.sender.lock().unwrap_or_else(PoisonError::into_inner);
    if sender.paused_until.is_some_and(|until| Instant::now() < until) {
        return;
    }
    let received = std::fs::metadata(file.message_path(spool)).map(|it| Timestamp::modified(&it));
    let now = Timestamp::now();
    let received = received.unwrap_or(now);
    let control = &file.parsed.control;
    let times = (now.since(received), began.elapsed());
    let id = SpoolId { number: file.number, modified: received };
    let (user, channel) = (control.get(recipient.quad.user), control.get(recipient.quad.channel));
    let text = line(&id, log.separator, (user, channel), outcome, times);
    let sent = sender.socket.send(syslog_line(SyslogLevel::Info, &log.program, &text).as_bytes());
    sender.paused_until = sent.is_err().then(|| Instant::now() + PAUSE);
}

fn line(
    id: &SpoolId,
    separator: &str,
    (user, channel): (&[u8], &[u8]),
    outcome: &Outcome,
    (delay, attempt): (Duration, Duration),
) -> String {
    let word = outcome.verdict().status(Note::NotNeeded).word();
    let text = outcome.text().trim_end_matches(['\r', '\n']);
    let text = text.rsplit('\r').next().unwrap_or_default().trim();
    let mut fields = vec![
        format!("{id}: to=<{}>", printable::line(user)),
        format!("delay={}", clock(delay)),
        format!("xdelay={}", clock(attempt)),
        format!("mailer={}", printable::line(channel)),
    ];
    if let Some(relay) = relay(outcome.remote_host()) {
        fields.push(format!("relay={}", printable::line(&relay)));
    }
    fields.push(format!("stat={word} {}", printable::line(text)).trim_end().to_string());
    fields.join(separator)
}

/// The remote host of an outcome, `dns; mx.test (192.0.2.1)`, as `mx.test ([192.0.2.1])`.
fn relay(remote_host: &str) -> Option<String> {
    let host = remote_host.strip_prefix("dns;").unwrap_or(remote_host).trim();
    match host.strip_suffix(')').and_then(|host| host.split_once(" (")) {
        _ if host.is_empty() => None,
        Some((name, address)) => Some(format!("{name} ([{address}])")),
        None => Some(host.to_string()),
    }
}

/// A time as `HH:MM:SS`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn line_has_fields_of_original_in_order() {
        let outcome = Outcome::new(Verdict::Failed, "5.1.1", 550, "no such user")
            .with_remote_host("dns; mx.test (192.0.2.1)")
            .with_text("<- RCPT TO:<a@b>\r-> 550 no\n such user");
        let id = SpoolId { number: 4711, modified: Timestamp::from_seconds(1_795_255_449) };
        let times = (Duration::from_secs(90_061), Duration::from_millis(1_999));
        let of = |separator| line(&id, separator, (b"a@b\n", b"smtp"), &outcome, times);
        assert_eq!(
            of(", "),
            format!(
                "{id}: to=<a@b^J>, delay=25:01:01, xdelay=00:00:01, mailer=smtp, \
                 relay=mx.test ([192.0.2.1]), stat=error2 -> 550 no^J such user"
            )
        );
        assert_eq!(of("\t").matches('\t').count(), 5);
        let outcome = Outcome::new(Verdict::Delivered, "2.0.0", 250, "");
        let short = line(&id, ", ", (b"a", b"local"), &outcome, times);
        assert!(short.ends_with("mailer=local, stat=ok3"), "{short}");
    }

    #[test]
    fn flags_choose_form() {
        let found = ["cT", "t", "Tt", "c", ""].map(separator);
        assert_eq!(found, [Some(", "), Some("\t"), Some("\t"), None, None]);
    }
}
