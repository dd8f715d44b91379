//! A dialogue with a scheduler.
//!
//! A request is one line. The answer is one line or a text.
//!
//! MAILQ version 2 has this form, and so has the control socket of our own scheduler:
//!
//! ```text
//! client  SHOW SNMP
//! server  +OK until LF.LF          or  -Why not
//! server  Kids: 9  Idle:  9 ...
//! server  .
//! ```
//!
//! A text is passed on line by line as it arrives; nothing of it is kept. Requests may be sent
//! ahead of the answers to earlier ones. A server answers in order.

use super::connection::TIMEOUTS;
use super::credentials::Credentials;
use super::denial;
use super::greeting;
use super::lines::{LineSource, Lines};
use super::server::Server;
use crate::failure::Failure;
use crate::screen::{Screen, quote, visible};
use std::collections::VecDeque;
use std::time::Duration;
use zsched_mailq_protocol::words::{CONTROL_GREETING, NOTHING_MATCHES, UNTIL_DOT};

/// A dialogue after its login.
pub(crate) struct Session {
    lines: Lines,
    server: Server,
    /// User of the login; `None` over the control socket, which has none.
    user: Option<String>,
    /// Requests that are not answered yet, oldest first.
    unanswered: VecDeque<Request>,
    /// True if the last text has not been read to its end.
    is_in_text: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The request line.
    pub line: String,
    /// Required permission, if known.
    pub needs: Option<&'static str>,
}

/// The text of an answer. Lines that are not read are skipped.
pub(crate) struct Text<'a> {
    session: &'a mut Session,
}

impl Request {
    /// Creates a request that requires a permission.
    pub(crate) fn new(line: impl Into<String>, needs: &'static str) -> Request {
        Request { line: line.into(), needs: Some(needs) }
    }

    /// Creates a request that requires no permission, or an unknown one.
    pub(crate) fn without_permission(line: impl Into<String>) -> Request {
        Request { line: line.into(), needs: None }
    }

    /// Fails on control characters: a line feed would begin another request.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.line.contains(char::is_control) {
            true => Failure::usage("a request must not contain control characters"),
            false => Ok(()),
        }
    }
}

impl Session {
    /// Logs in to a version 2 server, after its greeting.
    pub(crate) fn log_in(
        mut lines: Lines,
        server: &Server,
        credentials: &Credentials,
    ) -> Result<Session, Failure> {
        let challenge = greeting::read_challenge(&mut lines, server)?;
        let user = &credentials.user;
        let mut session = Session::new(lines, server);
        if credentials.is_explicit && session.log_in_by_scram(credentials)? {
            session.user = Some(user.clone());
            return Ok(session);
        }
        session.write(&format!("AUTH {user} {}\n", credentials.digest(&challenge)));
        let verdict = session.line("it answers the login")?;
        match verdict.split_first() {
            Some((b'+', _)) => {
                session.user = Some(user.clone());
                Ok(session)
            }
            Some((_, reply)) => Err(denial::of_login(server, user, reply)),
            None => Failure::protocol(format!("{server} answers a login with an empty line")),
        }
    }

    /// Tries SCRAM, which reveals less of the password.
    ///
    /// Returns false if the server does not know SCRAM.
    fn log_in_by_scram(&mut self, credentials: &Credentials) -> Result<bool, Failure> {
        let client = credentials.scram().map_err(|error| {
            Failure::Installation(format!("cannot read random numbers: {error}"))
        })?;
        self.write(&format!("AUTH2 SCRAM-SHA-256 {}\n", client.first()));
        let first = self.line("it answers the login")?;
        let Some(first) = first.strip_prefix(b"+") else {
            return Ok(false);
        };
        let wrong = |server: &Server, fault| Failure::Protocol(format!("{server}: {fault}"));
        let (last, proven) = client.prove(first).map_err(|fault| wrong(&self.server, fault))?;
        self.write(&format!("{last}\n"));
        let verdict = self.line("it answers the login")?;
        match verdict.strip_prefix(b"+OK") {
            Some(last) => {
                proven.verify(last).map_err(|fault| wrong(&self.server, fault))?;
                Ok(true)
            }
            None => {
                let reply = verdict.strip_prefix(b"-").unwrap_or(&verdict);
                Err(denial::of_login(&self.server, &credentials.user, reply))
            }
        }
    }

    fn new(lines: Lines, server: &Server) -> Session {
        let server = server.clone();
        Session { lines, server, user: None, unanswered: VecDeque::new(), is_in_text: false }
    }

    /// Begins a dialogue on a control socket, and reads its greeting.
    pub(crate) fn on_control_socket(lines: Lines, server: &Server) -> Result<Session, Failure> {
        let mut session = Session::new(lines, server);
        let greeting = session.line("its greeting")?;
        match greeting == CONTROL_GREETING.trim_end().as_bytes() {
            true => Ok(session),
            false => Failure::protocol(format!(
                "{server} is not a control socket: it begins with {}",
                quote(&greeting)
            )),
        }
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn send(&mut self, request: Request) -> Result<(), Failure> {
        request.check()?;
        self.write(&format!("{}\n", request.line));
        self.unanswered.push_back(request);
        Ok(())
    }

    /// Reads the answer to the oldest unanswered request.
    ///
    /// It is a line, which is returned without its `+`, or `None` if a text follows.
    ///
    /// Lines with `*` before it tell of progress.
    fn answer(&mut self, mut tell: impl FnMut(&[u8])) -> Result<Option<Vec<u8>>, Failure> {
        while self.is_in_text {
            self.next_of_text()?;
        }
        let request = self.unanswered.pop_front().unwrap_or(Request::without_permission("nothing"));
        let mut verdict = self.line("it answers")?;
        // The answer to KILL is followed by an empty line.
        if verdict.is_empty() {
            verdict = self.line("it answers")?;
        }
        while let Some(progress) = verdict.strip_prefix(b"*") {
            tell(progress);
            verdict = self.line("it answers")?;
        }
        if verdict == UNTIL_DOT.as_bytes() {
            self.is_in_text = true;
            return Ok(None);
        }
        match verdict.split_first() {
            Some((b'+', reply)) => Ok(Some(reply.to_vec())),
            Some((b'-', reply)) => Err(self.refusal(&request, reply)),
            _ => Failure::protocol(format!(
                "{} answers {} with {}",
                self.server,
                request.line,
                quote(&verdict)
            )),
        }
    }

    /// Sends a request, and waits for an answer that is a text.
    pub(crate) fn ask_for_text(&mut self, request: Request) -> Result<Text<'_>, Failure> {
        self.send(request)?;
        self.text()
    }

    /// Reads the answer to the oldest unanswered request, a text.
    pub(crate) fn text(&mut self) -> Result<Text<'_>, Failure> {
        match self.answer(|_| {})? {
            None => Ok(Text { session: self }),
            Some(line) => Failure::protocol(format!(
                "{} answers with one line instead of a text: {}",
                self.server,
                quote(&line)
            )),
        }
    }

    /// Sends a request, and waits for an answer of one line.
    pub(crate) fn ask_for_line(&mut self, request: Request) -> Result<Vec<u8>, Failure> {
        self.ask_with_progress(request, |_| {})
    }

    /// Sends a request, and waits for an answer of one line.
    ///
    /// `tell` gets the lines on its progress.
    pub(crate) fn ask_with_progress(
        &mut self,
        request: Request,
        tell: impl FnMut(&[u8]),
    ) -> Result<Vec<u8>, Failure> {
        self.send(request)?;
        let text_instead = "answers with a text instead of one line";
        self.answer(tell)?
            .ok_or_else(|| Failure::Protocol(format!("{} {text_instead}", self.server)))
    }

    /// Maximum number of messages, or of threads, in an answer.
    pub(crate) fn entries(&self) -> usize {
        self.lines.limits.entries
    }

    /// Writes to the server.
    ///
    /// Errors are ignored: if the server is gone, its last answer is more useful.
    fn write(&mut self, text: &str) {
        drop(self.lines.peer().write_all(text.as_bytes()));
    }

    /// Reads a line. Fails if the server closes the connection.
    fn line(&mut self, what_is_next: &str) -> Result<Vec<u8>, Failure> {
        match self.lines.next()? {
            Some(line) => Ok(line.to_vec()),
            None => Err(self.closed_before(what_is_next)),
        }
    }

    fn closed_before(&self, what_is_next: &str) -> Failure {
        let server = &self.server;
        Failure::Protocol(format!("{server} closes the connection before {what_is_next}"))
    }

    /// The next line of a text, or `None` at its end.
    fn next_of_text(&mut self) -> Result<Option<&[u8]>, Failure> {
        // With `next`, the borrow of the line would last too long.
        if !self.lines.advance()? || !self.lines.is_complete {
            return Err(self.closed_before("the end of its answer"));
        }
        if self.lines.line == b"." {
            self.is_in_text = false;
            return Ok(None);
        }
        let line = &self.lines.line;
        Ok(Some(line.strip_prefix(b".").unwrap_or(line)))
    }

    fn refusal(&self, request: &Request, reply: &[u8]) -> Failure {
        // Other replies describe errors, with TABs between several of them.
        let is_denial = [&b"MAILQ2 Unknown command"[..], b"No ", b"BAD"]
            .iter()
            .any(|start| reply.starts_with(start));
        let reasons = || without_place(&visible(reply)).replace('\t', "\n");
        match is_denial {
            true => denial::of_request(request, self.user.as_deref(), reply),
            false if reply.starts_with(NOTHING_MATCHES.as_bytes()) => Failure::NotFound(reasons()),
            false => Failure::Refused(reasons()),
        }
    }

    /// Removes the limits on the time and the size of answers.
    pub(crate) fn disable_timeouts(&mut self) {
        self.lines.limits.whole = u64::MAX;
        // The system accepts no longer timeout.
        let years = Duration::from_secs(u64::from(u32::MAX));
        self.lines.peer().set_timeouts(years, years);
    }
}

impl Drop for Session {
    /// Sends QUIT, and waits up to a second for the answer.
    ///
    /// A server counts an answer that it cannot deliver as an error.
    fn drop(&mut self) {
        self.write("QUIT\n");
        self.lines.peer().set_timeouts(Duration::from_secs(1), TIMEOUTS.total);
        drop(self.lines.advance());
    }
}

impl Text<'_> {
    /// Prints the lines.
    pub(crate) fn print(mut self, screen: &mut Screen<'_>) -> Result<(), Failure> {
        while let Some(line) = self.next()? {
            screen.line(&[line])?;
        }
        Ok(())
    }

    /// Prints the lines, wrapped at words to the width of the screen. Returns their number.
    pub(crate) fn print_wrapped(mut self, screen: &mut Screen<'_>) -> Result<usize, Failure> {
        let mut count = 0;
        while let Some(line) = self.next()? {
            screen.wrapped(&String::from_utf8_lossy(line))?;
            count += 1;
        }
        Ok(count)
    }

    /// Reads all lines.
    pub(crate) fn collect(mut self) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        while let Some(line) = self.next()? {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(lines)
    }
}

impl LineSource for Text<'_> {
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        match self.session.is_in_text {
            true => self.session.next_of_text(),
            false => Ok(None),
        }
    }
}

/// An error without its place in the request: people have typed a command, not the request.
fn without_place(reply: &str) -> &str {
    let rest = reply.strip_prefix("at byte ").and_then(|rest| rest.split_once(": "));
    let is_number = |place: &str| place.bytes().all(|byte| byte.is_ascii_digit());
    rest.filter(|(place, _)| is_number(place)).map_or(reply, |(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::{LIMITS, RecordedPeer};
    use std::io;

    #[test]
    fn place_in_request_is_not_shown() {
        for (reply, shown) in [
            ("at byte 9: expected a number", "expected a number"),
            ("at byte x: expected a number", "at byte x: expected a number"),
            ("already held", "already held"),
        ] {
            assert_eq!(without_place(reply), shown);
        }
    }

    const HELLO: &str = "220 MAILQ-V2-CHALLENGE: 1795255943.68171.2\n+OK\n";

    fn server() -> Server {
        Server::Tcp { host: "x".to_string(), port: 174 }
    }

    fn session(answers: &[u8]) -> Result<Session, Failure> {
        recorded_session(answers).map(|(session, _)| session)
    }

    /// A session, and the requests to its server.
    fn recorded_session(answers: &[u8]) -> Result<(Session, io::PipeReader), Failure> {
        let (requests, for_server) = io::pipe().expect("a pipe");
        let peer =
            RecordedPeer { answers: io::Cursor::new(answers.to_vec()), requests: for_server };
        let session =
            Session::log_in(Lines::new(peer, LIMITS), &server(), &Credentials::default())?;
        Ok((session, requests))
    }

    fn text(answers: &str) -> Result<Vec<String>, i32> {
        let answers = [HELLO, answers].concat();
        let mut session = session(answers.as_bytes()).expect("a login");
        let mut all = Vec::new();
        let mut text =
            session.ask_for_text(Request::new("SHOW X", "X")).map_err(|error| error.status())?;
        while let Some(line) = text.next().map_err(|error| error.status())? {
            all.push(String::from_utf8_lossy(line).into_owned());
        }
        Ok(all)
    }

    #[test]
    fn log_in_reports_refusals() {
        let challenge = "220 MAILQ-V2-CHALLENGE: 1795255943.68171.2\n";
        for (answer, status, words) in [
            ("-BAD USER OR PASSWORD\n", 77, "the password of user nobody"),
            ("-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS\n", 77, "user nobody from this host"),
            ("-\x1b[2J\n", 77, "^[[2J"),
            ("\n", 76, "empty line"),
            ("", 76, "before it answers the login"),
        ] {
            let answers = [challenge, answer].concat();
            let failure = session(answers.as_bytes()).err().expect(answer);
            assert_eq!(failure.status(), status);
            assert!(failure.to_string().contains(words), "{failure}");
        }
        let refusal = session(b"550 NO ACCESS FOR YOU\n").err().expect("a refusal");
        assert!(refusal.to_string().contains("refuses requests from this host"), "{refusal}");
        assert_eq!(refusal.status(), 77);
        let (session, requests) = recorded_session(HELLO.as_bytes()).expect("a login");
        drop(session);
        let expected = "AUTH nobody 38a784a5473d5b661ad89e27f2c1fd0c\nQUIT\n";
        assert_eq!(io::read_to_string(requests).expect("text"), expected);
    }

    #[test]
    fn text_ends_at_line_with_dot() {
        for (answer, expected) in [
            ("+OK until LF.LF\n.\n", Ok(vec![])),
            ("+OK until LF.LF\na\n\n..b\n..\n.\nc\n", Ok(vec!["a", "", ".b", "."])),
            ("+OK until LF.LF\na\n", Err(76)),
            ("+OK until LF.LF\na\n.", Err(76)),
            ("+OK\n", Err(76)),
            ("-MAILQ2 Unknown command\n", Err(77)),
            ("-No ETRN allowed for you.\n", Err(77)),
            ("-nothing fits\n", Err(69)),
            ("OK until LF.LF\n.\n", Err(76)),
            ("", Err(76)),
        ] {
            let expected =
                expected.map(|lines| lines.iter().map(|line| line.to_string()).collect());
            assert_eq!(text(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn answers_follow_order_of_requests() {
        let answers = [HELLO, "+OK; KILLed something.\n\n+OK until LF.LF\na\nb\n.\n+c\n"].concat();
        let (mut session, requests) = recorded_session(answers.as_bytes()).expect("a login");
        for request in ["KILL MSG 1", "SHOW X", "Y"] {
            session.send(Request::without_permission(request)).expect("it is sent");
        }
        assert!(
            matches!(session.answer(|_| {}), Ok(Some(reply)) if reply == b"OK; KILLed something.")
        );
        // Not all of it is read.
        assert_eq!(session.text().expect("a text").next().expect("a line"), Some(&b"a"[..]));
        assert!(matches!(session.answer(|_| {}), Ok(Some(reply)) if reply == b"c"));
        assert!(session.send(Request::without_permission("SHOW X\nKILL MSG 1")).is_err());
        drop(session);
        let requests = io::read_to_string(requests).expect("text");
        assert!(requests.ends_with("KILL MSG 1\nSHOW X\nY\nQUIT\n"), "{requests}");
    }

    fn control_answer(text: &str) -> Result<String, i32> {
        let server = Server::Unix("/control".into());
        let mut shown = Vec::new();
        let mut screen = Screen::new(&mut shown);
        let lines = Lines::recorded(text.as_bytes(), LIMITS);
        let printed = Session::on_control_socket(lines, &server).and_then(|mut session| {
            session.ask_for_text(Request::without_permission("x"))?.print(&mut screen)
        });
        printed.map_err(|failure| failure.status())?;
        drop(screen);
        Ok(String::from_utf8(shown).expect("text"))
    }

    #[test]
    fn answer_over_control_socket_is_printed_without_stuffed_dots() {
        let text = "version zsched 1.0\n+OK until LF.LF\na waits\n..b\n.\n";
        assert_eq!(control_answer(text).as_deref(), Ok("a waits\n.b\n"));
    }

    #[test]
    fn broken_dialogue_over_control_socket_fails() {
        for (text, status) in [
            ("", 76),
            ("version zmailer 1.0\nVertices:\n", 76),
            ("version zsched 1.0\n", 76),
            ("version zsched 1.0\n-nothing is queued for x\n", 69),
            ("version zsched 1.0\n+OK until LF.LF\na waits\n", 76),
        ] {
            assert_eq!(control_answer(text), Err(status), "{text:?}");
        }
    }
}
