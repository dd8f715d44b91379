//! Mailboxes that were locked at the last wait for them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for which such a mailbox is not waited for again.
const BACKOFF_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of mailboxes that are remembered.
const MAX_BUSY_MAILBOXES: usize = 1000;

/// The mailboxes whose lock was not released while waiting, and when.
#[derive(Debug, Default)]
pub struct LockBackoff {
    since: HashMap<PathBuf, Instant>,
}

impl LockBackoff {
    /// Returns true if the mailbox was locked less than a minute before `now`.
    pub fn contains(&self, mailbox: &Path, now: Instant) -> bool {
        self.since.get(mailbox).is_some_and(|since| is_fresh(*since, now))
    }

    /// Remembers that a mailbox is locked.
    ///
    /// A mailbox that is already remembered keeps its time. So it is waited for once a minute,
    /// however often delivery is tried.
    pub fn insert(&mut self, mailbox: &Path, now: Instant) {
        self.since.retain(|_, since| is_fresh(*since, now));
        if self.since.len() < MAX_BUSY_MAILBOXES && !self.since.contains_key(mailbox) {
            self.since.insert(mailbox.to_path_buf(), now);
        }
    }

    /// Forgets a mailbox that is no longer locked.
    pub fn remove(&mut self, mailbox: &Path) {
        self.since.remove(mailbox);
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < BACKOFF_PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_mailbox_is_remembered_for_a_minute() {
        let (start, mut backoff) = (Instant::now(), LockBackoff::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        let (ann, bob) = (Path::new("ann"), Path::new("bob"));
        backoff.insert(bob, after(0));
        backoff.insert(bob, after(50));
        assert!(backoff.contains(bob, after(59)) && !backoff.contains(ann, after(59)));
        assert!(!backoff.contains(bob, after(60)));
        backoff.insert(ann, after(60));
        assert_eq!(backoff.since.len(), 1);
        backoff.remove(ann);
        assert!(!backoff.contains(ann, after(60)));
    }

    #[test]
    fn busy_mailboxes_are_limited() {
        let (now, mut backoff) = (Instant::now(), LockBackoff::default());
        for number in 0..2 * MAX_BUSY_MAILBOXES {
            backoff.insert(Path::new(&number.to_string()), now);
        }
        assert_eq!(backoff.since.len(), MAX_BUSY_MAILBOXES);
    }
}
