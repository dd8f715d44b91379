//! Messages that are still in the spool.
//!
//! The log has no lines on messages that were never tried.

use super::histories::{History, HistorySearch, QueuedRecipient};
use crate::classic::details::read_control_file;
use crate::failure::Failure;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::{self, ControlFile, Tag};
use zsched_format::time::Timestamp;
use zsched_spool::scan::{ScanLimits, scan};
use zsched_spool::{HashFolder, HashLevel, Spool, SpoolId, SpoolName};

/// Finds the messages in the spool that match.
pub(super) fn find(spool: &Spool, histories: &mut HistorySearch) -> Result<(), Failure> {
    let mut unreadable = 0u64;
    let mut look = |histories: &mut HistorySearch, name: &SpoolName| match read(spool, name) {
        Ok((file, came)) => take(name, &file, came, histories),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => unreadable += 1,
        // It has just left, or is damaged. The scheduler logs the latter.
        Err(_) => {}
    };
    if let Some(number) = histories.subject.number() {
        for level in [HashLevel::Flat, HashLevel::Once, HashLevel::Twice] {
            let folder = HashFolder::of(number, level);
            if let Some(name) = SpoolName::new(folder, number.to_string().as_bytes()) {
                look(histories, &name);
            }
        }
    } else {
        let end = scan(spool, ScanLimits::NONE, |names| {
            names.iter().for_each(|name| look(histories, name));
            Some(names.len())
        });
        if let Some(error) = end.errors.first() {
            let folder = spool.transport().display();
            return Err(Failure::Installation(format!(
                "{folder}: {error}; option -Z names the ZENV file that says where the spool is"
            )));
        }
    }
    match unreadable {
        0 => Ok(()),
        count => Err(Failure::Installation(format!(
            "{count} files in {} are not readable by this user",
            spool.transport().display()
        ))),
    }
}

/// Reads a control file, and the arrival time of its message.
fn read(spool: &Spool, name: &SpoolName) -> io::Result<(ControlFile, Timestamp)> {
    let text = read_control_file(spool, name)?;
    let message = fs::symlink_metadata(spool.message_file(name))?;
    let file = control_file::parse(text).map_err(io::Error::other)?;
    Ok((file, Timestamp::from_parts(message.mtime(), message.mtime_nsec())))
}

/// Adds a message, or some of its recipients, if they match.
fn take(name: &SpoolName, file: &ControlFile, came: Timestamp, histories: &mut HistorySearch) {
    let spool_id = SpoolId { number: name.number(), modified: came }.to_string();
    let message_id = control_file::message_id(file);
    let all = histories.subject.matches_message(&spool_id, message_id.as_deref());
    let is_it = |index: &usize| all || histories.subject.matches_recipient(file, *index);
    let matching: Vec<usize> = (0..file.recipients.len()).filter(is_it).collect();
    let Some(first) = matching.first() else {
        return;
    };
    let text = |span| String::from_utf8_lossy(file.get(span)).into_owned();
    let sender = file.sender_of(&file.recipients[*first]);
    histories.add_spool_message(History {
        spool_id,
        message_id,
        sender: sender.map(|sender| text(sender.quad.user)),
        came: Some(came.nanoseconds() / 1_000_000),
        queued: matching.iter().map(|index| queued(file, *index)).collect(),
        ..History::default()
    });
}

fn queued(file: &ControlFile, index: usize) -> QueuedRecipient {
    let recipient = &file.recipients[index];
    let text = |span| String::from_utf8_lossy(file.get(span)).into_owned();
    let lower = |span| text(span).to_ascii_lowercase();
    let pid = recipient.lock.and_then(|field| field.pid());
    let state = match recipient.tag {
        Tag::Done => "delivered".to_string(),
        Tag::Failed => "failed".to_string(),
        Tag::Locked => pid.map_or("with an agent".to_string(), |pid| format!("with agent {pid}")),
        _ => "queued".to_string(),
    };
    QueuedRecipient {
        recipient: text(recipient.quad.user),
        channel: lower(recipient.quad.channel),
        host: lower(recipient.quad.host),
        state,
    }
}
