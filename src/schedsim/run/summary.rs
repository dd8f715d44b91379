//! The results of a simulation.
//!
//! The fields are those of `--json`; all times are in seconds.

use super::world::Mail;
use crate::destination_results::DestinationResults;
use crate::statistics::Statistics;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;
use zsched_core::Destination;
use zsched_format::time::Timestamp;

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
    /// Recipients that were finished without a report, because an agent has died.
    pub unreported: u64,
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
    /// Time since the arrival of the oldest message in the queue at the end.
    pub oldest_queued: Option<f64>,
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
    /// Recipients that an operator deleted or rerouted, which only recordings have.
    #[serde(skip)]
    pub removed: u64,
    /// Recipients in the queue at the end.
    ///
    /// `delay` does not include them.
    pub queued: u64,
    /// Time from arrival to delivery, if anything was delivered.
    pub delay: Option<Delay>,
}

/// Percentiles of the time from arrival to delivery.
#[derive(Serialize, Clone, Copy, Debug)]
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

/// Results of all destinations that the channel and host pattern of some mail match.
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
    /// Jobs that agents have begun.
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
    /// Delay of what was delivered since the point before, if anything was.
    pub delay: Option<Delay>,
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
        let end = of.start + length;
        Summary {
            configuration: configuration.to_string(),
            seed,
            length: length.as_secs_f64(),
            totals: Totals::new(of, end),
            mail: distinct(mail).map(|mail| MailResults::new(mail, of)).collect(),
            threads: busiest(of)
                .into_iter()
                .map(|(to, results)| ThreadResults::new(to, results, of))
                .collect(),
            over_time: over_time(of, of.destinations.values(), |index| {
                (of.samples[index].recipients, of.samples[index].agents)
            }),
        }
    }
}

/// Returns the destinations that are shown, the one with the most recipients first.
fn busiest(of: &Statistics) -> Vec<(&Destination, &DestinationResults)> {
    let mut found: Vec<_> = of.destinations.iter().collect();
    fn key<'d>(
        (destination, results): &(&'d Destination, &DestinationResults),
    ) -> (Reverse<u64>, &'d Destination) {
        (Reverse(results.recipients), destination)
    }
    if found.len() > MAX_THREADS_SHOWN {
        found.select_nth_unstable_by_key(MAX_THREADS_SHOWN, key);
        found.truncate(MAX_THREADS_SHOWN);
    }
    found.sort_by_key(key);
    found
}

/// Returns the first mail of each channel and host pattern.
fn distinct(mail: &[Mail]) -> impl Iterator<Item = &Mail> {
    let key = |mail: &Mail| (mail.channel.clone(), mail.host.clone());
    let mut known = BTreeSet::new();
    mail.iter().filter(move |mail| known.insert(key(mail)))
}

/// Returns the queue of these destinations over time.
///
/// `of_sample` returns its recipients and agents in the sample with this index.
fn over_time<'d>(
    of: &Statistics,
    results: impl Iterator<Item = &'d DestinationResults>,
    of_sample: impl Fn(usize) -> (u64, usize),
) -> Vec<Point> {
    let mut delays = vec![Vec::new(); of.samples.len()];
    for delivery in results.flat_map(|results| &results.deliveries) {
        // What was delivered after the last sample has no point.
        if let Some(until_sample) = delays.get_mut(delivery.samples as usize) {
            until_sample.push(delivery.delay);
        }
    }
    let point = |(index, delays)| {
        let (queued, agents) = of_sample(index);
        let time = of.samples[index].time.since(of.start).as_secs_f64();
        Point { time, queued, agents, delay: Delay::new(delays) }
    };
    delays.into_iter().enumerate().map(point).collect()
}

impl Totals {
    /// Computes the totals of a run that ended at `end`.
    pub(crate) fn new(of: &Statistics, end: Timestamp) -> Totals {
        let results = RecipientResults::new(of.destinations.values());
        let RecipientResults { recipients, delivered, failed, expired, removed, queued, .. } =
            results;
        let known = delivered + failed + expired + removed + queued;
        let oldest = of.oldest_arrival().filter(|_| queued > 0);
        Totals {
            messages: of.messages,
            deferrals: of.deferrals,
            attempts: of.deferrals + delivered + failed,
            unreported: recipients.saturating_sub(known),
            results,
            agents_started: of.agents_started,
            max_agents: of.max_agents,
            max_queued: of.max_queued,
            oldest_queued: oldest.map(|oldest| end.since(oldest).as_secs_f64()),
        }
    }
}

impl RecipientResults {
    fn new<'d>(
        destinations: impl Iterator<Item = &'d DestinationResults> + Clone,
    ) -> RecipientResults {
        let sum =
            |count: fn(&DestinationResults) -> u64| destinations.clone().map(count).sum::<u64>();
        let deliveries = destinations.clone().flat_map(|results| &results.deliveries);
        RecipientResults {
            recipients: sum(|results| results.recipients),
            delivered: sum(|results| results.deliveries.len() as u64),
            failed: sum(|results| results.failed),
            expired: sum(|results| results.expired),
            removed: sum(|results| results.removed),
            queued: sum(|results| results.queued),
            delay: Delay::new(deliveries.map(|delivery| delivery.delay).collect()),
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
        let found: Vec<&DestinationResults> = found.collect();
        let overtaken = found.iter().map(|results| results.overtaken).max();
        MailResults {
            destinations: format!("{}/{}", mail.channel, mail.host),
            results: RecipientResults::new(found.into_iter()),
            overtaken: overtaken.unwrap_or_default().as_secs_f64(),
        }
    }
}

impl ThreadResults {
    fn new(to: &Destination, results: &DestinationResults, of: &Statistics) -> ThreadResults {
        let of_sample = |index: usize| {
            let sample = results.samples.iter().find(|sample| sample.contains(index));
            sample.map_or((0, 0), |of| (of.recipients.into(), of.agents as usize))
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
            over_time: over_time(of, std::iter::once(results), of_sample),
        }
    }
}

impl Delay {
    /// Computes the percentiles of times in milliseconds; `None` without any.
    fn new(mut delays: Vec<u32>) -> Option<Delay> {
        delays.sort_unstable();
        let last = delays.len().checked_sub(1)?;
        let part = |hundredths: usize| f64::from(delays[last * hundredths / 100]) / 1000.0;
        Some(Delay { p50: part(50), p90: part(90), p99: part(99), longest: part(100) })
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
    use crate::destination_results::Delivery;
    use crate::statistics::Sample;

    #[test]
    fn delays_belong_to_the_sample_after_the_delivery() {
        let sample =
            |second| Sample { time: Timestamp::from_seconds(second), agents: 0, recipients: 0 };
        let mut statistics = Statistics::new(Timestamp::EPOCH);
        statistics.samples.extend((1..=4).map(sample));
        let delivery = |(samples, delay)| Delivery { samples, delay };
        let deliveries = [(1, 1000), (1, 2000), (3, 3000), (4, 4000)].map(delivery);
        let mut results = DestinationResults::default();
        results.deliveries.extend(deliveries);
        let points = over_time(&statistics, std::iter::once(&results), |_| (0, 0));
        let longest = points.iter().map(|point| point.delay.map(|delay| delay.longest));
        assert_eq!(longest.collect::<Vec<_>>(), [None, Some(2.0), None, Some(3.0)]);
    }

    #[test]
    fn percentiles_use_sorted_delays() {
        let delay = Delay::new((1..=101).rev().map(|tenth| tenth * 100).collect());
        let delay = delay.expect("delays");
        assert_eq!((delay.p50, delay.p90, delay.p99, delay.longest), (5.1, 9.1, 10.0, 10.1));
        assert!(Delay::new(Vec::new()).is_none());
    }
}
