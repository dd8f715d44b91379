//! Recipients that may have been delivered to already: an agent has died with their lock, somewhere between
//! the look at the recipient and the mark behind the delivery. They are given to the next agent all the
//! same, and whoever wants to know is told that they may get their mail twice.

use super::{SpoolId, SpoolName};
use zsched_format::control_file::{ControlFile, PidField, Recipient};
use zsched_format::time::Timestamp;

/// Recipients of one message that dead processes have left locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The message.
    pub spool_id: SpoolId,
    /// Its recipients, in the order of the control file.
    pub recipients: Vec<Doubtful>,
}

/// A recipient that may have been delivered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// Offset of its line in the control file.
    pub offset: u32,
    /// Delivery channel, in lower case.
    pub channel: Vec<u8>,
    /// Next host, in lower case.
    pub host: Vec<u8>,
    /// Its address.
    pub address: Vec<u8>,
    /// The process that is dead, if the lock says which: the first six digits of its pid.
    pub pid: Option<u32>,
}

/// Whoever wants to know.
pub type Tell<'t> = &'t mut dyn FnMut(&Doubt);

impl Doubt {
    /// What is to be said of some recipients of a control file, given by their places in it.
    pub(super) fn about(
        name: &SpoolName,
        modified: Timestamp,
        file: &ControlFile,
        places: &[usize],
    ) -> Doubt {
        let doubtful = |recipient: &Recipient| Doubtful {
            offset: recipient.offset,
            channel: file.get(recipient.quad.channel).to_ascii_lowercase(),
            host: file.get(recipient.quad.host).to_ascii_lowercase(),
            address: file.get(recipient.quad.user).to_vec(),
            pid: recipient.lock.and_then(PidField::pid).filter(|pid| *pid > 0),
        };
        let recipients = places.iter().map(|place| doubtful(&file.recipients[*place])).collect();
        Doubt { spool_id: SpoolId { number: name.number(), modified }, recipients }
    }
}
