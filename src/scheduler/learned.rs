//! What was learned and is in no control file: how often something was tried, what was said of it, and
//! when its thread is to be tried again. It is written to a file beside the spool, and told to the next
//! scheduler before its first message, so that a restart does not try everything at once.
//!
//! None of it is needed: what is missing or does not fit is as if it had never been tried.

use super::Scheduler;
use super::destination::Destination;
use super::message::MessageId;
use super::thread::{Block, Retry, ThreadId};
use super::vertex::{Diagnosis, VertexId};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;

/// One thing that was learned. Names that are not UTF-8 cannot be written, and are not remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learned {
    /// About a thread.
    Thread(LearnedThread),
    /// About the recipients of one message in a thread.
    Vertex(LearnedVertex),
}

/// When a thread is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedThread {
    /// Its channel.
    pub channel: String,
    /// Its host.
    pub host: String,
    /// Index of the next entry of `retries`.
    pub index: usize,
    /// The wake-up, in nanoseconds since the epoch.
    pub wakeup: Option<Timestamp>,
    /// The host as a whole is not to be tried before it, and why.
    pub block: Option<Block>,
    /// The host has answered since the last wake-up.
    pub answered: bool,
}

/// What became of the recipients of one message in one thread so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedVertex {
    /// Number of the message.
    pub number: u64,
    /// When its message file was modified: another message may have the number by now.
    pub modified: Timestamp,
    /// Its channel.
    pub channel: String,
    /// Its host.
    pub host: String,
    /// Tries so far.
    pub attempts: u32,
    /// What was last said of it.
    pub text: String,
}

/// What was told at the start, until everything that was there is loaded.
#[derive(Default, Serialize, Deserialize)]
pub struct Memory {
    threads: HashMap<Destination, LearnedThread>,
    vertices: HashMap<(u64, Destination), LearnedVertex>,
}

impl Scheduler {
    pub(super) fn remember(&mut self, learned: Learned) {
        let memory = self.memory.get_or_insert_default();
        match learned {
            Learned::Thread(thread) => {
                let key = Destination::new(thread.channel.as_bytes(), thread.host.as_bytes());
                memory.threads.insert(key, thread);
            }
            Learned::Vertex(vertex) => {
                let key = Destination::new(vertex.channel.as_bytes(), vertex.host.as_bytes());
                memory.vertices.insert((vertex.number, key), vertex);
            }
        }
    }

    /// Lets a new thread go on where the former scheduler was, if its wake-up is still to come.
    pub(super) fn recall_thread(&mut self, now: Timestamp, thread: ThreadId) {
        let thread_ref = &mut self.threads[thread];
        let memory = self.memory.as_mut();
        let Some(learned) =
            memory.and_then(|memory| memory.threads.remove(&thread_ref.destination))
        else {
            return;
        };
        let clause = &self.rings[thread_ref.ring].clause;
        let wakeup = learned.wakeup.filter(|wakeup| *wakeup > now && !clause.queue_only);
        thread_ref.retry = Retry {
            wakeup,
            planned: learned.wakeup,
            index: learned.index,
            block: learned.block.filter(|_| wakeup.is_some()),
            answered: learned.answered,
        };
        self.set_thread_timer(thread);
    }

    /// Whether a vertex was tried before this scheduler's life. Its tries are counted on.
    pub(super) fn recall_vertex(&mut self, message: MessageId, vertex: VertexId) -> bool {
        let vertex_ref = &mut self.vertices[vertex];
        let (number, modified) =
            (self.messages[message].name.number(), self.messages[message].modified);
        let destination = self.threads[vertex_ref.thread].destination.clone();
        let memory = self.memory.as_mut();
        let learned = memory.and_then(|memory| memory.vertices.remove(&(number, destination)));
        let Some(learned) = learned.filter(|learned| learned.modified == modified) else {
            return false;
        };
        vertex_ref.attempts = learned.attempts;
        if !learned.text.is_empty() {
            vertex_ref.diagnosis = Some(Diagnosis::new(b"", learned.text.as_bytes()));
        }
        learned.attempts > 0
    }

    /// How much was learned since the start: a number that grows with it.
    pub fn lessons(&self) -> u64 {
        self.lessons
    }
}

/// Goes through everything that was learned, some at a time, while the queue goes on changing.
#[derive(Default)]
pub struct Lessons {
    /// The threads that were there in the beginning, as long as they are not told.
    threads: Option<Vec<ThreadId>>,
    next_number: u64,
    is_over: bool,
}

impl Lessons {
    /// Whether everything has been told.
    pub fn are_over(&self) -> bool {
        self.is_over
    }

    /// Tells on: what was learned about a number of threads, or of messages.
    pub fn tell(&mut self, scheduler: &Scheduler, count: usize, mut tell: impl FnMut(Learned)) {
        let threads = self
            .threads
            .get_or_insert_with(|| scheduler.threads.iter().map(|(thread, _)| thread).collect());
        let rest = threads.len().saturating_sub(count);
        let batch = threads.split_off(rest);
        if !batch.is_empty() {
            let learned = batch.into_iter().filter_map(|thread| scheduler.learned_thread(thread));
            return learned.map(Learned::Thread).for_each(tell);
        }
        for _ in 0..count {
            let Some(message) = scheduler.messages.at_or_after(self.next_number) else {
                self.is_over = true;
                return;
            };
            scheduler.learned_vertices(message, &mut tell);
            let number = scheduler.messages[message].name.number();
            match number.checked_add(1) {
                Some(next) => self.next_number = next,
                None => self.is_over = true,
            }
        }
    }
}

impl Scheduler {
    fn learned_thread(&self, thread: ThreadId) -> Option<LearnedThread> {
        let thread = self.threads.get(thread)?;
        let (channel, host) = names(&thread.destination)?;
        let Retry { wakeup, index, block, answered, .. } = thread.retry;
        let is_new = wakeup.is_none() && index == 0;
        (!is_new).then_some(LearnedThread { channel, host, index, wakeup, block, answered })
    }

    fn learned_vertices(&self, message: MessageId, tell: &mut impl FnMut(Learned)) {
        let message = &self.messages[message];
        for vertex in message.vertices.iter(&self.vertices) {
            let vertex = &self.vertices[vertex];
            let names = names(&self.threads[vertex.thread].destination);
            let Some((channel, host)) = names.filter(|_| vertex.attempts > 0) else {
                continue;
            };
            let text = vertex.diagnosis.as_ref().map(|diagnosis: &Rc<Diagnosis>| {
                String::from_utf8_lossy(&diagnosis.message).into_owned()
            });
            tell(Learned::Vertex(LearnedVertex {
                number: message.name.number(),
                modified: message.modified,
                channel,
                host,
                attempts: vertex.attempts,
                text: text.unwrap_or_default(),
            }));
        }
    }
}

fn names(destination: &Destination) -> Option<(String, String)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_string);
    Some((text(destination.channel())?, text(destination.host())?))
}
