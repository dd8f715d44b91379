//! One client: its input, its output, and its timeouts.

use super::ClientSettings;
use super::login_limiter::{Admission, LoginLimiter};
use super::shares::{AnswerSlots, ServiceClass};
use crate::net::listen::Connection;
use crate::net::write_buffer::WriteBuffer;
use crate::timeouts::Timeouts;
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::{ClientLog, Demand, Session, SessionContext};

/// Maximum number of bytes buffered for a client; one step of a dump may exceed it.
pub(super) const MAX_BUFFERED_OUTPUT: usize = 64 * 1024;
/// Maximum number of bytes a client of MAILQ version 1 may send. That version has no requests.
pub(super) const MAX_DISCARDED_INPUT: usize = 64 * 1024;
/// Maximum number of these bytes read per turn.
pub(super) const MAX_DISCARDED_PER_TURN: usize = 16 * 1024;

/// Connected client.
pub(super) struct Client {
    stream: Box<dyn Connection>,
    /// True for a client of the control socket.
    is_privileged: bool,
    pub write_buffer: WriteBuffer,
    /// True if the socket accepts nothing more until a readiness event.
    pub is_write_blocked: bool,
    /// Number of bytes received and discarded.
    discarded: usize,
    /// Remaining work for the client.
    pub task: ClientTask,
    /// Time of the connection.
    connected_at: Instant,
    /// Time of the connection, or of the last progress in sending or receiving.
    pub progress: Instant,
    /// Start of the dump or of the present answer.
    pub answer_started: Option<Instant>,
    /// True if everything is sent and the client is expected to close.
    is_served: bool,
}

/// Work for a client.
pub(super) enum ClientTask {
    /// Waits for its turn to get a dump.
    WaitingForDump,
    /// Dump of the queue.
    Dump(Box<Dump>),
    /// Session with requests and answers.
    Session(Box<Conversation>),
    /// No more work.
    Finished,
}

/// Session, with the state of its socket and of its login.
pub(super) struct Conversation {
    pub session: Session,
    /// True if the socket may hold unread input.
    may_have_input: bool,
    /// Time at which a delayed login attempt is checked.
    pub login_check_at: Option<Instant>,
}

impl Conversation {
    pub(super) fn new(session: Session) -> Conversation {
        Conversation { session, may_have_input: true, login_check_at: None }
    }

    /// Returns true if the session can continue without waiting for anything.
    fn can_continue(&self, now: Instant) -> bool {
        let session = &self.session;
        let may_begin = session.has_request() && self.login_check_at.is_none_or(|at| at <= now);
        (self.may_have_input && session.room() > 0)
            || (!session.is_waiting() && (session.is_answering() || may_begin))
            || (session.is_over() && !session.is_waiting())
    }
}

impl Client {
    pub(super) fn new(
        stream: Box<dyn Connection>,
        task: ClientTask,
        greeting: &str,
        is_privileged: bool,
    ) -> Client {
        let mut write_buffer = WriteBuffer::default();
        write_buffer.push(greeting.as_bytes());
        let now = Instant::now();
        Client {
            stream,
            is_privileged,
            write_buffer,
            is_write_blocked: false,
            discarded: 0,
            task,
            connected_at: now,
            progress: now,
            answer_started: None,
            is_served: false,
        }
    }

    /// Time at which a delayed login attempt is checked.
    pub(super) fn login_check_at(&self) -> Option<Instant> {
        match &self.task {
            ClientTask::Session(conversation) => conversation.login_check_at,
            _ => None,
        }
    }

    /// The session, if there is one.
    pub(super) fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.task {
            ClientTask::Session(conversation) => Some(conversation),
            _ => None,
        }
    }

    fn session(&self) -> Option<&Session> {
        match &self.task {
            ClientTask::Session(conversation) => Some(&conversation.session),
            _ => None,
        }
    }

    /// Returns true for a session without a login.
    pub(super) fn is_unauthenticated(&self) -> bool {
        self.session().is_some_and(|session| !session.is_trusted())
    }

    fn is_writing_dump(&self) -> bool {
        matches!(self.task, ClientTask::Dump(_))
    }

    /// Returns true if a dump or a long answer is being written.
    pub(super) fn is_writing_answer(&self) -> bool {
        self.is_writing_dump() || self.session().is_some_and(Session::is_writing)
    }

    /// Returns true if a long answer is being written.
    pub(super) fn is_writing_long(&self) -> bool {
        self.is_writing_dump() || self.session().is_some_and(Session::is_writing_long)
    }

    /// Scheduling class of the client.
    pub(super) fn class(&self) -> ServiceClass {
        match self.session() {
            None => ServiceClass::Anonymous,
            Some(session) if session.is_writing_long() && !self.is_privileged => ServiceClass::Long,
            Some(_) => ServiceClass::Prompt,
        }
    }

    /// The counter of long answers for clients of this kind.
    pub(super) fn slots_of<'s>(&self, slots: &'s mut AnswerSlots) -> &'s mut usize {
        match self.session() {
            None => &mut slots.anonymous,
            Some(_) if self.is_privileged => &mut slots.control,
            Some(_) => &mut slots.long,
        }
    }

    /// Returns true if an order of the client is being carried out.
    fn has_order_under_way(&self) -> bool {
        self.session().is_some_and(Session::has_change)
    }

    /// Ends the session before the connection is closed.
    ///
    /// Returns the log line about an order that is still being carried out.
    pub(super) fn close(&mut self) -> Option<ClientLog> {
        self.conversation().and_then(|conversation| conversation.session.drop_task())
    }

    /// Returns true if the client waits until long answers of others are complete.
    pub(super) fn waits_for_slot(&self) -> bool {
        matches!(self.task, ClientTask::WaitingForDump)
            || self.session().is_some_and(Session::is_queued)
    }

    /// Starts the dump.
    pub(super) fn start_dump(&mut self, settings: &ClientSettings) {
        self.task = ClientTask::Dump(Box::new(Dump::new(settings.started, settings.with_vertices)));
        self.progress = Instant::now();
        self.answer_started = Some(self.progress);
    }

    /// Reads and discards input of a version 1 client; a session reads its own input later.
    ///
    /// Returns true if there may be more. An error means that the connection is to be closed.
    pub(super) fn listen(&mut self) -> io::Result<bool> {
        self.is_write_blocked = false;
        if let Some(conversation) = self.conversation() {
            // The session reads it when it has room.
            conversation.may_have_input = true;
            return Ok(false);
        }
        // MAILQ version 1 has no requests. Input is discarded.
        let mut ignored = [0; 4096];
        let before = self.discarded;
        while self.discarded < before + MAX_DISCARDED_PER_TURN {
            match self.stream.read(&mut ignored) {
                Ok(0) if self.is_served => return Err(ErrorKind::UnexpectedEof.into()),
                // The client may have closed only its sending direction.
                Ok(0) => return Ok(false),
                Ok(count) => self.discarded += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.discarded > MAX_DISCARDED_INPUT {
            Err(ErrorKind::InvalidData.into())
        } else {
            Ok(true)
        }
    }

    /// Fills the write buffer and sends it.
    ///
    /// Returns the number of bytes added to the write buffer, and the demand of the session.
    /// `slots` is the number of long answers that may still be started.
    pub(super) fn serve(
        &mut self,
        context: &mut SessionContext<'_>,
        slots: usize,
        logins: &mut LoginLimiter,
    ) -> io::Result<(usize, Option<Demand>)> {
        let before = self.write_buffer.len();
        let demand = self.continue_task(context, slots, logins)?;
        let written = self.write_buffer.len().saturating_sub(before);
        let taken = self.write_buffer.flush(&mut self.stream);
        context.request_counters.write_errors += u64::from(taken.is_err());
        if taken? > 0 {
            self.progress = Instant::now();
        }
        self.is_write_blocked = !self.write_buffer.is_empty();
        let is_done = matches!(self.task, ClientTask::Finished);
        if self.write_buffer.is_empty() && is_done && !self.is_served {
            self.is_served = true;
            self.progress = Instant::now();
            self.stream.shutdown_write()?;
        }
        Ok((written, demand))
    }

    /// Continues the task while the write buffer has room.
    fn continue_task(
        &mut self,
        context: &mut SessionContext<'_>,
        slots: usize,
        logins: &mut LoginLimiter,
    ) -> io::Result<Option<Demand>> {
        let before = self.write_buffer.len();
        let buffer = self.write_buffer.buffer();
        let enough = buffer.len() + MAX_BUFFERED_OUTPUT.saturating_sub(before);
        let mut demand = None;
        let is_over = match &mut self.task {
            ClientTask::Dump(dump) => {
                dump.write(context.scheduler, context.now, buffer, enough);
                dump.is_over()
            }
            ClientTask::Session(conversation) => {
                let Conversation { session, may_have_input, login_check_at } = &mut **conversation;
                if *may_have_input {
                    let read = read_input(&mut self.stream, session);
                    context.request_counters.read_errors += u64::from(read.is_err());
                    *may_have_input = read?;
                    self.progress = Instant::now();
                }
                let was_answering = session.is_answering();
                session.set_must_queue(slots == 0);
                let may_have_gone = session.has_partial_change() && !session.is_waiting();
                if may_have_gone && self.stream.is_closed(session.input_ended()) {
                    context.log_lines.extend(session.drop_task());
                } else if may_continue(session, login_check_at, context, logins, buffer) {
                    demand = session.proceed(context, buffer, enough);
                }
                if session.is_streaming() {
                    self.answer_started = None;
                } else if !was_answering || self.answer_started.is_none() {
                    self.answer_started = session.is_writing().then(Instant::now);
                }
                // An order may take hours; it ends at the timeout only if it makes no progress.
                if session.has_change() {
                    self.progress = Instant::now();
                }
                session.is_over()
            }
            ClientTask::WaitingForDump | ClientTask::Finished => false,
        };
        if is_over {
            let was_left = self.session().is_some_and(Session::was_disconnected);
            context.request_counters.ended += u64::from(was_left);
            self.task = ClientTask::Finished;
        }
        Ok(demand)
    }

    /// Returns true if output can be composed or sent now.
    pub(super) fn can_continue(&self, now: Instant) -> bool {
        let has_more = match &self.task {
            ClientTask::Dump(_) => true,
            ClientTask::Session(conversation) => conversation.can_continue(now),
            ClientTask::Finished => !self.is_served,
            ClientTask::WaitingForDump => false,
        };
        !self.is_write_blocked && (has_more || !self.write_buffer.is_empty())
    }

    /// Time left before the client is disconnected.
    ///
    /// A client that accepts no output has `timeouts.stalled_client`. All clients are asked in each
    /// turn, so the caller reads the clock once.
    pub(super) fn time_left(&self, timeouts: &Timeouts, now: Instant) -> Duration {
        let since =
            |start, limit: Duration| limit.saturating_sub(now.saturating_duration_since(start));
        let left = match &self.task {
            // The client waits for the scheduler.
            ClientTask::WaitingForDump => return Duration::MAX,
            ClientTask::Finished if self.is_served => since(self.progress, timeouts.client_close),
            // The subscriber waits for events, which may take long to come.
            ClientTask::Session(conversation) if conversation.session.is_streaming() => {
                let (start, limit) = match self.is_write_blocked {
                    true => (self.progress, timeouts.answer),
                    false => (now, timeouts.session),
                };
                return since(start, limit);
            }
            ClientTask::Session(conversation) => {
                let whole = match conversation.session.is_trusted() {
                    _ if self.has_order_under_way() => Duration::MAX,
                    true => timeouts.session,
                    false => timeouts.login,
                };
                let present = match self.is_write_blocked {
                    true => timeouts.stalled_client,
                    // The wait may be as long as the answers of others.
                    false if conversation.session.is_queued() => return Duration::MAX,
                    false if self.is_writing_answer() || self.has_order_under_way() => {
                        timeouts.answer
                    }
                    false => timeouts.request,
                };
                since(self.connected_at, whole).min(since(self.progress, present))
            }
            ClientTask::Dump(_) | ClientTask::Finished => {
                since(self.progress, timeouts.stalled_client)
            }
        };
        self.answer_started.map_or(left, |begun| left.min(since(begun, timeouts.answer)))
    }
}

/// Returns true if a session may be answered now. A login attempt may be delayed or refused.
fn may_continue(
    session: &mut Session,
    login_check_at: &mut Option<Instant>,
    context: &mut SessionContext<'_>,
    logins: &mut LoginLimiter,
    out: &mut Vec<u8>,
) -> bool {
    if !session.next_is_login() {
        return true;
    }
    let now = Instant::now();
    if let Some(at) = *login_check_at {
        // The attempt was delayed before; check it once its time has come.
        let has_come = at <= now;
        login_check_at.take_if(|_| has_come);
        return has_come;
    }
    match logins.admit(session.peer(), now) {
        Admission::Now => return true,
        Admission::At(turn) => *login_check_at = Some(turn),
        Admission::Refused(wait) => session.refuse_login(context, wait.as_secs() + 1, out),
    }
    false
}

/// Reads input into the session while it has room. Returns true if there may be more.
fn read_input(stream: &mut impl Read, session: &mut Session) -> io::Result<bool> {
    let mut input = [0; 4096];
    while session.room() > 0 {
        let room = session.room().min(input.len());
        match stream.read(&mut input[..room]) {
            Ok(0) => {
                session.end();
                return Ok(false);
            }
            Ok(count) => session.push_input(&input[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
