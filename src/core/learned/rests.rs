//! What was learned of messages that rest: the shell keeps it in few bytes, and so does the file. Texts are
//! told once, each with its number.

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

/// It is told of so many messages that rest...
const MOST_MESSAGES: usize = 500_000;
/// ...with so many destinations in all.
const MOST_VERTICES: usize = 2_000_000;
/// It is told of so many destinations of a message at a time: a line of the file must not be too long.
const VERTICES_AT_A_TIME: usize = 2000;

/// What was said of messages that rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedText {
    /// The number by which they have it.
    pub number: TextNumber,
    /// What was said.
    pub text: String,
}

/// What became of a message that rests, or of some of its recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedRest {
    /// Its number.
    pub number: u64,
    /// When its message file was modified: another message may have the number by now.
    pub modified: Timestamp,
    /// Where its recipients go, how often they were tried, and the numbers of the texts.
    pub vertices: Vec<RestedVertex>,
}

/// Somebody who knows of messages that rest.
pub trait Resting {
    /// The one with the lowest number behind a number; or the first of all.
    fn behind(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)>;
}

/// Somebody who knows of none.
impl Resting for () {
    fn behind(&self, _: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [RestedVertex]>)> {
        None
    }
}

/// What was told at the start of messages that rested, and is not asked for yet.
#[derive(Default, Serialize, Deserialize)]
pub struct RememberedRests {
    messages: BTreeMap<u64, (Timestamp, Vec<RestedVertex>)>,
    /// How many destinations they have.
    vertices: usize,
    /// Which number a text has now.
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
    /// What the former scheduler knew of a message that has rested.
    pub(in super::super) fn recall_rest(&mut self, arrival: &Arrival) -> Option<Recalled> {
        let (modified, mut vertices) = self.memory.as_mut()?.rests.take(arrival.name.number())?;
        vertices.sort_unstable_by_key(|vertex| vertex.key());
        let vertices = vertices.into();
        let rested = Rested { modified, recipients: 0, vertices };
        (modified == arrival.modified).then(|| Recalled::of(rested))
    }
}

/// How much was told of messages that rest.
#[derive(Default)]
pub struct Telling {
    messages: usize,
    vertices: usize,
}

impl Telling {
    /// Tells of some messages behind one, `count` at most. Returns the last of them, if there were any, and it
    /// was not too much.
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
