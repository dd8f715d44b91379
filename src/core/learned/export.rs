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
    pub fn export(
        &mut self,
        scheduler: &Scheduler,
        paged_out: &dyn PagedOutSource,
        count: usize,
        mut emit: impl FnMut(Learned),
    ) {
        let unclaimed = scheduler.learned.unclaimed.as_ref();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Threads(from) => {
                let slots = scheduler.queue.threads().pool();
                let end = slots.slots().min(from.saturating_add(count));
                let threads = (from..end).filter_map(|slot| slots.at(slot));
                let learned = threads.filter_map(|thread| scheduler.view().learned_thread(thread));
                learned.map(Learned::Thread).for_each(emit);
                if end < slots.slots() { Stage::Threads(end) } else { Stage::PagedOutThreads(None) }
            }
            Stage::PagedOutThreads(last) => {
                let position =
                    some_after(scheduler.view().paged_threads(), last, count, |to, kept| {
                        let learned = scheduler.view().learned_paged_thread(to, kept);
                        learned.map(Learned::Thread).into_iter().for_each(&mut emit);
                    });
                position.map_or(Stage::Messages(0, 0), |last| Stage::PagedOutThreads(Some(last)))
            }
            Stage::Messages(number, position) => {
                export_messages(scheduler, (number, position), count, &mut emit)
            }
            Stage::UnclaimedThreads(last) => {
                let position = unclaimed.and_then(|unclaimed| {
                    some_after(&unclaimed.threads, last, count, |_, thread| {
                        emit(Learned::Thread(thread.clone()));
                    })
                });
                let next = || Stage::UnclaimedVertices(None);
                position.map_or_else(next, |last| Stage::UnclaimedThreads(Some(last)))
            }
            Stage::UnclaimedVertices(last) => {
                let position = unclaimed.and_then(|unclaimed| {
                    some_after(&unclaimed.vertices, last, count, |key, vertex| {
                        vertex.learned(key).map(Learned::Vertex).into_iter().for_each(&mut emit);
                    })
                });
                position.map_or(Stage::Texts(0), |last| Stage::UnclaimedVertices(Some(last)))
            }
            Stage::Texts(position) => {
                let texts = scheduler.view().paged_texts(position, count);
                texts.map(Learned::Text).for_each(&mut emit);
                let next = position + count;
                let is_end = scheduler.view().paged_texts(next, 1).next().is_none();
                if is_end { Stage::PagedOut(None) } else { Stage::Texts(next) }
            }
            Stage::PagedOut(last) => match self.counts.export(paged_out, last, count, &mut emit) {
                None => Stage::UnclaimedMessages(None),
                last => Stage::PagedOut(last),
            },
            Stage::UnclaimedMessages(last) => {
                let position = unclaimed.and_then(|unclaimed| {
                    self.counts.export(&unclaimed.messages, last, count, &mut emit)
                });
                position.map_or(Stage::Over, |last| Stage::UnclaimedMessages(Some(last)))
            }
            Stage::Over => Stage::Over,
        };
    }
}

/// Passes up to `count` entries after `last` to `emit`.
///
/// Returns the key of the last of them, if there were any.
fn some_after<K: Clone + Ord, V>(
    entries: &BTreeMap<K, V>,
    last: Option<K>,
    count: usize,
    mut emit: impl FnMut(&K, &V),
) -> Option<K> {
    let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let some = entries.range((from, Bound::Unbounded)).take(count);
    some.inspect(|(key, value)| emit(key, value)).last().map(|(key, _)| key.clone())
}

/// Exports the vertices of some messages, `count` at most.
fn export_messages(
    scheduler: &Scheduler,
    (mut number, mut position): (u64, usize),
    count: usize,
    emit: &mut impl FnMut(Learned),
) -> Stage {
    let mut left = count;
    while left > 0 {
        let Some(message) = scheduler.queue.messages().at_or_after(number) else {
            return Stage::UnclaimedThreads(None);
        };
        let message = scheduler.queue.message(message);
        if message.number() != number {
            (number, position) = (message.number(), 0);
        }
        let vertices = message.vertices.iter(scheduler.queue.vertices()).skip(position).take(left);
        let mut seen = 0;
        for vertex in vertices {
            seen += 1;
            scheduler
                .view()
                .learned_vertex(vertex)
                .map(Learned::Vertex)
                .into_iter()
                .for_each(&mut *emit);
        }
        position += seen;
        if seen < left {
            // That was the whole message.
            let Some(next) = number.checked_add(1) else {
                return Stage::UnclaimedThreads(None);
            };
            (number, position) = (next, 0);
        }
        // A message without vertices counts as one.
        left -= seen.max(1).min(left);
    }
    Stage::Messages(number, position)
}
