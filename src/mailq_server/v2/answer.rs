//! Answers: what a request brings, and what it may take to get there.

use super::events::{Feed, Watch};
use super::selection::Addresses;
use super::tally::Tally;
use super::words::Wrong;
use crate::acl::Peer;
use crate::auth_file::AuthFile;
use serde::Serialize;
use std::rc::Rc;
use zsched_core::intake::elsewhere::Elsewhere;
use zsched_core::{Effect, Order, Scheduler};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::scram::Secret;
use zsched_spool::SpoolName;

/// What a session may look at while it goes on.
pub struct Surroundings<'s> {
    /// The queue.
    pub scheduler: &'s Scheduler,
    /// The time.
    pub now: Timestamp,
    /// The scheduler's process.
    pub process: Process,
    /// Gives the accounts as they are at this moment.
    pub accounts: &'s mut dyn FnMut() -> Rc<AuthFile>,
    /// What is not in memory.
    pub elsewhere: &'s dyn Elsewhere,
    /// Known to nobody outside of the scheduler.
    pub secret: &'s Secret,
    /// Who is told what happens.
    pub watch: &'s Watch,
    /// How often what was asked, by all clients.
    pub tally: &'s mut Tally,
    /// What is to be logged.
    pub remarks: &'s mut Vec<Remark>,
}

/// The process that the scheduler runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// When it was started.
    pub started: Timestamp,
    /// Its number.
    pub pid: u32,
    /// What was there at the start is not loaded yet.
    pub is_loading: bool,
}

/// Something about a client that is to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It has logged in.
    LoggedIn(String),
    /// It has asked for a change.
    Notable(String),
    /// It was refused: this may come as often as somebody likes.
    Refused(String),
    /// It has failed to log in, or was not let try: this may come as often, too.
    LoginFailed(Peer, String),
}

/// The answer to a request.
pub enum Reply {
    /// This, with its line ends.
    Line(String),
    /// A text of any number of lines.
    Text(Box<dyn Text>),
    /// That this request is not known, or not for everybody.
    Unknown,
    /// That it cannot be meant: the place counts from the end of the words that it begins with.
    Wrong(Wrong),
    /// What happens from now on, until the client says something.
    Stream(Rc<Feed>),
    /// Something is to be done, and then told.
    Deed(Box<dyn Deed>),
}

/// Something that is done in steps, most of them orders to the core.
pub trait Deed {
    /// The next step.
    fn next(&mut self, around: &mut Surroundings<'_>) -> Next;

    /// The last order was obeyed.
    fn obeyed(&mut self, effect: &Effect);

    /// Takes what was found out, as [`Next::Needs`] has asked.
    fn learn(&mut self, _findings: Findings) {}

    /// The last chore was done. `Err` says why not.
    fn done(&mut self, _outcome: Result<(), String>) {}

    /// What to say when all is done, with its line ends.
    fn tell(&self) -> String;

    /// How far it is, for the log, if the client has gone before it was all done.
    fn so_far(&self) -> String {
        "nothing is known of what was done".to_string()
    }
}

/// What a deed needs next.
pub enum Next {
    /// That the core obeys this.
    Order(Order),
    /// That this is found out.
    Needs(Inquiry),
    /// That the shell does this.
    Chore(Chore),
    /// To go on, when others had their turn.
    More,
    /// Nothing: all is done.
    Over,
}

/// What the core has no part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// To read the configuration again.
    Reload,
    /// To log as much as this from now on.
    Log(log::LevelFilter),
    /// To read the message of this number, which is not in memory. Done when it is there, or is not to be
    /// waited for any longer.
    Load(u64),
}

/// A text that is written some at a time, as the client takes it.
pub trait Text {
    /// Writes the next whole lines, not too many of them.
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step;

    /// Takes what was found out, as [`Step::Needs`] has asked.
    fn learn(&mut self, findings: Findings);

    /// Whether its length or its memory grows with the queue. Only some of these are written at a time.
    fn is_long(&self) -> bool {
        false
    }
}

/// How far a text is.
pub enum Step {
    /// There is more.
    More,
    /// There is more, but others come first: it takes time to find.
    Pause,
    /// Before there is more, this is to be found out.
    Needs(Inquiry),
    /// That was all.
    Over,
}

/// What a session wants of others before it can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// To know something that is on a disk. Answered by [`learn`](super::Session::learn).
    Inquire(Inquiry),
    /// Something to be done. Answered by [`obeyed`](super::Session::obeyed).
    Obey {
        /// Who wants it.
        by: String,
        /// What.
        order: Order,
    },
    /// Something to be done by the shell. Answered by [`done`](super::Session::done).
    Do(Chore),
}

/// Something that is not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inquiry {
    /// The addresses to which errors of these messages are reported.
    ErrorAddresses(Vec<SpoolName>),
    /// What the host is like.
    Host,
    /// Which of these fit some addresses.
    Fitting(Addresses, Vec<Candidate>),
}

/// Recipients of a message with one destination, whose control file is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The message.
    pub name: SpoolName,
    /// Channel, LF, host, in lower case.
    pub destination: Box<[u8]>,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Findings {
    /// For each of the messages its address; `None` where it has none, or cannot be read.
    ErrorAddresses(Vec<Option<Box<[u8]>>>),
    /// What the host is like.
    Host(HostFacts),
    /// For each of the candidates whether it fits. One whose control file cannot be read does not.
    Fitting(Vec<bool>),
}

/// What `SHOW COUNTERS` shows of the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The scheduler's process.
    pub pid: u32,
    /// Mean number of processes that want to run, over one and over five minutes.
    pub load: Option<(f64, f64)>,
    /// Of the file system of message files, of that of control files, and of that of the log.
    pub disks: [DiskSpace; 3],
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    /// Kilobytes that can still be used.
    pub free_kb: u64,
    /// Kilobytes in use.
    pub used_kb: u64,
    /// Files that can still be made.
    pub free_files: u64,
    /// Files that there are.
    pub used_files: u64,
}
