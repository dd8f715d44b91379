//! The recorder on the loop: passes events to the core, and records them.
//!
//! Entries are collected in a block. A full or old block is passed to the worker that writes. If
//! its queue has no room, the disk is too slow. Recording then pauses until a new file can begin,
//! and lost events are counted. So recording neither delays the loop nor uses unlimited memory.

use super::entry::{self, DecisionCheck, Input};
use super::header::Header;
use super::source::ConfigSource;
use super::writer::{Files, Writer, WriterRequest};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext};
use zsched_core::{Action, Event, Scheduler, Settings};
use zsched_format::time::Timestamp;

/// Size at which a block is passed to the writer, in bytes.
const MAX_BLOCK_SIZE: usize = 64 * 1024;
/// Maximum age of the first entry of a block.
const MAX_BLOCK_AGE: Duration = Duration::from_millis(250);
/// Maximum number of messages and vertices at which a new file is begun at once.
///
/// Its checkpoint then takes some milliseconds.
const MAX_CHEAP_QUEUE: usize = 20_000;
/// Multiple of the size limit at which a new file is always begun.
///
/// Below that size, a new file is begun only when the queue is small.
const MAX_SIZE_FACTOR: u64 = 2;
/// Interval of checks for resuming while recording is paused.
const PAUSED_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum pause of recording after a failure.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// Minimum pause of recording after a failure, with a larger queue.
const MIN_PAUSE_LARGE_QUEUE: Duration = Duration::from_secs(300);

/// Limits of the files.
#[derive(Clone, Copy, Debug)]
pub struct RotationLimits {
    /// Size at which a new file is begun, in bytes.
    pub size: u64,
    /// Number of older files to keep.
    pub keep_files: u32,
}

/// The core with an optional recorder of its input.
pub struct RecordedCore {
    core: Scheduler,
    pub(crate) recorder: Option<Recorder>,
}

/// Records the input of the core.
pub struct Recorder {
    context: ConfigContext,
    limits: RotationLimits,
    pub(crate) writer: Writer,
    /// Entries that have not been passed to the writer.
    block: Vec<u8>,
    /// Number of events in the block.
    events: u64,
    /// Time of its first entry.
    block_begun: Timestamp,
    /// Time of the last entry.
    before: Timestamp,
    /// Number of bytes written to the present file.
    written: u64,
    /// The configuration in force.
    source: ConfigSource,
    /// Start of the pause, if recording is paused.
    paused: Option<Timestamp>,
    /// Number of events that were not recorded in the pause.
    lost: u64,
}

impl Recorder {
    /// Creates the file. Recording begins with [`RecordedCore::new`].
    pub fn create(
        path: &Path,
        limits: RotationLimits,
        context: ConfigContext,
    ) -> io::Result<Recorder> {
        let writer = Writer::start(Files::create(path, limits.keep_files)?)?;
        Ok(Recorder {
            source: ConfigSource::of(&Config::empty(), &context),
            context,
            limits,
            writer,
            block: Vec::new(),
            events: 0,
            block_begun: Timestamp::EPOCH,
            before: Timestamp::EPOCH,
            written: 0,
            paused: None,
            lost: 0,
        })
    }

    fn handle(&mut self, core: &mut Scheduler, now: Timestamp, event: Event<'_>) {
        let is_idle_tick =
            matches!(event, Event::Tick) && core.next_wakeup().is_none_or(|wakeup| wakeup > now);
        if let Event::Configured(config) = &event {
            self.source = ConfigSource::of(config, &self.context);
        }
        if self.paused.is_some() || is_idle_tick {
            self.lost += u64::from(!is_idle_tick);
            return core.handle(now, event);
        }
        if self.block.is_empty() {
            self.block_begun = now;
        }
        let block = std::mem::take(&mut self.block);
        let input = match &event {
            Event::Configured(_) => Input::Configured(&self.source),
            event => Input::Event(event),
        };
        let written = entry::write(block, self.before, now, &input);
        let decided_before = core.pending_actions().len();
        core.handle(now, event);
        let verdict = DecisionCheck::of(core.pending_actions().range(decided_before..));
        match written.and_then(|block| postcard::to_extend(&verdict, block)) {
            Ok(block) => self.block = block,
            // The event is lost. Later ones would be useless without it, so recording pauses.
            Err(error) => {
                self.lost += 1;
                return self.pause(now, &format!("an event cannot be written: {error}"));
            }
        }
        self.events += 1;
        self.before = now;
        if self.block.len() >= MAX_BLOCK_SIZE {
            self.hand_over(now);
        }
    }

    /// Passes the block to the writer.
    fn hand_over(&mut self, now: Timestamp) {
        if self.block.is_empty() {
            return;
        }
        let block = std::mem::replace(
            &mut self.block,
            Vec::with_capacity(MAX_BLOCK_SIZE + MAX_BLOCK_SIZE / 4),
        );
        self.written += block.len() as u64;
        let events = std::mem::take(&mut self.events);
        if let Err(WriterRequest::Block { events, .. }) =
            self.writer.send(WriterRequest::Block { block, events })
        {
            self.lost += events;
            self.pause(now, "the disk is too slow");
        }
    }

    /// Pauses recording.
    fn pause(&mut self, now: Timestamp, why: &str) {
        if self.paused.is_none() {
            log::error!("recording: {why}; recording is paused");
            self.paused = Some(now);
        }
        self.lost += std::mem::take(&mut self.events);
        self.block = Vec::new();
    }

    /// Begins a file with a checkpoint of the core.
    fn begin(&mut self, core: &Scheduler, now: Timestamp) {
        self.lost += self.writer.take_lost();
        let header = Header {
            version: env!("CARGO_PKG_VERSION").to_string(),
            started: now,
            lost: self.lost,
            source: self.source.clone(),
        };
        let both = postcard::to_stdvec(&header)
            .and_then(|header| Ok((header, postcard::to_stdvec(&core.checkpoint())?)));
        let (header, checkpoint) = match both {
            Ok(both) => both,
            Err(error) => return self.pause(now, &format!("no checkpoint can be made: {error}")),
        };
        let length = (header.len() + checkpoint.len()) as u64;
        if self.writer.send(WriterRequest::Begin { header, checkpoint }).is_err() {
            return self.pause(now, "the disk is too slow");
        }
        if self.paused.take().is_some() {
            log::warn!("recording resumed in a new file; {} events were not recorded", self.lost);
        }
        self.lost = 0;
        self.before = now;
        // The checkpoint does not count towards the size limit.
        self.written = 0;
        log::debug!("recording: a new file begins with a checkpoint of {length} bytes");
    }

    /// Passes on an old block, and begins a new file if it is time to.
    fn end_turn(&mut self, core: &Scheduler, now: Timestamp) {
        if let Some(error) = self.writer.take_error() {
            self.pause(now, &error);
        }
        if let Some(paused) = self.paused {
            let waited = elapsed(paused, now);
            let is_small = core.size() <= MAX_CHEAP_QUEUE;
            let may_resume = waited >= MIN_PAUSE && (is_small || waited >= MIN_PAUSE_LARGE_QUEUE);
            if may_resume && self.writer.is_idle() {
                self.begin(core, now);
            }
            return;
        }
        if elapsed(self.block_begun, now) >= MAX_BLOCK_AGE {
            self.hand_over(now);
        }
        let is_full = self.written >= self.limits.size && core.size() <= MAX_CHEAP_QUEUE
            || self.written >= self.limits.size.saturating_mul(MAX_SIZE_FACTOR);
        if is_full && self.writer.has_room() {
            self.hand_over(now);
            self.begin(core, now);
        }
    }

    fn finish(&mut self, now: Timestamp) {
        self.hand_over(now);
        if let Some(error) = self.writer.finish() {
            log::error!("recording: {error}");
        }
    }
}

/// The time since `then`; if the clock was set back, its absolute value.
fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    now.since(then).max(then.since(now))
}

impl RecordedCore {
    /// Creates a core with an empty queue. The recorder, if there is one, begins to record.
    pub fn new(
        settings: Settings,
        config: Rc<Config>,
        now: Timestamp,
        recorder: Option<Recorder>,
    ) -> RecordedCore {
        let core = Scheduler::new(settings, config.clone());
        let recorder = recorder.map(|mut recorder| {
            recorder.source = ConfigSource::of(&config, &recorder.context);
            recorder.begin(&core, now);
            recorder
        });
        RecordedCore { core, recorder }
    }

    /// Passes an event to the core.
    pub fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        match &mut self.recorder {
            Some(recorder) => recorder.handle(&mut self.core, now, event),
            None => self.core.handle(now, event),
        }
    }

    /// The core, to be asked about its state.
    pub fn query(&self) -> &Scheduler {
        &self.core
    }

    /// Returns the next action, in the order of decision.
    pub fn poll(&mut self) -> Option<Action> {
        self.core.poll()
    }

    /// Must be called when all actions of the turn have been polled.
    pub fn end_turn(&mut self, now: Timestamp) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end_turn(&self.core, now);
        }
    }

    /// Maximum wait of the recorder until the next turn; `None` is unlimited.
    pub fn until_turn(&self) -> Option<Duration> {
        let recorder = self.recorder.as_ref()?;
        match recorder.paused {
            Some(_) => Some(PAUSED_CHECK_INTERVAL),
            None => (!recorder.block.is_empty()).then_some(MAX_BLOCK_AGE),
        }
    }

    /// Returns true if there is a recorder and it is paused.
    pub fn is_paused(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.paused.is_some())
    }

    /// Writes the remaining entries.
    pub fn finish(&mut self, now: Timestamp) {
        if let Some(recorder) = &mut self.recorder {
            recorder.finish(now);
        }
    }
}
