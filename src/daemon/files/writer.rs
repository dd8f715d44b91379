//! The thread that writes to the spool, and removes from it.

use super::duplicates::Duplicates;
use super::{Done, Results};
use crate::daemon::orders;
use crate::daemon::status_log::{Composer, StatusRequest};
use crate::scheduler::standing::Standing;
use crate::scheduler::{Note, NoteTicket};
use crate::spool::note::{self, Remark};
use crate::spool::remove::{self, Reason};
use crate::spool::{Doubt, Spool, SpoolName, read};
use crate::time::Timestamp;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

/// What the writer is asked to do.
pub enum WriteRequest {
    /// Append diagnostics.
    Note(Box<NoteRequest>),
    /// Take a message out of the spool; aside if a report is owed.
    Remove(SpoolName, bool),
    /// Store the orders in force in this file.
    KeepOrders(PathBuf, Vec<Standing>),
    /// Clear the locks of a dead process.
    ClearLocks(SpoolName, u32),
    /// Compose lines of the status log.
    Status(StatusRequest),
}

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

/// Does what it is asked to, until there is nobody to ask and everything is done.
pub fn run(
    spool: &Spool,
    requests: &Receiver<Vec<WriteRequest>>,
    put: &Results,
    duplicates: &Duplicates,
    mut composer: Option<Composer>,
) {
    for batch in requests {
        let mut portion = Vec::new();
        for request in batch {
            if let Some(done) = write(spool, request, duplicates, composer.as_mut()) {
                // What was asked for is done even if nobody wants to know.
                put.gather(&mut portion, done);
            }
        }
        put.put_rest(&mut portion);
        if let Some(composer) = &mut composer {
            composer.flush();
        }
    }
}

fn write(
    spool: &Spool,
    request: WriteRequest,
    duplicates: &Duplicates,
    composer: Option<&mut Composer>,
) -> Option<Done> {
    match request {
        WriteRequest::Status(request) => {
            composer?.add(spool, &request);
            None
        }
        WriteRequest::Note(request) => Some(write_note(spool, *request)),
        WriteRequest::Remove(name, aside) => {
            if let Some(composer) = composer {
                composer.forget(&name);
            }
            let removed = take_out(spool, &name, aside);
            Some(Done::Removed(name, removed))
        }
        WriteRequest::KeepOrders(path, orders) => {
            Some(Done::OrdersKept(orders::write(&path, &orders)))
        }
        WriteRequest::ClearLocks(name, pid) => {
            let tell = &mut |doubt: &Doubt| duplicates.tell(doubt);
            let error = read::clear_locks(spool, &name, pid, tell).err()?;
            Some(Done::LocksNotCleared(name, error))
        }
    }
}

fn write_note(spool: &Spool, request: NoteRequest) -> Done {
    let remark = Remark {
        offsets: &request.offsets,
        occasion: request.occasion,
        time: request.time,
        notary: &request.notary,
        message: &request.message,
    };
    Done::Noted(request.ticket, note::write(spool, &request.name, &remark))
}

fn take_out(spool: &Spool, name: &SpoolName, aside: bool) -> io::Result<Option<PathBuf>> {
    if aside && remove::must_be_kept(spool, name)? {
        return remove::move_aside(spool, name, Reason::OwedReport).map(Some);
    }
    remove::remove(spool, name).map(|()| None)
}
