//! Recorded sessions of agents: input and output of an agent, with times.
//!
//! There are two kinds of recordings. A wrapper between scheduler and agent wrote
//! `ta-sessions/*/*.log`. Agents wrote `agent-logs/*.talog`, with many agents in one file:
//!
//! ```text
//!    20.0708 S->T '10101222\tdb.ta.test\n'                      1795259613.844 7331 S> b'14\tr4.test\n'
//!    20.0710 T->S '10101222/220\t\tdeferback busy\n#hungry\n'   1795259613.844 7331 T> b'#hungry\n'
//! ```

use crate::support::{data, files_under};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A recorded session of one agent.
pub struct Session {
    /// Name: folder and file, or file and pid.
    pub name: String,
    /// The channel that the agent served.
    pub channel: String,
    /// The host that the agent was started for, if its command names the host.
    pub host: Option<String>,
    /// Time of its first `#hungry`.
    pub first_hungry: Duration,
    /// Input of the scheduler, each with the agent's answers.
    pub steps: Vec<Step>,
    /// End of the recording.
    pub end: End,
    /// All input of the scheduler.
    pub told: Vec<u8>,
}

/// A single write of the scheduler, with the agent's answers.
pub struct Step {
    pub at: Duration,
    pub what: StepKind,
}

pub enum StepKind {
    /// One or more jobs.
    Jobs(Vec<Job>),
    /// `#idle`, and the time of the agent's `#hungry`.
    Idle { hungry: Option<Duration> },
    /// The empty lines that end an agent.
    EndLines(String),
}

/// A job, and the agent's lines until its end.
#[derive(Clone)]
pub struct Job {
    /// The job line, without its line end.
    pub line: String,
    pub answers: Vec<Answer>,
}

/// A line of an agent.
#[derive(Clone)]
pub struct Answer {
    pub at: Duration,
    pub line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The agent exited with this status.
    Exited(i32),
    /// A signal killed the agent.
    Signalled(i32),
    /// The scheduler was gone.
    SchedulerGone,
    /// The agent still ran when the recording ended.
    Open,
}

impl Step {
    /// Returns the scheduler's text.
    pub fn text(&self) -> String {
        match &self.what {
            StepKind::Jobs(jobs) => jobs.iter().map(|job| format!("{}\n", job.line)).collect(),
            StepKind::Idle { .. } => "#idle\n".to_string(),
            StepKind::EndLines(text) => text.clone(),
        }
    }

    /// Returns true if it ends the agent because that was idle for too long.
    pub fn is_for_idleness(&self) -> bool {
        matches!(&self.what, StepKind::EndLines(text) if text == "\n")
    }
}

impl Job {
    /// Returns the path of the control file.
    pub fn path(&self) -> &str {
        self.line.split('\t').next().expect("a split gives something")
    }

    /// Returns the host, if the line has one.
    pub fn host(&self) -> Option<&str> {
        self.line.split_once('\t').map(|(_, host)| host)
    }

    /// Returns true if the agent finished the job.
    pub fn is_over(&self) -> bool {
        self.answers.last().is_some_and(|answer| is_hungry(&answer.line))
    }
}

fn is_hungry(line: &[u8]) -> bool {
    line.starts_with(b"#hungry")
}

/// Returns all sessions that wrappers recorded in one run.
pub fn run(name: &str) -> Vec<Session> {
    let folder = format!("ta-sessions/{name}");
    let logs = files_under(&folder).into_iter().filter(|file| file.ends_with(".log"));
    let sessions = logs.map(|file| {
        let text = String::from_utf8(data(&format!("{folder}/{file}"))).expect("logs are text");
        let tag = file.trim_end_matches(".log");
        let session = wrapper_log(&format!("{name}/{tag}"), &text);
        // The other file of the session has the same bytes.
        let told = data(&format!("{folder}/{tag}.s2t"));
        assert_eq!(session.told, told, "{}", session.name);
        session
    });
    sessions.collect()
}

/// Returns all sessions in one log of agents.
pub fn agent_log(name: &str) -> Vec<Session> {
    let text = String::from_utf8(data(&format!("agent-logs/{name}.talog"))).expect("text");
    let mut events: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
    let mut channels: BTreeMap<&str, String> = BTreeMap::new();
    let mut began: BTreeMap<&str, Duration> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        let [time, pid, kind, rest] = fields[..] else { panic!("{name}: {line}") };
        let time = Duration::from_secs_f64(time.parse().expect("a time"));
        if kind == "START" {
            let (_, channel) = rest.split_once("'-c', '").expect("the agent has a channel");
            channels.insert(pid, channel.split('\'').next().expect("a quote").to_string());
            began.insert(pid, time);
        }
        let kind = match kind {
            "T>" => Kind::Said(unquote(rest)),
            "S>" => match unquote(rest) {
                end if end.is_empty() => Kind::SchedulerEnd,
                told => Kind::Told(told),
            },
            "DIE" => Kind::Exit(1),
            _ => continue,
        };
        events.entry(pid).or_default().push(Event { at: time - began[pid], kind });
    }
    let sessions = events.into_iter().map(|(pid, events)| {
        session(&format!("{name}/{pid}"), channels[pid].clone(), None, events)
    });
    sessions.collect()
}

/// A line in a recording.
struct Event {
    at: Duration,
    kind: Kind,
}

enum Kind {
    Said(Vec<u8>),
    Told(Vec<u8>),
    AgentEnd,
    SchedulerEnd,
    Exit(i32),
}

fn wrapper_log(name: &str, text: &str) -> Session {
    let mut events = Vec::new();
    let mut host = None;
    for line in text.lines() {
        if let Some((_, arguments)) = line.split_once(" argv=[") {
            let (arguments, _) = arguments.split_once(']').expect("the list ends");
            // The scripted agent has its host as its last argument.
            let last = arguments.rsplit(", ").next().expect("the program itself");
            let is_host = last.ends_with(".test'") && arguments.contains("simta");
            host = is_host.then(|| last.trim_matches('\'').to_string());
        }
        if let Some((comment, status)) = line.split_once(" real TA exit status ") {
            let at = seconds(comment.trim_start_matches('#'));
            events.push(Event { at, kind: Kind::Exit(status.parse().expect("a status")) });
        }
        let Some((time, rest)) = line.split_once("->").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let at = seconds(time.trim_end_matches(['S', 'T']));
        let kind = match rest.split_once(' ').expect("something was sent") {
            ("S", "EOF ''") => Kind::AgentEnd,
            ("T", "EOF ''") => Kind::SchedulerEnd,
            ("S", said) => Kind::Said(unquote(said)),
            ("T", told) => Kind::Told(unquote(told)),
            other => panic!("{name}: {other:?}"),
        };
        events.push(Event { at, kind });
    }
    let tag = name.rsplit('/').next().and_then(|tag| tag.split('.').next()).expect("a tag");
    let channel = match tag {
        "errormail" => "error",
        "mailbox" => "local",
        "sim" => "smtp-sim",
        "sm-bitbucket" => "bitbucket",
        "sm-uucp" => "uucp",
        other => other,
    };
    session(name, channel.to_string(), host, events)
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.trim().parse().expect("a time in seconds"))
}

/// A session that is built from the lines of a recording.
struct Builder {
    session: Session,
    /// An incomplete line of the agent.
    begun: Vec<u8>,
    /// The agent has asked for work.
    is_known: bool,
    /// Indices of unfinished jobs in the last step.
    open: VecDeque<usize>,
    /// The agent has written a line since the scheduler's last write.
    has_spoken: bool,
}

/// Builds a session from a recording.
///
/// It also checks the protocol: the scheduler writes nothing while an answer is missing.
fn session(name: &str, channel: String, host: Option<String>, events: Vec<Event>) -> Session {
    let session = Session {
        name: name.to_string(),
        channel,
        host,
        first_hungry: Duration::ZERO,
        steps: Vec::new(),
        end: End::Open,
        told: Vec::new(),
    };
    let mut builder = Builder {
        session,
        begun: Vec::new(),
        is_known: false,
        open: VecDeque::new(),
        has_spoken: false,
    };
    for Event { at, kind } in events {
        match kind {
            Kind::Said(bytes) => builder.agent_wrote(at, &bytes),
            Kind::Told(bytes) => builder.scheduler_wrote(at, &bytes),
            // The scheduler loses an incomplete last line, and so does this.
            Kind::AgentEnd => builder.begun.clear(),
            Kind::SchedulerEnd => {
                let told_to_end = builder.has_farewell();
                builder.session.end = if told_to_end { End::Open } else { End::SchedulerGone };
            }
            Kind::Exit(status) if builder.session.end == End::Open => {
                builder.session.end =
                    if status < 0 { End::Signalled(-status) } else { End::Exited(status) };
            }
            Kind::Exit(_) => {}
        }
    }
    builder.session
}

impl Builder {
    fn has_farewell(&self) -> bool {
        matches!(self.session.steps.last(), Some(Step { what: StepKind::EndLines(_), .. }))
    }

    fn agent_wrote(&mut self, at: Duration, bytes: &[u8]) {
        self.has_spoken = true;
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = self.begun.drain(..=end).collect();
            line.pop();
            self.said_line(at, line);
        }
    }

    fn said_line(&mut self, at: Duration, line: Vec<u8>) {
        let name = &self.session.name;
        if !self.is_known {
            assert!(is_hungry(&line), "{name} begins with {line:?}");
            self.session.first_hungry = at;
            self.is_known = true;
            return;
        }
        match self.session.steps.last_mut().map(|step| &mut step.what) {
            Some(StepKind::Jobs(jobs)) => {
                let job = self.open.front().unwrap_or_else(|| panic!("{name} speaks unasked"));
                jobs[*job].answers.push(Answer { at, line: line.clone() });
                if is_hungry(&line) {
                    self.open.pop_front();
                }
            }
            Some(StepKind::Idle { hungry: hungry @ None }) if is_hungry(&line) => {
                *hungry = Some(at)
            }
            _ => panic!("{name} says {line:?} unasked"),
        }
    }

    fn scheduler_wrote(&mut self, at: Duration, bytes: &[u8]) {
        self.session.told.extend_from_slice(bytes);
        let text = std::str::from_utf8(bytes).expect("job lines are text");
        assert!(text.ends_with('\n'), "{}: {text:?}", self.session.name);
        text.split_terminator('\n').for_each(|line| self.told_line(at, line));
    }

    fn told_line(&mut self, at: Duration, line: &str) {
        let goes_on = !std::mem::take(&mut self.has_spoken);
        let steps = &mut self.session.steps;
        match (line, steps.last_mut().map(|step| &mut step.what)) {
            ("", Some(StepKind::EndLines(text))) => text.push('\n'),
            ("", _) => steps.push(Step { at, what: StepKind::EndLines("\n".to_string()) }),
            ("#idle", _) => {
                assert!(self.open.is_empty(), "{}: #idle to a busy agent", self.session.name);
                steps.push(Step { at, what: StepKind::Idle { hungry: None } });
            }
            (line, Some(StepKind::Jobs(jobs))) if goes_on => {
                self.open.push_back(jobs.len());
                jobs.push(Job { line: line.to_string(), answers: Vec::new() });
            }
            (line, _) => {
                assert!(self.open.is_empty(), "{}: {line} to a busy agent", self.session.name);
                let job = Job { line: line.to_string(), answers: Vec::new() };
                steps.push(Step { at, what: StepKind::Jobs(vec![job]) });
                self.open.push_back(0);
            }
        }
    }
}

/// Returns the bytes of a Python literal: `'a\tb'`, `b"a'b"`.
fn unquote(literal: &str) -> Vec<u8> {
    let literal = literal.strip_prefix('b').unwrap_or(literal);
    let inner = literal.strip_prefix(['\'', '"']).and_then(|rest| rest.strip_suffix(['\'', '"']));
    let mut rest = inner.unwrap_or_else(|| panic!("{literal} is no literal")).bytes();
    let mut bytes = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'x') => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let value = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                value.expect("two hexadecimal digits") as u8
            }
            Some(quote @ (b'\'' | b'"' | b'\\')) => quote,
            other => panic!("{literal}: {other:?} is not known"),
        });
    }
    bytes
}

#[test]
fn python_literals_are_unquoted() {
    assert_eq!(unquote(r"b'a\tb\x01\r\n'"), b"a\tb\x01\r\n");
    assert_eq!(unquote(r#"'can\'t "x" \\'"#), br#"can't "x" \"#);
}
