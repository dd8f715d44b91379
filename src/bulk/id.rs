//! Names of jobs and of their packets.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use zsched_spool::{HashFolder, HashLevel, SpoolName};

/// Digits of a job's name: no letter that looks like another digit (Crockford's base 32).
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Number of digits of a job's name.
const LENGTH: u32 = 6;
/// Number of bits of a job's name.
const BITS: u32 = 5 * LENGTH;
/// The bit that all numbers of packets have.
///
/// Other messages have inode numbers, which are smaller. ZMailer's numbers are signed.
const PACKET_BIT: u64 = 1 << 62;

/// The name of a job: six letters and digits, derived from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct JobId(u32);

impl JobId {
    /// The name for a key. `attempt` counts the names that belong to other keys.
    pub fn of_key(key: &str, attempt: u8) -> JobId {
        let digest = hmac_sha256::Hash::hash(&[key.as_bytes(), &[0, attempt]].concat());
        let first = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        JobId(first >> (u32::BITS - BITS))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in (0..LENGTH).rev() {
            let digit = DIGITS[(self.0 >> (5 * place)) as usize & 31];
            write!(f, "{}", digit as char)?;
        }
        Ok(())
    }
}

/// A text is not the name of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a job has six letters and digits, without i, l, o and u")]
pub struct JobIdError;

impl FromStr for JobId {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<JobId, JobIdError> {
        if text.len() != LENGTH as usize {
            return Err(JobIdError);
        }
        let mut number = 0;
        for byte in text.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == byte).ok_or(JobIdError)?;
            number = number << 5 | digit as u32;
        }
        Ok(JobId(number))
    }
}

/// The number of a packet: its job, and the offset of its first recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct PacketNumber {
    /// The job.
    pub job: JobId,
    /// Offset of the first recipient's line in `recipients`.
    pub offset: u32,
}

impl PacketNumber {
    /// The packet of a message number. `None` for other messages.
    pub fn of_message(number: u64) -> Option<PacketNumber> {
        let job = (number & !PACKET_BIT) >> u32::BITS;
        (number >> 62 == 1)
            .then_some(PacketNumber { job: JobId(job as u32), offset: number as u32 })
    }

    /// The number of the message.
    pub fn message(self) -> u64 {
        PACKET_BIT | u64::from(self.job.0) << u32::BITS | u64::from(self.offset)
    }

    /// The name of its two files.
    pub fn name(self, level: HashLevel) -> SpoolName {
        SpoolName::plain(HashFolder::of(self.message(), level), self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_name_is_parsed_as_displayed() {
        for number in [0, 1, 31, 32, (1 << BITS) - 1, 0x2345_6789] {
            let job = JobId(number);
            assert_eq!(job.to_string().parse(), Ok(job), "{job}");
        }
        for text in ["", "00000", "0000000", "00000i", "00000A", "../../", "0000 0"] {
            assert_eq!(text.parse::<JobId>(), Err(JobIdError), "{text:?}");
        }
    }

    #[test]
    fn packet_number_contains_job_and_offset() {
        for (job, offset) in [(0, 0), ((1 << BITS) - 1, u32::MAX), (7, 1_234_567)] {
            let packet = PacketNumber { job: JobId(job), offset };
            assert_eq!(PacketNumber::of_message(packet.message()), Some(packet));
            assert!(i64::try_from(packet.message()).is_ok(), "ZMailer's numbers are signed");
        }
        for number in [0, 4711, PACKET_BIT - 1, u64::MAX, 1 << 63] {
            assert_eq!(PacketNumber::of_message(number), None, "{number}");
        }
    }

    #[test]
    fn key_gives_one_name_and_others_for_further_attempts() {
        assert_eq!(JobId::of_key("news-1", 0), JobId::of_key("news-1", 0));
        assert_ne!(JobId::of_key("news-1", 0), JobId::of_key("news-1", 1));
        assert_ne!(JobId::of_key("news-1", 0), JobId::of_key("news-2", 0));
    }
}
