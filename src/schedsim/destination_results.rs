//! The results of a run, by destination.

use crate::thread_samples::ThreadSample;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::time::Duration;
use zsched_core::Destination;
use zsched_format::time::Timestamp;

/// The results of all destinations that had mail, in the order of their first mail.
///
/// The index of an entry stays the same.
pub(crate) type ResultsByDestination = IndexMap<Destination, DestinationResults, RandomState>;

/// The index of a destination, which gets an entry if it has none.
pub(crate) fn index_of(results: &mut ResultsByDestination, channel: &[u8], host: &[u8]) -> usize {
    let index = results.get_index_of(&Destination::key(channel, host)[..]);
    index.unwrap_or_else(|| {
        let (destination, none) = (Destination::new(channel, host), DestinationResults::default());
        results.insert_full(destination, none).0
    })
}

/// Results of the recipients of one destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct DestinationResults {
    /// Recipients that arrived.
    pub recipients: u64,
    /// Recipients that failed permanently.
    pub failed: u64,
    /// Recipients that expired.
    pub expired: u64,
    /// Recipients that an operator deleted or rerouted.
    pub removed: u64,
    /// Recipients in the queue at the end.
    pub queued: u64,
    /// The delivered recipients.
    pub deliveries: Vec<Delivery>,
    /// Maximum time by which a message was overtaken.
    ///
    /// That is how much later another message of the channel arrived that was fed to an agent
    /// earlier.
    pub overtaken: Duration,
    /// Jobs that agents have begun.
    pub jobs: Jobs,
    /// Its thread over time, in any order. Samples of other times found none.
    pub samples: Vec<ThreadSample>,
}

/// A delivery to a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Number of samples before it.
    pub samples: u32,
    /// Time from arrival to delivery, in milliseconds.
    pub delay: u32,
}

/// Jobs of one destination.
///
/// A job begins when its agent comes to it: an agent may have further jobs that wait (`overfeed`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// Number of jobs.
    pub count: u64,
    /// Jobs that ended with the host not reached.
    pub not_reached: u64,
    /// Agents that are at work on a job now.
    at_work: u64,
    /// Agents at work at the start of each job, summed up.
    ///
    /// Those before the end of the first job are dropped then.
    concurrency: Sums,
    /// True if a job had ended when the last one began.
    is_steady: bool,
    /// When the last job began.
    last: Option<Timestamp>,
    /// Shortest and longest time between the starts of consecutive jobs.
    pub gaps: Option<(Duration, Duration)>,
}

/// Sums of numbers and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    sum: u64,
    squares: u64,
}

impl Sums {
    fn add(&mut self, number: u64) {
        self.count += 1;
        self.sum += number;
        self.squares += number * number;
    }

    fn mean_and_deviation(self) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let mean = self.sum as f64 / count;
        (mean, (self.squares as f64 / count - mean * mean).max(0.0).sqrt())
    }
}

impl DestinationResults {
    /// Counts a delivery after this number of samples.
    pub(crate) fn deliver(&mut self, delay: Duration, samples: usize) {
        let limited = |count: u128| u32::try_from(count).unwrap_or(u32::MAX);
        self.deliveries.push(Delivery {
            samples: limited(samples as u128),
            delay: limited(delay.as_millis()),
        });
    }
}

impl Jobs {
    /// Counts a job that begins now.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last);
            let (shortest, longest) = self.gaps.unwrap_or((gap, gap));
            self.gaps = Some((shortest.min(gap), longest.max(gap)));
        }
        // Until the first job ends, the number only grows by one per job, whatever the window is.
        if !self.is_steady && self.at_work < self.count {
            self.is_steady = true;
            self.concurrency = Sums::default();
        }
        self.count += 1;
        self.at_work += 1;
        self.concurrency.add(self.at_work);
    }

    /// Counts the end of a job.
    pub(crate) fn end(&mut self, was_reached: bool) {
        self.at_work -= 1;
        self.not_reached += u64::from(!was_reached);
    }

    /// Mean and standard deviation of the agents at work at the start of a job.
    ///
    /// The job itself is included. Counts the jobs that began after one had ended, or all jobs if
    /// none did.
    pub(crate) fn concurrency(&self) -> (f64, f64) {
        self.concurrency.mean_and_deviation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_excludes_jobs_before_the_first_end() {
        let mut jobs = Jobs::default();
        (0..4).for_each(|second| jobs.begin(Timestamp::from_seconds(second)));
        assert_eq!(jobs.concurrency().0, 2.5, "nothing else is known");
        jobs.end(true);
        jobs.begin(Timestamp::from_seconds(5));
        jobs.end(false);
        jobs.end(true);
        jobs.begin(Timestamp::from_seconds(6));
        assert_eq!(jobs.concurrency(), (3.5, 0.5));
        assert_eq!((jobs.count, jobs.not_reached), (6, 1));
    }
}
