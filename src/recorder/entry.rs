//! Entries of a recording.
//!
//! An entry is an event of the core, its time, and a check value of the core's decisions.
//!
//! ```text
//! entry    = kind (u8), time since the entry before, in ns (zigzag varint),
//!            event or configuration (postcard),
//!            number of decisions (varint), their check value (u32, if there are any)
//! ```

use super::digest::Digest;
use super::source::ConfigSource;
use postcard::{from_bytes, take_from_bytes, to_extend};
use zsched_core::{Action, Event};
use zsched_format::time::Timestamp;

/// An event.
const EVENT: u8 = 0;
/// A new configuration.
const CONFIGURED: u8 = 1;

/// The input of the core.
#[derive(Debug)]
pub enum Input<'f> {
    /// Any event other than a new configuration.
    Event(Event<'f>),
    /// A new configuration.
    Configured(ConfigSource),
}

/// The decisions of the core after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecisionCheck {
    /// Number of decisions.
    pub count: u32,
    /// Their check value; 0 if there are none.
    pub check: u32,
}

impl DecisionCheck {
    /// The verdict for these decisions.
    pub(crate) fn of<'a>(actions: impl Iterator<Item = &'a Action>) -> DecisionCheck {
        let (mut count, mut digest) = (0, Digest::new());
        for action in actions {
            count += 1;
            digest.action(action);
        }
        DecisionCheck { count, check: if count > 0 { digest.short() } else { 0 } }
    }

    /// Appends the verdict to a block.
    pub(crate) fn write(self, block: Vec<u8>) -> postcard::Result<Vec<u8>> {
        let mut block = to_extend(&self.count, block)?;
        if self.count > 0 {
            block.extend_from_slice(&self.check.to_le_bytes());
        }
        Ok(block)
    }

    fn read(input: &[u8]) -> postcard::Result<(DecisionCheck, &[u8])> {
        let (count, rest) = take_from_bytes(input)?;
        if count == 0 {
            return Ok((DecisionCheck { count, check: 0 }, rest));
        }
        let (check, rest) =
            rest.split_first_chunk().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        Ok((DecisionCheck { count, check: u32::from_le_bytes(*check) }, rest))
    }
}

/// Appends an event to a block. Its verdict must follow.
pub(crate) fn write_event(
    block: Vec<u8>,
    before: Timestamp,
    now: Timestamp,
    event: &Event<'_>,
) -> postcard::Result<Vec<u8>> {
    to_extend(event, write_head(block, EVENT, before, now)?)
}

/// Appends a new configuration to a block. Its verdict must follow.
pub(crate) fn write_configured(
    block: Vec<u8>,
    before: Timestamp,
    now: Timestamp,
    source: &ConfigSource,
) -> postcard::Result<Vec<u8>> {
    to_extend(source, write_head(block, CONFIGURED, before, now)?)
}

fn write_head(
    mut block: Vec<u8>,
    kind: u8,
    before: Timestamp,
    now: Timestamp,
) -> postcard::Result<Vec<u8>> {
    block.push(kind);
    to_extend(&now.nanoseconds().wrapping_sub(before.nanoseconds()), block)
}

/// Reads the first entry of a block. Returns its time, its contents, its verdict, and the rest.
pub(crate) fn read(
    input: &[u8],
    before: Timestamp,
) -> postcard::Result<(Timestamp, Input<'_>, DecisionCheck, &[u8])> {
    let (kind, rest) = input.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
    let (passed, rest) = take_from_bytes::<i64>(rest)?;
    let now = Timestamp::from_nanoseconds(before.nanoseconds().wrapping_add(passed));
    let (what, rest) = match *kind {
        EVENT => {
            let (event, rest) = take_from_bytes(rest)?;
            (Input::Event(event), rest)
        }
        CONFIGURED => {
            let (source, rest) = take_from_bytes(rest)?;
            (Input::Configured(source), rest)
        }
        _ => return Err(postcard::Error::DeserializeBadEnum),
    };
    let (verdict, rest) = DecisionCheck::read(rest)?;
    Ok((now, what, verdict, rest))
}

/// Deserializes the contents of a frame that is a single value.
pub(crate) fn read_whole<'f, T: serde::Deserialize<'f>>(contents: &'f [u8]) -> postcard::Result<T> {
    from_bytes(contents)
}
