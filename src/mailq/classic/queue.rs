//! A queue, as a scheduler describes it.

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
        self.state.map_or_else(|| split(text), |state| (text, state))
    }
}

/// Delivery state of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    /// An agent works on its thread.
    Running,
    /// It is tried again at a known time.
    Retry,
    /// It is due, and waits for an agent, or it is on hold.
    Waiting,
}

/// Splits a text into that of the last agent and the state.
///
/// The state is in the notes that a scheduler adds to the text of each vertex, in parentheses:
/// `smtp; 451 busy (retry in 13s, expires in 2d23h, tries=4)`.
///
/// Without a note the vertex is being tried: older schedulers write none then.
fn split(text: &[u8]) -> (&[u8], DeliveryState) {
    let text = text.trim_ascii_end();
    // There are no parentheses within the notes.
    let open = text.iter().rposition(|byte| *byte == b'(').filter(|_| text.ends_with(b")"));
    let Some(open) = open else {
        return (text, DeliveryState::Running);
    };
    let (before, notes) = (text[..open].trim_ascii_end(), &text[open + 1..]);
    let standings = [
        (&b"running now"[..], DeliveryState::Running),
        (b"retry in ", DeliveryState::Retry),
        (b"waiting for ", DeliveryState::Waiting),
        (b"activation pending", DeliveryState::Waiting),
        (b"held", DeliveryState::Waiting),
    ];
    match standings.iter().find(|(start, _)| notes.starts_with(start)) {
        Some((_, state)) => (before, *state),
        None => (text, DeliveryState::Running),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_takes_last_parenthesis_as_notes() {
        for (text, expected, state) in [
            ("(retry in 13s, expires in 59m46s, tries=0)", "", DeliveryState::Retry),
            ("later please (retry in 14s)", "later please", DeliveryState::Retry),
            ("busy (a) (running now, pid=7 NextFeed)", "busy (a)", DeliveryState::Running),
            ("x (waiting for thread slot)", "x", DeliveryState::Waiting),
            ("(activation pending, thread inactive)", "", DeliveryState::Waiting),
            ("451 busy (held, expires in 2d, tries=2)", "451 busy", DeliveryState::Waiting),
            ("connect (to b)", "connect (to b)", DeliveryState::Running),
            ("(retry in 1s", "(retry in 1s", DeliveryState::Running),
            ("", "", DeliveryState::Running),
        ] {
            assert_eq!(split(text.as_bytes()), (expected.as_bytes(), state), "{text}");
        }
    }
}
