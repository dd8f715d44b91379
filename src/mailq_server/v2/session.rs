//! A session of MAILQ version 2: login state, input and the answer in progress.

use super::answer::{Deed, Demand, Findings, Next, Remark, Reply, Step, Surroundings, Text};
use super::events::{About, Feed};
use super::json::events::Happening;
use super::json::seconds;
use super::requests::{Words, reply, write_unknown};
use super::stranger::{MUST_LOG_IN, Stranger, User};
use super::{CONTROL_GREETING, GREETING, NO_ACCESS, UNTIL_DOT};
use crate::acl::Peer;
use crate::attributes::Attributes;
use crate::auth_file::AuthFile;
use crate::login::Challenge;
use std::ops::ControlFlow;
use std::rc::Rc;
use zsched_core::Effect;

/// Maximum length of a request, in bytes.
///
/// Input beyond it waits until a request is answered.
pub const LONGEST_REQUEST: usize = 4096;

/// One client.
pub struct Session {
    peer: Peer,
    standing: Standing,
    heard: Vec<u8>,
    /// The client has closed its side: no more input.
    has_ended: bool,
    is_over: bool,
    under_way: UnderWay,
    /// True if a long answer must not begin yet: others are being written.
    must_line_up: bool,
    /// Lines of a text before dot-stuffing.
    lines: Vec<u8>,
}

/// The login state of the client.
enum Standing {
    /// Not logged in.
    Stranger(Box<Stranger>),
    /// Logged in, with this user's permissions.
    User(User),
}

/// The answer in progress.
enum UnderWay {
    Nothing,
    Text(Box<dyn Text>),
    /// A long text that waits for its turn to begin.
    InLine(Box<dyn Text>),
    /// Events, until the client sends something.
    Stream(Rc<Feed>),
    /// A text that waits for the result of a lookup.
    Inquiry(Box<dyn Text>),
    /// A task with a next step to do.
    Deed(Box<Doing>),
    /// A task that waits for the outcome of its last step.
    Pending(Box<Doing>),
}

/// A task in progress for a client.
struct Doing {
    /// The request.
    line: String,
    deed: Box<dyn Deed>,
    /// At least one order was given to the core.
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
        let stranger = Stranger::new(peer, challenge);
        let mut session = Session::new(peer, Standing::Stranger(Box::new(stranger)));
        session.is_over = !is_admitted;
        (session, format!("{GREETING}{second}"))
    }

    /// Opens a session with all permissions, and returns its greeting.
    ///
    /// It is for the scheduler's own user over the control socket.
    pub fn privileged(peer: Peer) -> (Session, String) {
        let user = User { name: peer.to_string(), attributes: Attributes::ALL };
        (Session::new(peer, Standing::User(user)), CONTROL_GREETING.to_string())
    }

    fn new(peer: Peer, standing: Standing) -> Session {
        Session {
            peer,
            standing,
            heard: Vec::new(),
            has_ended: false,
            is_over: false,
            under_way: UnderWay::Nothing,
            must_line_up: false,
            lines: Vec::new(),
        }
    }

    /// Returns how many bytes the session accepts before it must answer something.
    pub fn room(&self) -> usize {
        (LONGEST_REQUEST + 1).saturating_sub(self.heard.len())
    }

    /// Accepts input, at most as many bytes as there is [`room`](Session::room) for.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// Records that the client has closed its side.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns true if nothing more is to be answered.
    pub fn is_over(&self) -> bool {
        // A request without its line end was cut short and is ignored.
        let has_said_all = self.has_ended && self.next_line_end().is_none() && self.room() > 0;
        self.is_over || (has_said_all && !self.is_answering())
    }

    /// Returns true if the client has closed its side.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns true if the client closed the connection without QUIT.
    pub fn was_left(&self) -> bool {
        self.has_ended && !self.is_over
    }

    /// Returns true if the client has logged in, or did not need to.
    pub fn is_trusted(&self) -> bool {
        matches!(self.standing, Standing::User(_))
    }

    /// Returns true if an answer is in progress.
    pub fn is_answering(&self) -> bool {
        !matches!(self.under_way, UnderWay::Nothing)
    }

    /// Returns true if the session waits for the result of a [`Demand`] or for an event.
    pub fn is_waiting(&self) -> bool {
        match &self.under_way {
            UnderWay::Inquiry(_) | UnderWay::Pending(_) => true,
            UnderWay::InLine(_) => self.must_line_up,
            UnderWay::Stream(feed) => !feed.has_something() && !self.ends_stream(),
            _ => false,
        }
    }

    /// Returns true if the client receives events.
    ///
    /// That answer has no end of its own.
    pub fn is_streaming(&self) -> bool {
        matches!(self.under_way, UnderWay::Stream(_))
    }

    /// Returns true if input from the client ends the event feed.
    fn ends_stream(&self) -> bool {
        self.has_ended || self.has_request()
    }

    /// Returns true if a text of any length is in progress.
    ///
    /// It uses memory until the client has read it.
    pub fn is_writing(&self) -> bool {
        matches!(self.under_way, UnderWay::Text(_) | UnderWay::Inquiry(_))
    }

    /// Returns true if a long text has begun and is not complete.
    pub fn is_writing_long(&self) -> bool {
        matches!(&self.under_way, UnderWay::Text(text) | UnderWay::Inquiry(text) if text.is_long())
    }

    /// Returns true if a long text waits for its turn to begin.
    pub fn is_in_line(&self) -> bool {
        matches!(self.under_way, UnderWay::InLine(_))
    }

    /// Sets whether a long text must wait before it begins.
    ///
    /// Other answers are not affected.
    pub fn line_up(&mut self, must_line_up: bool) {
        self.must_line_up = must_line_up;
    }

    /// Returns the peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns true if the next request is an attempt to log in.
    pub fn is_about_to_log_in(&self) -> bool {
        let Standing::Stranger(stranger) = &self.standing else {
            return false;
        };
        let Some(end) = self.next_line_end().filter(|_| !self.is_answering()) else {
            return false;
        };
        stranger.takes_for_login(&cleaned(&self.heard[..end]))
    }

    /// Refuses the login attempt that is the next request, unread, and ends the session.
    pub fn refuse_login(&mut self, around: &mut Surroundings<'_>, seconds: u64, out: &mut Vec<u8>) {
        self.next_line();
        self.is_over = true;
        around.tally.requests += 1;
        around.tally.auth += 1;
        around.tally.refused_logins += 1;
        let text = format!("MAILQ: a login of {} is not checked: too many have failed", self.peer);
        around.remarks.push(Remark::LoginFailed(self.peer, text));
        let answer =
            format!("-TOO MANY FAILED LOGINS FROM YOUR ADDRESS; TRY AGAIN IN {seconds} S\n");
        out.extend_from_slice(answer.as_bytes());
    }

    /// Returns true if a task is in progress.
    pub fn is_doing(&self) -> bool {
        matches!(self.under_way, UnderWay::Deed(_) | UnderWay::Pending(_))
    }

    /// Returns true if a task is in progress and a part of it is done.
    pub fn is_amid_deed(&self) -> bool {
        let (UnderWay::Deed(doing) | UnderWay::Pending(doing)) = &self.under_way else {
            return false;
        };
        doing.has_begun
    }

    /// Ends the session of a client that has gone.
    ///
    /// The task in progress stops where it is.
    ///
    /// Returns a log line about the unfinished task.
    pub fn abandon(&mut self) -> Option<Remark> {
        self.is_over = true;
        let under_way = std::mem::replace(&mut self.under_way, UnderWay::Nothing);
        let (UnderWay::Deed(doing) | UnderWay::Pending(doing)) = under_way else {
            return None;
        };
        let (who, line, far) = (self.author(), &doing.line, doing.deed.so_far());
        let text = format!("MAILQ: {who} has gone, and {line:?} is not carried on: {far}");
        Some(Remark::Notable(text))
    }

    /// Returns true if there is a request to answer.
    pub fn has_request(&self) -> bool {
        !self.is_over && (self.next_line_end().is_some() || self.room() == 0)
    }

    fn next_line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.heard)
    }

    /// Continues with the answer or the next request.
    ///
    /// Returns when `out` has `enough` bytes, one request is answered, or the session must wait.
    ///
    /// It waits for the client, or for the result of the returned demand. At most one request is
    /// answered per call, so that other clients get their turn.
    pub fn go_on(
        &mut self,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
        enough: usize,
    ) -> Option<Demand> {
        let mut has_begun = false;
        while out.len() < enough {
            let may_begin = !std::mem::replace(&mut has_begun, true) && self.has_request();
            let step = match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
                UnderWay::Text(text) => self.write_text(text, around, out),
                UnderWay::InLine(text) if !self.must_line_up => self.write_text(text, around, out),
                UnderWay::Deed(doing) => self.go_on_with(doing, around, out),
                UnderWay::Stream(feed) => self.tell_on(feed, out, enough),
                UnderWay::Nothing if may_begin => {
                    self.answer_next(around, out);
                    ControlFlow::Continue(())
                }
                other => {
                    self.under_way = other;
                    return None;
                }
            };
            if let ControlFlow::Break(demand) = step {
                return demand;
            }
        }
        None
    }

    /// Accepts the result of a lookup.
    pub fn learn(&mut self, findings: Findings) {
        match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            UnderWay::Inquiry(mut text) => {
                text.learn(findings);
                self.under_way = UnderWay::Text(text);
            }
            UnderWay::Pending(mut doing) => {
                doing.deed.learn(findings);
                self.under_way = UnderWay::Deed(doing);
            }
            other => self.under_way = other,
        }
    }

    /// Accepts the effect of an order.
    pub fn obeyed(&mut self, effect: &Effect) {
        match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            UnderWay::Pending(mut doing) => {
                doing.deed.obeyed(effect);
                self.under_way = UnderWay::Deed(doing);
            }
            other => self.under_way = other,
        }
    }

    /// Accepts the outcome of an admin command; `Err` is the reason of a failure.
    pub fn done(&mut self, outcome: Result<(), String>) {
        match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            UnderWay::Pending(mut doing) => {
                doing.deed.done(outcome);
                self.under_way = UnderWay::Deed(doing);
            }
            other => self.under_way = other,
        }
    }

    /// Writes events, or ends the feed if the client has sent something.
    fn tell_on(
        &mut self,
        feed: Rc<Feed>,
        out: &mut Vec<u8>,
        enough: usize,
    ) -> ControlFlow<Option<Demand>> {
        match self.ends_stream() {
            true => out.extend_from_slice(b".\n"),
            false => {
                feed.take(out, enough.saturating_sub(out.len()));
                self.under_way = UnderWay::Stream(feed);
            }
        }
        ControlFlow::Break(None)
    }

    fn go_on_with(
        &mut self,
        mut doing: Box<Doing>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Option<Demand>> {
        let demand = match doing.deed.next(around) {
            Next::Order(order) => {
                doing.has_begun = true;
                Demand::Obey { by: self.author(), order }
            }
            Next::Needs(inquiry) => Demand::Inquire(inquiry),
            Next::Chore(chore) => Demand::Do(chore),
            Next::More => {
                self.under_way = UnderWay::Deed(doing);
                return ControlFlow::Break(None);
            }
            Next::Over => {
                let answer = doing.deed.tell();
                out.extend_from_slice(answer.as_bytes());
                // If there are several reasons, all of them are in the log already.
                let first = answer.split('\t').next().unwrap_or_default();
                let (who, answer) = (self.author(), first.trim_end());
                let text = format!("MAILQ: {who} is answered: {answer}");
                around.remarks.push(Remark::Notable(text));
                return ControlFlow::Continue(());
            }
        };
        self.under_way = UnderWay::Pending(doing);
        ControlFlow::Break(Some(demand))
    }

    /// Returns the author of the session's orders.
    fn author(&self) -> String {
        match &self.standing {
            Standing::User(user) => user.name.clone(),
            Standing::Stranger(_) => self.peer.to_string(),
        }
    }

    fn write_text(
        &mut self,
        mut text: Box<dyn Text>,
        around: &mut Surroundings<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Option<Demand>> {
        self.lines.clear();
        let step = text.write(around, &mut self.lines);
        for line in self.lines.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b".") {
                out.push(b'.');
            }
            out.extend_from_slice(line);
        }
        match step {
            Step::More => self.under_way = UnderWay::Text(text),
            Step::Pause => {
                self.under_way = UnderWay::Text(text);
                return ControlFlow::Break(None);
            }
            Step::Over => out.extend_from_slice(b".\n"),
            Step::Needs(inquiry) => {
                self.under_way = UnderWay::Inquiry(text);
                return ControlFlow::Break(Some(Demand::Inquire(inquiry)));
            }
        }
        ControlFlow::Continue(())
    }

    fn answer_next(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) {
        around.tally.requests += 1;
        let Some(line) = self.next_line() else {
            around.tally.refused += 1;
            let is_trusted = self.is_trusted();
            let text = if is_trusted { "-the request is too long\n" } else { MUST_LOG_IN };
            out.extend_from_slice(text.as_bytes());
            self.is_over = true;
            return;
        };
        let words = Words::of(&line);
        let is_bye = |verb: &&[u8]| words.verb.eq_ignore_ascii_case(verb);
        if [&b"QUIT"[..], b"EXIT"].iter().any(is_bye) {
            around.tally.quit += 1;
            self.is_over = true;
            out.extend_from_slice(b"+Bye bye\n");
            return;
        }
        match &mut self.standing {
            Standing::Stranger(stranger) => {
                let (answer, user) = stranger.answer(&line, &words, around);
                self.is_over = stranger.has_failed();
                out.extend_from_slice(answer.as_bytes());
                if let Some(user) = user {
                    self.standing = Standing::User(user);
                }
            }
            Standing::User(user) => match reply(user.attributes, &words, around) {
                Reply::Line(line) => out.extend_from_slice(line.as_bytes()),
                Reply::Text(text) => {
                    out.extend_from_slice(UNTIL_DOT.as_bytes());
                    out.push(b'\n');
                    self.under_way = match text.is_long() {
                        true => UnderWay::InLine(text),
                        false => UnderWay::Text(text),
                    };
                }
                Reply::Wrong(wrong) => {
                    out.extend_from_slice(format!("-{}\n", wrong.what).as_bytes());
                }
                Reply::Stream(feed) => {
                    out.extend_from_slice(UNTIL_DOT.as_bytes());
                    out.push(b'\n');
                    self.under_way = UnderWay::Stream(feed);
                }
                Reply::Unknown => {
                    around.tally.refused += 1;
                    write_unknown(&words, out);
                }
                Reply::Deed(deed) => {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    let by = self.author();
                    tell_of_order(around, &by, &line);
                    let text = format!("MAILQ: {by} orders {line:?}");
                    around.remarks.push(Remark::Notable(text));
                    self.under_way =
                        UnderWay::Deed(Box::new(Doing { line, deed, has_begun: false }));
                }
            },
        }
    }

    /// Takes the next request; `None` if it is too long.
    ///
    /// See [`cleaned`] for what is removed from it.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.next_line_end()?;
        let line = cleaned(&self.heard[..end]);
        self.heard.drain(..=end);
        Some(line)
    }
}

/// Returns a request up to its first NUL, without CR.
fn cleaned(line: &[u8]) -> Vec<u8> {
    let mut line: Vec<u8> = line.iter().copied().filter(|byte| *byte != b'\r').collect();
    line.truncate(memchr::memchr(0, &line).unwrap_or(line.len()));
    line
}

/// Publishes an order as an event.
fn tell_of_order(around: &Surroundings<'_>, by: &str, order: &str) {
    if around.watch.is_wanted() {
        let time = seconds(around.now);
        around.watch.tell(About::default(), &Happening::Order { time, by, order });
    }
}
