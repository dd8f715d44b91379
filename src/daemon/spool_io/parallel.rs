//! Works on several files at a time.
//!
//! Several writes together take little longer than one, since a disk that gets several requests at
//! a time stores them in one go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Maximum number of workers that wait for a disk. With more, ext4 does not get faster.
pub(super) const MAX_WORKERS: usize = 16;
/// Minimum number of values per worker. Starting one costs as much as a write on a fast disk.
const MIN_VALUES_PER_WORKER: usize = 2;

/// Does `work` on each value in up to `max_workers` threads, and returns when all is done.
pub(super) fn for_each_in_parallel<T: Sync>(
    values: &[T],
    max_workers: usize,
    work: impl Fn(&T) + Sync,
) {
    let workers = (values.len() / MIN_VALUES_PER_WORKER).clamp(1, max_workers);
    let taken = AtomicUsize::new(0);
    // A panic ends the caller, and with it the scheduler.
    let run = || {
        while let Some(value) = values.get(taken.fetch_add(1, Ordering::Relaxed)) {
            work(value);
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // If no more workers can be started, the present ones do all of it.
            if thread::Builder::new().name("writes".to_string()).spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}
