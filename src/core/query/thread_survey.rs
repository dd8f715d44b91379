//! Search for threads: the busiest, or all (read-only).
//!
//! It examines everything, in steps, while the queue changes: its caller continues it in each turn.

use crate::Scheduler;
use crate::operator::overrides::DestinationPattern;
use crate::queue::{Thread, ThreadId, VertexState};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zsched_format::time::Timestamp;

/// Order of threads in a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyOrder {
    /// Most recipients.
    Backlog,
    /// Most recipients that cannot be delivered, as by `View::undelivered_of`.
    Undelivered,
    /// The oldest message.
    Oldest,
}

/// A search for the first threads in such an order, or for all threads.
pub struct ThreadSurvey {
    order: Option<SurveyOrder>,
    /// Maximum number of threads, if they have an order.
    max: usize,
    destinations: Option<DestinationPattern>,
    /// Number of vertex slots examined for the oldest messages.
    ///
    /// The result is the oldest time of each thread, by slot.
    vertices_seen: usize,
    oldest: Vec<Timestamp>,
    threads_seen: usize,
    is_over: bool,
    /// The best so far, with the last one of them on top.
    best: BinaryHeap<Reverse<(i64, ThreadId)>>,
}

/// Later than the time of any message.
const LATEST_TIME: Timestamp = Timestamp::from_nanoseconds(i64::MAX);

impl ThreadSurvey {
    /// Creates a survey that finds the first `max` threads in an order, or all threads.
    ///
    /// With a pattern it finds only matching ones.
    pub fn new(
        order: Option<SurveyOrder>,
        max: usize,
        destinations: Option<DestinationPattern>,
    ) -> ThreadSurvey {
        ThreadSurvey {
            order,
            max,
            destinations,
            vertices_seen: 0,
            oldest: Vec::new(),
            threads_seen: 0,
            is_over: false,
            best: BinaryHeap::new(),
        }
    }

    /// Examines the next `count` vertices or threads.
    ///
    /// Returns threads that were found; `None` at the end. If they have an order, all come together
    /// when everything was examined.
    pub fn advance(&mut self, scheduler: &Scheduler, count: usize) -> Option<Vec<ThreadId>> {
        if self.is_over {
            return None;
        }
        let vertices = scheduler.queue.vertices().slots();
        if self.order == Some(SurveyOrder::Oldest) && self.vertices_seen < vertices {
            self.look_at_vertices(scheduler, count);
            return Some(Vec::new());
        }
        let threads = scheduler.queue.threads().pool();
        let end = self.threads_seen.saturating_add(count).min(threads.slots());
        let next = (self.threads_seen..end).filter_map(|slot| threads.at(slot));
        (self.threads_seen, self.is_over) = (end, end == threads.slots());
        let Some(order) = self.order else {
            return Some(next.filter(|thread| self.matches(&threads[*thread])).collect());
        };
        next.for_each(|thread| self.consider(scheduler, order, thread));
        let best = if self.is_over { std::mem::take(&mut self.best) } else { BinaryHeap::new() };
        Some(best.into_sorted_vec().into_iter().map(|Reverse((_, thread))| thread).collect())
    }

    /// Returns true if a thread matches the pattern, if there is one.
    pub fn matches(&self, thread: &Thread) -> bool {
        self.destinations.as_ref().is_none_or(|wanted| wanted.matches(&thread.destination))
    }

    fn look_at_vertices(&mut self, scheduler: &Scheduler, count: usize) {
        let end = (self.vertices_seen + count).min(scheduler.queue.vertices().slots());
        self.oldest
            .resize(self.oldest.len().max(scheduler.queue.threads().pool().slots()), LATEST_TIME);
        for place in self.vertices_seen..end {
            let Some(vertex) = scheduler.queue.vertices().at(place) else {
                continue;
            };
            let vertex = scheduler.queue.vertex(vertex);
            if vertex.state != VertexState::Finished {
                let oldest = &mut self.oldest[vertex.thread.index()];
                *oldest = (*oldest).min(scheduler.queue.message(vertex.message).modified);
            }
        }
        self.vertices_seen = end;
    }

    fn consider(&mut self, scheduler: &Scheduler, order: SurveyOrder, id: ThreadId) {
        let thread = scheduler.queue.thread(id);
        let value = match order {
            SurveyOrder::Backlog => i64::from(thread.recipients),
            SurveyOrder::Undelivered => i64::from(scheduler.view().undelivered_of(thread)),
            SurveyOrder::Oldest => {
                let oldest = self.oldest.get(id.index()).copied().unwrap_or(LATEST_TIME);
                -oldest.nanoseconds()
            }
        };
        let is_full = self.best.len() >= self.max;
        if is_full && self.best.peek().is_none_or(|Reverse((last, _))| *last >= value) {
            return;
        }
        if !self.matches(thread) {
            return;
        }
        if is_full {
            self.best.pop();
        }
        self.best.push(Reverse((value, id)));
    }
}
