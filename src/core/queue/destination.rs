//! Where recipients go: a channel and a host.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Maximum length of a channel and a host whose look-up needs no memory.
const MAX_INLINE_KEY_LEN: usize = 64;

/// A channel and a host: where a recipient goes next.
///
/// Cheap to clone, also for another worker.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Destination {
    /// Channel, LF, host. Both come from one line, without LF.
    #[serde(with = "zsched_format::serde_bytes")]
    joined: Arc<[u8]>,
}

impl Destination {
    /// The destination of a channel and a host, both in lower case.
    pub fn new(channel: &[u8], host: &[u8]) -> Destination {
        Destination { joined: [channel, b"\n", host].concat().into() }
    }

    /// Returns the bytes that [`new`](Destination::new) would keep, for lookups.
    ///
    /// Most need no memory of their own.
    pub fn key(channel: &[u8], host: &[u8]) -> SmallVec<[u8; MAX_INLINE_KEY_LEN]> {
        let mut key = SmallVec::from_slice(channel);
        key.push(b'\n');
        key.extend_from_slice(host);
        key
    }

    /// A key after all destinations of a channel, before the next channel.
    pub fn end_of_channel(channel: &[u8]) -> Vec<u8> {
        [channel, &[b'\n' + 1]].concat()
    }

    /// Channel and host as one string of bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.joined
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let end = self.joined.iter().position(|byte| *byte == b'\n').expect("new puts one in");
        (&self.joined[..end], &self.joined[end + 1..])
    }

    /// The channel.
    pub fn channel(&self) -> &[u8] {
        self.split().0
    }

    /// The host.
    pub fn host(&self) -> &[u8] {
        self.split().1
    }
}

impl Borrow<[u8]> for Destination {
    fn borrow(&self) -> &[u8] {
        &self.joined
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (channel, host) = self.split();
        write!(f, "{}/{}", String::from_utf8_lossy(channel), String::from_utf8_lossy(host))
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
