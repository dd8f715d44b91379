//! Counts what clients and logins do in an hour. Pure: the time is given.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Time over which is counted.
const WINDOW: Duration = Duration::from_secs(3600);
/// Maximum number of keys in memory. Beyond it, those of former windows are forgotten, then all.
const MAX_KEYS: usize = 100_000;

/// A counter for each key.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    counts: HashMap<K, Count>,
}

#[derive(Debug)]
struct Count {
    since: Instant,
    count: u64,
    /// Number of occurrences beyond the limit.
    refused: u64,
}

/// State of a limit after a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    /// Within the limit.
    Good,
    /// The limit is reached for the first time in this hour.
    ReachedNow,
    /// It was reached before.
    Reached,
}

impl<K: Eq + Hash> Default for Rates<K> {
    fn default() -> Rates<K> {
        Rates { counts: HashMap::new() }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Counts one occurrence, unless the limit is reached.
    pub(crate) fn count(&mut self, key: K, limit: u64, now: Instant) -> RateVerdict {
        if self.counts.len() >= MAX_KEYS {
            self.counts.retain(|_, count| now.duration_since(count.since) < WINDOW);
            if self.counts.len() >= MAX_KEYS {
                self.counts.clear();
            }
        }
        let fresh = || Count { since: now, count: 0, refused: 0 };
        let count = self.counts.entry(key).or_insert_with(fresh);
        if now.duration_since(count.since) >= WINDOW {
            *count = fresh();
        }
        if count.count < limit {
            count.count += 1;
            return RateVerdict::Good;
        }
        count.refused += 1;
        match count.refused {
            1 => RateVerdict::ReachedNow,
            _ => RateVerdict::Reached,
        }
    }

    /// Returns true if the limit is reached, without counting.
    pub(crate) fn is_reached(&self, key: &K, limit: u64, now: Instant) -> bool {
        self.counts
            .get(key)
            .is_some_and(|count| now.duration_since(count.since) < WINDOW && count.count >= limit)
    }

    /// The keys that wanted more than their limit in the present hour.
    pub(crate) fn over_limit(&self, now: Instant) -> impl Iterator<Item = &K> {
        let is_over =
            move |count: &Count| count.refused > 0 && now.duration_since(count.since) < WINDOW;
        self.counts.iter().filter(move |(_, count)| is_over(count)).map(|(key, _)| key)
    }

    /// Forgets hours that are over. Returns what was refused in them.
    pub(crate) fn end_windows(&mut self, now: Instant) -> Vec<(K, u64)> {
        let ended = self.counts.extract_if(|_, count| now.duration_since(count.since) >= WINDOW);
        ended
            .filter(|(_, count)| count.refused > 0)
            .map(|(key, count)| (key, count.refused))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_holds_for_an_hour() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        for _ in 0..3 {
            assert_eq!(rates.count("a", 3, start), RateVerdict::Good);
        }
        assert!(rates.is_reached(&"a", 3, start));
        assert_eq!(rates.count("a", 3, start), RateVerdict::ReachedNow);
        assert_eq!(rates.count("a", 3, start), RateVerdict::Reached);
        assert_eq!(rates.count("b", 3, start), RateVerdict::Good);
        assert_eq!(rates.over_limit(start).collect::<Vec<_>>(), [&"a"]);
        assert_eq!(rates.over_limit(start + WINDOW).count(), 0);
        assert_eq!(rates.end_windows(start), []);
        assert_eq!(rates.end_windows(start + WINDOW), [("a", 2)]);
        assert_eq!(rates.count("a", 3, start + WINDOW), RateVerdict::Good);
    }

    #[test]
    fn number_of_keys_is_bounded() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        for key in 0..MAX_KEYS * 2 {
            rates.count(key, 1, start);
        }
        assert!(rates.counts.len() <= MAX_KEYS);
    }
}
