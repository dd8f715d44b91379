//! Export of the learned state, some at a time.

use crate::Scheduler;
use crate::learned::Learned;
use crate::learned::paged_out::{ExportCount, PagedOutSource};
use crate::queue::destination::Destination;
use crate::queue::thread::ThreadId;
use std::ops::Bound;

/// Cursor over the learned state, while the queue changes.
#[derive(Default)]
pub struct LearnedExport {
    stage: Stage,
    rests: ExportCount,
}

#[derive(Default)]
enum Stage {
    #[default]
    Begin,
    /// Threads that existed at the beginning, and are not exported yet.
    Threads(Vec<ThreadId>),
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
        let memory = scheduler.learned.unclaimed.as_ref();
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Begin => {
                Stage::Threads(scheduler.queue.threads.iter().map(|(thread, _)| thread).collect())
            }
            Stage::Threads(mut left) => {
                let batch = left.split_off(left.len().saturating_sub(count));
                let learned = batch.iter().filter_map(|thread| scheduler.learned_thread(*thread));
                learned.map(Learned::Thread).for_each(tell);
                if left.is_empty() { Stage::PagedOutThreads(None) } else { Stage::Threads(left) }
            }
            Stage::PagedOutThreads(last) => {
                match scheduler.export_paged_threads(last.as_ref(), count, &mut tell) {
                    None => Stage::Messages(0, 0),
                    last => Stage::PagedOutThreads(last),
                }
            }
            Stage::Messages(number, told) => {
                export_messages(scheduler, (number, told), count, &mut tell)
            }
            Stage::UnclaimedThreads(last) => {
                let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let old = memory.into_iter().flat_map(|memory| {
                    memory.threads.range::<Destination, _>((from, Bound::Unbounded)).take(count)
                });
                let mut end = None;
                old.for_each(|(key, thread)| {
                    end = Some(key.clone());
                    tell(Learned::Thread(thread.clone()));
                });
                if end.is_some() {
                    Stage::UnclaimedThreads(end)
                } else {
                    Stage::UnclaimedVertices(None)
                }
            }
            Stage::UnclaimedVertices(last) => {
                let from = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                let old = memory
                    .into_iter()
                    .flat_map(|memory| memory.vertices.range((from, Bound::Unbounded)).take(count));
                let mut end = None;
                old.for_each(|(key, old)| {
                    end = Some(key.clone());
                    old.learned(key).map(Learned::Vertex).into_iter().for_each(&mut tell);
                });
                if end.is_some() { Stage::UnclaimedVertices(end) } else { Stage::Texts(0) }
            }
            Stage::Texts(told) => {
                let texts = scheduler.paged_texts(told, count);
                texts.map(Learned::Text).for_each(&mut tell);
                let next = told + count;
                let is_end = scheduler.paged_texts(next, 1).next().is_none();
                if is_end { Stage::PagedOut(None) } else { Stage::Texts(next) }
            }
            Stage::PagedOut(last) => match self.rests.tell(paged_out, last, count, &mut tell) {
                None => Stage::UnclaimedMessages(None),
                last => Stage::PagedOut(last),
            },
            Stage::UnclaimedMessages(last) => {
                let old = memory.map(|memory| &memory.rests as &dyn PagedOutSource).unwrap_or(&());
                match self.rests.tell(old, last, count, &mut tell) {
                    None => Stage::Over,
                    last => Stage::UnclaimedMessages(last),
                }
            }
            Stage::Over => Stage::Over,
        };
    }
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
