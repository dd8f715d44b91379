//! Writes notes about many messages in parallel.
//!
//! Each note waits for the disk. Several together take little longer than one, since a disk that
//! gets several requests at a time stores them in one go.

use super::{Completion, CompletionSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use zsched_core::Note;
use zsched_spool::Spool;
use zsched_spool::note::{self, OutcomeNote};

/// Maximum number of workers that write notes. With more, ext4 does not get faster.
const MAX_NOTE_WORKERS: usize = 16;
/// Minimum number of messages per worker. Starting one costs as much as a note on a fast disk.
const MIN_MESSAGES_PER_WORKER: usize = 2;

/// Writes notes, those about one message in their order.
///
/// When it returns, each note is on disk or has failed, and its result was sent.
pub(super) fn write_all(spool: &Spool, mut notes: Vec<Note>, completions: &CompletionSender) {
    notes.sort_by_key(|note| note.name.number());
    let same = |one: &Note, next: &Note| one.name.number() == next.name.number();
    let messages: Vec<&[Note]> = notes.chunk_by(same).collect();
    let hands = (messages.len() / MIN_MESSAGES_PER_WORKER).clamp(1, MAX_NOTE_WORKERS);
    let left = Mutex::new(messages.into_iter());
    let work = || {
        let mut portion = Vec::new();
        // A panic here ends the writer, and with it the scheduler.
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(notes) = next() {
            for note in notes {
                // Continues without a receiver: everything requested is written.
                completions.add(&mut portion, write(spool, note));
            }
        }
        completions.flush(&mut portion);
    };
    thread::scope(|scope| {
        for _ in 1..hands {
            // If no more workers can be started, the present ones write all notes.
            if thread::Builder::new().name("notes".to_string()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
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
