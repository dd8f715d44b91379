//! Notes that a scheduler adds to the text of each vertex.
//!
//! They are in parentheses: `smtp; 451 busy (retry in 13s, expires in 2d23h, tries=4)`.

/// Delivery state of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An agent works on its thread.
    Running,
    /// It is tried again at a known time.
    Retry,
    /// It is due, and waits for an agent.
    Waiting,
}

/// Splits a text into that of the last agent and the state.
///
/// Without a note the vertex is being tried: older schedulers write none then.
pub fn split(text: &[u8]) -> (&[u8], Standing) {
    let text = text.trim_ascii_end();
    // There are no parentheses within the notes.
    let open = text.iter().rposition(|byte| *byte == b'(').filter(|_| text.ends_with(b")"));
    let Some(open) = open else {
        return (text, Standing::Running);
    };
    let (before, notes) = (text[..open].trim_ascii_end(), &text[open + 1..]);
    let standings = [
        (&b"running now"[..], Standing::Running),
        (b"retry in ", Standing::Retry),
        (b"waiting for ", Standing::Waiting),
        (b"activation pending", Standing::Waiting),
    ];
    match standings.iter().find(|(start, _)| notes.starts_with(start)) {
        Some((_, standing)) => (before, *standing),
        None => (text, Standing::Running),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_takes_last_parenthesis_as_notes() {
        for (text, expected, standing) in [
            ("(retry in 13s, expires in 59m46s, tries=0)", "", Standing::Retry),
            ("later please (retry in 14s)", "later please", Standing::Retry),
            ("busy (a) (running now, pid=7 NextFeed)", "busy (a)", Standing::Running),
            ("x (waiting for thread slot)", "x", Standing::Waiting),
            ("(activation pending, thread inactive)", "", Standing::Waiting),
            ("connect (to b)", "connect (to b)", Standing::Running),
            ("(retry in 1s", "(retry in 1s", Standing::Running),
            ("", "", Standing::Running),
        ] {
            assert_eq!(split(text.as_bytes()), (expected.as_bytes(), standing), "{text}");
        }
    }
}
