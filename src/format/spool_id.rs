//! Spool ids, which identify messages in logs and reports.

use crate::time::Timestamp;
use jiff::tz::Offset;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;

/// One character for each six-bit value.
///
/// Values 26 and 62 have the same character, as in the original. Programs that read its logs expect
/// that.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123abcdefghijklmnopqrstuvwxyz4567890-";

/// The id of a message: `S`, its number, and a time.
///
/// The time is the modification time of its message file in UTC.
///
/// Source: ZMailer `taspoolid()`. Nanoseconds are added only if the file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct SpoolId {
    /// The number at the beginning of the message's name.
    pub number: u64,
    /// Modification time of the message file.
    pub modified: Timestamp,
}

/// Lengths of the time in a spool id: seconds, or nanoseconds.
const TIME_LENGTHS: [usize; 2] = [8, 13];

impl SpoolId {
    /// The number in a text that looks like a spool id.
    ///
    /// The time begins with the high bits of the year, which are `A` for another two thousand
    /// years.
    pub fn number_in(text: &str) -> Option<u64> {
        let rest = text.strip_prefix('S')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, time) = rest.split_at(digits);
        let is_time = TIME_LENGTHS.contains(&time.len())
            && time.starts_with('A')
            && time.bytes().all(|byte| ALPHABET.contains(&byte));
        number.parse().ok().filter(|_| is_time)
    }
}

impl fmt::Display for SpoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.modified.subsec_nanoseconds() as i32;
        let instant = jiff::Timestamp::new(self.modified.seconds(), nanoseconds)
            .expect("our timestamps end in 2262, a calendar's later");
        let utc = Offset::UTC.to_datetime(instant);
        let year = i32::from(utc.year());
        let parts = [
            year >> 12,
            year >> 6,
            year,
            i32::from(utc.month()) - 1,
            i32::from(utc.day()) - 1,
            i32::from(utc.hour()),
            i32::from(utc.minute()),
            i32::from(utc.second()),
        ];
        let fraction = [24, 18, 12, 6, 0].map(|shift| nanoseconds >> shift);
        let length = TIME_LENGTHS[usize::from(nanoseconds != 0)];
        let time = parts.iter().chain(&fraction).take(length);
        // In one piece, so that a string grows once. An id has 34 characters at most.
        let mut id = SmallVec::<[u8; 36]>::new();
        id.push(b'S');
        id.extend_from_slice(itoa::Buffer::new().format(self.number).as_bytes());
        id.extend(time.map(|part| ALPHABET[(part & 63) as usize]));
        f.write_str(str::from_utf8(&id).expect("the alphabet is ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spool_ids_equal_recorded_ones() {
        for (number, seconds, nanoseconds, id) in [
            (10_101_639, 1_795_255_449, 852_372_354, "S10101639AbmKUKEJuveqC"),
            (10_101_288, 1_795_255_583, 187_430_651, "S10101288AbmKUKGXLK-17"),
            (10_084_360, 1_795_255_505, 41_730_085, "S10084360AbmKUKFFCbMAh"),
            (10_084_359, 1_795_255_402, 832_339_453, "S10084359AbmKUKDWtjHz9"),
            (10_101_236, 1_795_255_461, 935_715_914, "S10101236AbmKUKEVztaRK"),
            (4711, 1_767_323_045, 0, "S4711AbmABDEF"),
            (4711, 1_767_323_045, 123_456_789, "S4711AbmABDEFHW8wV"),
            (258_367, 1_047_508_699, 0, "S258367AbTCLWiT"),
        ] {
            let modified = Timestamp::from_parts(seconds, nanoseconds);
            assert_eq!(SpoolId { number, modified }.to_string(), id);
        }
    }
}
