//! Samples of threads over time.
//!
//! Most samples find a thread as it was. They are joined here, so that 100,000 threads need no
//! lookup of a destination for each sample.

use zsched_core::Destination;

/// A thread in consecutive samples that found it the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadSample {
    /// Number of the first of these samples, from 0.
    from: u32,
    /// Number of the first sample after them.
    until: u32,
    /// Recipients in the queue.
    pub recipients: u32,
    /// Agents at work.
    pub agents: u32,
}

impl ThreadSample {
    /// Returns true if it is also the sample with this number.
    pub(crate) fn contains(&self, number: usize) -> bool {
        (self.from as usize..self.until as usize).contains(&number)
    }
}

/// The latest sample of each thread.
#[derive(Default)]
pub(crate) struct ThreadSampler {
    /// By the index of the thread's id. Another thread gets the id later.
    latest: Vec<Option<(Destination, ThreadSample)>>,
}

impl ThreadSampler {
    /// Adds what the sample with this number found in a thread: recipients and agents.
    ///
    /// Returns an earlier sample of this or of another thread, if it has ended.
    pub(crate) fn add(
        &mut self,
        number: u32,
        (index, destination): (usize, &Destination),
        (recipients, agents): (u32, u32),
    ) -> Option<(Destination, ThreadSample)> {
        if self.latest.len() <= index {
            self.latest.resize(index + 1, None);
        }
        if let Some((known, latest)) = &mut self.latest[index]
            && (latest.until, latest.recipients, latest.agents) == (number, recipients, agents)
            && known == destination
        {
            latest.until += 1;
            return None;
        }
        let sample = ThreadSample { from: number, until: number + 1, recipients, agents };
        self.latest[index].replace((destination.clone(), sample))
    }

    /// Ends all samples and returns them.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = (Destination, ThreadSample)> {
        std::mem::take(&mut self.latest).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_ends_when_its_thread_changes_or_leaves() {
        let [a, b] = [&b"a.test"[..], b"b.test"].map(|host| Destination::new(b"smtp", host));
        let mut sampler = ThreadSampler::default();
        let found = [
            // (number, index, destination, recipients)
            (0, 0, &a, 5),
            (1, 0, &a, 5),
            (2, 0, &a, 4),
            (3, 0, &b, 4),
            // It was gone when sample 4 was taken.
            (5, 0, &b, 4),
            (5, 7, &a, 1),
        ];
        let mut ended = Vec::new();
        for (number, index, destination, recipients) in found {
            ended.extend(sampler.add(number, (index, destination), (recipients, 1)));
        }
        ended.extend(sampler.finish());
        let sample = |from, until, recipients| ThreadSample { from, until, recipients, agents: 1 };
        let expected = [
            (a.clone(), sample(0, 2, 5)),
            (a.clone(), sample(2, 3, 4)),
            (b.clone(), sample(3, 4, 4)),
            (b, sample(5, 6, 4)),
            (a, sample(5, 6, 1)),
        ];
        assert_eq!(ended, expected);
        assert!(sample(0, 2, 5).contains(1) && !sample(0, 2, 5).contains(2));
    }
}
