//! A queue, as a scheduler describes it.

use super::notes::{self, DeliveryState};

/// The recipients of one message that share a channel and a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vertex {
    /// The control file, below `transport/`.
    pub file: Vec<u8>,
    /// Number of recipients.
    pub recipients: u64,
    /// Offsets of their lines in the control file, in bytes.
    pub offsets: Vec<u32>,
    /// Last text of an agent, with notes if `state` is missing; `None` if missing.
    pub text: Option<Vec<u8>>,
    /// Delivery state, if the scheduler sends it apart from the text.
    pub(super) state: Option<DeliveryState>,
}

/// All vertices of one channel and host.
#[derive(Clone, Debug)]
pub struct QueuedThread {
    /// The channel.
    pub channel: Vec<u8>,
    /// The host.
    pub host: Vec<u8>,
    /// The vertices, in the order in which they are shown.
    pub vertices: Vec<Vertex>,
    /// Age of the oldest message, if known.
    pub(super) age: Option<Vec<u8>>,
}

impl Vertex {
    /// Last text of an agent, without notes, and the delivery state.
    pub(crate) fn text_and_state(&self) -> (&[u8], DeliveryState) {
        let text = self.text.as_deref().unwrap_or_default();
        self.state.map_or_else(|| notes::split(text), |state| (text, state))
    }
}
