//! Search for the busiest threads of the queue (read-only).
//!
//! It examines everything, in steps, while the queue changes: its caller continues it in each turn.

use crate::Scheduler;
use crate::operator::overrides::DestinationPattern;
use crate::queue::thread::ThreadId;
use crate::queue::vertex::VertexState;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zsched_format::time::Timestamp;

/// Order of threads in a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyOrder {
    /// Most recipients.
    Backlog,
    /// Most reports about its recipients.
    Attempts,
    /// The oldest message.
    Oldest,
}

/// A search for the first threads in such an order.
pub struct ThreadSurvey {
    rank: SurveyOrder,
    max: usize,
    destinations: Option<DestinationPattern>,
    /// Number of vertex slots examined for the oldest messages.
    ///
    /// The result is the oldest time of each thread, by slot.
    vertices_seen: usize,
    oldest: Vec<Timestamp>,
    threads_seen: usize,
    /// The best so far, with the last one of them on top.
    best: BinaryHeap<Reverse<(i64, ThreadId)>>,
}

/// Later than the time of any message.
const LATEST_TIME: Timestamp = Timestamp::from_nanoseconds(i64::MAX);

impl ThreadSurvey {
    /// Creates a survey that finds at most `max` threads.
    ///
    /// With a pattern it finds only matching ones.
    pub fn new(
        rank: SurveyOrder,
        max: usize,
        destinations: Option<DestinationPattern>,
    ) -> ThreadSurvey {
        ThreadSurvey {
            rank,
            max,
            destinations,
            vertices_seen: 0,
            oldest: Vec::new(),
            threads_seen: 0,
            best: BinaryHeap::new(),
        }
    }

    /// Examines the next `count` vertices or threads.
    ///
    /// Returns true if that was all.
    pub fn advance(&mut self, scheduler: &Scheduler, count: usize) -> bool {
        if self.rank == SurveyOrder::Oldest && self.vertices_seen < scheduler.queue.vertices.slots()
        {
            self.look_at_vertices(scheduler, count);
            return false;
        }
        let end = (self.threads_seen + count).min(scheduler.queue.threads.pool().slots());
        for place in self.threads_seen..end {
            if let Some(thread) = scheduler.queue.threads.pool().at(place) {
                self.consider(scheduler, thread);
            }
        }
        self.threads_seen = end;
        end == scheduler.queue.threads.pool().slots()
    }

    fn look_at_vertices(&mut self, scheduler: &Scheduler, count: usize) {
        let end = (self.vertices_seen + count).min(scheduler.queue.vertices.slots());
        self.oldest
            .resize(self.oldest.len().max(scheduler.queue.threads.pool().slots()), LATEST_TIME);
        for place in self.vertices_seen..end {
            let Some(vertex) = scheduler.queue.vertices.at(place) else {
                continue;
            };
            let vertex = &scheduler.queue.vertices[vertex];
            if vertex.state != VertexState::Finished {
                let oldest = &mut self.oldest[vertex.thread.index()];
                *oldest = (*oldest).min(scheduler.queue.messages[vertex.message].modified);
            }
        }
        self.vertices_seen = end;
    }

    fn consider(&mut self, scheduler: &Scheduler, id: ThreadId) {
        let thread = &scheduler.queue.threads[id];
        let value = match self.rank {
            SurveyOrder::Backlog => i64::from(thread.recipients),
            SurveyOrder::Attempts => i64::from(thread.attempts),
            SurveyOrder::Oldest => {
                let oldest = self.oldest.get(id.index()).copied().unwrap_or(LATEST_TIME);
                -oldest.nanoseconds()
            }
        };
        let is_full = self.best.len() >= self.max;
        if is_full && self.best.peek().is_none_or(|Reverse((last, _))| *last >= value) {
            return;
        }
        if self.destinations.as_ref().is_some_and(|wanted| !wanted.matches(&thread.destination)) {
            return;
        }
        if is_full {
            self.best.pop();
        }
        self.best.push(Reverse((value, id)));
    }

    /// The threads that were found, in order.
    pub fn found(self) -> Vec<ThreadId> {
        self.best.into_sorted_vec().into_iter().map(|Reverse((_, thread))| thread).collect()
    }
}

impl Scheduler {
    /// The first thread in a slot at or after `place`.
    ///
    /// It comes with its slot; `None` is at the end.
    ///
    /// At most `count` slots are examined. If they are all free, the answer has no thread.
    pub fn thread_from(&self, place: usize, count: usize) -> Option<(usize, Option<ThreadId>)> {
        let pool = self.queue.threads.pool();
        let end = place.saturating_add(count).min(pool.slots());
        let mut found = (place..end).filter_map(|place| Some((place, Some(pool.at(place)?))));
        found.next().or((end > place).then(|| (end - 1, None)))
    }
}
