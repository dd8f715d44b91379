//! Learned state of paged-out messages.
//!
//! It is what the next process must know about messages that are on disk only: attempts, next
//! tries, last texts. Each text is written once and referred to by number.

use crate::admission::Admission;
use crate::admission::paged_message::{PagedMessage, PagedVertex, TextNumber};
use crate::admission::paging::RestoredMessage;
use crate::learned::{Learned, LearnedState};
use crate::queue::Diagnosis;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use zsched_format::time::Timestamp;
use zsched_spool::Arrival;

/// Maximum number of paged-out messages whose state is kept.
const MAX_LEARNED_MESSAGES: usize = 500_000;
/// Maximum number of their destinations in all.
const MAX_LEARNED_DESTINATIONS: usize = 2_000_000;
/// Maximum number of destinations of a message per line of the file.
const MAX_DESTINATIONS_PER_LINE: usize = 2000;

/// A text about paged-out messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedText {
    /// Number by which [`LearnedMessage`] refers to it.
    pub number: TextNumber,
    /// The text.
    pub text: String,
}

/// State of a paged-out message, or of some of its recipients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedMessage {
    /// Number of the message.
    pub number: u64,
    /// Modification time of its message file: the number may be reused.
    pub modified: Timestamp,
    /// Its destinations, with numbers of attempts and of texts.
    pub vertices: Vec<PagedVertex>,
}

/// A source of paged-out messages.
pub trait PagedOutSource {
    /// Returns the message with the next higher number; `None` begins.
    fn next_after(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)>;
}

/// A source without any.
impl PagedOutSource for () {
    fn next_after(&self, _: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        None
    }
}

/// State of paged-out messages, reported at the start and not claimed yet.
#[derive(Default, Serialize, Deserialize)]
pub struct UnclaimedMessages {
    messages: BTreeMap<u64, (Timestamp, Vec<PagedVertex>)>,
    /// Number of their destinations.
    vertices: usize,
    /// Present number of each text, by its former one.
    texts: BTreeMap<TextNumber, TextNumber>,
}

impl UnclaimedMessages {
    pub fn import_text(&mut self, learned: LearnedText, admission: &mut Admission) {
        let text = Diagnosis::new(b"", learned.text.as_bytes());
        self.texts.insert(learned.number, admission.keep_text(&text));
    }

    pub fn import_learned(&mut self, learned: LearnedMessage) {
        let LearnedMessage { number, modified, vertices } = learned;
        let is_full = self.vertices + vertices.len() > MAX_LEARNED_DESTINATIONS
            || self.messages.len() >= MAX_LEARNED_MESSAGES;
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
        let with_text = |vertex: PagedVertex| {
            vertex.from_other_process(texts.get(&vertex.text()).copied().unwrap_or_default())
        };
        all.extend(vertices.into_iter().map(with_text));
    }

    pub fn check(&self) {
        let vertices: usize = self.messages.values().map(|(_, vertices)| vertices.len()).sum();
        assert_eq!(self.vertices, vertices, "destinations of unclaimed messages");
        let has_empty = self.messages.values().any(|(_, vertices)| vertices.is_empty());
        assert!(!has_empty, "an unclaimed message without destinations");
    }

    fn take(&mut self, number: u64) -> Option<(Timestamp, Vec<PagedVertex>)> {
        let taken = self.messages.remove(&number)?;
        self.vertices -= taken.1.len();
        Some(taken)
    }
}

impl PagedOutSource for UnclaimedMessages {
    fn next_after(&self, number: Option<u64>) -> Option<(u64, Timestamp, Cow<'_, [PagedVertex]>)> {
        let from = number.map_or(Some(0), |number| number.checked_add(1))?;
        let (number, (modified, vertices)) = self.messages.range(from..).next()?;
        Some((*number, *modified, vertices.into()))
    }
}

impl LearnedState {
    /// Claims what the former scheduler knew of a paged-out message.
    pub(crate) fn restore_paged_out(&mut self, arrival: &Arrival) -> Option<RestoredMessage> {
        let (modified, mut vertices) =
            self.unclaimed.as_mut()?.messages.take(arrival.name.number())?;
        vertices.sort_unstable_by_key(|vertex| vertex.key());
        let vertices = vertices.into();
        // This process has not counted its recipients as paged out, so none are to be subtracted.
        let record = PagedMessage { modified, recipients: 0, is_scheduled: false, vertices };
        // Requests of the former process are not kept.
        (modified == arrival.modified).then(|| RestoredMessage { record, wanted: Vec::new() })
    }
}

/// Counts what was exported about paged-out messages.
#[derive(Default)]
pub struct ExportCount {
    messages: usize,
    vertices: usize,
}

impl ExportCount {
    /// Exports up to `count` messages after the given one.
    ///
    /// Returns the last of them; `None` at the end, or when a maximum is exceeded.
    pub fn export(
        &mut self,
        paged_out: &dyn PagedOutSource,
        after: Option<u64>,
        count: usize,
        emit: &mut impl FnMut(Learned),
    ) -> Option<u64> {
        let mut last = after;
        for _ in 0..count {
            let (number, modified, vertices) = paged_out.next_after(last)?;
            last = Some(number);
            let was_tried = |vertex: &&PagedVertex| vertex.attempts() > 0;
            let tried: Vec<PagedVertex> = vertices.iter().filter(was_tried).copied().collect();
            self.messages += usize::from(!tried.is_empty());
            self.vertices += tried.len();
            if self.messages > MAX_LEARNED_MESSAGES || self.vertices > MAX_LEARNED_DESTINATIONS {
                return None;
            }
            for vertices in tried.chunks(MAX_DESTINATIONS_PER_LINE) {
                let vertices = vertices.to_vec();
                emit(Learned::PagedOut(LearnedMessage { number, modified, vertices }));
            }
        }
        last
    }
}
