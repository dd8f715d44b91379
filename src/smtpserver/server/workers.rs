//! Workers that share one queue.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use zsched_service::worker;

/// Starts workers, each of which takes the next item when it has done one.
///
/// They end with the returned sender. A panic in the work ends the process.
pub(super) fn start<T: Send + 'static>(
    name: &str,
    count: usize,
    work: impl Fn(T) + Clone + Send + 'static,
) -> io::Result<Sender<T>> {
    let (sender, items) = channel();
    let items = Arc::new(Mutex::new(items));
    for _ in 0..count {
        let (items, work) = (items.clone(), work.clone());
        worker::start(name, move || {
            loop {
                let next = items.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(item) = next else { return };
                work(item);
            }
        })?;
    }
    Ok(sender)
}
