//! Lines for the system log, as of `syslog(3)`.
//!
//! They have the form of RFC 3164, as local programs write it.
//!
//! The line has priority, local time, the program's name and its pid.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default path of the socket of the system log.
pub const SYSLOG_SOCKET: &str = "/dev/log";

/// The facility of mail systems, `LOG_MAIL`.
const FACILITY: u8 = 2 << 3;
/// Maximum length of a line, in bytes (RFC 3164, 4.1).
const MAX_LINE_LEN: usize = 1024;
/// Maximum time to wait for room in the socket.
const MAX_SEND_TIME: Duration = Duration::from_secs(1);
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogLevel {
    /// `LOG_EMERG`.
    Emergency = 0,
    /// `LOG_ERR`.
    Error = 3,
    /// `LOG_INFO`.
    Info = 6,
}

/// Composes a line. `ident` is the name of the program; `text` must be printable.
pub fn syslog_line(level: SyslogLevel, ident: &str, text: &str) -> String {
    let (priority, pid) = (FACILITY | level as u8, std::process::id());
    let mut line = format!("<{priority}>{} {ident}[{pid}]: {text}", local_time());
    let end = (0..=MAX_LINE_LEN.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    line.truncate(end.unwrap_or(0));
    line
}

/// The present local time, as `Nov  3 09:07:00`.
fn local_time() -> String {
    // SAFETY: a structure of numbers and a pointer that may be null; the calls fill it.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer is permitted, and `local` is writable.
    unsafe {
        let now = libc::time(std::ptr::null_mut());
        libc::localtime_r(&raw const now, &raw mut local);
    }
    let month = usize::try_from(local.tm_mon).ok().and_then(|month| MONTHS.get(month));
    format!(
        "{} {:2} {:02}:{:02}:{:02}",
        month.unwrap_or(&MONTHS[0]),
        local.tm_mday,
        local.tm_hour,
        local.tm_min,
        local.tm_sec
    )
}

/// The socket of the system log, connected when it is needed.
#[derive(Debug)]
pub struct SyslogSocket {
    path: PathBuf,
    connected: Option<UnixDatagram>,
}

impl SyslogSocket {
    /// A socket to be connected to `path`.
    pub fn new(path: &Path) -> SyslogSocket {
        SyslogSocket { path: path.to_path_buf(), connected: None }
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a line.
    ///
    /// Waits for room in the socket for a second at most. A system log that was restarted is
    /// connected to again.
    ///
    /// # Errors
    ///
    /// There is no system log, or it reads nothing. The line is lost.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(socket) = &self.connected {
            match socket.send(line) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.connected = None,
            }
        }
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(MAX_SEND_TIME))?;
        socket.connect(&self.path)?;
        socket.send(line)?;
        self.connected = Some(socket);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn received(socket: &UnixDatagram) -> String {
        let mut line = [0; 2 * MAX_LINE_LEN];
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let length = socket.recv(&mut line).expect("a line");
        String::from_utf8(line[..length].to_vec()).expect("text")
    }

    #[test]
    fn line_has_priority_time_name_and_pid() {
        let pid = std::process::id();
        let line = syslog_line(SyslogLevel::Info, "scheduler", "text");
        let (head, text) = line.split_at("<22>Nov 23 09:27:31".len());
        assert!(head.starts_with("<22>") && head.is_ascii(), "{line}");
        assert!(MONTHS.contains(&&head[4..7]), "{line}");
        assert_eq!(text, format!(" scheduler[{pid}]: text"));
        assert!(syslog_line(SyslogLevel::Error, "x", "").starts_with("<19>"));
        assert!(syslog_line(SyslogLevel::Emergency, "x", "").starts_with("<16>"));
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        let line = syslog_line(SyslogLevel::Info, "scheduler", &"é".repeat(MAX_LINE_LEN));
        assert!((MAX_LINE_LEN - 1..=MAX_LINE_LEN).contains(&line.len()), "{}", line.len());
    }

    #[test]
    fn socket_is_connected_again_after_restart_of_system_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut socket = SyslogSocket::new(&path);
        assert!(socket.send(b"lost").is_err());
        for line in ["first", "second"] {
            let receiver = UnixDatagram::bind(&path).expect("bound");
            socket.send(line.as_bytes()).expect("sent");
            assert_eq!(received(&receiver), line);
            // A child process that another test starts at this moment may still have it open.
            receiver.shutdown(std::net::Shutdown::Both).expect("shut down");
            fs::remove_file(&path).expect("removed");
        }
        assert!(socket.send(b"lost").is_err());
    }

    #[test]
    fn system_log_that_reads_nothing_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let _receiver = UnixDatagram::bind(&path).expect("bound");
        let mut socket = SyslogSocket::new(&path);
        let failed = (0..100_000).find_map(|_| socket.send(b"line").err()).expect("it is full");
        assert_eq!(failed.kind(), ErrorKind::WouldBlock);
    }
}
