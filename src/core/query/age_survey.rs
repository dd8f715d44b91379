//! Ages of the mail for the destinations with the largest backlog (read-only).
//!
//! It examines everything, in steps, while the queue changes: first the threads, to find those with
//! most recipients; then the vertices, to count their recipients by age.

use crate::Scheduler;
use crate::operator::overrides::DestinationPattern;
use crate::pool::IdMap;
use crate::query::thread_survey::{SurveyOrder, ThreadSurvey};
use crate::queue::{Destination, ThreadId, VertexState};
use std::cmp::Reverse;
use zsched_format::time::Timestamp;

/// Recipients by age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgeCounts {
    /// Recipients of any age.
    pub recipients: u64,
    /// Recipients younger than each of the limits and not than the one before; then all others.
    pub ages: Vec<u64>,
}

/// A count of recipients by age.
///
/// It is for all matching mail, and for the destinations with most of it.
pub struct AgeSurvey {
    now: Timestamp,
    /// Upper limits of ages in seconds, ascending.
    limits: Vec<i64>,
    threads: ThreadSurvey,
    /// Number of vertex slots examined; `None` while the threads are searched.
    vertices_seen: Option<usize>,
    total: AgeCounts,
    rows: Vec<(Destination, AgeCounts)>,
    row_of: IdMap<ThreadId, usize>,
}

impl AgeSurvey {
    /// Creates a survey of at most `max` destinations, of all or those that match.
    ///
    /// `limits` are upper limits of ages in seconds, ascending.
    pub fn new(
        now: Timestamp,
        limits: Vec<i64>,
        max: usize,
        destinations: Option<DestinationPattern>,
    ) -> AgeSurvey {
        AgeSurvey {
            now,
            total: AgeCounts { recipients: 0, ages: vec![0; limits.len() + 1] },
            limits,
            threads: ThreadSurvey::new(Some(SurveyOrder::Backlog), max, destinations),
            vertices_seen: None,
            rows: Vec::new(),
            row_of: IdMap::default(),
        }
    }

    /// Examines the next `count` threads or vertices. Returns true at the end.
    pub fn advance(&mut self, scheduler: &Scheduler, count: usize) -> bool {
        let Some(seen) = self.vertices_seen else {
            match self.threads.advance(scheduler, count) {
                Some(found) => found.into_iter().for_each(|thread| self.add_row(scheduler, thread)),
                None => self.vertices_seen = Some(0),
            }
            return false;
        };
        let slots = scheduler.queue.vertices().slots();
        let end = seen.saturating_add(count).min(slots);
        (seen..end).for_each(|slot| self.count(scheduler, slot));
        self.vertices_seen = Some(end);
        end == slots
    }

    /// The counts of all matching mail, and of the destinations, most recipients first.
    pub fn into_counts(mut self) -> (AgeCounts, Vec<(Destination, AgeCounts)>) {
        self.rows.sort_by_key(|(_, counts)| Reverse(counts.recipients));
        self.rows.retain(|(_, counts)| counts.recipients > 0);
        (self.total, self.rows)
    }

    fn add_row(&mut self, scheduler: &Scheduler, thread: ThreadId) {
        let destination = scheduler.queue.thread(thread).destination.clone();
        self.row_of.insert(thread, self.rows.len());
        let ages = vec![0; self.limits.len() + 1];
        self.rows.push((destination, AgeCounts { recipients: 0, ages }));
    }

    fn count(&mut self, scheduler: &Scheduler, slot: usize) {
        let queue = &scheduler.queue;
        let Some(vertex) = queue.vertices().at(slot).map(|vertex| queue.vertex(vertex)) else {
            return;
        };
        let thread = queue.thread(vertex.thread);
        // The id may belong to another thread by now.
        let row = self.row_of.get(&vertex.thread).map(|row| &mut self.rows[*row]);
        let row = row.filter(|(destination, _)| *destination == thread.destination);
        let is_counted = row.is_some() || self.threads.matches(thread);
        if vertex.state == VertexState::Finished || !is_counted {
            return;
        }
        let age = self.now.seconds_since(queue.message(vertex.message).modified);
        let place = self.limits.partition_point(|limit| *limit <= age);
        let recipients = u64::from(vertex.pending());
        for counts in row.into_iter().map(|(_, counts)| counts).chain([&mut self.total]) {
            counts.recipients += recipients;
            counts.ages[place] += recipients;
        }
    }
}
