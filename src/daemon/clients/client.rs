//! One client: what it says, what it is sent, and how long it may take.

use super::ClientSettings;
use super::logins::{Admission, Logins};
use super::turn::{Class, Kind};
use crate::listen::Stream;
use crate::outbox::Outbox;
use crate::timeouts::Timeouts;
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::{Demand, Remark, Session, Surroundings};

/// How much may wait for one client, in bytes; one step of a dump may go beyond it.
pub const BUFFERED: usize = 64 * 1024;
/// How much a client of MAILQ version 1 may say, which knows no requests, in bytes.
pub const MOST_SAID: usize = 64 * 1024;
/// How much of it is read in one turn of the loop, in bytes.
pub const HEARD_A_TURN: usize = 16 * 1024;

/// A connected client.
pub struct Client {
    stream: Stream,
    /// It has come over the control socket.
    is_privileged: bool,
    pub outbox: Outbox,
    /// It takes nothing more for now; an event will tell when it does.
    pub is_stalled: bool,
    /// How many bytes it has said that nobody listens to.
    said: usize,
    /// What else it is to be sent.
    pub task: Task,
    /// When it came.
    came: Instant,
    /// When it last took or said something, or came.
    pub progress: Instant,
    /// When its dump, or the present answer, was begun.
    pub begun: Option<Instant>,
    /// It has everything, and is expected to close its end.
    is_served: bool,
}

/// What a client came for.
pub enum Task {
    /// To wait for a dump.
    Line,
    /// A dump of the queue.
    Dump(Box<Dump>),
    /// To ask, and be answered.
    Session(Box<Conversation>),
    /// Nothing any more.
    Done,
}

/// A session, and how it stands with its client.
pub struct Conversation {
    pub session: Session,
    /// It may have said something that was not read yet.
    speaks: bool,
    /// When its attempt to log in is checked, if it has to wait for that.
    pub log_in_at: Option<Instant>,
}

impl Conversation {
    pub fn new(session: Session) -> Conversation {
        Conversation { session, speaks: true, log_in_at: None }
    }

    /// Whether something can be done without waiting for anything.
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

    /// When its attempt to log in is checked, if it waits for that.
    pub fn log_in_at(&self) -> Option<Instant> {
        match &self.task {
            Task::Session(conversation) => conversation.log_in_at,
            _ => None,
        }
    }

    /// Its session, if it has one.
    pub fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.task {
            Task::Session(conversation) => Some(conversation),
            _ => None,
        }
    }

    /// Whether it has a session that nobody has logged in to.
    pub fn is_stranger(&self) -> bool {
        matches!(&self.task, Task::Session(conversation) if !conversation.session.is_trusted())
    }

    /// Whether a dump or a long answer is being written for it.
    pub fn is_answered(&self) -> bool {
        match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.session.is_writing(),
            Task::Line | Task::Done => false,
        }
    }

    /// How urgent it is.
    pub fn class(&self) -> Class {
        match &self.task {
            Task::Session(_) if self.is_privileged => Class::Prompt,
            Task::Session(conversation) if conversation.session.is_writing_long() => Class::Long,
            Task::Session(_) => Class::Prompt,
            Task::Dump(_) | Task::Line | Task::Done => Class::Anonymous,
        }
    }

    /// Its kind of long answers.
    pub fn kind(&self) -> Kind {
        match &self.task {
            Task::Session(_) if self.is_privileged => Kind::Control,
            Task::Session(_) => Kind::Long,
            Task::Dump(_) | Task::Line | Task::Done => Kind::Anonymous,
        }
    }

    /// Whether a long answer is being written for it.
    pub fn is_writing_long(&self) -> bool {
        match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.session.is_writing_long(),
            Task::Line | Task::Done => false,
        }
    }

    /// Whether something is being done for it.
    fn is_obeyed(&self) -> bool {
        matches!(&self.task, Task::Session(conversation) if conversation.session.is_doing())
    }

    /// Its connection is to be closed. Returns what is to be said of what is being done for it.
    pub fn abandon(&mut self) -> Option<Remark> {
        self.conversation().and_then(|conversation| conversation.session.abandon())
    }

    /// Whether others have to be served before it.
    pub fn is_in_line(&self) -> bool {
        match &self.task {
            Task::Line => true,
            Task::Session(conversation) => conversation.session.is_in_line(),
            Task::Dump(_) | Task::Done => false,
        }
    }

    /// Begins its dump.
    pub fn begin_dump(&mut self, settings: &ClientSettings) {
        self.task = Task::Dump(Box::new(Dump::new(settings.started, settings.with_vertices)));
        self.progress = Instant::now();
        self.begun = Some(self.progress);
    }

    /// Listens to what it says, as far as anybody wants to know. Tells whether it may have said more. An
    /// error means that nothing is to be expected of it.
    pub fn listen(&mut self) -> io::Result<bool> {
        self.is_stalled = false;
        if let Some(conversation) = self.conversation() {
            // It is read when there is room for it.
            conversation.speaks = true;
            return Ok(false);
        }
        // Version 1 has no requests: what they say is passed over.
        let mut unheard = [0; 4096];
        let before = self.said;
        while self.said < before + HEARD_A_TURN {
            match self.stream.read(&mut unheard) {
                Ok(0) if self.is_served => return Err(ErrorKind::UnexpectedEof.into()),
                // It has closed its sending end only, for all we know.
                Ok(0) => return Ok(false),
                Ok(count) => self.said += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.said > MOST_SAID { Err(ErrorKind::InvalidData.into()) } else { Ok(true) }
    }

    /// Fills the outbox and sends what is in it. Returns how many bytes were written into it, and what the
    /// session wants. There is room for `slots` more long answers.
    pub fn serve(
        &mut self,
        around: &mut Surroundings<'_>,
        slots: usize,
        logins: &mut Logins,
    ) -> io::Result<(usize, Option<Demand>)> {
        let before = self.outbox.len();
        let demand = self.work(around, slots, logins)?;
        let written = self.outbox.len().saturating_sub(before);
        let taken = self.outbox.flush(&mut self.stream);
        around.tally.write_errors += u64::from(taken.is_err());
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

    /// Goes on with what it came for, as far as there is room in the outbox.
    fn work(
        &mut self,
        around: &mut Surroundings<'_>,
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
                    around.tally.read_errors += u64::from(heard.is_err());
                    *speaks = heard?;
                    self.progress = Instant::now();
                }
                let was_answering = session.is_answering();
                session.line_up(slots == 0);
                let may_have_gone = session.is_amid_deed() && !session.is_waiting();
                if may_have_gone && self.stream.is_abandoned(session.has_ended()) {
                    around.remarks.extend(session.abandon());
                } else if may_go_on(session, log_in_at, around, logins, buffer) {
                    demand = session.go_on(around, buffer, enough);
                }
                if session.is_streaming() {
                    self.begun = None;
                } else if !was_answering || self.begun.is_none() {
                    self.begun = session.is_writing().then(Instant::now);
                }
                // What is done for it may take hours, if it goes on.
                if session.is_doing() {
                    self.progress = Instant::now();
                }
                session.is_over()
            }
            Task::Line | Task::Done => false,
        };
        if is_over {
            let was_left =
                self.conversation().is_some_and(|conversation| conversation.session.was_left());
            around.tally.ended += u64::from(was_left);
            self.task = Task::Done;
        }
        Ok(demand)
    }

    /// Whether there is something to be written for it, or sent, that it may take.
    pub fn can_go_on(&self, now: Instant) -> bool {
        let has_more = match &self.task {
            Task::Dump(_) => true,
            Task::Session(conversation) => conversation.can_go_on(now),
            Task::Done => !self.is_served,
            Task::Line => false,
        };
        !self.is_stalled && (has_more || !self.outbox.is_empty())
    }

    /// How long it may go on like this. One that is served and takes nothing has `timeouts.stalled_client`. All
    /// clients are asked in each turn, so that the clock is not.
    pub fn time_left(&self, timeouts: &Timeouts, now: Instant) -> Duration {
        let since =
            |start, most: Duration| most.saturating_sub(now.saturating_duration_since(start));
        let left = match &self.task {
            // It is not for it to do anything.
            Task::Line => return Duration::MAX,
            Task::Done if self.is_served => since(self.progress, timeouts.client_close),
            // It waits for something to happen, and that may be long.
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
                    // What it waits for may take as long as an answer.
                    false if conversation.session.is_in_line() => return Duration::MAX,
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

/// Whether a session may be answered now: an attempt to log in may have to wait, or be refused.
fn may_go_on(
    session: &mut Session,
    log_in_at: &mut Option<Instant>,
    around: &mut Surroundings<'_>,
    logins: &mut Logins,
    out: &mut Vec<u8>,
) -> bool {
    if !session.is_about_to_log_in() {
        return true;
    }
    let now = Instant::now();
    if let Some(at) = *log_in_at {
        // It has waited for its turn.
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

/// Hears what a client says, as far as there is room for it. Tells whether there may be more.
fn hear(stream: &mut Stream, session: &mut Session) -> io::Result<bool> {
    let mut said = [0; 4096];
    while session.room() > 0 {
        let room = session.room().min(said.len());
        match stream.read(&mut said[..room]) {
            Ok(0) => {
                session.end();
                return Ok(false);
            }
            Ok(count) => session.take_in(&said[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
