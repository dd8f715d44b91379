//! Learned state of paged-out messages.
//!
//! The shell and the file keep it in few bytes. Each text is written once, with its number.

use super::super::Scheduler;
use super::super::rest::{Recalled, Rests};
use super::super::rested::{Rested, RestedVertex, TextNumber};
use super::super::vertex::Diagnosis;
use super::Learned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// Maximum number of paged-out messages whose state is kept.
const MOST_MESSAGES: usize = 500_000;
/// Maximum number of their destinations in all.
const MOST_VERTICES: usize = 2_000_000;
/// Maximum number of destinations of a message per line of the file.
const VERTICES_AT_A_TIME: usize = 2000;

/// A text about paged-out messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedText {
    /// Number by which [`LearnedRest`] refers to it.
    pub number: TextNumber,
    /// The text.
    pub text: String,
}

/// State of a paged-out message, or of some of its recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedRest {
    /// Number of the message.
    pub number: u64,
    /// Modification time of its message file: the number may be reused.
    pub modified: Timestamp,
    /// Its destinations, with numbers of attempts and of texts.
    pub vertices: Vec<RestedVertex>,
}

/// A source of paged-out messages.
pub trait Resting {
    /// Returns the message with the next higher number; `None` begins.
    fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)>;
}

/// A source without any.
impl Resting for () {
    fn behind(&self, _: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)> {
        None
    }
}

/// State of paged-out messages, reported at the start and not claimed yet.
#[derive(Default, Serialize, Deserialize)]
pub struct RememberedRests {
    messages: BTreeMap<u64, (Timestamp, Vec<RestedVertex>)>,
    /// Number of their destinations.
    vertices: usize,
    /// Present number of each text, by its former one.
    texts: BTreeMap<TextNumber, TextNumber>,
}

impl RememberedRests {
    pub fn remember_text(&mut self, learned: LearnedText, rests: &mut Rests) {
        let text = Diagnosis::new(b"", learned.text.as_bytes());
        self.texts.insert(learned.number, rests.keep_text(&text));
    }

    pub fn remember(&mut self, learned: LearnedRest) {
        let LearnedRest { number, modified, vertices } = learned;
        let is_full =
            self.vertices + vertices.len() > MOST_VERTICES || self.messages.len() >= MOST_MESSAGES;
        if is_full || vertices.is_empty() {
            return;
        }
        let (former, all) = self.messages.entry(number).or_default();
        if *former != modified {
            self.vertices -= all.len();
            (*former, *all) = (modified, Vec::new());
        }
        self.vertices += vertices.len();
        let texts = &self.texts;
        let with_text = |vertex: RestedVertex| {
            vertex.of_another_life(texts.get(&vertex.text()).copied().unwrap_or_default())
        };
        all.extend(vertices.into_iter().map(with_text));
    }

    fn take(&mut self, number: u64) -> Option<(Timestamp, Vec<RestedVertex>)> {
        let taken = self.messages.remove(&number)?;
        self.vertices -= taken.1.len();
        Some(taken)
    }
}

impl Resting for RememberedRests {
    fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)> {
        let from = number.map_or(Some(0), |number| number.checked_add(1))?;
        let (number, (modified, vertices)) = self.messages.range(from..).next()?;
        Some((*number, *modified, vertices.into()))
    }
}

impl Scheduler {
    /// Claims what the former scheduler knew of a paged-out message.
    pub(in super::super) fn recall_rest(&mut self, arrival: &Arrival) -> Option<Recalled> {
        let (modified, mut vertices) = self.memory.as_mut()?.rests.take(arrival.name.number())?;
        vertices.sort_unstable_by_key(|vertex| vertex.key());
        let vertices = vertices.into();
        let rested = Rested { modified, recipients: 0, vertices };
        (modified == arrival.modified).then(|| Recalled::of(rested))
    }
}

/// Counts what was exported about paged-out messages.
#[derive(Default)]
pub struct Telling {
    messages: usize,
    vertices: usize,
}

impl Telling {
    /// Exports up to `count` messages after the given one.
    ///
    /// Returns the last of them; `None` at the end, or when a maximum is exceeded.
    pub fn tell(
        &mut self,
        resting: &dyn Resting,
        after: Option<u64>,
        count: usize,
        tell: &mut impl FnMut(Learned),
    ) -> Option<u64> {
        let mut last = after;
        for _ in 0..count {
            let (number, modified, vertices) = resting.behind(last)?;
            last = Some(number);
            let was_tried = |vertex: &&RestedVertex| vertex.attempts() > 0;
            let tried: Vec<RestedVertex> = vertices.iter().filter(was_tried).copied().collect();
            self.messages += usize::from(!tried.is_empty());
            self.vertices += tried.len();
            if self.messages > MOST_MESSAGES || self.vertices > MOST_VERTICES {
                return None;
            }
            for vertices in tried.chunks(VERTICES_AT_A_TIME) {
                let vertices = vertices.to_vec();
                tell(Learned::Rest(LearnedRest { number, modified, vertices }));
            }
        }
        last
    }
}
