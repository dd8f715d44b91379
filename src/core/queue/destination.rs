//! Where recipients go: a channel and a host.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

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

    /// Writes the bytes that [`new`](Destination::new) would keep, for lookups.
    pub fn key<'b>(channel: &[u8], host: &[u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
        buffer.clear();
        buffer.extend_from_slice(channel);
        buffer.push(b'\n');
        buffer.extend_from_slice(host);
        buffer
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
