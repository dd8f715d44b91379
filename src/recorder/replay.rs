//! Having the core decide again what it decided then, and comparing.

use super::Source;
use super::entry::{Verdict, What};
use super::reader::{Ending, ReadError, Recording, read_source};
use std::fmt;
use std::io::Read;
use zsched_core::{Action, Event, Scheduler};
use zsched_format::time::Timestamp;

/// Something the core was told.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Which event of the file it is, from 1.
    pub number: u64,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// When.
    pub time: Timestamp,
}

/// Somebody who looks on.
pub trait Observer {
    /// The core is about to be told something.
    fn before(&mut self, _told: &Told, _event: &Event<'_>, _core: &Scheduler) {}

    /// It has decided.
    fn after(&mut self, _told: &Told, _decided: &[Action], _core: &Scheduler) {}
}

impl Observer for () {}

/// What a recording amounted to.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Events.
    pub events: u64,
    /// Decisions, all of which were as recorded.
    pub decisions: u64,
    /// Time of the last event.
    pub last: Timestamp,
    /// How the recording ends.
    pub ending: Ending,
}

/// The first event after which the core decided something else than it did then.
#[derive(Debug)]
pub struct Difference {
    /// The event.
    pub told: Told,
    /// The event, in words.
    pub event: String,
    /// How many decisions there were then.
    pub then: u32,
    /// What was decided now.
    pub now: Vec<Action>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { told, event, then, now } = self;
        let Told { number, offset, time } = told;
        writeln!(f, "event {number}, at offset {offset}, at {}: {event}", moment(*time))?;
        write!(f, "then it decided {then} things, now these {}:", now.len())?;
        now.iter().try_for_each(|action| write!(f, "\n    {action:?}"))
    }
}

/// A time as people read it, in UTC.
pub fn moment(time: Timestamp) -> String {
    let instant = jiff::Timestamp::from_nanosecond(i128::from(time.nanoseconds()));
    let written = instant.map(|instant| format!("{instant:.3}"));
    written.unwrap_or_else(|_| format!("{time:?}"))
}

/// Why a replay did not come to the end of its recording.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// Something else was decided.
    #[error("{0}")]
    Different(Box<Difference>),
}

/// A recording and a core that is told what is in it.
pub struct Replay<R> {
    recording: Recording<R>,
    core: Scheduler,
}

impl<R: Read> Replay<R> {
    /// The core as it was at the begin of a recording.
    pub fn new(mut recording: Recording<R>) -> Result<Replay<R>, ReadError> {
        let core = recording.core()?;
        Ok(Replay { recording, core })
    }

    /// The core.
    pub fn core(&self) -> &Scheduler {
        &self.core
    }

    /// The recording.
    pub fn recording(&self) -> &Recording<R> {
        &self.recording
    }

    /// Plays it to its end, or to the first difference.
    pub fn run(&mut self, observer: &mut impl Observer) -> Result<Played, Failure> {
        let Replay { recording, core } = self;
        let mut played =
            Played { events: 0, decisions: 0, last: recording.header.begun, ending: Ending::Whole };
        let mut decided = Vec::new();
        while let Some(entry) = recording.next_entry().map_err(ReadError::from)? {
            played.events += 1;
            let told = Told { number: played.events, offset: entry.offset, time: entry.time };
            let expected = entry.verdict;
            let event = match entry.what {
                What::Event(event) => event,
                What::Configured(source) => configured(&source)?,
            };
            observer.before(&told, &event, core);
            core.handle(entry.time, event);
            decided.clear();
            decided.extend(std::iter::from_fn(|| core.poll()));
            let verdict = Verdict::of(decided.iter());
            if verdict != expected {
                return Err(Failure::Different(Box::new(Difference {
                    told,
                    event: recording.last_entry().as_ref().map(describe).unwrap_or_default(),
                    then: expected.count,
                    now: decided,
                })));
            }
            observer.after(&told, &decided, core);
            played.decisions += u64::from(verdict.count);
            played.last = entry.time;
        }
        played.ending = recording.ending();
        Ok(played)
    }
}

fn configured(source: &Source) -> Result<Event<'static>, ReadError> {
    Ok(Event::Configured(read_source(source)?))
}

/// An event in words.
fn describe(what: &What<'_>) -> String {
    match what {
        What::Event(Event::AgentSaid { agent, line }) => {
            format!("agent {} says: {}", agent.0, String::from_utf8_lossy(line))
        }
        What::Event(event) => format!("{event:?}"),
        What::Configured(source) => format!("new configuration {}", source.file().display()),
    }
}
