//! Check values of parts of a recording, and of the core's decisions.

use zsched_core::{Action, Note, Statistics, StatusRecord};
use zsched_spool::{HashFolder, SpoolName};

/// A running check value.
///
/// It does not protect against forgery. Each step is invertible, so any change within one word is
/// detected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

/// An odd number without a pattern: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Digest {
    /// The digest of no data.
    pub(crate) const fn new() -> Digest {
        Digest(MULTIPLIER)
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(MULTIPLIER);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Adds a byte string.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.number(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.number(u64::from_le_bytes(word));
        }
    }

    /// The check value.
    pub(crate) fn value(self) -> u64 {
        self.0
    }

    /// The check value, reduced to 32 bits.
    pub(crate) fn short(self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }

    /// Adds all of a decision.
    ///
    /// Frequent decisions are added field by field, which takes less time than to format them.
    pub(crate) fn action(&mut self, action: &Action) {
        match action {
            Action::Feed { agent, job } => {
                self.number(2);
                self.number(agent.0);
                self.bytes(job);
            }
            Action::SendIdle(agent) => {
                self.number(3);
                self.number(agent.0);
            }
            Action::Note(note) => self.note(note),
            Action::Remove { name, aside, .. } => {
                self.number(9 + u64::from(*aside));
                self.name(name);
            }
            Action::Statistics(statistics) => self.statistics(statistics),
            Action::Status(record) => self.status(record),
            Action::Log(level, text) => {
                self.number(12);
                self.number(*level as u64);
                self.bytes(text.as_bytes());
            }
            other => self.bytes(format!("{other:?}").as_bytes()),
        }
    }

    fn name(&mut self, name: &SpoolName) {
        self.number(name.number());
        // Most names are just their number.
        match name.nonnumeric_base() {
            None if name.folder() == HashFolder::TOP => {}
            _ => self.bytes(name.path().as_bytes()),
        }
    }

    fn note(&mut self, note: &Note) {
        self.number(11);
        self.number(note.ticket);
        self.name(&note.name);
        self.number(note.offsets.len() as u64);
        note.offsets.iter().for_each(|offset| self.number(u64::from(*offset)));
        self.number(note.occasion as u64);
        self.number(note.time.nanoseconds() as u64);
        self.bytes(&note.notary);
        self.bytes(&note.message);
    }

    fn statistics(&mut self, statistics: &Statistics) {
        self.number(13);
        self.number(statistics.spool_id.number);
        self.number(statistics.spool_id.modified.nanoseconds() as u64);
        self.number(statistics.created.nanoseconds() as u64);
        self.bytes(statistics.state.as_bytes());
        self.bytes(statistics.destination.as_bytes());
    }

    fn status(&mut self, record: &StatusRecord) {
        self.number(16);
        self.name(&record.name);
        let times = [Some(record.time), Some(record.modified), Some(record.created)];
        let began = record.attempt.map(|attempt| attempt.began);
        for time in times.into_iter().chain([began]) {
            self.number(time.map_or(0, |time| time.nanoseconds() as u64));
        }
        self.bytes(record.destination.as_bytes());
        self.number(record.offsets.len() as u64);
        record.offsets.iter().for_each(|offset| self.number(u64::from(*offset)));
        self.bytes(format!("{:?}", record.verdict).as_bytes());
        let pid = record.attempt.and_then(|attempt| attempt.pid);
        self.number(pid.map_or(0, u64::from));
        self.number(u64::from(record.others));
        self.bytes(&record.notary);
        self.bytes(&record.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut digest = Digest::new();
        digest.bytes(bytes);
        digest.value()
    }

    #[test]
    fn digest_detects_every_changed_bit_and_length() {
        let bytes: Vec<u8> = (0..61).collect();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&changed), of(&bytes), "bit {bit}");
        }
        assert_ne!(of(b""), of(b"\0"));
        assert_ne!(of(b"a\0"), of(b"a"));
    }
}
