//! What is known of a message that rests on disk: little enough for a million of them.

use super::destination::Destination;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What the core has learned of a message before it left memory. Whoever keeps it gives it back when the
/// message comes again ([`super::Event::Recalled`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rested {
    /// When its message file was last modified: another message may have its number by then.
    pub modified: Timestamp,
    /// Recipients that it had to do.
    pub recipients: u32,
    /// Where they go, in ascending order of their [keys](RestedVertex::key).
    pub vertices: Box<[RestedVertex]>,
}

/// What was learned of the recipients of one message for one destination, in eight bytes.
///
/// ```text
/// 63            32 31        8  7     6       0
///  destination      text       tried  attempts
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestedVertex(u64);

/// The number of a text among those that are kept: 24 bits, 0 is none.
pub type TextNumber = u32;

/// The largest number of a text.
pub const LAST_TEXT: TextNumber = (1 << 24) - 1;
/// More attempts than that are not told from each other.
const MOST_ATTEMPTS: u32 = 127;

impl RestedVertex {
    /// What is known of the recipients for a destination.
    pub fn new(to: &Destination, attempts: u32, tried: bool, text: TextNumber) -> RestedVertex {
        let low = attempts.min(MOST_ATTEMPTS) | u32::from(tried) << 7 | text << 8;
        RestedVertex(u64::from(hash_of(to)) << 32 | u64::from(low))
    }

    /// The same in the life of another scheduler, which has another number for its text.
    pub fn of_another_life(self, text: TextNumber) -> RestedVertex {
        RestedVertex(self.0 & !0xffff_ffff | u64::from(self.attempts() | text << 8))
    }

    /// What stands for the destination.
    pub fn key(self) -> u32 {
        self.destination()
    }

    /// What stands for a destination.
    pub fn key_of(to: &Destination) -> u32 {
        hash_of(to)
    }

    /// Whether it is about a destination. Another one may be taken for it once in thousands of millions.
    pub fn goes_to(self, to: &Destination) -> bool {
        self.destination() == hash_of(to)
    }

    fn destination(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Tries so far.
    pub fn attempts(self) -> u32 {
        self.0 as u32 & MOST_ATTEMPTS
    }

    /// It was tried in this scheduler's life.
    pub fn tried(self) -> bool {
        self.0 & 1 << 7 != 0
    }

    /// What was last said about it.
    pub fn text(self) -> TextNumber {
        (self.0 as u32) >> 8
    }
}

/// Which messages that rest are wanted before their time: those for a host. It may name a few others, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wanted(u16);

impl Wanted {
    /// Those for a host, in lower case, on any channel.
    pub fn of_host(host: &[u8]) -> Wanted {
        Wanted(hash_of_host(host))
    }

    /// What is wanted where these recipients are.
    pub fn of_vertex(vertex: RestedVertex) -> Wanted {
        Wanted((vertex.destination() >> 16) as u16)
    }

    /// Whether recipients are wanted.
    pub fn means(self, vertex: RestedVertex) -> bool {
        (vertex.destination() >> 16) as u16 == self.0
    }
}

/// The upper half is the host's, so that it can be found without the channel.
fn hash_of(to: &Destination) -> u32 {
    u32::from(hash_of_host(to.host())) << 16 | fnv(to.as_bytes()) & 0xffff
}

fn hash_of_host(host: &[u8]) -> u16 {
    let hash = fnv(host);
    (hash ^ hash >> 16) as u16
}

/// The hash of Fowler, Noll and Vo (FNV-1a).
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let (here, there) = (Destination::new(b"smtp", b"a.x"), Destination::new(b"smtp", b"b.x"));
        let vertex = RestedVertex::new(&here, 5, true, LAST_TEXT);
        assert!(vertex.goes_to(&here) && !vertex.goes_to(&there) && vertex.tried());
        assert_eq!((vertex.attempts(), vertex.text()), (5, LAST_TEXT));
        let vertex = RestedVertex::new(&there, 1000, false, 0);
        assert_eq!((vertex.attempts(), vertex.tried(), vertex.text()), (127, false, 0));
        assert!(Wanted::of_host(b"b.x").means(vertex) && !Wanted::of_host(b"a.x").means(vertex));
    }
}
