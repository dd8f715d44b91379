//! What waits for the writer: requests of the loop, with a bound.
//!
//! A disk that hangs or is slow must not fill the memory with what is to be written to it. The queue takes every request,
//! since what was decided must be written; but while it [is full](WriteQueue::is_full) the loop does not hear agents
//! and lets no time pass in the core, so that nothing more is decided. The writer wakes the loop when there is room.

use super::{Bell, WriteRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};

/// Maximum size of requests that wait before agents are no longer heard, in bytes. A turn's requests may go beyond.
const MAX_WAITING: usize = 16 << 20;

/// The requests of a turn, and their size in bytes.
struct Batch {
    requests: Vec<WriteRequest>,
    size: usize,
}

/// The loop's end of the queue.
pub struct WriteQueue {
    batches: Option<Sender<Batch>>,
    /// Requests of this turn.
    gathered: Vec<WriteRequest>,
    waiting: Arc<AtomicUsize>,
}

/// The writer's end.
pub struct WriteOrders {
    batches: Receiver<Batch>,
    waiting: Arc<AtomicUsize>,
    bell: Arc<Bell>,
}

/// A queue with nothing in it. The bell wakes the loop.
pub fn write_queue(bell: Arc<Bell>) -> (WriteQueue, WriteOrders) {
    let (sender, batches) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let queue =
        WriteQueue { batches: Some(sender), gathered: Vec::new(), waiting: waiting.clone() };
    (queue, WriteOrders { batches, waiting, bell })
}

impl WriteQueue {
    /// Adds a request to those of this turn.
    pub fn push(&mut self, request: WriteRequest) {
        self.gathered.push(request);
    }

    /// Hands the requests of this turn to the writer. Fails if there is no writer any more.
    pub fn send(&mut self) -> Result<(), Gone> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let requests = std::mem::take(&mut self.gathered);
        let size = requests.iter().map(WriteRequest::size).sum();
        self.waiting.fetch_add(size, Ordering::SeqCst);
        let batches = self.batches.as_ref().ok_or(Gone)?;
        batches.send(Batch { requests, size }).map_err(|SendError(_)| Gone)
    }

    /// Whether so much waits that nothing more is to be decided.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > MAX_WAITING
    }

    /// There will be no more requests.
    pub fn close(&mut self) {
        self.batches = None;
    }
}

/// The writer has ended.
#[derive(Debug)]
pub struct Gone;

impl WriteOrders {
    /// Has batches of requests carried out as they come, until there will be none.
    pub fn carry_out(&self, mut work: impl FnMut(Vec<WriteRequest>)) {
        for Batch { requests, size } in &self.batches {
            work(requests);
            let before = self.waiting.fetch_sub(size, Ordering::SeqCst);
            if before > MAX_WAITING && before - size <= MAX_WAITING {
                self.bell.ring();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;
    use zsched_spool::{HashFolder, SpoolName};

    fn request() -> WriteRequest {
        let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
        WriteRequest::Remove(name, false)
    }

    /// A disk that does not answer, and then does.
    #[test]
    fn a_writer_that_hangs_fills_the_queue_and_rings_when_it_goes_on() {
        let mut poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let bell = Bell { waker: Arc::new(waker), has_rung: AtomicBool::new(false) };
        let (mut queue, orders) = write_queue(Arc::new(bell));
        let (go, gate) = sync_channel::<()>(0);
        let writer = std::thread::spawn(move || {
            let mut done = 0;
            orders.carry_out(|requests| {
                // The disk answers when the test lets it.
                gate.recv().ok();
                done += requests.len();
            });
            done
        });
        let mut sent = 0;
        while !queue.is_full() {
            (0..1000).for_each(|_| queue.push(request()));
            queue.send().expect("there is a writer");
            sent += 1000;
            assert!(sent * request().size() <= MAX_WAITING + 1000 * request().size());
        }
        assert!(sent * request().size() > MAX_WAITING, "{sent} requests");
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::ZERO)).expect("polled");
        assert!(events.is_empty(), "nothing was done yet");
        go.send(()).expect("the writer waits");
        poll.poll(&mut events, Some(Duration::from_secs(30))).expect("polled");
        assert!(!events.is_empty() && !queue.is_full(), "there is room again");
        drop(go);
        queue.close();
        assert_eq!(writer.join().expect("it ends"), sent);
        queue.push(request());
        queue.send().expect_err("nobody takes it");
    }
}
