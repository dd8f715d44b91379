//! The results of a simulation.
//!
//! The fields are those of `--json`; all times are in seconds.

use super::world::Mail;
use crate::statistics::{DestinationResults, Sample, Statistics};
use serde::Serialize;
use std::cmp::Reverse;
use std::time::Duration;
use zsched_core::Destination;

/// Maximum number of threads shown: those with the most recipients.
const MAX_THREADS_SHOWN: usize = 5;

/// The results of one configuration in one world.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Summary {
    /// The file of the configuration.
    pub configuration: String,
    /// The seed.
    pub seed: u64,
    /// Virtual time simulated.
    pub length: f64,
    /// Totals of all mail.
    pub totals: Totals,
    /// Results by kind of mail, in the order of the world's file.
    pub mail: Vec<MailResults>,
    /// The busiest threads, the busiest first.
    pub threads: Vec<ThreadResults>,
    /// All queues together over time.
    pub over_time: Vec<Point>,
}

/// Totals of a simulation.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct Totals {
    /// Messages submitted.
    pub messages: u64,
    /// Results of all recipients.
    #[serde(flatten)]
    pub results: RecipientResults,
    /// Recipients in the queue at the end.
    pub queued: u64,
    /// Reports that deferred a recipient.
    pub deferrals: u64,
    /// Reports about recipients with any status.
    pub attempts: u64,
    /// Agents started.
    pub agents_started: u64,
    /// Maximum number of agents at the same time.
    #[serde(rename = "most_agents")]
    pub max_agents: usize,
    /// Maximum number of recipients in the queue.
    #[serde(rename = "longest_queue")]
    pub max_queued: u64,
}

/// Results of some recipients.
#[derive(Serialize, Clone, Debug)]
pub(crate) struct RecipientResults {
    /// Recipients that arrived.
    pub recipients: u64,
    /// Recipients that were delivered.
    pub delivered: u64,
    /// Recipients that failed permanently.
    pub failed: u64,
    /// Recipients that expired.
    pub expired: u64,
    /// Time from arrival to delivery.
    pub delay: Delay,
}

/// Percentiles of the time from arrival to delivery.
#[derive(Serialize, Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub longest: f64,
}

/// Results of one kind of mail: of all destinations that its host pattern matches.
#[derive(Serialize, Clone, Debug)]
pub(super) struct MailResults {
    /// `channel/host`, as in the world's file.
    pub destinations: String,
    /// Results of its recipients.
    #[serde(flatten)]
    pub results: RecipientResults,
    /// Maximum time by which a message was overtaken.
    ///
    /// That is how much later another message of the channel arrived that was fed to an agent
    /// earlier.
    pub overtaken: f64,
}

/// Results of one destination.
#[derive(Serialize, Clone, Debug)]
pub(super) struct ThreadResults {
    /// `channel/host`.
    pub destination: String,
    /// Results of its recipients.
    #[serde(flatten)]
    pub results: RecipientResults,
    /// Jobs given to agents.
    pub jobs: u64,
    /// Jobs that ended with the host not reached.
    pub not_reached: u64,
    /// Mean number of agents at work at the start of a job.
    ///
    /// Counts the jobs that began after one had ended, if there are any.
    pub concurrency: f64,
    /// Standard deviation of `concurrency`.
    pub concurrency_deviation: f64,
    /// Shortest time between the starts of consecutive jobs.
    pub shortest_gap: f64,
    /// Longest time between the starts of consecutive jobs.
    pub longest_gap: f64,
    /// Its queue over time.
    pub over_time: Vec<Point>,
}

/// A queue at a point in time.
#[derive(Serialize, Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Time since the start.
    pub time: f64,
    /// Recipients in the queue.
    pub queued: u64,
    /// Agents; for a thread, those that work on it.
    pub agents: usize,
}

impl Summary {
    /// Computes the results of a simulation.
    pub(super) fn new(
        configuration: &str,
        seed: u64,
        length: Duration,
        mail: &[Mail],
        of: &Statistics,
    ) -> Summary {
        let mut busiest: Vec<(&Destination, &DestinationResults)> =
            of.destinations.iter().collect();
        busiest.sort_by_key(|(destination, results)| (Reverse(results.recipients), *destination));
        busiest.truncate(MAX_THREADS_SHOWN);
        Summary {
            configuration: configuration.to_string(),
            seed,
            length: length.as_secs_f64(),
            totals: Totals::new(of),
            mail: mail.iter().map(|mail| MailResults::new(mail, of)).collect(),
            threads: busiest
                .into_iter()
                .map(|(to, results)| ThreadResults::new(to, results, of))
                .collect(),
            over_time: over_time(of, |sample| (sample.recipients, sample.agents)),
        }
    }
}

/// Returns a queue over time. `of_sample` returns its recipients and agents.
fn over_time(of: &Statistics, of_sample: impl Fn(&Sample) -> (u64, usize)) -> Vec<Point> {
    let point = |sample: &Sample| {
        let (queued, agents) = of_sample(sample);
        Point { time: sample.time.since(of.start).as_secs_f64(), queued, agents }
    };
    of.samples.iter().map(point).collect()
}

impl Totals {
    /// Computes the totals of a run.
    pub(crate) fn new(of: &Statistics) -> Totals {
        let results = RecipientResults::new(of.destinations.values());
        let RecipientResults { recipients, delivered, failed, expired, .. } = results;
        Totals {
            messages: of.messages,
            results,
            queued: recipients.saturating_sub(delivered + failed + expired),
            deferrals: of.deferrals,
            attempts: of.deferrals + delivered + failed,
            agents_started: of.agents_started,
            max_agents: of.max_agents,
            max_queued: of.samples.iter().map(|sample| sample.recipients).max().unwrap_or(0),
        }
    }
}

impl RecipientResults {
    fn new<'d>(
        destinations: impl Iterator<Item = &'d DestinationResults> + Clone,
    ) -> RecipientResults {
        let sum =
            |count: fn(&DestinationResults) -> u64| destinations.clone().map(count).sum::<u64>();
        let delays = destinations.clone().flat_map(|results| &results.delays).copied();
        RecipientResults {
            recipients: sum(|results| results.recipients),
            delivered: sum(|results| results.delays.len() as u64),
            failed: sum(|results| results.failed),
            expired: sum(|results| results.expired),
            delay: Delay::new(delays.collect()),
        }
    }
}

impl MailResults {
    fn new(mail: &Mail, of: &Statistics) -> MailResults {
        let has_host = |(to, _): &(&Destination, &DestinationResults)| {
            let (start, end) = mail.host.split_once('*').unwrap_or((&mail.host, ""));
            let rest = to.host().strip_prefix(start.as_bytes());
            let number = rest.and_then(|rest| rest.strip_suffix(end.as_bytes()));
            let fits = number.is_some_and(|number| number.iter().all(u8::is_ascii_digit));
            to.channel() == mail.channel.as_bytes() && fits
        };
        let found = of.destinations.iter().filter(has_host).map(|(_, results)| results);
        let overtaken = found.clone().map(|results| results.overtaken).max();
        MailResults {
            destinations: format!("{}/{}", mail.channel, mail.host),
            results: RecipientResults::new(found),
            overtaken: overtaken.unwrap_or_default().as_secs_f64(),
        }
    }
}

impl ThreadResults {
    fn new(to: &Destination, results: &DestinationResults, of: &Statistics) -> ThreadResults {
        let of_sample = |sample: &Sample| {
            let threads = &sample.threads;
            let found = threads.binary_search_by(|thread| thread.0.cmp(to));
            found.map_or((0, 0), |index| (u64::from(threads[index].1), threads[index].2))
        };
        let (concurrency, concurrency_deviation) = results.jobs.concurrency();
        let (shortest, longest) = results.jobs.gaps.unwrap_or_default();
        ThreadResults {
            destination: to.to_string(),
            results: RecipientResults::new(std::iter::once(results)),
            jobs: results.jobs.count,
            not_reached: results.jobs.not_reached,
            concurrency,
            concurrency_deviation,
            shortest_gap: shortest.as_secs_f64(),
            longest_gap: longest.as_secs_f64(),
            over_time: over_time(of, of_sample),
        }
    }
}

impl Delay {
    /// Computes the percentiles of times in milliseconds.
    fn new(mut delays: Vec<u32>) -> Delay {
        delays.sort_unstable();
        let Some(last) = delays.len().checked_sub(1) else {
            return Delay::default();
        };
        let part = |hundredths: usize| f64::from(delays[last * hundredths / 100]) / 1000.0;
        Delay { p50: part(50), p90: part(90), p99: part(99), longest: part(100) }
    }
}

/// Formats all results as JSON.
pub(super) fn json(summaries: &[Summary]) -> String {
    let text = serde_json::to_string_pretty(summaries);
    let mut text = text.expect("numbers and texts can be written as JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_sorted_delays() {
        let delay = Delay::new((1..=101).rev().map(|tenth| tenth * 100).collect());
        assert_eq!((delay.p50, delay.p90, delay.p99, delay.longest), (5.1, 9.1, 10.0, 10.1));
        assert_eq!(Delay::new(Vec::new()).longest, 0.0);
    }
}
