//! Counts what clients and logins do in an hour. Pure: the time is given.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Time over which is counted.
const WINDOW: Duration = Duration::from_secs(3600);
/// Maximum number of keys in memory. Beyond it, the oldest ones are forgotten.
const MAX_KEYS: usize = 100_000;

/// A counter for each key.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    counts: HashMap<K, Count>,
    /// When the hours of keys began, the oldest first. A key may be here more than once.
    order: VecDeque<(Instant, K)>,
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

impl<K> Default for Rates<K> {
    fn default() -> Rates<K> {
        Rates { counts: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> Rates<K> {
    /// Counts one occurrence, unless the limit is reached.
    pub(crate) fn count(&mut self, key: K, limit: u64, now: Instant) -> RateVerdict {
        if self.counts.get(&key).is_none_or(|count| is_over(count, now)) {
            self.counts.insert(key.clone(), Count { since: now, count: 0, refused: 0 });
            self.order.push_back((now, key.clone()));
            while self.counts.len() > MAX_KEYS || self.order.len() > 2 * MAX_KEYS {
                self.forget_oldest();
            }
        }
        let Some(count) = self.counts.get_mut(&key) else { return RateVerdict::Good };
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

    /// Counts one occurrence, unless the limit is reached. That it is reached is not noted.
    pub(crate) fn count_up_to(&mut self, key: K, limit: u64, now: Instant) {
        if !self.is_reached(&key, limit, now) {
            self.count(key, limit, now);
        }
    }

    /// Returns true if the limit is reached, without counting.
    pub(crate) fn is_reached(&self, key: &K, limit: u64, now: Instant) -> bool {
        self.counts.get(key).is_some_and(|count| !is_over(count, now) && count.count >= limit)
    }

    /// Returns true if the key has a count in the present hour.
    pub(crate) fn contains(&self, key: &K, now: Instant) -> bool {
        self.is_reached(key, 0, now)
    }

    /// Forgets a key.
    pub(crate) fn forget(&mut self, key: &K) {
        self.counts.remove(key);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Rates::default();
    }

    /// The keys that wanted more than their limit in the present hour.
    pub(crate) fn over_limit(&self, now: Instant) -> impl Iterator<Item = &K> {
        let is_over = move |count: &Count| count.refused > 0 && !is_over(count, now);
        self.counts.iter().filter(move |(_, count)| is_over(count)).map(|(key, _)| key)
    }

    /// Forgets hours that are over. Returns what was refused in them.
    pub(crate) fn end_windows(&mut self, now: Instant) -> Vec<(K, u64)> {
        let mut ended = Vec::new();
        while self.order.front().is_some_and(|(since, _)| now.duration_since(*since) >= WINDOW) {
            ended.extend(self.forget_oldest().filter(|(_, refused)| *refused > 0));
        }
        ended
    }

    /// Forgets the key whose hour began first. Returns what was refused in it.
    ///
    /// A key that was forgotten meanwhile, or has begun another hour, stays as it is.
    fn forget_oldest(&mut self) -> Option<(K, u64)> {
        let (since, key) = self.order.pop_front()?;
        let count = self.counts.get(&key).filter(|count| count.since == since)?;
        let refused = count.refused;
        self.counts.remove(&key);
        Some((key, refused))
    }
}

fn is_over(count: &Count, now: Instant) -> bool {
    now.duration_since(count.since) >= WINDOW
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
        assert!(rates.is_reached(&"a", 3, start) && !rates.is_reached(&"a", 4, start));
        assert_eq!(rates.count("a", 3, start), RateVerdict::ReachedNow);
        assert_eq!(rates.count("a", 3, start), RateVerdict::Reached);
        assert_eq!(rates.count("b", 3, start), RateVerdict::Good);
        assert_eq!(rates.over_limit(start).collect::<Vec<_>>(), [&"a"]);
        assert_eq!(rates.over_limit(start + WINDOW).count(), 0);
        assert_eq!(rates.end_windows(start), []);
        assert_eq!(rates.end_windows(start + WINDOW), [("a", 2)]);
        assert_eq!(rates.count("a", 3, start + WINDOW), RateVerdict::Good);
        rates.forget(&"a");
        assert!(!rates.contains(&"a", start + WINDOW));
    }

    /// Many new keys, such as networks of IPv6, do not end all counts.
    #[test]
    fn oldest_keys_are_forgotten_first() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let at = |key: usize| start + Duration::from_millis(key as u64 / 100);
        for key in 0..MAX_KEYS + 10 {
            rates.count(key, 1, at(key));
        }
        let end = at(MAX_KEYS + 10);
        assert_eq!(rates.counts.len(), MAX_KEYS);
        assert!((0..10).all(|key| !rates.contains(&key, end)));
        assert!((10..MAX_KEYS + 10).all(|key| rates.is_reached(&key, 1, end)));
        rates.forget(&50);
        rates.count(50, 1, end);
        assert_eq!(rates.end_windows(at(60) + WINDOW), []);
        assert!(rates.contains(&50, end), "its other hour is not over");
        assert!(rates.order.len() <= MAX_KEYS);
    }
}
