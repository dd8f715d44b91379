//! Messages that are still in the spool.
//!
//! The log has no lines on messages that were never tried.

use super::histories::{History, HistorySearch};
use crate::failure::{Failure, only_users_of};
use crate::format::count;
use crate::message::envelope::QueuedRecipient;
use crate::message::files::{for_each_name, read};
use std::io::ErrorKind;
use zsched_format::control_file::{self, ControlFile, MAX_CONTROL_FILE_SIZE};
use zsched_format::time::Timestamp;
use zsched_spool::{Spool, SpoolId, SpoolName};

/// Finds the messages in the spool that match.
pub(super) fn find(spool: &Spool, histories: &mut HistorySearch) -> Result<(), Failure> {
    let mut unreadable = 0u64;
    let mut look = |histories: &mut HistorySearch, name: &SpoolName| match read(
        spool,
        name,
        MAX_CONTROL_FILE_SIZE,
    ) {
        Ok((file, (_, arrived))) => take(name, &file, arrived, histories),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => unreadable += 1,
        // It has just left, or is damaged. The scheduler logs the latter.
        Err(_) => {}
    };
    for_each_name(spool, histories.subject.number(), |name| look(histories, &name))?;
    match unreadable {
        0 => Ok(()),
        number => Err(Failure::Denied(format!(
            "{} may read {} in {}",
            only_users_of(spool.transport()),
            count(number, "control file"),
            spool.transport().display()
        ))),
    }
}

/// Adds a message, or some of its recipients, if they match.
fn take(name: &SpoolName, file: &ControlFile, arrived: Timestamp, histories: &mut HistorySearch) {
    let spool_id = SpoolId { number: name.number(), modified: arrived }.to_string();
    let message_id = control_file::message_id(file);
    let all = histories.subject.matches_message(&spool_id, message_id.as_deref());
    let is_wanted = |index: &usize| all || histories.subject.matches_recipient(file, *index);
    let matching: Vec<usize> = (0..file.recipients.len()).filter(is_wanted).collect();
    let Some(first) = matching.first() else {
        return;
    };
    let text = |span| String::from_utf8_lossy(file.get(span)).into_owned();
    let sender = file.sender_of(&file.recipients[*first]);
    histories.add_spool_message(History {
        spool_id,
        message_id: message_id.map(String::from),
        sender: sender.map(|sender| text(sender.quad.user)),
        arrived: Some(arrived.nanoseconds() / 1_000_000),
        queued: matching.iter().map(|index| QueuedRecipient::new(file, *index)).collect(),
        ..History::default()
    });
}
