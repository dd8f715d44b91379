//! Entries of a recording.
//!
//! An entry is an event of the core, its time, and a check value of the core's decisions.
//!
//! ```text
//! entry    = time since the entry before, in ns (zigzag varint), input (postcard),
//!            number of decisions (varint), their check value (varint)
//! ```

use super::digest::Digest;
use super::source::ConfigSource;
use postcard::{take_from_bytes, to_extend};
use serde::{Deserialize, Serialize};
use zsched_core::{Action, Event};
use zsched_format::time::Timestamp;

/// The input of the core, owned or borrowed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Input<E, C> {
    /// Any event other than a new configuration.
    Event(E),
    /// A new configuration.
    Configured(C),
}

/// The input of the core as it is read.
pub(crate) type ReadInput<'f> = Input<Event<'f>, ConfigSource>;

/// The decisions of the core after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Appends an input to a block. Its verdict must follow.
pub(crate) fn write(
    block: Vec<u8>,
    before: Timestamp,
    now: Timestamp,
    input: &Input<&Event<'_>, &ConfigSource>,
) -> postcard::Result<Vec<u8>> {
    to_extend(&(now.nanoseconds().wrapping_sub(before.nanoseconds()), input), block)
}

/// Reads the first entry of a block. Returns its time, its contents, its verdict, and the rest.
pub(crate) fn read(
    entry: &[u8],
    before: Timestamp,
) -> postcard::Result<(Timestamp, ReadInput<'_>, DecisionCheck, &[u8])> {
    let ((passed, input, verdict), rest): ((i64, _, _), _) = take_from_bytes(entry)?;
    let now = Timestamp::from_nanoseconds(before.nanoseconds().wrapping_add(passed));
    Ok((now, input, verdict, rest))
}
