//! Gives recipients back to the router, as an operator orders.

use super::finalize::RecipientLocker;
use super::note::{OutcomeNote, candidates};
use super::outbox::{
    self, MessageIdentity, OnDisk, OutboxFolder, ReroutedMail, SubmissionDraft, SubmissionKind,
};
use super::resubmit::Submission;
use super::{Spool, SpoolName};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use zsched_format::control_file::{self, ControlFile, Recipient};

/// Recipients with the same offsets of sender and headers share a submission.
type SubmissionKey = (Option<u32>, Option<u32>);

/// Gives the unfinished recipients of an outcome to the router.
///
/// Recipients with the same sender and headers share one submission. At any crash, either the
/// router gets a recipient or it stays in the message ([`outbox`]). After an error it can be called
/// again.
///
/// Fails with [`ErrorKind::ResourceBusy`] if a living process has one of them.
pub(super) fn reroute(
    spool: &Spool,
    name: &SpoolName,
    on_disk: &mut OnDisk,
    outcome: &OutcomeNote<'_>,
    locker: &RecipientLocker<'_>,
) -> io::Result<()> {
    let outbox = OutboxFolder::open(spool)?;
    let identity = MessageIdentity::of(spool, name, &on_disk.file)?;
    let of = (&identity, SubmissionKind::Reroute);
    outbox::resume(on_disk, &outbox, of)?;
    let size = on_disk.file.metadata()?.len();
    let file = control_file::parse(control_file::read_all(&on_disk.file, size)?)?;
    let message = File::open(spool.message_file(name))?;
    let metadata = message.metadata()?;
    let body_offset = file.body_offset.ok_or(ErrorKind::InvalidData)?;
    let candidates = candidates(&file, outcome);
    let (taken, is_busy) = locker.lock_all(on_disk, candidates.iter())?;
    let mut kinds: BTreeMap<SubmissionKey, Vec<&Recipient>> = BTreeMap::new();
    for recipient in taken.iter().filter_map(|taken| file.recipient_at(taken.candidate.offset)) {
        kinds.entry((recipient.sender, recipient.headers)).or_default().push(recipient);
    }
    let owner = (metadata.uid(), metadata.gid());
    let submissions = kinds.values().filter_map(|recipients| {
        let lines = recipients.iter().map(|recipient| recipient.offset).collect();
        let submission = submission(&file, recipients)?;
        let mail = ReroutedMail { submission, message: &message, body_offset, owner };
        Some((lines, SubmissionDraft::Reroute(mail)))
    });
    outbox::hand_over(on_disk, &outbox, of, submissions.collect())?;
    if is_busy { Err(ErrorKind::ResourceBusy.into()) } else { Ok(()) }
}

fn submission<'f>(file: &'f ControlFile, recipients: &[&Recipient]) -> Option<Submission<'f>> {
    let first = recipients.first()?;
    let parameters = |recipient: &Recipient| recipient.notify.map(|notify| file.get(notify.value));
    let recipient = |recipient: &&Recipient| (parameters(recipient), file.get(recipient.quad.user));
    Some(Submission {
        envelope_id: file.envelope_id_of(first),
        return_mode: file.return_mode_of(first),
        sender: file.sender_address(first),
        recipients: recipients.iter().map(recipient).collect(),
        headers: file.headers_of(first).map_or(&[], |block| file.get(block.text)),
    })
}
