//! Export of the learned state, some at a time.

use crate::Scheduler;
use crate::learned::Learned;
use crate::learned::paged_out::{ExportCount, PagedOutSource};
use crate::queue::Destination;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Cursor over the learned state, while the queue changes.
pub struct LearnedExport {
    stage: Stage,
    counts: ExportCount,
}

impl Default for LearnedExport {
    fn default() -> LearnedExport {
        LearnedExport { stage: Stage::Threads(0), counts: ExportCount::default() }
    }
}

enum Stage {
    /// Threads from this slot on.
    Threads(usize),
    /// Threads after this one whose mail is all paged out.
    PagedOutThreads(Option<Destination>),
    /// From this number on, with the number of its exported vertices.
    Messages(u64, usize),
    /// Unclaimed state of threads after this one.
    UnclaimedThreads(Option<Destination>),
    /// Unclaimed state of vertices after this one.
    UnclaimedVertices(Option<(u64, Destination)>),
    /// Texts of paged-out messages, with the number of exported ones.
    Texts(usize),
    /// Paged-out messages after this one.
    PagedOut(Option<u64>),
    /// Unclaimed state of paged-out messages after this one.
    UnclaimedMessages(Option<u64>),
    Over,
}

impl LearnedExport {
    /// Returns true if everything has been exported.
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Exports the next threads, vertices or messages, `count` at most.
    ///
    /// `paged_out` supplies the paged-out messages.
    pub fn tell(
        &mut self,
        scheduler: &Scheduler,
        paged_out: &dyn PagedOutSource,
        count: usize,
        mut tell: impl FnMut(Learned),
    ) {
        let unclaimed = scheduler.learned.unclaimed.as_ref();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Threads(from) => {
                let slots = scheduler.queue.threads.pool();
                let end = slots.slots().min(from.saturating_add(count));
                let threads = (from..end).filter_map(|slot| slots.at(slot));
                let learned = threads.filter_map(|thread| scheduler.learned_thread(thread));
                learned.map(Learned::Thread).for_each(tell);
                if end < slots.slots() { Stage::Threads(end) } else { Stage::PagedOutThreads(None) }
            }
            Stage::PagedOutThreads(last) => {
                let told = some_after(scheduler.paged_threads(), last, count, |to, kept| {
                    let learned = scheduler.learned_paged_thread(to, kept);
                    learned.map(Learned::Thread).into_iter().for_each(&mut tell);
                });
                told.map_or(Stage::Messages(0, 0), |last| Stage::PagedOutThreads(Some(last)))
            }
            Stage::Messages(number, told) => {
                export_messages(scheduler, (number, told), count, &mut tell)
            }
            Stage::UnclaimedThreads(last) => {
                let told = unclaimed.and_then(|unclaimed| {
                    some_after(&unclaimed.threads, last, count, |_, thread| {
                        tell(Learned::Thread(thread.clone()));
                    })
                });
                let next = || Stage::UnclaimedVertices(None);
                told.map_or_else(next, |last| Stage::UnclaimedThreads(Some(last)))
            }
            Stage::UnclaimedVertices(last) => {
                let told = unclaimed.and_then(|unclaimed| {
                    some_after(&unclaimed.vertices, last, count, |key, vertex| {
                        vertex.learned(key).map(Learned::Vertex).into_iter().for_each(&mut tell);
                    })
                });
                told.map_or(Stage::Texts(0), |last| Stage::UnclaimedVertices(Some(last)))
            }
            Stage::Texts(told) => {
                let texts = scheduler.paged_texts(told, count);
                texts.map(Learned::Text).for_each(&mut tell);
                let next = told + count;
                let is_end = scheduler.paged_texts(next, 1).next().is_none();
                if is_end { Stage::PagedOut(None) } else { Stage::Texts(next) }
            }
            Stage::PagedOut(last) => match self.counts.tell(paged_out, last, count, &mut tell) {
                None => Stage::UnclaimedMessages(None),
                last => Stage::PagedOut(last),
            },
            Stage::UnclaimedMessages(last) => {
                let told = unclaimed.and_then(|unclaimed| {
                    self.counts.tell(&unclaimed.messages, last, count, &mut tell)
                });
                told.map_or(Stage::Over, |last| Stage::UnclaimedMessages(Some(last)))
            }
            Stage::Over => Stage::Over,
        };
    }
}

/// Passes up to `count` entries after `last` to `tell`.
///
/// Returns the key of the last of them, if there were any.
fn some_after<K: Clone + Ord, V>(
    entries: &BTreeMap<K, V>,
    last: Option<K>,
    count: usize,
    mut tell: impl FnMut(&K, &V),
) -> Option<K> {
    let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let some = entries.range((from, Bound::Unbounded)).take(count);
    some.inspect(|(key, value)| tell(key, value)).last().map(|(key, _)| key.clone())
}

/// Exports the vertices of some messages, `count` at most.
fn export_messages(
    scheduler: &Scheduler,
    (mut number, mut told): (u64, usize),
    count: usize,
    tell: &mut impl FnMut(Learned),
) -> Stage {
    let mut left = count;
    while left > 0 {
        let Some(message) = scheduler.queue.messages.at_or_after(number) else {
            return Stage::UnclaimedThreads(None);
        };
        let message = &scheduler.queue.messages[message];
        if message.name.number() != number {
            (number, told) = (message.name.number(), 0);
        }
        let vertices = message.vertices.iter(&scheduler.queue.vertices).skip(told).take(left);
        let mut seen = 0;
        for vertex in vertices {
            seen += 1;
            scheduler.learned_vertex(vertex).map(Learned::Vertex).into_iter().for_each(&mut *tell);
        }
        told += seen;
        if seen < left {
            // That was the whole message.
            let Some(next) = number.checked_add(1) else {
                return Stage::UnclaimedThreads(None);
            };
            (number, told) = (next, 0);
        }
        // A message without vertices counts as one.
        left -= seen.max(1).min(left);
    }
    Stage::Messages(number, told)
}
