//! The messages in memory that have a verbose file.
//!
//! The scheduler writes its steps into these files.
//!
//! Very few messages have one. So the loop sends the writer a line only about those.

use foldhash::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zsched_format::agent_protocol::leading_number;
use zsched_spool::load::{LoadResult, LoadedFile};
use zsched_spool::verbose::VerboseFile;
use zsched_spool::{Spool, SpoolName};

/// The messages with a verbose file: the reader adds them, the loop looks them up, the writer
/// removes them.
#[derive(Clone, Default)]
pub(super) struct VerboseMessages(Arc<Mutex<HashMap<u64, SpoolName>>>);

impl VerboseMessages {
    /// A panic leaves nothing half done here.
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, SpoolName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message that was read, if it has a verbose file.
    pub(super) fn add(&self, spool: &Spool, loaded: &LoadedFile<'_>) {
        if loaded.file.verbose.is_none() {
            return;
        }
        let name = &loaded.arrival.name;
        if let Some(file) = VerboseFile::of(spool, name) {
            let more = if loaded.is_part { "+" } else { "" };
            let (all, pending) = (loaded.arrival.recipients, loaded.arrival.pending());
            file.add(format_args!("read {name}: {all}{more} recipients, {pending} to deliver"));
            self.lock().insert(name.number(), name.clone());
        }
    }

    /// Writes why a message is not in memory, if it has a verbose file.
    pub(super) fn explain_refusal(spool: &Spool, name: &SpoolName, found: &LoadResult) {
        match found {
            LoadResult::Locked(pid) => {
                let file = VerboseFile::of(spool, name);
                file.iter().for_each(|file| {
                    file.add(format_args!("skipped {name}: process {pid} has locked a recipient"));
                });
            }
            LoadResult::Malformed { error, moved: Ok(path) } => {
                let file = VerboseFile::of_moved(spool, path);
                file.iter().for_each(|file| file.add(format_args!("aborted {name}: {error}")));
            }
            _ => {}
        }
    }

    /// Removes a message.
    pub(super) fn remove(&self, name: &SpoolName) {
        self.lock().remove(&name.number());
    }

    /// The message, if it has a verbose file.
    pub(super) fn find(&self, number: u64) -> Option<SpoolName> {
        self.lock().get(&number).cloned()
    }

    /// The message of a job line, if it has a verbose file.
    pub(super) fn of_job(&self, job: &[u8]) -> Option<SpoolName> {
        let messages = self.lock();
        if messages.is_empty() {
            return None;
        }
        let path = job.split(|byte| matches!(byte, b'\t' | b'\n')).next()?;
        let (number, _) = leading_number(path.rsplit(|byte| *byte == b'/').next()?)?;
        messages.get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_spool::HashFolder;

    #[test]
    fn message_is_found_by_job_line() {
        let messages = VerboseMessages::default();
        assert_eq!(messages.of_job(b"4711\n"), None);
        let name = SpoolName::new(HashFolder::TOP, b"4711-9").expect("a name");
        messages.lock().insert(name.number(), name.clone());
        for job in [&b"4711-9\n"[..], b"A/4711-9\tmx.test\n", b"A/B/4711-9\tx/1\n"] {
            assert_eq!(messages.of_job(job), Some(name.clone()));
        }
        for job in [&b"4712\n"[..], b"A/\t4711\n", b"\n"] {
            assert_eq!(messages.of_job(job), None);
        }
        messages.remove(&name);
        assert_eq!(messages.find(4711), None);
    }
}
