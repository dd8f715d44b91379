//! Possible duplicates: recipients of an agent that has died.
//!
//! The agent has left their lock, and died at some point between locking the recipient and writing
//! its tag. So it may have delivered to them. They are given to the next agent anyway, and are
//! reported.

use super::{SpoolId, SpoolName};
use zsched_format::control_file::{ControlFile, PidField, Recipient};
use zsched_format::time::Timestamp;

/// Recipients of one message that dead processes have left locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleDuplicates {
    /// The message.
    pub spool_id: SpoolId,
    /// The recipients, in the order of the control file.
    pub recipients: Vec<PossibleDuplicate>,
}

/// A recipient that may already have been delivered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossibleDuplicate {
    /// Offset of its line in the control file.
    pub offset: u32,
    /// Delivery channel, in lower case.
    pub channel: Vec<u8>,
    /// Next host, in lower case.
    pub host: Vec<u8>,
    /// Its address.
    pub address: Vec<u8>,
    /// Pid of the dead process, of which the lock has six digits.
    pub pid: Option<u32>,
}

/// Receives the possible duplicates.
pub type DuplicateSink<'t> = &'t mut dyn FnMut(&PossibleDuplicates);

impl PossibleDuplicates {
    /// Creates the report about recipients of a control file, given by index.
    pub(super) fn about(
        name: &SpoolName,
        modified: Timestamp,
        file: &ControlFile,
        places: &[usize],
    ) -> PossibleDuplicates {
        let doubtful = |recipient: &Recipient| PossibleDuplicate {
            offset: recipient.offset,
            channel: file.get(recipient.quad.channel).to_ascii_lowercase(),
            host: file.get(recipient.quad.host).to_ascii_lowercase(),
            address: file.get(recipient.quad.user).to_vec(),
            pid: recipient.lock.and_then(PidField::pid).filter(|pid| *pid > 0),
        };
        let recipients = places.iter().map(|place| doubtful(&file.recipients[*place])).collect();
        PossibleDuplicates { spool_id: SpoolId { number: name.number(), modified }, recipients }
    }
}
