//! Worker that scans the folders of the spool.

use super::{Completion, CompletionSender};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use zsched_spool::Spool;
use zsched_spool::scan::scan;

/// Limits after which a scan waits until the files that it has found are read (`-E`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLimits {
    /// Maximum number of new names, without those of the last portion.
    pub(crate) new_names: usize,
    /// Maximum time spent on portions with new names.
    ///
    /// Time spent on known names does not count: there is nothing to read meanwhile.
    pub(crate) time: Duration,
}

impl ScanLimits {
    /// No limits: the scan does not pause.
    pub(crate) const NONE: ScanLimits = ScanLimits { new_names: usize::MAX, time: Duration::MAX };
}

/// Carries out scan requests.
///
/// After each portion of names the loop answers how many of them were new. After a pause it answers
/// when the scan may go on.
pub(super) fn scan_folders(
    spool: &Spool,
    requests: &Receiver<ScanLimits>,
    answers: &Receiver<usize>,
    completions: &CompletionSender,
) {
    for limits in requests {
        let (mut new, mut spent, mut started) = (0, Duration::ZERO, Instant::now());
        let end = scan(spool, |names| {
            completions.send(vec![Completion::Names(names)]);
            let Ok(count) = answers.recv() else { return false };
            if count > 0 {
                new += count;
                spent += started.elapsed();
            }
            if new > limits.new_names || spent > limits.time {
                completions.send(vec![Completion::ScanPaused]);
                if answers.recv().is_err() {
                    return false;
                }
                (new, spent) = (0, Duration::ZERO);
            }
            started = Instant::now();
            true
        });
        completions.send(vec![Completion::ScanEnded(end)]);
    }
}
