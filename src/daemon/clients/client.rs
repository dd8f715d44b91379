//! One client: its input, its output, and its timeouts.

use super::ClientSettings;
use super::logins::{Admission, Logins};
use super::turn::{Class, Kind};
use crate::listen::Stream;
use crate::outbox::Outbox;
use crate::timeouts::Timeouts;
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::{ClientLog, Demand, Session, SessionContext};

/// Maximum number of bytes buffered for a client; one step of a dump may exceed it.
pub const BUFFERED: usize = 64 * 1024;
/// Maximum number of bytes a client of MAILQ version 1 may send. That version has no requests.
pub const MOST_SAID: usize = 64 * 1024;
/// Maximum number of these bytes read per turn.
pub const HEARD_A_TURN: usize = 16 * 1024;

/// Connected client.
pub struct Client {
    stream: Stream,
    /// True for a client of the control socket.
    is_privileged: bool,
    pub outbox: Outbox,
    /// True if the socket accepts nothing more until a readiness event.
    pub is_stalled: bool,
    /// Number of bytes received and discarded.
    said: usize,
    /// Remaining work for the client.
    pub task: Task,
    /// Time of the connection.
    came: Instant,
    /// Time of the connection, or of the last progress in sending or receiving.
    pub progress: Instant,
    /// Start of the dump or of the present answer.
    pub begun: Option<Instant>,
    /// True if everything is sent and the client is expected to close.
    is_served: bool,
}

/// Work for a client.
pub enum Task {
    /// Waits for its turn to get a dump.
    Line,
    /// Dump of the queue.
    Dump(Box<Dump>),
    /// Session with requests and answers.
    Session(Box<Conversation>),
    /// No more work.
    Done,
}

/// Session, with the state of its socket and of its login.
pub struct Conversation {
    pub session: Session,
    /// True if the socket may hold unread input.
    speaks: bool,
    /// Time at which a delayed login attempt is checked.
    pub log_in_at: Option<Instant>,
}

impl Conversation {
    pub fn new(session: Session) -> Conversation {
        Conversation { session, speaks: true, log_in_at: None }
    }

    /// Returns true if the session can continue without waiting for anything.
    fn can_go_on(&self, now: Instant) -> bool {
        let session = &self.session;
        let may_begin = session.has_request() && self.log_in_at.is_none_or(|at| at <= now);
        (self.speaks && session.room() > 0)
            || (!session.is_waiting() && (session.is_answering() || may_begin))
            || (session.is_over() && !session.is_waiting())
    }
}

impl Client {
    pub fn new(stream: Stream, task: Task, greeting: &str, is_privileged: bool) -> Client {
        let mut outbox = Outbox::default();
        outbox.push(greeting.as_bytes());
        let now = Instant::now();
        Client {
            stream,
            is_privileged,
            outbox,
            is_stalled: false,
            said: 0,
            task,
            came: now,
            progress: now,
            begun: None,
            is_served: false,
        }
    }

    /// Time at which a delayed login attempt is checked.
    pub fn log_in_at(&self) -> Option<Instant> {
        match &self.task {
            Task::Session(conversation) => conversation.log_in_at,
            _ => None,
        }
    }

    /// The session, if there is one.
    pub fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.task {
            Task::Session(conversation) => Some(conversation),
            _ => None,
        }
    }

    /// Returns true for a session without a login.
    pub fn is_stranger(&self) -> bool {
        matches!(&self.task, Task::Session(conversation) if !conversation.session.is_trusted())
    }

    /// Returns true if a dump or a long answer is being written.
    pub fn is_answered(&self) -> bool {
        match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.session.is_writing(),
            Task::Line | Task::Done => false,
        }
    }

    /// Scheduling class of the client.
    pub fn class(&self) -> Class {
        match &self.task {
            Task::Session(_) if self.is_privileged => Class::Prompt,
            Task::Session(conversation) if conversation.session.is_writing_long() => Class::Long,
            Task::Session(_) => Class::Prompt,
            Task::Dump(_) | Task::Line | Task::Done => Class::Anonymous,
        }
    }

    /// Kind of long answers of the client.
    pub fn kind(&self) -> Kind {
        match &self.task {
            Task::Session(_) if self.is_privileged => Kind::Control,
            Task::Session(_) => Kind::Long,
            Task::Dump(_) | Task::Line | Task::Done => Kind::Anonymous,
        }
    }

    /// Returns true if a long answer is being written.
    pub fn is_writing_long(&self) -> bool {
        match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.session.is_writing_long(),
            Task::Line | Task::Done => false,
        }
    }

    /// Returns true if an order of the client is being carried out.
    fn is_obeyed(&self) -> bool {
        matches!(&self.task, Task::Session(conversation) if conversation.session.has_task())
    }

    /// Ends the session before the connection is closed.
    ///
    /// Returns the log line about an order that is still being carried out.
    pub fn drop_task(&mut self) -> Option<ClientLog> {
        self.conversation().and_then(|conversation| conversation.session.drop_task())
    }

    /// Returns true if the client waits until long answers of others are complete.
    pub fn is_queued(&self) -> bool {
        match &self.task {
            Task::Line => true,
            Task::Session(conversation) => conversation.session.is_queued(),
            Task::Dump(_) | Task::Done => false,
        }
    }

    /// Starts the dump.
    pub fn begin_dump(&mut self, settings: &ClientSettings) {
        self.task = Task::Dump(Box::new(Dump::new(settings.started, settings.with_vertices)));
        self.progress = Instant::now();
        self.begun = Some(self.progress);
    }

    /// Reads and discards input of a version 1 client; a session reads its own input later.
    ///
    /// Returns true if there may be more. An error means that the connection is to be closed.
    pub fn listen(&mut self) -> io::Result<bool> {
        self.is_stalled = false;
        if let Some(conversation) = self.conversation() {
            // The session reads it when it has room.
            conversation.speaks = true;
            return Ok(false);
        }
        // MAILQ version 1 has no requests. Input is discarded.
        let mut unheard = [0; 4096];
        let before = self.said;
        while self.said < before + HEARD_A_TURN {
            match self.stream.read(&mut unheard) {
                Ok(0) if self.is_served => return Err(ErrorKind::UnexpectedEof.into()),
                // The client may have closed only its sending direction.
                Ok(0) => return Ok(false),
                Ok(count) => self.said += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.said > MOST_SAID { Err(ErrorKind::InvalidData.into()) } else { Ok(true) }
    }

    /// Fills the outbox and sends it.
    ///
    /// Returns the number of bytes added to the outbox, and the demand of the session. `slots` is
    /// the number of long answers that may still be started.
    pub fn serve(
        &mut self,
        around: &mut SessionContext<'_>,
        slots: usize,
        logins: &mut Logins,
    ) -> io::Result<(usize, Option<Demand>)> {
        let before = self.outbox.len();
        let demand = self.work(around, slots, logins)?;
        let written = self.outbox.len().saturating_sub(before);
        let taken = self.outbox.flush(&mut self.stream);
        around.request_counters.write_errors += u64::from(taken.is_err());
        if taken? > 0 {
            self.progress = Instant::now();
        }
        self.is_stalled = !self.outbox.is_empty();
        let is_done = matches!(self.task, Task::Done);
        if self.outbox.is_empty() && is_done && !self.is_served {
            self.is_served = true;
            self.progress = Instant::now();
            self.stream.close_sending()?;
        }
        Ok((written, demand))
    }

    /// Continues the task while the outbox has room.
    fn work(
        &mut self,
        around: &mut SessionContext<'_>,
        slots: usize,
        logins: &mut Logins,
    ) -> io::Result<Option<Demand>> {
        let before = self.outbox.len();
        let buffer = self.outbox.buffer();
        let enough = buffer.len() + BUFFERED.saturating_sub(before);
        let mut demand = None;
        let is_over = match &mut self.task {
            Task::Dump(dump) => {
                dump.write(around.scheduler, around.now, buffer, enough);
                dump.is_over()
            }
            Task::Session(conversation) => {
                let Conversation { session, speaks, log_in_at } = &mut **conversation;
                if *speaks {
                    let heard = hear(&mut self.stream, session);
                    around.request_counters.read_errors += u64::from(heard.is_err());
                    *speaks = heard?;
                    self.progress = Instant::now();
                }
                let was_answering = session.is_answering();
                session.set_must_queue(slots == 0);
                let may_have_gone = session.has_partial_task() && !session.is_waiting();
                if may_have_gone && self.stream.is_abandoned(session.input_ended()) {
                    around.log_lines.extend(session.drop_task());
                } else if may_go_on(session, log_in_at, around, logins, buffer) {
                    demand = session.proceed(around, buffer, enough);
                }
                if session.is_streaming() {
                    self.begun = None;
                } else if !was_answering || self.begun.is_none() {
                    self.begun = session.is_writing().then(Instant::now);
                }
                // An order may take hours; it ends at the timeout only if it makes no progress.
                if session.has_task() {
                    self.progress = Instant::now();
                }
                session.is_over()
            }
            Task::Line | Task::Done => false,
        };
        if is_over {
            let was_disconnected = self
                .conversation()
                .is_some_and(|conversation| conversation.session.was_disconnected());
            around.request_counters.ended += u64::from(was_disconnected);
            self.task = Task::Done;
        }
        Ok(demand)
    }

    /// Returns true if output can be composed or sent now.
    pub fn can_go_on(&self, now: Instant) -> bool {
        let has_more = match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.can_go_on(now),
            Task::Done => !self.is_served,
            Task::Line => false,
        };
        !self.is_stalled && (has_more || !self.outbox.is_empty())
    }

    /// Time left before the client is disconnected.
    ///
    /// A client that accepts no output has `timeouts.stalled_client`. All clients are asked in each
    /// turn, so the caller reads the clock once.
    pub fn time_left(&self, timeouts: &Timeouts, now: Instant) -> Duration {
        let since =
            |start, most: Duration| most.saturating_sub(now.saturating_duration_since(start));
        let left = match &self.task {
            // The client waits for the scheduler.
            Task::Line => return Duration::MAX,
            Task::Done if self.is_served => since(self.progress, timeouts.client_close),
            // The subscriber waits for events, which may take long to come.
            Task::Session(conversation) if conversation.session.is_streaming() => {
                let (start, most) = match self.is_stalled {
                    true => (self.progress, timeouts.answer),
                    false => (now, timeouts.session),
                };
                return since(start, most);
            }
            Task::Session(conversation) => {
                let whole = match conversation.session.is_trusted() {
                    _ if self.is_obeyed() => Duration::MAX,
                    true => timeouts.session,
                    false => timeouts.login,
                };
                let present = match self.is_stalled {
                    true => timeouts.stalled_client,
                    // The wait may be as long as the answers of others.
                    false if conversation.session.is_queued() => return Duration::MAX,
                    false if self.is_answered() || self.is_obeyed() => timeouts.answer,
                    false => timeouts.request,
                };
                since(self.came, whole).min(since(self.progress, present))
            }
            Task::Dump(_) | Task::Done => since(self.progress, timeouts.stalled_client),
        };
        self.begun.map_or(left, |begun| left.min(since(begun, timeouts.answer)))
    }
}

/// Returns true if a session may be answered now. A login attempt may be delayed or refused.
fn may_go_on(
    session: &mut Session,
    log_in_at: &mut Option<Instant>,
    around: &mut SessionContext<'_>,
    logins: &mut Logins,
    out: &mut Vec<u8>,
) -> bool {
    if !session.next_is_login() {
        return true;
    }
    let now = Instant::now();
    if let Some(at) = *log_in_at {
        // The attempt was delayed before; check it once its time has come.
        let has_come = at <= now;
        log_in_at.take_if(|_| has_come);
        return has_come;
    }
    match logins.admit(session.peer(), now) {
        Admission::Now => return true,
        Admission::At(turn) => *log_in_at = Some(turn),
        Admission::Refused(wait) => session.refuse_login(around, wait.as_secs() + 1, out),
    }
    false
}

/// Reads input into the session while it has room. Returns true if there may be more.
fn hear(stream: &mut Stream, session: &mut Session) -> io::Result<bool> {
    let mut said = [0; 4096];
    while session.room() > 0 {
        let room = session.room().min(said.len());
        match stream.read(&mut said[..room]) {
            Ok(0) => {
                session.end();
                return Ok(false);
            }
            Ok(count) => session.push_input(&said[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
