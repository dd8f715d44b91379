//! Lines in the system log, in the forms of ZMailer's scheduler, for programs that watch them.
//!
//! Lines about messages are sent only if SYSLOGFLG of the ZENV file has a `c` or `C`; errors
//! always. A worker sends them, so that nothing waits for the system log.

use memchr::memchr_iter;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;
use zsched_config::Zenv;
use zsched_format::log_limiter::LogLimiter;
use zsched_format::printable;
use zsched_service::{BackgroundLog, GapLine, LogOutput};
use zsched_sys::{SYSLOG_SOCKET, SyslogLevel, SyslogSocket, syslog_line};

/// Name of the program in the system log.
const IDENT: &str = "scheduler";

/// The system log, once it is started.
static SYSTEM_LOG: OnceLock<Started> = OnceLock::new();

/// The sending end of the system log.
struct Started {
    log: BackgroundLog,
    /// SYSLOGFLG requests lines about messages.
    has_events: bool,
}

/// Starts the worker.
///
/// SYSLOGSOCKET names another socket than `/dev/log`.
pub(crate) fn start(zenv: &Zenv) -> io::Result<BackgroundLog> {
    let path = zenv.get("SYSLOGSOCKET").unwrap_or(SYSLOG_SOCKET);
    let log = BackgroundLog::start(SystemLog::new(Path::new(path)), |lost| {
        syslog_line(SyslogLevel::Error, IDENT, &format!("{lost} lines are missing")).into_bytes()
    })?;
    let has_events = zenv.get("SYSLOGFLG").is_some_and(|flags| flags.contains(['c', 'C']));
    Ok(SYSTEM_LOG.get_or_init(|| Started { log, has_events }).log.clone())
}

/// Returns true if lines about messages are wanted.
pub(crate) fn has_events() -> bool {
    SYSTEM_LOG.get().is_some_and(|started| started.has_events)
}

/// Sends a line about a message, if such lines are wanted.
pub(crate) fn event(text: impl FnOnce() -> String) {
    if has_events() {
        send(SyslogLevel::Info, &text());
    }
}

/// Sends a line about an error.
pub(crate) fn error(text: &str) {
    send(SyslogLevel::Error, text);
}

/// Sends a line about a program that is broken.
pub(crate) fn emergency(text: &str) {
    send(SyslogLevel::Emergency, text);
}

fn send(level: SyslogLevel, text: &str) {
    if let Some(Started { log, .. }) = SYSTEM_LOG.get() {
        let line = syslog_line(level, IDENT, &printable::line(text));
        log.push(format!("{line}\n").as_bytes());
    }
}

/// The worker's end of the system log.
struct SystemLog {
    socket: SyslogSocket,
    lost: u64,
    failures_log: LogLimiter,
}

impl SystemLog {
    fn new(path: &Path) -> SystemLog {
        SystemLog { socket: SyslogSocket::new(path), lost: 0, failures_log: LogLimiter::default() }
    }

    /// Sends lines until one fails.
    ///
    /// The error has the number of bytes sent.
    fn send_all(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut sent = 0;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            self.socket.send(text).map_err(|error| (sent, error))?;
            sent += line.len();
        }
        Ok(())
    }
}

impl LogOutput for SystemLog {
    fn what(&self) -> &'static str {
        "system log"
    }

    fn reopen(&mut self, _only_renamed: bool) {}

    /// Sends lines. Those after one that cannot be sent are lost: a system log that reads nothing
    /// costs a second for all of them.
    fn append(&mut self, lines: &[u8], gap: &GapLine) {
        let gap = if self.lost > 0 { gap(self.lost) } else { Vec::new() };
        let sent = match self.send_all(&gap) {
            Ok(()) => {
                self.lost = 0;
                self.send_all(lines)
            }
            Err((_, error)) => Err((0, error)),
        };
        let Err((sent, error)) = sent else { return };
        self.lost += memchr_iter(b'\n', &lines[sent..]).count() as u64;
        // Not every system has one. An error without lines about messages is in the log, too.
        if has_events()
            && let Some(more) = self.failures_log.permit(Instant::now())
        {
            let (path, lost) = (self.socket.path().display(), self.lost);
            log::error!("{path}: {error}; {lost} lines of the system log are lost so far{more}");
        }
    }

    fn lost(&mut self) -> &mut u64 {
        &mut self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    fn gap(lost: u64) -> Vec<u8> {
        format!("{lost} lost").into_bytes()
    }

    #[test]
    fn lines_lost_without_system_log_are_counted_in_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = SystemLog::new(&path);
        log.append(b"a\nb\n", &gap);
        log.append(b"c\n", &gap);
        assert_eq!(log.lost, 3);
        let receiver = UnixDatagram::bind(&path).expect("bound");
        receiver.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        log.append(b"d\ne\n", &gap);
        let mut line = [0; 100];
        for expected in ["3 lost", "d", "e"] {
            let length = receiver.recv(&mut line).expect("a line");
            assert_eq!(&line[..length], expected.as_bytes());
        }
        assert_eq!(log.lost, 0);
    }
}
