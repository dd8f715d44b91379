//! Giving recipients of a queued message back to the router, because an operator wants it.

use super::resubmit::Submission;
use super::{Spool, SpoolName};
use crate::control_file::{ControlFile, Recipient, Tag};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

/// Recipients that get the same: offsets of their sender and their headers.
type Kind = (Option<u32>, Option<u32>);

/// Hands over those of the recipients at `offsets` that are still pending: one submission for all that
/// have sender and headers in common. When it returns, the router has them all; an error may mean that
/// it has some, which it will get again.
pub fn reroute(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
    offsets: &[u32],
) -> io::Result<()> {
    let mut kinds: BTreeMap<Kind, Vec<&Recipient>> = BTreeMap::new();
    let recipients = offsets.iter().filter_map(|offset| file.recipient_at(*offset));
    for recipient in recipients.filter(|recipient| recipient.tag == Tag::Pending) {
        kinds.entry((recipient.sender, recipient.headers)).or_default().push(recipient);
    }
    kinds.values().try_for_each(|recipients| hand_over(spool, name, file, recipients))
}

fn hand_over(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
    recipients: &[&Recipient],
) -> io::Result<()> {
    let Some(first) = recipients.first() else {
        return Ok(());
    };
    let body_offset = file.body_offset.ok_or(ErrorKind::InvalidData)?;
    let mut message = File::open(spool.message_file(name))?;
    let metadata = message.metadata()?;
    message.seek(SeekFrom::Start(body_offset))?;
    let wishes = |recipient: &Recipient| recipient.notify.map(|notify| file.get(notify.value));
    let submission = Submission {
        file,
        sender: file.sender_address(first),
        recipients: recipients
            .iter()
            .map(|recipient| (wishes(recipient), file.get(recipient.quad.user)))
            .collect(),
        headers: file.headers_of(first).map_or(&[], |block| file.get(block.text)),
    };
    let owner = (metadata.uid(), metadata.gid());
    submission.hand_over(spool.postoffice(), &mut message, owner).map(|_| ())
}
