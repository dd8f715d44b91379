//! A text that is put together on the loop, a piece at a time, and written by a thread of its own, which may
//! have to wait for a disk or for the reader of a pipe. A few pieces at most wait for the thread; when it
//! has taken one, it wakes the loop.

use super::worker;
use mio::Waker;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// The size of a piece, in bytes: one is put together in a turn of the loop.
pub const PIECE: usize = 64 * 1024;
/// So many pieces may wait for the thread.
const WAITING: usize = 4;

/// What the thread is given.
enum Piece {
    /// To be written.
    Text(Vec<u8>),
    /// That was all.
    End,
}

/// The loop's end.
pub struct Pieces {
    sender: SyncSender<Piece>,
    /// One that the thread had no room for.
    refused: Option<Piece>,
}

/// The thread's end.
pub struct ToWrite {
    pieces: Receiver<Piece>,
    waker: Arc<Waker>,
}

impl Pieces {
    /// Starts the thread, under a name. It wakes the loop through `waker`.
    pub fn start(
        name: &str,
        waker: Arc<Waker>,
        write: impl FnOnce(ToWrite) + Send + 'static,
    ) -> io::Result<(Pieces, JoinHandle<()>)> {
        let (sender, pieces) = sync_channel(WAITING);
        let writer = worker::start(name, move || {
            let loop_waker = waker.clone();
            write(ToWrite { pieces, waker });
            wake(&loop_waker);
        })?;
        Ok((Pieces { sender, refused: None }, writer))
    }

    /// Whether the next piece can be put together.
    pub fn have_room(&self) -> bool {
        self.refused.is_none()
    }

    /// Gives the thread one more piece, if it has room for it: `next` puts it together, or tells that
    /// there is none. Tells whether that was the end.
    pub fn give(&mut self, next: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        let next = || next().map_or(Piece::End, Piece::Text);
        let piece = self.refused.take().unwrap_or_else(next);
        let is_last = matches!(piece, Piece::End);
        match self.sender.try_send(piece) {
            Ok(()) => is_last,
            Err(TrySendError::Full(piece)) => {
                self.refused = Some(piece);
                false
            }
            // The thread has failed, and has said why.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }
}

impl ToWrite {
    /// Writes all pieces, as they come. An error means that there will be no end.
    pub fn write_all(&self, out: &mut impl io::Write) -> io::Result<()> {
        loop {
            let piece = self.pieces.recv();
            wake(&self.waker);
            match piece {
                Ok(Piece::Text(text)) => out.write_all(&text)?,
                Ok(Piece::End) => return Ok(()),
                Err(_) => {
                    return Err(io::Error::new(ErrorKind::Interrupted, "the scheduler ends"));
                }
            }
        }
    }
}

fn wake(waker: &Waker) {
    // It fails only if the loop is gone, and then nobody needs to know.
    drop(waker.wake());
}
