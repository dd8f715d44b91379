//! A session of MAILQ version 2: login state, input and the answer in progress.

use super::events::{EventSubject, QueueEvent, SubscriberQueue};
use super::json::seconds;
use super::requests::{RequestLine, reply, write_unknown};
use super::task::{Answer, ClientLog, Demand, Reply, SessionContext, Step, Task, TaskKind};
use super::unauthenticated::{MUST_LOG_IN, Unauthenticated, User};
use super::{CONTROL_GREETING, GREETING, NO_ACCESS, UNTIL_DOT};
use crate::acl::Peer;
use crate::attributes::Attributes;
use crate::auth_file::AuthFile;
use crate::login::Challenge;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Maximum length of a request, in bytes.
///
/// Input beyond it waits until a request is answered.
pub const MAX_REQUEST_LEN: usize = 4096;

/// One client.
pub struct Session {
    peer: Peer,
    login_state: LoginState,
    input: Vec<u8>,
    /// The client has closed its side: no more input.
    input_ended: bool,
    is_over: bool,
    answer_state: AnswerState,
    /// True if a long answer must not begin yet: others are being written.
    must_queue: bool,
    /// Lines of a text before dot-stuffing.
    lines: Vec<u8>,
}

/// The login state of the client.
enum LoginState {
    /// Not logged in.
    Unauthenticated(Box<Unauthenticated>),
    /// Logged in, with this user's permissions.
    User(User),
}

/// The answer in progress.
enum AnswerState {
    Nothing,
    /// A task with a next step to take.
    Ready(RunningTask),
    /// A long text that waits for its turn to begin.
    Queued(RunningTask),
    /// A task that waits for the answer to its demand.
    Waiting(RunningTask),
    /// Events, until the client sends something.
    Stream(Rc<SubscriberQueue>),
}

/// A task in progress for a client.
struct RunningTask {
    task: Box<dyn Task>,
    kind: TaskKind,
    /// The request.
    line: String,
    /// True if at least one order was given to the core.
    has_begun: bool,
}

impl Session {
    /// Opens a session for a new client, and returns its greeting.
    ///
    /// If no account admits the peer, the greeting refuses it and the session is over.
    pub fn open(peer: Peer, challenge: Challenge, accounts: &AuthFile) -> (Session, String) {
        let is_admitted = accounts.admits(&peer);
        let second = match is_admitted {
            true => format!("{}\n", challenge.line()),
            false => NO_ACCESS.to_string(),
        };
        let login = Unauthenticated::new(peer, challenge);
        let mut session = Session::new(peer, LoginState::Unauthenticated(Box::new(login)));
        session.is_over = !is_admitted;
        (session, format!("{GREETING}{second}"))
    }

    /// Opens a session with all permissions, and returns its greeting.
    ///
    /// It is for root and the scheduler's own user over the control socket; `name` is the author
    /// of its orders.
    pub fn privileged(peer: Peer, name: &str) -> (Session, String) {
        let user = User { name: name.to_string(), attributes: Attributes::ALL };
        (Session::new(peer, LoginState::User(user)), CONTROL_GREETING.to_string())
    }

    fn new(peer: Peer, login_state: LoginState) -> Session {
        Session {
            peer,
            login_state,
            input: Vec::new(),
            input_ended: false,
            is_over: false,
            answer_state: AnswerState::Nothing,
            must_queue: false,
            lines: Vec::new(),
        }
    }

    /// Returns how many bytes the session accepts before it must answer something.
    pub fn room(&self) -> usize {
        (MAX_REQUEST_LEN + 1).saturating_sub(self.input.len())
    }

    /// Accepts input, at most as many bytes as there is [`room`](Session::room) for.
    pub fn push_input(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Records that the client has closed its side.
    pub fn end(&mut self) {
        self.input_ended = true;
    }

    /// Returns true if nothing more is to be answered.
    pub fn is_over(&self) -> bool {
        // A request without its line end was cut short and is ignored.
        let has_said_all = self.input_ended && self.next_line_end().is_none() && self.room() > 0;
        self.is_over || (has_said_all && !self.is_answering())
    }

    /// Returns true if the client has closed its side.
    pub fn input_ended(&self) -> bool {
        self.input_ended
    }

    /// Returns true if the client closed the connection without QUIT.
    pub fn was_disconnected(&self) -> bool {
        self.input_ended && !self.is_over
    }

    /// Returns true if the client has logged in, or did not need to.
    pub fn is_trusted(&self) -> bool {
        matches!(self.login_state, LoginState::User(_))
    }

    /// Returns true if an answer is in progress.
    pub fn is_answering(&self) -> bool {
        !matches!(self.answer_state, AnswerState::Nothing)
    }

    /// Returns true if the session waits for the result of a [`Demand`] or for an event.
    pub fn is_waiting(&self) -> bool {
        match &self.answer_state {
            AnswerState::Waiting(_) => true,
            AnswerState::Queued(_) => self.must_queue,
            AnswerState::Stream(feed) => !feed.has_output() && !self.ends_stream(),
            _ => false,
        }
    }

    /// Returns true if the client receives events.
    ///
    /// That answer has no end of its own.
    pub fn is_streaming(&self) -> bool {
        matches!(self.answer_state, AnswerState::Stream(_))
    }

    /// Returns true if input from the client ends the event feed.
    fn ends_stream(&self) -> bool {
        self.input_ended || self.has_request()
    }

    /// The task in progress.
    ///
    /// `None` if there is none, or it has not begun.
    fn task(&self) -> Option<&RunningTask> {
        match &self.answer_state {
            AnswerState::Ready(running) | AnswerState::Waiting(running) => Some(running),
            _ => None,
        }
    }

    /// Returns true if a text of any length is in progress.
    ///
    /// It uses memory until the client has read it.
    pub fn is_writing(&self) -> bool {
        self.task().is_some_and(|running| running.kind != TaskKind::Change)
    }

    /// Returns true if a long text has begun and is not complete.
    pub fn is_writing_long(&self) -> bool {
        self.task().is_some_and(|running| running.kind == TaskKind::LongText)
    }

    /// Returns true if a long text waits for its turn to begin.
    pub fn is_queued(&self) -> bool {
        matches!(self.answer_state, AnswerState::Queued(_))
    }

    /// Sets whether a long text must wait before it begins.
    ///
    /// Other answers are not affected.
    pub fn set_must_queue(&mut self, must_queue: bool) {
        self.must_queue = must_queue;
    }

    /// Returns the peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns true if the next request is an attempt to log in.
    pub fn next_is_login(&self) -> bool {
        let LoginState::Unauthenticated(login) = &self.login_state else {
            return false;
        };
        let Some(end) = self.next_line_end().filter(|_| !self.is_answering()) else {
            return false;
        };
        login.begins_login(&clean_line(&self.input[..end]))
    }

    /// Refuses the login attempt that is the next request, unread, and ends the session.
    pub fn refuse_login(
        &mut self,
        context: &mut SessionContext<'_>,
        seconds: u64,
        out: &mut Vec<u8>,
    ) {
        self.next_line();
        self.is_over = true;
        context.request_counters.requests += 1;
        context.request_counters.auth += 1;
        context.request_counters.refused_logins += 1;
        let text = format!("MAILQ: login from {} refused: too many failed logins", self.peer);
        context.log_lines.push(ClientLog::LoginFailed(self.peer, text));
        let answer =
            format!("-TOO MANY FAILED LOGINS FROM YOUR ADDRESS; TRY AGAIN IN {seconds} S\n");
        out.extend_from_slice(answer.as_bytes());
    }

    /// Returns true if a change is in progress.
    pub fn has_change(&self) -> bool {
        self.task().is_some_and(|running| running.kind == TaskKind::Change)
    }

    /// Returns true if a change is in progress and a part of it is done.
    pub fn has_partial_change(&self) -> bool {
        self.task().is_some_and(|running| running.has_begun)
    }

    /// Ends the session of a client that has gone.
    ///
    /// The change in progress stops where it is.
    ///
    /// Returns a log line about the unfinished change.
    pub fn drop_task(&mut self) -> Option<ClientLog> {
        self.is_over = true;
        let (AnswerState::Ready(running) | AnswerState::Waiting(running)) = self.take_state()
        else {
            return None;
        };
        let (who, line, progress) = (self.author(), running.line, running.task.progress());
        let text = format!("MAILQ: {who} disconnected; {line:?} stopped: {progress}");
        (running.kind == TaskKind::Change).then_some(ClientLog::Change(text))
    }

    fn take_state(&mut self) -> AnswerState {
        std::mem::replace(&mut self.answer_state, AnswerState::Nothing)
    }

    /// Returns true if there is a request to answer.
    pub fn has_request(&self) -> bool {
        !self.is_over && (self.next_line_end().is_some() || self.room() == 0)
    }

    fn next_line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.input)
    }

    /// Continues with the answer or the next request.
    ///
    /// Returns when `out` has `enough` bytes, one request is answered, or the session must wait.
    ///
    /// It waits for the client, or for the result of the returned demand. At most one request is
    /// answered per call, so that other clients get their turn.
    pub fn proceed(
        &mut self,
        context: &mut SessionContext<'_>,
        out: &mut Vec<u8>,
        enough: usize,
    ) -> Option<Demand> {
        let mut has_begun = false;
        while out.len() < enough {
            let may_begin = !std::mem::replace(&mut has_begun, true) && self.has_request();
            let step = match self.take_state() {
                AnswerState::Ready(running) => self.run(running, context, out),
                AnswerState::Queued(running) if !self.must_queue => self.run(running, context, out),
                AnswerState::Stream(feed) => self.write_events(feed, out, enough),
                AnswerState::Nothing if may_begin => {
                    self.answer_next(context, out);
                    ControlFlow::Continue(())
                }
                other => {
                    self.answer_state = other;
                    return None;
                }
            };
            if let ControlFlow::Break(demand) = step {
                return demand;
            }
        }
        None
    }

    /// Takes the answer to the last demand.
    pub fn take_answer(&mut self, answer: Answer) {
        match self.take_state() {
            AnswerState::Waiting(mut running) => {
                running.task.take_answer(answer);
                self.answer_state = AnswerState::Ready(running);
            }
            other => self.answer_state = other,
        }
    }

    /// Writes events, or ends the feed if the client has sent something.
    fn write_events(
        &mut self,
        feed: Rc<SubscriberQueue>,
        out: &mut Vec<u8>,
        enough: usize,
    ) -> ControlFlow<Option<Demand>> {
        match self.ends_stream() {
            true => out.extend_from_slice(b".\n"),
            false => {
                feed.take(out, enough.saturating_sub(out.len()));
                self.answer_state = AnswerState::Stream(feed);
            }
        }
        ControlFlow::Break(None)
    }

    /// Takes the next step of a task.
    fn run(
        &mut self,
        mut running: RunningTask,
        context: &mut SessionContext<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Option<Demand>> {
        self.lines.clear();
        let step = running.task.step(context, &mut self.lines);
        let is_change = running.kind == TaskKind::Change;
        match is_change {
            true => out.extend_from_slice(&self.lines),
            false => write_stuffed(&self.lines, out),
        }
        let demand = match step {
            Step::More => {
                self.answer_state = AnswerState::Ready(running);
                return ControlFlow::Continue(());
            }
            Step::Pause => {
                self.answer_state = AnswerState::Ready(running);
                return ControlFlow::Break(None);
            }
            Step::Done => {
                match is_change {
                    true => self.log_answer(context),
                    false => out.extend_from_slice(b".\n"),
                }
                return ControlFlow::Continue(());
            }
            Step::Lookup(lookup) => Demand::Lookup(lookup),
            Step::Admin(command) => Demand::Admin { by: self.author(), command },
            Step::Order(order) => {
                running.has_begun = true;
                Demand::Order { by: self.author(), order }
            }
        };
        self.answer_state = AnswerState::Waiting(running);
        ControlFlow::Break(Some(demand))
    }

    /// Logs the answer to a change, which is in `lines`.
    fn log_answer(&self, context: &mut SessionContext<'_>) {
        // If there are several reasons, all of them are in the log already.
        let answer = String::from_utf8_lossy(&self.lines);
        let first = answer.split('\t').next().unwrap_or_default();
        let text = format!("MAILQ: answer to {}: {}", self.author(), first.trim_end());
        context.log_lines.push(ClientLog::Change(text));
    }

    /// Returns the author of the session's orders.
    fn author(&self) -> String {
        match &self.login_state {
            LoginState::User(user) => user.name.clone(),
            LoginState::Unauthenticated(_) => self.peer.to_string(),
        }
    }

    fn answer_next(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) {
        context.request_counters.requests += 1;
        let Some(line) = self.next_line() else {
            context.request_counters.refused += 1;
            let is_trusted = self.is_trusted();
            let text = if is_trusted { "-the request is too long\n" } else { MUST_LOG_IN };
            out.extend_from_slice(text.as_bytes());
            self.is_over = true;
            return;
        };
        let words = RequestLine::of(&line);
        let is_quit = |verb: &&[u8]| words.verb.eq_ignore_ascii_case(verb);
        if [&b"QUIT"[..], b"EXIT"].iter().any(is_quit) {
            context.request_counters.quit += 1;
            self.is_over = true;
            out.extend_from_slice(b"+Bye bye\n");
            return;
        }
        match &mut self.login_state {
            LoginState::Unauthenticated(login) => {
                let (answer, user) = login.answer(&line, &words, context);
                self.is_over = login.has_reached_limit();
                out.extend_from_slice(answer.as_bytes());
                if let Some(user) = user {
                    self.login_state = LoginState::User(user);
                }
            }
            LoginState::User(user) => {
                let reply = reply(user.attributes, &words, context);
                self.begin(reply, &line, context, out);
            }
        }
    }

    /// Begins the answer to a request.
    fn begin(
        &mut self,
        reply: Reply,
        line: &[u8],
        context: &mut SessionContext<'_>,
        out: &mut Vec<u8>,
    ) {
        match reply {
            Reply::Line(line) => return out.extend_from_slice(line.as_bytes()),
            Reply::Unknown => {
                context.request_counters.refused += 1;
                return write_unknown(&RequestLine::of(line), out);
            }
            Reply::Task(kind, task) => {
                let line = String::from_utf8_lossy(line).into_owned();
                if kind == TaskKind::Change {
                    let by = self.author();
                    publish_order(context, &by, &line);
                    let text = format!("MAILQ: request by {by}: {line:?}");
                    context.log_lines.push(ClientLog::Change(text));
                }
                let running = RunningTask { task, kind, line, has_begun: false };
                self.answer_state = match kind {
                    TaskKind::LongText => AnswerState::Queued(running),
                    TaskKind::Text | TaskKind::Change => AnswerState::Ready(running),
                };
                if kind == TaskKind::Change {
                    return;
                }
            }
            Reply::Stream(feed) => self.answer_state = AnswerState::Stream(feed),
        }
        out.extend_from_slice(UNTIL_DOT.as_bytes());
        out.push(b'\n');
    }

    /// Takes the next request; `None` if it is too long.
    ///
    /// See [`clean_line`] for what is removed from it.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.next_line_end()?;
        let line = clean_line(&self.input[..end]);
        self.input.drain(..=end);
        Some(line)
    }
}

/// Returns a request up to its first NUL, without CR.
fn clean_line(line: &[u8]) -> Vec<u8> {
    let mut line: Vec<u8> = line.iter().copied().filter(|byte| *byte != b'\r').collect();
    line.truncate(memchr::memchr(0, &line).unwrap_or(line.len()));
    line
}

/// Writes lines of a text. A dot precedes those that begin with one.
fn write_stuffed(lines: &[u8], out: &mut Vec<u8>) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
}

/// Publishes an order as an event.
fn publish_order(context: &SessionContext<'_>, by: &str, order: &str) {
    if context.subscribers.has_subscribers() {
        let (by, order) = (by.into(), order.into());
        let event = QueueEvent::Order { time: seconds(context.now), by, order };
        context.subscribers.publish(EventSubject::default(), &event);
    }
}
