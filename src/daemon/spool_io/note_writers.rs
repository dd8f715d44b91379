//! Writes notes about many messages in parallel. Each of them waits for the disk.

use super::parallel::for_each_in_parallel;
use super::{Completion, CompletionSender};
use zsched_core::Note;
use zsched_spool::Spool;
use zsched_spool::note::{self, OutcomeNote};

/// Writes notes, those about one message in their order.
///
/// When it returns, each note is on disk or has failed, and its result was sent.
pub(super) fn write_all(spool: &Spool, mut notes: Vec<Note>, completions: &CompletionSender) {
    notes.sort_by_key(|note| note.name.number());
    let same = |one: &Note, next: &Note| one.name.number() == next.name.number();
    let messages: Vec<&[Note]> = notes.chunk_by(same).collect();
    for_each_in_parallel(&messages, |notes| {
        let done = notes.iter().map(|note| write(spool, note)).collect();
        // Continues without a receiver: everything requested is written.
        completions.send(done);
    });
}

fn write(spool: &Spool, note: &Note) -> Completion {
    let remark = OutcomeNote {
        offsets: &note.offsets,
        occasion: note.occasion,
        time: note.time,
        notary: &note.notary,
        message: &note.message,
    };
    Completion::NoteWritten(note.ticket, note::write(spool, &note.name, &remark))
}
