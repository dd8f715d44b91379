//! Writes notes about many messages in parallel. Each of them waits for the disk.

use super::parallel::{MAX_WORKERS, for_each_in_parallel};
use super::{Completion, CompletionSender};
use crate::logging::syslog;
use zsched_bulk::status as bulk_status;
use zsched_core::Note;
use zsched_spool::Spool;
use zsched_spool::note::{self, OutcomeKind, OutcomeNote};
use zsched_spool::tally::{RecipientTally, tally};

/// Writes notes, those about one message in their order.
///
/// When it returns, each note is on disk or has failed, and its result was sent.
pub(super) fn write_all(spool: &Spool, mut notes: Vec<Note>, completions: &CompletionSender) {
    notes.sort_by_key(|note| note.name.number());
    let same = |one: &Note, next: &Note| one.name.number() == next.name.number();
    let messages: Vec<&[Note]> = notes.chunk_by(same).collect();
    for_each_in_parallel(&messages, MAX_WORKERS, |notes| {
        let done = notes.iter().map(|note| write(spool, note)).collect();
        // Continues without a receiver: everything requested is written.
        completions.send(done);
    });
}

fn write(spool: &Spool, note: &Note) -> Completion {
    // Only the occasion tells a deletion from a delivery.
    let written = bulk_status::note(spool, &note.name, &note.offsets, note.occasion)
        .and_then(|()| note::write(spool, &note.name, &OutcomeNote::from(note)));
    if written.is_ok() && note.occasion == OutcomeKind::Deletion && syslog::has_events() {
        log_deletion(spool, note);
    }
    Completion::NoteWritten(note.ticket, written)
}

/// Sends the line of the system log about recipients that an operator has deleted.
fn log_deletion(spool: &Spool, note: &Note) {
    let Ok(RecipientTally { spool_id, unfinished, .. }) = tally(spool, &note.name) else {
        return;
    };
    let (number, count) = (note.name.number(), note.offsets.len());
    syslog::event(|| match unfinished {
        0 => format!("{spool_id}: {number} killed"),
        _ => format!("{spool_id}: {number} killed ({count} recipients, {unfinished} left)"),
    });
}
