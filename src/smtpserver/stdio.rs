//! A session on standard input and output (`sendmail -bs`), for a program of this host.

use super::config::ServerConfig;
use super::session::{
    Answer, Client, LoginAnswer, Logins, Reply, Request, Service, Session, SessionSettings,
};
use super::store::Store;
use super::verdict::check_recipient;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zsched_router::Directory;
use zsched_spool::SubmissionFile;

/// Size of the buffer for reading, in bytes.
const READ_SIZE: usize = 32 << 10;

/// What a session on standard input needs.
pub struct StdioServer {
    /// Where messages go.
    pub store: Store,
    /// The router's rules, if the caller may read them.
    pub directory: Option<Directory>,
    /// Maximum size of a message, in bytes.
    pub max_size: u64,
}

impl StdioServer {
    /// Serves until the client ends the session. Lines may end in LF alone.
    ///
    /// The client may send to any address: it could write a submission itself.
    pub fn serve(&self, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
        let config = ServerConfig::default();
        let settings = SessionSettings {
            hostname: match &self.directory {
                Some(directory) => directory.config.routes.hostname().to_string(),
                None => zsched_sys::host_name(),
            },
            service: Service::Smtp,
            max_size: self.max_size,
            max_recipients: zsched_router::MAX_RECIPIENTS,
            has_tls: false,
            logins: Logins::None,
            has_queue_requests: false,
            has_queue_domains: false,
            allows_bare_lf: true,
            max_hold: std::time::Duration::ZERO,
            has_priorities: true,
            logins_raise_priority: true,
            now: zsched_format::time::Timestamp::now,
            free_space: Arc::new(AtomicU64::new(u64::MAX)),
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
            // There is no log: the caller has the replies.
            drop((session.take_log(), session.take_events()));
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
            Request::CheckRecipient(question) => Answer::Reply(match &self.directory {
                Some(directory) => check_recipient(&question, config, directory),
                None => Reply::new(250, "2.1.5", "Ok"),
            }),
            Request::AdmitMessage => Answer::Reply(Reply::sender_ok()),
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

    fn commit(
        &self,
        file: Option<SubmissionFile>,
        bytes: &[u8],
    ) -> Result<zsched_spool::SpoolId, Reply> {
        let file = self.store.append(file, bytes)?;
        let mut results = self.store.publish(vec![file]);
        results.next().unwrap_or_else(|| Err(Reply::failure())).map(|published| published.id)
    }
}
