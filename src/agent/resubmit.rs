//! Hands a message back to the router for one recipient.
//!
//! Held mail leaves the spool this way.

use super::{Delivery, Message};
use std::io;
use std::path::Path;
use zsched_spool::resubmit::Submission;

/// Path of the POSTOFFICE from an agent's working folder.
pub const POSTOFFICE: &str = "..";

/// Submits the message in the name of the message file's owner, and returns its number.
///
/// See [`Submission::hand_over`].
pub fn resubmit(postoffice: &Path, delivery: &Delivery<'_>, message: &Message) -> io::Result<u64> {
    let submission = Submission {
        file: delivery.control_file(),
        sender: delivery.sender(),
        recipients: vec![(delivery.notify_line(), delivery.user())],
        headers: delivery.headers(),
    };
    submission.hand_over(postoffice, &mut message.body(), message.owner())
}
