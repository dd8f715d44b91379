//! Handing a message back to the router, for one recipient. Held mail leaves the spool this way.

use super::{Delivery, Message};
use std::io;
use std::path::Path;
use zsched_spool::resubmit::Submission;

/// Where an agent finds the POSTOFFICE, from the folder it works in.
pub const POSTOFFICE: &str = "..";

/// Hands it over, as [`Submission::hand_over`] does, in the name of the owner of the message file. Returns
/// its number.
pub fn resubmit(postoffice: &Path, delivery: &Delivery<'_>, message: &Message) -> io::Result<u64> {
    let submission = Submission {
        file: delivery.control_file(),
        sender: delivery.sender(),
        recipients: vec![(delivery.notify_line(), delivery.user())],
        headers: delivery.headers(),
    };
    submission.hand_over(postoffice, &mut message.body(), message.owner())
}
