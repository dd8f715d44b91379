//! Finds the older messages that `x` lines name.
//!
//! The reader keeps the Message-IDs of users' messages, and those that `x` lines name: after a
//! restart, the newer message may be read first.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zsched_format::control_file;
use zsched_spool::load::LoadedFile;
use zsched_spool::obsoletes::{self, Obsoleted};
use zsched_spool::{Spool, SpoolName};

/// Maximum number of Message-IDs that are kept.
const MAX_MESSAGE_IDS: usize = 100_000;

/// Finds pairs of messages of which one takes the place of the other.
///
/// Clones share the messages that they have read.
#[derive(Clone)]
pub(super) struct ObsoletesFinder {
    is_on: Arc<AtomicBool>,
    messages: Arc<Mutex<RecentMessages>>,
}

/// Messages of users that were read last.
#[derive(Default)]
struct RecentMessages {
    /// By their own Message-ID.
    read: RecentNames,
    /// By the Message-IDs that their `x` lines name.
    wanting: RecentNames,
}

impl ObsoletesFinder {
    /// Creates a finder that finds nothing while `is_on` is false.
    pub(super) fn new(is_on: Arc<AtomicBool>) -> ObsoletesFinder {
        ObsoletesFinder { is_on, messages: Arc::default() }
    }

    /// Records a message that was read.
    ///
    /// Returns the messages that it replaces, or the one that replaces it.
    pub(super) fn add(&self, spool: &Spool, loaded: &LoadedFile<'_>) -> Vec<Obsoleted> {
        let is_candidate = self.is_on.load(Ordering::Relaxed)
            && obsoletes::is_of_user(spool, loaded.owner).unwrap_or_default();
        if !is_candidate {
            return Vec::new();
        }
        let pairs = self.messages.lock().unwrap_or_else(PoisonError::into_inner).add(loaded);
        pairs.iter().filter_map(|(new, old)| examine(spool, new, old)).collect()
    }
}

impl RecentMessages {
    /// Records a message. Returns the newer and the older message of each pair.
    fn add(&mut self, loaded: &LoadedFile<'_>) -> Vec<(SpoolName, SpoolName)> {
        let own = &loaded.arrival.name;
        let mut pairs = Vec::new();
        for wanted in obsoletes::ids_in(loaded.file) {
            let key = key_of(wanted);
            pairs.extend(self.read.find(key).map(|old| (own.clone(), old.clone())));
            self.wanting.insert(key, own);
        }
        if let Some(id) = control_file::message_id(loaded.file) {
            let key = key_of(control_file::bare_message_id(&id));
            pairs.extend(self.wanting.find(key).map(|new| (new.clone(), own.clone())));
            self.read.insert(key, own);
        }
        pairs
    }
}

fn examine(spool: &Spool, new: &SpoolName, old: &SpoolName) -> Option<Obsoleted> {
    obsoletes::examine(spool, new, old).unwrap_or_else(|error| {
        log::warn!("{old}: cannot be examined for the x line of {new}: {error}");
        None
    })
}

/// The messages added last, by a hash.
///
/// A message that shares the hash of another hides it, so that its `x` line has no effect.
#[derive(Default)]
struct RecentNames {
    names: HashMap<u64, SpoolName>,
    /// The hashes, from the oldest to the newest.
    order: VecDeque<u64>,
}

impl RecentNames {
    fn find(&self, key: u64) -> Option<&SpoolName> {
        self.names.get(&key)
    }

    fn insert(&mut self, key: u64, name: &SpoolName) {
        if self.names.insert(key, name.clone()).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_MESSAGE_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

fn key_of(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_spool::HashFolder;

    #[test]
    fn recent_names_are_bounded() {
        let name = SpoolName::new(HashFolder::TOP, b"1").expect("a name");
        let mut names = RecentNames::default();
        let count = MAX_MESSAGE_IDS as u64;
        (0..=count).for_each(|key| names.insert(key, &name));
        names.insert(count, &name);
        assert_eq!((names.names.len(), names.order.len()), (MAX_MESSAGE_IDS, MAX_MESSAGE_IDS));
        assert!(names.find(0).is_none() && names.find(1).is_some());
    }
}
