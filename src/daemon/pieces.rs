//! Writes a text in the background that the loop composes in pieces.
//!
//! A worker writes the text, since a disk or the reader of a pipe may be slow. The number of pieces
//! that wait for it is limited. It wakes the loop whenever it has taken one.

use super::worker;
use mio::Waker;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Size of a piece, in bytes. The loop composes one per turn.
pub const PIECE: usize = 64 * 1024;
/// Maximum number of pieces waiting for the worker.
const WAITING: usize = 4;

/// Message to the worker.
enum Piece {
    /// Text to be written.
    Text(Vec<u8>),
    /// End of the text.
    End,
}

/// The loop's end.
pub struct Pieces {
    sender: SyncSender<Piece>,
    /// Piece for which the channel had no room.
    refused: Option<Piece>,
}

/// The worker's end.
pub struct ToWrite {
    pieces: Receiver<Piece>,
    waker: Arc<Waker>,
}

impl Pieces {
    /// Starts a worker with a name. It wakes the loop through `waker`.
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

    /// Returns true if the next piece can be composed.
    pub fn have_room(&self) -> bool {
        self.refused.is_none()
    }

    /// Sends the worker one more piece, if it has room. Returns true once the end is sent.
    ///
    /// `next` composes the piece, or returns `None` at the end.
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
            // The worker has failed and has logged why.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }
}

impl ToWrite {
    /// Writes all pieces as they come. Fails if the loop drops its end before the last piece.
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
    // Waking fails only if the loop is gone. Then waking is not needed.
    drop(waker.wake());
}
