//! Failures that no `d` line reports.
//!
//! An agent has tagged a recipient as failed, and left the line to a scheduler that was killed.

use crate::finalize::OpenControlFile;
use crate::note::{self, OutcomeKind, OutcomeNote};
use crate::{chunk, decisions};
use std::io;
use zsched_format::control_file::diagnostic::scheduler_notary;
use zsched_format::control_file::{self, Recipient, Tag};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Appends `d` lines about the failures of a finished message that have none.
///
/// All recipients are finished, so any that is not tagged as delivered has failed.
pub(super) fn note_failures(
    file: &impl OpenControlFile,
    size: u64,
    time: Timestamp,
) -> io::Result<()> {
    let offsets = match size > control_file::MAX_QUERY_SIZE {
        true => in_large_file(file, size)?,
        false => {
            let parsed = control_file::parse(sys::read_part(file, 0, size as usize)?)?;
            note::unnoted_failures(&parsed, |tag| tag != Tag::Done)
        }
    };
    if offsets.is_empty() {
        return Ok(());
    }
    let notary = scheduler_notary("failed", "5.0.0", "x-local; 550 (reason unknown)");
    let outcome = OutcomeNote {
        offsets: &offsets,
        occasion: OutcomeKind::Failure,
        time,
        notary: &notary,
        message: b"the transport agent gave no reason",
    };
    let candidates = note::candidates_on_disk(file, size, &outcome)?;
    file.append(&candidates.iter().flat_map(|one| &one.line).copied().collect::<Vec<u8>>())
}

fn in_large_file(file: &impl OpenControlFile, size: u64) -> io::Result<Vec<u32>> {
    let noted = decisions::verdicts_of_large(file, size)?;
    let is_unnoted = |recipient: &&Recipient| {
        recipient.tag != Tag::Done && !noted.contains_key(&recipient.offset)
    };
    let (mut offsets, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let part = chunk::read(file, at, usize::MAX)?;
        offsets.extend(part.file.recipients.iter().filter(is_unnoted).map(|one| one.offset));
        from = part.next;
    }
    Ok(offsets)
}
