//! A connection to a server: bytes, replies, time limits and the log of the dialogue.

use crate::content::{Content, ContentError};
use crate::dialogue_log::DialogueLog;
use crate::session::{ContentForm, Dialogue, Phase, ReplyError, ReplyParser, Step};
use crate::socket::{Socket, Stopped};
use crate::time_limits::TimeLimits;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use zsched_mail_exchanger::{TlsConnector, TlsError, TlsPolicy, TlsSession, TlsStream};

/// Size of the buffer for replies, in bytes.
const READ_LEN: usize = 4096;

/// A connection to a server.
pub struct Connection {
    stream: Stream,
    parser: ReplyParser,
    limits: TimeLimits,
    /// When the job has to be over.
    give_up_at: Option<Instant>,
    log: DialogueLog,
}

enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    /// Being changed from one to the other.
    Nothing,
}

/// The reason why a dialogue was not brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The server has closed the connection.
    #[error("the host closed the connection {}", .0.words())]
    Closed(Phase),
    /// A time limit is over.
    #[error("timeout after {} {}", seconds(*.1), .0.words())]
    TimedOut(Phase, Duration),
    /// The time for the whole job is over.
    #[error("the time for the job is over {}", .0.words())]
    JobOver(Phase),
    /// A system call or TLS failed.
    #[error("connection lost {}: {}", .0.words(), .1)]
    Failed(Phase, String),
    /// The bytes of the server are no reply.
    #[error("protocol error of the host {}: {}", .0.words(), .1)]
    Protocol(Phase, ReplyError),
    /// The server has sent a reply that is no answer to any command.
    #[error("protocol error of the host: a reply without a command")]
    Unexpected,
    /// The server has answered the message before it had all of it.
    #[error("protocol error of the host: a reply before the end of the message")]
    Early,
    /// A signal stops the agent.
    #[error("the agent has been stopped")]
    Stopped,
    /// The message cannot be read.
    #[error("cannot read the message: {0}")]
    Message(io::Error),
}

/// Why [`Connection::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The dialogue is over.
    Finished,
    /// TLS has to begin.
    StartTls,
}

impl Connection {
    /// Begins a session on a connected socket.
    pub fn new(socket: Socket, limits: TimeLimits, log: DialogueLog) -> Connection {
        let (stream, parser) = (Stream::Plain(socket), ReplyParser::default());
        Connection { stream, parser, limits, give_up_at: None, log }
    }

    /// Sets the end of the job: no wait lasts longer.
    pub fn set_end(&mut self, give_up_at: Instant) {
        self.give_up_at = Some(give_up_at);
    }

    /// The facts about TLS of the connection, if it has begun.
    pub fn tls(&self) -> Option<&TlsSession> {
        match &self.stream {
            Stream::Tls(stream) => Some(stream.session()),
            _ => None,
        }
    }

    fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.stream {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(stream) => Some(stream.inner_mut()),
            Stream::Nothing => None,
        }
    }

    /// Does the steps of a dialogue until it is over, or until TLS has to begin.
    ///
    /// # Errors
    ///
    /// The connection is of no use any more.
    pub fn run(
        &mut self,
        dialogue: &mut impl Dialogue,
        content: Option<&Content<'_>>,
    ) -> Result<Pause, Lost> {
        loop {
            match dialogue.step() {
                // All replies were taken, so a further one is no answer to what is sent now.
                Step::Send(_) | Step::SendContent(_) if self.parser.has_rest() => {
                    return Err(Lost::Unexpected);
                }
                Step::Send(bytes) => self.send(&bytes)?,
                Step::Receive(phase) => {
                    let reply = self.receive(phase)?;
                    if phase == Phase::End && reply.is_success() && self.has_unacknowledged() {
                        return Err(Lost::Early);
                    }
                    dialogue.on_reply(reply);
                }
                Step::SendContent(form) => {
                    if let Some(content) = content {
                        self.send_content(dialogue, form, content)?;
                    }
                    dialogue.on_content_sent();
                }
                Step::StartTls => return Ok(Pause::StartTls),
                Step::Finished => return Ok(Pause::Finished),
            }
        }
    }

    fn send_content(
        &mut self,
        dialogue: &mut impl Dialogue,
        form: ContentForm,
        content: &Content<'_>,
    ) -> Result<(), Lost> {
        self.log.note(format_args!("the message, {} bytes", content.size));
        let is_counted = form == ContentForm::Counted;
        let mut count = 0;
        let sent = content.send(!is_counted, |part| {
            // A reply that is there before the end would be taken for the answer to it.
            if self.has_input(Phase::Content)? {
                return Err(Lost::Early);
            }
            count += part.len() as u64;
            if is_counted && count > content.size {
                return Err(changed());
            }
            self.write(part, Phase::Content)
        });
        let lost = match sent {
            Ok(()) if is_counted && count != content.size => return Err(changed()),
            Ok(()) => return Ok(()),
            Err(ContentError::Message(error)) => return Err(Lost::Message(error)),
            Err(ContentError::Line(lost)) => lost,
        };
        // The server may have said why it takes no more.
        if matches!(lost, Lost::Failed(..) | Lost::Early)
            && let Ok(reply) = self.receive_within(Phase::Content, Duration::from_secs(1))
            && reply.code() >= 400
        {
            dialogue.on_content_sent();
            dialogue.on_reply(reply);
        }
        Err(lost)
    }

    fn has_unacknowledged(&mut self) -> bool {
        self.socket().is_some_and(|socket| socket.has_unacknowledged())
    }

    /// Sends commands.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Lost> {
        self.log.sent(bytes);
        self.write(bytes, Phase::Command)
    }

    fn write(&mut self, bytes: &[u8], phase: Phase) -> Result<(), Lost> {
        let limit = self.limit(self.limits.write);
        self.begin(limit, true);
        let written = match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Stream::Nothing => Err(ErrorKind::NotConnected.into()),
        };
        written.map_err(|error| self.lost(phase, limit, error))
    }

    /// Sets the time for the reads and writes that follow.
    fn begin(&mut self, limit: Duration, may_stop: bool) {
        if let Some(socket) = self.socket() {
            socket.begin(limit, may_stop);
        }
    }

    /// Waits for a reply.
    ///
    /// # Errors
    ///
    /// The connection is lost, or a time limit is over.
    pub fn receive(&mut self, phase: Phase) -> Result<crate::session::Reply, Lost> {
        self.receive_within(phase, self.limits.of(phase))
    }

    fn receive_within(
        &mut self,
        phase: Phase,
        limit: Duration,
    ) -> Result<crate::session::Reply, Lost> {
        let limit = self.limit(limit);
        // After the end of the message only the answer says whether it is delivered.
        let may_stop = phase != Phase::End;
        self.begin(limit, may_stop);
        loop {
            let reply = self.parser.take().map_err(|error| Lost::Protocol(phase, error))?;
            if let Some(reply) = reply {
                self.log.received(&reply);
                return Ok(reply);
            }
            let mut buffer = [0; READ_LEN];
            match self.read(&mut buffer) {
                Ok(0) => return Err(Lost::Closed(phase)),
                Ok(count) => self.parser.push(&buffer[..count]),
                Err(error) => return Err(self.lost(phase, limit, error)),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
            Stream::Nothing => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Checks that the server has said nothing since its last reply.
    ///
    /// # Errors
    ///
    /// It has closed the connection, or has sent what is no answer.
    pub fn check_quiet(&mut self) -> Result<(), Lost> {
        if self.has_input(Phase::Command)? { Err(Lost::Unexpected) } else { Ok(()) }
    }

    /// Returns true if the server has said something since its last reply. Does not wait.
    fn has_input(&mut self, phase: Phase) -> Result<bool, Lost> {
        if self.parser.has_rest() {
            return Ok(true);
        }
        let set = |connection: &mut Connection, nonblocking| {
            let socket = connection.socket().ok_or(io::Error::from(ErrorKind::NotConnected))?;
            socket.set_nonblocking(nonblocking)
        };
        let failed = |error: io::Error| Lost::Failed(phase, reason(&error));
        set(self, true).map_err(failed)?;
        self.begin(self.limits.command, true);
        let mut buffer = [0; READ_LEN];
        let read = self.read(&mut buffer);
        set(self, false).map_err(failed)?;
        match read {
            Ok(0) => Err(Lost::Closed(phase)),
            Ok(count) => {
                self.parser.push(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Makes the connection a TLS connection.
    ///
    /// # Errors
    ///
    /// The TLS handshake has failed; or bytes came before it, which must not be read afterwards
    /// (RFC 3207, 4.2). Then the inner error is `None`.
    pub fn start_tls(
        &mut self,
        connector: &mut TlsConnector,
        policy: &TlsPolicy,
    ) -> Result<(), Option<TlsError>> {
        let limit = self.limit(self.limits.command);
        self.begin(limit, true);
        match std::mem::replace(&mut self.stream, Stream::Nothing) {
            Stream::Plain(socket) if !self.parser.has_rest() => {
                let stream = connector.start(socket, policy)?;
                self.log.note(stream.session());
                self.stream = Stream::Tls(Box::new(stream));
                Ok(())
            }
            _ => Err(None),
        }
    }

    /// Ends the session politely.
    ///
    /// All mail has been answered, so the reply to QUIT is not awaited (Postfix
    /// `smtp_skip_quit_response`).
    pub fn quit(mut self) {
        self.limits.write = self.limits.of(Phase::Quit);
        // The session ends in either way.
        self.send(b"QUIT\r\n").ok();
        if let Stream::Tls(stream) = self.stream {
            stream.close();
        }
    }

    fn limit(&self, limit: Duration) -> Duration {
        match self.give_up_at {
            Some(at) => limit.min(at.saturating_duration_since(Instant::now())),
            None => limit,
        }
    }

    fn lost(&mut self, phase: Phase, limit: Duration, error: io::Error) -> Lost {
        let is_stop = error.get_ref().is_some_and(|inner| inner.is::<Stopped>());
        match error.kind() {
            _ if is_stop => Lost::Stopped,
            ErrorKind::WouldBlock | ErrorKind::TimedOut
                if self.give_up_at.is_some_and(|at| at <= Instant::now()) =>
            {
                Lost::JobOver(phase)
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Lost::TimedOut(phase, limit),
            ErrorKind::UnexpectedEof => Lost::Closed(phase),
            _ => Lost::Failed(phase, reason(&error)),
        }
    }
}

/// The message file has another size than when it was counted.
fn changed() -> Lost {
    Lost::Message(io::Error::other("it has changed while it was sent"))
}

/// An error message without the number that the standard library appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(words, _)| words.to_string())
}

fn seconds(time: Duration) -> String {
    zsched_format::printable::count(time.as_secs(), "second")
}
