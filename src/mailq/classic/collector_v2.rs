//! Collects the threads of a MAILQ version 2 server in a [`Queue`].
//!
//! For output that needs all of it at once: `-S` and `--summary`.

use super::queue::{NameKind, Queue, Vertex};
use super::report::Ages;
use super::v2::{ListedThread, RecipientRecord, RecordSink};
use crate::failure::Failure;
use zsched_format::time::{ShortDuration, Timestamp};

/// Collector of the recipients of threads.
pub(super) struct QueueCollector {
    /// Messages collected so far.
    pub queue: Queue,
    /// Age of the oldest message of each thread.
    pub ages: Ages,
    now: Timestamp,
    max_messages: usize,
    thread: (Vec<u8>, Vec<u8>),
    is_running: bool,
    /// Message whose recipients are being read.
    message: Option<Vertex>,
    keys: Vec<u64>,
}

impl QueueCollector {
    /// Creates a collection of at most `max_messages` messages.
    pub(super) fn new(max_messages: usize, now: Timestamp) -> QueueCollector {
        QueueCollector {
            queue: Queue::default(),
            ages: Ages::new(),
            now,
            max_messages,
            thread: (Vec::new(), Vec::new()),
            is_running: false,
            message: None,
            keys: Vec::new(),
        }
    }

    fn add_message(&mut self) -> Result<(), Failure> {
        let Some(vertex) = self.message.take() else {
            return Ok(());
        };
        if self.queue.count() == self.max_messages {
            let message = format!("there are more than {} messages", self.max_messages);
            return Err(Failure::Protocol(message));
        }
        let key = self.queue.count() as u64 + 1;
        self.queue.add(key, vertex);
        self.keys.push(key);
        Ok(())
    }

    /// Text of a message as version 1 has it, with its delivery state.
    fn text(&self, record: &RecipientRecord) -> Vec<u8> {
        let state = match record.pending.as_slice() {
            waiting if waiting.starts_with(b"retry in ") => waiting,
            _ if self.is_running => b"running now",
            b"channel" => b"waiting for channel slot",
            b"thread" => b"waiting for thread slot",
            _ => b"waiting for slot",
        };
        let mut text = record.text.clone();
        text.extend_from_slice(if text.is_empty() { b"(" } else { b" (" });
        text.extend_from_slice(state);
        if record.expiry != 0 {
            let left = ShortDuration(record.expiry.saturating_sub(self.now.seconds()));
            text.extend_from_slice(
                format!(", expires in {left}, tries={}", record.tries).as_bytes(),
            );
        }
        text.push(b')');
        text
    }
}

impl RecordSink for QueueCollector {
    fn begin(&mut self, thread: &ListedThread, is_running: bool) {
        self.thread = (thread.channel.clone(), thread.host.clone());
        self.is_running = is_running;
        if let Some(age) = &thread.age {
            self.ages.insert(self.thread.clone(), age.clone());
        }
    }

    fn take(&mut self, record: RecipientRecord) -> Result<(), Failure> {
        match &mut self.message {
            Some(message) if record.index > 0 && message.file == record.file => {
                message.recipients += 1;
                message.offsets.push(record.offset);
            }
            _ => {
                self.add_message()?;
                let text = self.text(&record);
                self.message = Some(Vertex::new(record.file, 1, vec![record.offset], Some(text)));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.add_message()?;
        // `Queue::threads` lists the last key first. Reversing keeps the order of the server.
        self.keys.reverse();
        let (channel, host) = &self.thread;
        for (part, name) in [(NameKind::Channel, channel), (NameKind::Host, host)] {
            let wrong = self.queue.link(part, name, &self.keys);
            debug_assert_eq!(wrong, None, "the keys are ours");
        }
        self.keys.clear();
        Ok(())
    }
}
