//! What a simulation comes to: numbers, ready to be shown. The fields are those of `--json`; all times
//! are in seconds.

use super::statistics::{Fate, Sample, Statistics};
use super::world::Mail;
use serde::Serialize;
use std::time::Duration;

/// So many threads are shown, those with the most recipients.
const BUSIEST: usize = 5;

/// One configuration in one world.
#[derive(Serialize, Clone, Debug)]
pub struct Summary {
    /// The file of the configuration.
    pub configuration: String,
    /// The seed.
    pub seed: u64,
    /// How much virtual time passed.
    pub length: f64,
    /// Everything together.
    pub totals: Totals,
    /// Mail of each kind, in the order of the world's file.
    pub mail: Vec<Kind>,
    /// The busiest threads, the busiest first.
    pub threads: Vec<Thread>,
    /// All queues together over time.
    pub over_time: Vec<Point>,
}

/// Totals of a simulation.
#[derive(Serialize, Clone, Debug)]
pub struct Totals {
    /// Messages that came.
    pub messages: u64,
    /// Recipients of these.
    pub recipients: u64,
    /// Recipients that were delivered.
    pub delivered: u64,
    /// Recipients that were refused for good.
    pub failed: u64,
    /// Recipients that became too old.
    pub expired: u64,
    /// Recipients in the queue at the end.
    pub queued: u64,
    /// Reports that put a recipient off.
    pub deferrals: u64,
    /// Reports about recipients, whatever they say.
    pub attempts: u64,
    /// Agents that were started.
    pub agents_started: u64,
    /// Agents at one time, at most.
    pub most_agents: usize,
    /// Recipients in the queue at one time, at most.
    pub longest_queue: u64,
    /// From arrival to delivery.
    pub delay: Delay,
}

/// Times from arrival to delivery: half of all deliveries took no longer than `p50`, and so on.
#[derive(Serialize, Clone, Copy, Debug, Default)]
pub struct Delay {
    /// Half of all.
    pub p50: f64,
    /// 90 of a hundred.
    pub p90: f64,
    /// 99 of a hundred.
    pub p99: f64,
    /// The longest.
    pub longest: f64,
}

/// What became of mail of one kind: of all destinations that its host may mean.
#[derive(Serialize, Clone, Debug)]
pub struct Kind {
    /// `channel/host`, as in the world's file.
    pub destinations: String,
    /// Recipients that came.
    pub recipients: u64,
    /// Recipients that were delivered.
    pub delivered: u64,
    /// From arrival to delivery.
    pub delay: Delay,
    /// How much later than one of its messages, at most, one for the same channel has come that an agent was
    /// given before it.
    pub overtaken: f64,
}

/// What became of the mail for one destination.
#[derive(Serialize, Clone, Debug)]
pub struct Thread {
    /// `channel/host`.
    pub destination: String,
    /// Recipients that came.
    pub recipients: u64,
    /// Recipients that were delivered.
    pub delivered: u64,
    /// Recipients that were refused for good.
    pub failed: u64,
    /// Recipients that became too old.
    pub expired: u64,
    /// From arrival to delivery.
    pub delay: Delay,
    /// Jobs that agents were given for it.
    pub jobs: u64,
    /// Those that ended with the host not reached.
    pub not_reached: u64,
    /// Agents at work at the start of a job, on average, from the first end of a job on.
    pub concurrency: f64,
    /// The standard deviation of that.
    pub concurrency_deviation: f64,
    /// Time from the start of a job to that of the next, the shortest there was.
    pub shortest_gap: f64,
    /// The longest.
    pub longest_gap: f64,
    /// Its queue over time.
    pub over_time: Vec<Point>,
}

/// A queue at one time.
#[derive(Serialize, Clone, Copy, Debug)]
pub struct Point {
    /// When, from the start.
    pub time: f64,
    /// Recipients in the queue.
    pub queued: u64,
    /// Agents; of a thread, those at work on it.
    pub agents: usize,
}

impl Summary {
    /// Sums up a simulation.
    pub fn new(
        configuration: &str,
        seed: u64,
        length: Duration,
        mail: &[Mail],
        of: &Statistics,
    ) -> Summary {
        let seconds = |sample: &Sample| sample.time.since(of.start).as_secs_f64();
        let mut busiest: Vec<&Fate> = of.destinations.iter().collect();
        busiest.sort_by(|a, b| {
            b.recipients.cmp(&a.recipients).then_with(|| a.destination.cmp(&b.destination))
        });
        let threads = busiest.iter().take(BUSIEST).map(|fate| Thread::new(fate, of)).collect();
        let over_time: Vec<Point> = of
            .samples
            .iter()
            .map(|sample| Point {
                time: seconds(sample),
                queued: sample.recipients,
                agents: sample.agents,
            })
            .collect();
        Summary {
            configuration: configuration.to_string(),
            seed,
            length: length.as_secs_f64(),
            totals: Totals::new(of, &over_time),
            mail: mail.iter().map(|mail| Kind::new(mail, of)).collect(),
            threads,
            over_time,
        }
    }
}

impl Totals {
    fn new(of: &Statistics, over_time: &[Point]) -> Totals {
        let sum = |count: fn(&Fate) -> u64| of.destinations.iter().map(count).sum::<u64>();
        let recipients = sum(|fate| fate.recipients);
        let delivered = sum(|fate| fate.delays.len() as u64);
        let (failed, expired) = (sum(|fate| fate.failed), sum(|fate| fate.expired));
        let delays = of.destinations.iter().flat_map(|fate| &fate.delays).copied().collect();
        Totals {
            messages: of.messages,
            recipients,
            delivered,
            failed,
            expired,
            queued: recipients - delivered - failed - expired,
            deferrals: of.deferrals,
            attempts: of.deferrals + delivered + failed,
            agents_started: of.agents_started,
            most_agents: over_time.iter().map(|point| point.agents).max().unwrap_or_default(),
            longest_queue: over_time.iter().map(|point| point.queued).max().unwrap_or_default(),
            delay: Delay::new(delays),
        }
    }
}

impl Kind {
    fn new(mail: &Mail, of: &Statistics) -> Kind {
        let is_its = |fate: &&Fate| {
            let to = &fate.destination;
            let (start, end) = mail.host.split_once('*').unwrap_or((&mail.host, ""));
            let rest = to.host().strip_prefix(start.as_bytes());
            let number = rest.and_then(|rest| rest.strip_suffix(end.as_bytes()));
            let fits = number.is_some_and(|number| number.iter().all(u8::is_ascii_digit));
            to.channel() == mail.channel.as_bytes() && fits
        };
        let fates: Vec<&Fate> = of.destinations.iter().filter(is_its).collect();
        let delays: Vec<u32> = fates.iter().flat_map(|fate| fate.delays.iter().copied()).collect();
        let overtaken = fates.iter().map(|fate| fate.overtaken).max();
        Kind {
            destinations: format!("{}/{}", mail.channel, mail.host),
            recipients: fates.iter().map(|fate| fate.recipients).sum(),
            delivered: delays.len() as u64,
            delay: Delay::new(delays),
            overtaken: overtaken.unwrap_or_default().as_secs_f64(),
        }
    }
}

impl Thread {
    fn new(fate: &Fate, of: &Statistics) -> Thread {
        let point = |sample: &Sample| {
            let found = sample.threads.binary_search_by(|thread| thread.0.cmp(&fate.destination));
            let (queued, agents) =
                found.map_or((0, 0), |index| (sample.threads[index].1, sample.threads[index].2));
            let time = sample.time.since(of.start).as_secs_f64();
            Point { time, queued: u64::from(queued), agents }
        };
        let (concurrency, concurrency_deviation) = fate.jobs.concurrency();
        let (shortest, longest) = fate.jobs.gaps.unwrap_or_default();
        Thread {
            destination: fate.destination.to_string(),
            recipients: fate.recipients,
            delivered: fate.delays.len() as u64,
            failed: fate.failed,
            expired: fate.expired,
            delay: Delay::new(fate.delays.clone()),
            jobs: fate.jobs.count,
            not_reached: fate.jobs.not_reached,
            concurrency,
            concurrency_deviation,
            shortest_gap: shortest.as_secs_f64(),
            longest_gap: longest.as_secs_f64(),
            over_time: of.samples.iter().map(point).collect(),
        }
    }
}

impl Delay {
    /// Of times in milliseconds.
    fn new(mut delays: Vec<u32>) -> Delay {
        delays.sort_unstable();
        let Some(last) = delays.len().checked_sub(1) else {
            return Delay::default();
        };
        let part = |hundredths: usize| f64::from(delays[last * hundredths / 100]) / 1000.0;
        Delay { p50: part(50), p90: part(90), p99: part(99), longest: part(100) }
    }
}

/// Everything as JSON.
pub fn json(summaries: &[Summary]) -> String {
    let text = serde_json::to_string_pretty(summaries);
    let mut text = text.expect("numbers and texts can be written as JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_delays() {
        let delay = Delay::new((1..=101).rev().map(|tenth| tenth * 100).collect());
        assert_eq!((delay.p50, delay.p90, delay.p99, delay.longest), (5.1, 9.1, 10.0, 10.1));
        assert_eq!(Delay::new(Vec::new()).longest, 0.0);
    }
}
