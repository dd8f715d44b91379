//! Write requests that wait for the writer, with a limit.
//!
//! A slow or hanging disk must not fill the memory with write requests. The queue accepts every
//! request, since decisions must be written. But while it [is full](WriteQueue::is_full), the loop
//! reads no agents and no time passes in the core, so that no more is decided. The writer wakes the
//! loop when there is room.

use super::{LoopWaker, WriteRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};

/// Maximum size of waiting requests while agents are read, in bytes.
///
/// The requests of one turn may exceed it. These are some 5,000 removals: a scheduler that starts
/// after a kill reads the files of such messages before it finds one to deliver.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Number of requests from which a batch takes in no more of those that wait.
const MAX_BATCH_LEN: usize = 512;

/// Requests of a turn, and their size in bytes.
pub(super) struct Batch {
    requests: Vec<WriteRequest>,
    size: usize,
}

/// The loop's end of the queue.
pub(super) struct WriteQueue {
    batches: Sender<Batch>,
    /// Requests of this turn.
    gathered: Vec<WriteRequest>,
    waiting: Arc<AtomicUsize>,
}

/// The writer's end of the queue.
pub(super) struct WriteReceiver {
    batches: Receiver<Batch>,
    waiting: Arc<AtomicUsize>,
    loop_waker: Arc<LoopWaker>,
}

/// Creates an empty queue.
pub(super) fn write_queue(loop_waker: Arc<LoopWaker>) -> (WriteQueue, WriteReceiver) {
    let (sender, batches) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let queue = WriteQueue { batches: sender, gathered: Vec::new(), waiting: waiting.clone() };
    (queue, WriteReceiver { batches, waiting, loop_waker })
}

impl WriteQueue {
    /// Adds a request to those of this turn.
    pub(super) fn push(&mut self, request: WriteRequest) {
        self.gathered.push(request);
    }

    /// Passes the requests of this turn to the writer. Fails if the writer has ended.
    pub(super) fn send(&mut self) -> Result<(), SendError<Batch>> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let requests = std::mem::take(&mut self.gathered);
        let size = requests.iter().map(WriteRequest::size).sum();
        self.waiting.fetch_add(size, Ordering::SeqCst);
        self.batches.send(Batch { requests, size })
    }

    /// Returns true if so much waits that no more may be decided.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > MAX_WAITING_BYTES
    }
}

impl WriteReceiver {
    /// Passes batches of requests to `work` as they come, until the queue is closed.
    ///
    /// What waits by then is passed together, up to a limit: it can wait for the disk together.
    pub(super) fn for_each_batch(&self, mut work: impl FnMut(Vec<WriteRequest>)) {
        for Batch { mut requests, mut size } in &self.batches {
            while requests.len() < MAX_BATCH_LEN
                && let Ok(mut more) = self.batches.try_recv()
            {
                requests.append(&mut more.requests);
                size += more.size;
            }
            work(requests);
            let before = self.waiting.fetch_sub(size, Ordering::SeqCst);
            if before > MAX_WAITING_BYTES && before - size <= MAX_WAITING_BYTES {
                self.loop_waker.wake();
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
    use zsched_format::time::Timestamp;
    use zsched_spool::{HashFolder, SpoolName};

    fn request() -> WriteRequest {
        let name = SpoolName::plain(HashFolder::TOP, 4711);
        WriteRequest::Remove { name, modified: Timestamp::EPOCH, aside: false }
    }

    /// Simulates a disk that hangs, then answers.
    #[test]
    fn write_queue_of_hanging_writer_fills_and_wakes_loop_when_writer_continues() {
        let mut poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let loop_waker = LoopWaker { waker: Arc::new(waker), is_awake: AtomicBool::new(false) };
        let loop_waker = Arc::new(loop_waker);
        let (mut queue, orders) = write_queue(loop_waker.clone());
        let (go, gate) = sync_channel::<()>(0);
        let writer = std::thread::spawn(move || {
            let mut done = 0;
            orders.for_each_batch(|requests| {
                // The disk answers when the test sends.
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
            assert!(sent * request().size() <= MAX_WAITING_BYTES + 1000 * request().size());
        }
        assert!(sent * request().size() > MAX_WAITING_BYTES, "{sent} requests");
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::ZERO)).expect("polled");
        assert!(events.is_empty(), "nothing was done yet");
        go.send(()).expect("the writer waits");
        poll.poll(&mut events, Some(Duration::from_secs(30))).expect("polled");
        assert!(!events.is_empty() && !queue.is_full(), "there is room again");
        drop(go);
        drop(queue);
        assert_eq!(writer.join().expect("it ends"), sent);
        let (mut queue, _) = write_queue(loop_waker);
        queue.push(request());
        queue.send().expect_err("no worker takes it");
    }
}
