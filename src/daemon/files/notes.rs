//! Notes about many messages at a time. Each of them waits for the disk; together they wait little longer
//! than one does, since a disk that is asked by several brings what they have written to rest in one go.

use super::{Done, Results};
use std::sync::{Mutex, PoisonError};
use std::thread;
use zsched_core::{Note, NoteTicket};
use zsched_format::time::Timestamp;
use zsched_spool::note::{self, Remark};
use zsched_spool::{Spool, SpoolName};

/// So many OS threads write notes at a time. With more, ext4 does not get faster.
const MOST_HANDS: usize = 16;
/// So many messages at least for each of them: to start one costs as much as a note on a fast disk.
const EACH: usize = 2;

/// The parts of a [`Note`] that may travel between OS threads.
pub struct NoteRequest {
    ticket: NoteTicket,
    name: SpoolName,
    offsets: Vec<u32>,
    occasion: note::Occasion,
    time: Timestamp,
    notary: Vec<u8>,
    message: Vec<u8>,
}

impl From<Note> for NoteRequest {
    fn from(note: Note) -> NoteRequest {
        let Note { ticket, name, offsets, occasion, time, notary, message } = note;
        let (notary, message) = (notary.to_vec(), message.to_vec());
        NoteRequest { ticket, name, offsets, occasion, time, notary, message }
    }
}

impl NoteRequest {
    /// How much memory it takes, in bytes.
    pub fn size(&self) -> usize {
        let texts = self.notary.len() + self.message.len();
        size_of::<NoteRequest>() + texts + size_of_val(&self.offsets[..])
    }
}

/// Writes notes, those about one message in their order. When it returns, all are on disk, or it was told
/// why not.
pub fn write_all(spool: &Spool, mut notes: Vec<NoteRequest>, put: &Results) {
    notes.sort_by_key(|note| note.name.number());
    let same = |one: &NoteRequest, next: &NoteRequest| one.name.number() == next.name.number();
    let messages: Vec<&[NoteRequest]> = notes.chunk_by(same).collect();
    let hands = (messages.len() / EACH).clamp(1, MOST_HANDS);
    let left = Mutex::new(messages.into_iter());
    let work = || {
        let mut portion = Vec::new();
        // Whoever panics ends the writer, and with it the scheduler.
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(notes) = next() {
            for note in notes {
                // What was asked for is done even if nobody wants to know.
                put.gather(&mut portion, write(spool, note));
            }
        }
        put.put_rest(&mut portion);
    };
    thread::scope(|scope| {
        for _ in 1..hands {
            // Where there can be no more of them, those that there are do it.
            if thread::Builder::new().name("notes".to_string()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

fn write(spool: &Spool, note: &NoteRequest) -> Done {
    let remark = Remark {
        offsets: &note.offsets,
        occasion: note.occasion,
        time: note.time,
        notary: &note.notary,
        message: &note.message,
    };
    Done::Noted(note.ticket, note::write(spool, &note.name, &remark))
}
