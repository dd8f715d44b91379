//! The record of a paged-out message.
//!
//! It is small enough for a million of them.

use crate::queue::{Destination, Vertex};
use serde::{Deserialize, Serialize};
use zsched_format::time::{ClockStep, Timestamp};

/// What the core knows about a message that is paged out.
///
/// The shell stores it and returns it when the message is loaded again
/// ([`crate::Event::Restored`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagedMessage {
    /// When its message file was last modified.
    ///
    /// Another message may have the same number by the time this one is loaded again.
    pub modified: Timestamp,
    /// Number of its pending recipients.
    pub recipients: u32,
    /// It waits for a time that its sender has set.
    ///
    /// A step of the clock does not change that time.
    pub is_scheduled: bool,
    /// Its vertices, in ascending order of their [keys](PagedVertex::key).
    pub vertices: Box<[PagedVertex]>,
}

impl PagedMessage {
    /// The record of a vertex.
    pub(crate) fn vertex(&self, key: u32) -> Option<PagedVertex> {
        let place = self.vertices.binary_search_by_key(&key, |vertex| vertex.key()).ok()?;
        Some(self.vertices[place])
    }
}

/// What is known about the recipients of one message for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
pub struct PagedVertex {
    /// Hash of the destination.
    destination: u32,
    /// Its last diagnosis.
    text: TextNumber,
    /// When its next try is due, in seconds since the epoch.
    ///
    /// 0 is as soon as the destination is tried.
    due: u32,
    /// Number of tries, at most 65,535.
    attempts: u16,
    /// Index of the next entry of `retries`.
    step: u8,
    /// It was tried by this process.
    tried: bool,
}

/// The number of a stored text: 24 bits, 0 is none.
pub type TextNumber = u32;

/// Largest number of a text.
pub const MAX_TEXT_NUMBER: TextNumber = (1 << 24) - 1;

impl PagedVertex {
    /// Creates a record for the recipients of a destination.
    pub fn new(to: &Destination, attempts: u16, tried: bool, text: TextNumber) -> PagedVertex {
        PagedVertex { destination: PagedVertex::key_of(to), text, due: 0, attempts, step: 0, tried }
    }

    /// Sets the due time and the place in `retries`.
    pub fn due_at(self, due: Option<Timestamp>, step: u8) -> PagedVertex {
        PagedVertex { due: due.map_or(0, second_after), step, ..self }
    }

    /// Converts a record of another process, whose text has another number here.
    pub fn from_other_process(self, text: TextNumber) -> PagedVertex {
        PagedVertex { text, tried: false, ..self }
    }

    /// Restores a vertex from the record, except for the text.
    pub fn restore_to(self, vertex: &mut Vertex) {
        (vertex.attempts, vertex.reports) = (self.attempts, self.attempts);
        vertex.tried = self.tried;
        vertex.step = self.step;
    }

    /// Hash of the destination.
    pub fn key(self) -> u32 {
        self.destination
    }

    /// Hash of a destination.
    ///
    /// It has 32 bits: a wrong destination matches once in thousands of millions. The upper half
    /// is a hash of the host, to match it without the channel.
    pub fn key_of(to: &Destination) -> u32 {
        u32::from(hash_of_host(to.host())) << 16 | fnv(to.as_bytes()) & 0xffff
    }

    /// Number of tries so far.
    pub fn attempts(self) -> u32 {
        self.attempts.into()
    }

    /// When its next try is due.
    ///
    /// `None` is as soon as the destination is tried.
    pub fn due(self) -> Option<Timestamp> {
        (self.due > 0).then(|| Timestamp::from_seconds(self.due.into()))
    }

    /// Number of its last diagnosis.
    pub fn text(self) -> TextNumber {
        self.text
    }

    /// Moves the time, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.due = self.due().map_or(0, |due| second_after(due + step));
    }
}

impl From<PagedVertex> for [u64; 2] {
    fn from(vertex: PagedVertex) -> [u64; 2] {
        let PagedVertex { destination, text, due, attempts, step, tried } = vertex;
        let tries = u32::from(attempts) << 16 | u32::from(step) << 8 | u32::from(tried);
        [(destination, text), (due, tries)]
            .map(|(high, low)| u64::from(high) << 32 | u64::from(low))
    }
}

impl From<[u64; 2]> for PagedVertex {
    fn from([what, when]: [u64; 2]) -> PagedVertex {
        PagedVertex {
            destination: (what >> 32) as u32,
            text: what as u32,
            due: (when >> 32) as u32,
            attempts: (when >> 16) as u16,
            step: (when >> 8) as u8,
            tried: when & 1 != 0,
        }
    }
}

/// Rounds a time up to the next whole second.
fn second_after(time: Timestamp) -> u32 {
    let second = time.seconds() + i64::from(time.subsec_nanoseconds() > 0);
    u32::try_from(second.max(0)).unwrap_or(u32::MAX)
}

/// Selects paged-out messages to be loaded early: those for a host.
///
/// It is a hash, so it may select a few others, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostFilter(u16);

impl HostFilter {
    /// Selects messages for a host in lower case, on any channel.
    pub fn of_host(host: &[u8]) -> HostFilter {
        HostFilter(hash_of_host(host))
    }

    /// Selects messages for the host of a record.
    pub fn of_vertex(vertex: PagedVertex) -> HostFilter {
        HostFilter((vertex.destination >> 16) as u16)
    }

    /// Returns true if a record is selected.
    pub fn selects(self, vertex: PagedVertex) -> bool {
        (vertex.destination >> 16) as u16 == self.0
    }
}

fn hash_of_host(host: &[u8]) -> u16 {
    let hash = fnv(host);
    (hash ^ hash >> 16) as u16
}

/// The FNV-1a hash (Fowler, Noll, Vo).
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::message::MessageId;
    use crate::queue::thread::ThreadId;

    #[test]
    fn paged_vertex_round_trip_keeps_retry_state() {
        let (here, there) = (Destination::new(b"smtp", b"a.x"), Destination::new(b"smtp", b"b.x"));
        let due = Timestamp::from_parts(1_795_255_200, 1);
        let record = PagedVertex::new(&here, 65_535, true, MAX_TEXT_NUMBER).due_at(Some(due), 7);
        assert!(record.key() == PagedVertex::key_of(&here));
        assert!(record.key() != PagedVertex::key_of(&there));
        assert_eq!((record.attempts(), record.text()), (65_535, MAX_TEXT_NUMBER));
        assert_eq!(record.due(), Some(Timestamp::from_seconds(1_795_255_201)), "not too early");
        assert_eq!(PagedVertex::from(<[u64; 2]>::from(record)), record);
        let mut vertex = Vertex::new(MessageId::FIRST, ThreadId::FIRST, &[1]);
        record.restore_to(&mut vertex);
        assert_eq!((vertex.attempts, vertex.step, vertex.tried), (65_535, 7, true));
        let record = PagedVertex::new(&there, 1, false, 0);
        assert_eq!((record.attempts(), record.due(), record.text()), (1, None, 0));
        assert!(
            HostFilter::of_host(b"b.x").selects(record)
                && !HostFilter::of_host(b"a.x").selects(record)
        );
        assert_eq!(size_of::<PagedVertex>(), 16);
    }
}
