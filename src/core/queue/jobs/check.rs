//! Invariants of the jobs of a ring.

use crate::queue::jobs::{Class, Entry, Job, JobId, Jobs};
use crate::queue::{MessageId, ThreadId, VertexId};
use std::collections::HashMap;

impl Jobs {
    /// Panics if the jobs contradict themselves.
    ///
    /// Examples are an entry that is in only one of the indexes, a job with nothing left, and a
    /// wrong count.
    pub fn check(&self) {
        let mut left = HashMap::new();
        for (job, _, _) in self.all_entries() {
            *left.entry(job).or_insert(0) += 1;
        }
        let mut children = HashMap::new();
        for (_, job) in self.jobs.iter() {
            if let Some(prepayment) = job.prepayment() {
                *children.entry((prepayment.parent, prepayment.number)).or_insert(0) += 1;
            }
        }
        for (id, job) in self.jobs.iter() {
            assert_eq!(job.key.job, id, "a job has another's key");
            assert_eq!(self.by_message.get(&job.message), Some(&id), "a message has another job");
            assert!(job.left > 0 || job.awaits_more(), "a job has nothing left");
            let entries = left.get(&id).copied().unwrap_or_default();
            assert_eq!(entries, job.left, "entries of a job");
            let children = children.get(&(id, job.number)).copied().unwrap_or_default();
            assert_eq!(job.children, children, "jobs that have preempted another");
            let has_preempted = job.class == Class::PREEMPTING;
            assert_eq!(job.prepayment().is_some(), has_preempted, "who has preempted has a payer");
            assert_eq!(job.key.path.depth() > 0, has_preempted, "and a path");
            assert!(has_preempted || job.class == Class::of(job.size), "its class");
        }
        assert_eq!(self.by_message.len(), self.jobs.len(), "messages with jobs");
        assert_eq!(self.order.len(), self.jobs.len(), "jobs in order");
        let in_order = |(_, job): (_, &Job)| self.order.contains(&job.key);
        assert!(self.jobs.iter().all(in_order), "a job is not in order");
        assert_eq!(self.index.due().count(), self.len(), "entries");
        for (thread, class, entry) in self.index.due() {
            let key = entry.key();
            let job = &self.jobs[key.job];
            assert!((class, &key) == (job.class, &job.key), "an entry's key is not its job's");
            assert!(self.contains(job.message, (thread, entry.vertex)), "no entry");
        }
        self.index.check();
    }

    /// Returns true if an entry belongs to a job.
    pub fn contains(&self, message: MessageId, entry: Entry) -> bool {
        let Some(job) = self.by_message.get(&message).filter(|_| !self.is_ending) else {
            return false;
        };
        let is_only = self.jobs[*job].only == Some(entry);
        is_only || self.entries.contains(&(*job, entry.0, entry.1))
    }

    /// Returns all entries, each with its job.
    pub fn all_entries(&self) -> impl Iterator<Item = (JobId, ThreadId, VertexId)> {
        let only = self.jobs.iter().filter_map(|(id, job)| Some((id, job.only?)));
        let only = only.map(|(id, (thread, vertex))| (id, thread, vertex));
        self.entries.iter().copied().chain(only)
    }

    /// Number of due entries.
    pub fn len(&self) -> usize {
        self.all_entries().count()
    }

    /// The threads that have window to spare.
    pub fn ready(&self) -> Vec<ThreadId> {
        self.index.ready()
    }
}
