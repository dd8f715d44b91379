//! Replays a recording: the core decides again, and its decisions are compared.

use super::ConfigSource;
use super::entry::{DecisionCheck, Input, ReadInput};
use super::reader::{ReadError, Recording, RecordingEnd, read_source};
use std::fmt;
use std::io::Read;
use zsched_core::{Action, Event, Scheduler};
use zsched_format::time::{Timestamp, format_time};

/// An event of the recording.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedEvent {
    /// Number of the event in the file, from 1.
    pub number: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Time of the event.
    pub time: Timestamp,
}

/// Observes a replay.
pub trait ReplayObserver {
    /// Called before the core handles an event.
    fn before(&mut self, _told: &ReplayedEvent, _event: &Event<'_>, _core: &Scheduler) {}

    /// Called after the core has decided.
    fn after(&mut self, _told: &ReplayedEvent, _decided: &[Action], _core: &Scheduler) {}
}

impl ReplayObserver for () {}

impl<A: ReplayObserver> ReplayObserver for Vec<A> {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        self.iter_mut().for_each(|each| each.before(told, event, core));
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        self.iter_mut().for_each(|each| each.after(told, decided, core));
    }
}

impl<A: ReplayObserver> ReplayObserver for &mut A {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        (**self).before(told, event, core);
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        (**self).after(told, decided, core);
    }
}

impl<A: ReplayObserver, B: ReplayObserver> ReplayObserver for (A, B) {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        self.0.before(told, event, core);
        self.1.before(told, event, core);
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        self.0.after(told, decided, core);
        self.1.after(told, decided, core);
    }
}

/// The result of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplaySummary {
    /// Number of events.
    pub events: u64,
    /// Number of decisions, all of which were as recorded.
    pub decisions: u64,
    /// Time of the last event.
    pub last: Timestamp,
    /// The state of the recording's end.
    pub ending: RecordingEnd,
}

/// The first event after which the decisions differ from the recorded ones.
#[derive(Debug)]
pub struct ReplayDifference {
    /// The event.
    pub replayed: ReplayedEvent,
    /// The event as text.
    pub event: String,
    /// Number of recorded decisions.
    pub then: u32,
    /// The decisions in the replay.
    pub now: Vec<Action>,
    /// Version of the scheduler that made the recording.
    pub version: String,
}

impl ReplayDifference {
    /// The reason to expect differences, in brackets: another version made the recording.
    fn versions(&self) -> String {
        match (&self.version[..], env!("CARGO_PKG_VERSION")) {
            (then, now) if then == now => String::new(),
            (then, now) => format!(" (it was made by version {then}, this is {now})"),
        }
    }
}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplayDifference { replayed: told, event, then, now, .. } = self;
        let ReplayedEvent { number, offset, time } = told;
        writeln!(f, "event {number}, at offset {offset}, at {}: {event}", format_time(*time))?;
        write!(f, "recorded decisions: {then}; replayed decisions: {}:", now.len())?;
        now.iter().try_for_each(|action| write!(f, "\n    {action:?}"))
    }
}

/// The reason why a replay stopped before the end of its recording.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// The decisions differ.
    #[error("a decision differs{versions}\n{0}", versions = .0.versions())]
    Different(Box<ReplayDifference>),
}

/// A recording, and the core that replays it.
pub struct Replay<R> {
    recording: Recording<R>,
    core: Scheduler,
}

impl<R: Read> Replay<R> {
    /// Creates the core with its state at the beginning of a recording.
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

    /// Replays to the end, or to the first difference.
    pub fn run(
        &mut self,
        observer: &mut impl ReplayObserver,
    ) -> Result<ReplaySummary, ReplayError> {
        let Replay { recording, core } = self;
        let mut played = ReplaySummary {
            events: 0,
            decisions: 0,
            last: recording.header.started,
            ending: RecordingEnd::Whole,
        };
        let mut decided = Vec::new();
        while let Some(entry) = recording.next_entry().map_err(ReadError::from)? {
            played.events += 1;
            let told =
                ReplayedEvent { number: played.events, offset: entry.offset, time: entry.time };
            let expected = entry.verdict;
            let event = match entry.input {
                Input::Event(event) => event,
                Input::Configured(source) => configured(&source)?,
            };
            observer.before(&told, &event, core);
            core.handle(entry.time, event);
            decided.clear();
            decided.extend(std::iter::from_fn(|| core.poll()));
            let verdict = DecisionCheck::of(decided.iter());
            if verdict != expected {
                return Err(ReplayError::Different(Box::new(ReplayDifference {
                    replayed: told,
                    event: recording.last_entry().as_ref().map(describe).unwrap_or_default(),
                    then: expected.count,
                    now: decided,
                    version: recording.header.version.clone(),
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

fn configured(source: &ConfigSource) -> Result<Event<'static>, ReadError> {
    Ok(Event::Configured(read_source(source)?))
}

/// Formats an event as text.
fn describe(input: &ReadInput<'_>) -> String {
    match input {
        Input::Event(Event::AgentSaid { agent, line }) => {
            format!("agent {} says: {}", agent.0, String::from_utf8_lossy(line))
        }
        Input::Event(event) => format!("{event:?}"),
        Input::Configured(source) => format!("new configuration {}", source.file().display()),
    }
}
