//! A session on standard input and output (`sendmail -bs`), for a program of this host.
//!
//! It has the rights of its caller. So it is recorded where the caller may write: in the status
//! log, and in the system log.

use super::config::{Limits, ServerConfig};
use super::installation::Installation;
use super::options::SmtpServerOptions;
use super::session::{
    Answer, Client, LogLine, LoginAnswer, Logins, NO_SIZE_LIMIT, Reply, Request, Service, Session,
    SessionSettings,
};
use super::status_line::{client_of, status_line};
use super::store::Store;
use super::verdict::check_recipient;
use signal_hook::consts::SIGXFSZ;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use zsched_router::Directory;
use zsched_spool::{SpoolId, SubmissionFile};
use zsched_sys::{self as sys, SYSLOG_SOCKET, SyslogLevel, SyslogSocket, syslog_line};

/// Size of the buffer for reading, in bytes.
const READ_SIZE: usize = 32 << 10;

/// Runs the program with one session. Returns the exit status.
pub(crate) fn run(options: &SmtpServerOptions) -> io::Result<i32> {
    // A limit on the size of files is then an error instead of the end.
    sys::ignore_signal(SIGXFSZ)?;
    let installation = Installation::find(options)?;
    let mut limits = Limits { max_size: NO_SIZE_LIMIT, ..Limits::default() };
    installation
        .apply_zenv(&mut limits, &mut Vec::new())
        .map_err(|said| io::Error::other(said.join("; ")))?;
    let free_space = Arc::new(AtomicU64::new(u64::MAX));
    let server = StdioServer {
        store: installation.store(&free_space),
        // Without the rules, the router decides about recipients later.
        directory: installation.directory(),
        max_size: limits.max_size,
    };
    let mut records = Records::open(installation.status_log_path().as_deref());
    server.serve(&mut records, &mut io::stdin().lock(), &mut io::stdout())?;
    Ok(0)
}

/// Where the caller may leave records.
struct Records {
    status_log: Option<File>,
    system_log: SyslogSocket,
}

impl Records {
    fn open(status_log: Option<&Path>) -> Records {
        // It is not made: it would belong to the caller.
        let open = |path| OpenOptions::new().append(true).open(path).ok();
        Records {
            status_log: status_log.and_then(open),
            system_log: SyslogSocket::new(Path::new(SYSLOG_SOCKET)),
        }
    }

    /// Writes what a session has to be recorded. No error stops mail.
    fn write(&mut self, session: &mut Session) {
        for line in session.take_log() {
            if let LogLine::OfMail(text) = line {
                let line = syslog_line(SyslogLevel::Info, "smtpserver", &text);
                self.system_log.send(line.as_bytes()).ok();
            }
        }
        for event in session.take_events() {
            if let Some(log) = &mut self.status_log {
                log.write_all(&status_line(client_of(session), &event)).ok();
            }
        }
    }
}

/// What a session needs.
struct StdioServer {
    store: Store,
    /// The router's rules, if the caller may read them.
    directory: Option<Directory>,
    max_size: u64,
}

impl StdioServer {
    /// Serves until the client ends the session. Lines may end in LF alone.
    ///
    /// The client may send to any address: it could write a submission itself.
    fn serve(
        &self,
        records: &mut Records,
        input: &mut impl Read,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let config = ServerConfig::default();
        let settings = SessionSettings {
            hostname: match &self.directory {
                Some(directory) => directory.config.routes.hostname().to_string(),
                None => sys::host_name(),
            },
            service: Service::Smtp,
            max_size: self.max_size,
            max_recipients: zsched_router::MAX_RECIPIENTS,
            has_tls: false,
            logins: Logins::None,
            has_queue_requests: false,
            has_queue_domains: false,
            allows_bare_lf: true,
            max_hold: Duration::ZERO,
            has_priorities: true,
            logins_raise_priority: true,
            now: zsched_format::time::Timestamp::now,
            free_space: self.store.free_space.clone(),
            free_memory: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let client = Client {
            may_relay: true,
            may_raise_priority: true,
            is_local: true,
            ..Client::default()
        };
        let mut session = Session::new(Arc::new(settings), client, None);
        session.greet();
        let (mut file, mut buffer) = (None, vec![0; READ_SIZE]);
        loop {
            while let Some(request) = session.take_request() {
                if let Some(answer) = self.answer(request, &mut file, &config) {
                    session.answer(answer);
                }
            }
            records.write(&mut session);
            output.write_all(&session.take_output())?;
            output.flush()?;
            if session.is_closing() {
                return Ok(());
            }
            match input.read(&mut buffer)? {
                0 => return Ok(()),
                count => session.receive(&buffer[..count]),
            }
        }
    }

    fn answer(
        &self,
        request: Request,
        file: &mut Option<SubmissionFile>,
        config: &ServerConfig,
    ) -> Option<Answer> {
        let answer = match request {
            Request::AdmitMessage => Answer::Reply(Reply::sender_ok()),
            Request::CheckRecipient(question) => Answer::Reply(match &self.directory {
                Some(directory) => check_recipient(&question, config, directory),
                None => Reply::recipient_ok(),
            }),
            Request::Append(bytes) => {
                let written = self.store.append(file.take(), &bytes);
                Answer::Appended(written.map(|written| *file = Some(written)))
            }
            Request::Commit(bytes) => Answer::Stored(self.commit(file.take(), &bytes)),
            Request::Discard => {
                *file = None;
                return None;
            }
            Request::Login(_) | Request::AdmitLogin(_) => Answer::Login(LoginAnswer::Wrong),
            Request::StartQueue(_) => Answer::Reply(Reply::new(458, "4.3.0", "Not available")),
            Request::StartTls => return None,
        };
        Some(answer)
    }

    fn commit(&self, file: Option<SubmissionFile>, bytes: &[u8]) -> Result<SpoolId, Reply> {
        let file = self.store.append(file, bytes)?;
        let mut results = self.store.publish(vec![file]);
        results.next().unwrap_or_else(|| Err(Reply::failure())).map(|published| published.id)
    }
}
