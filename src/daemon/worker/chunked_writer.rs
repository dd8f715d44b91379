//! Writes a text in the background that the loop composes in pieces.
//!
//! A worker writes the text, since a disk or the reader of a pipe may be slow. The number of pieces
//! that wait for it is limited. It wakes the loop whenever it has taken one.

use crate::worker;
use mio::Waker;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Size of a piece, in bytes. The loop composes one per turn.
pub(crate) const CHUNK_SIZE: usize = 64 * 1024;
/// Maximum number of pieces waiting for the worker.
const MAX_WAITING_CHUNKS: usize = 4;

/// Piece of text; `None` is the end of the text.
type Chunk = Option<Vec<u8>>;

/// The loop's end.
pub(crate) struct ChunkSender {
    sender: SyncSender<Chunk>,
    /// Piece for which the channel had no room.
    refused: Option<Chunk>,
}

/// The worker's end.
pub(crate) struct ChunkReceiver {
    chunks: Receiver<Chunk>,
    waker: Arc<Waker>,
}

impl ChunkSender {
    /// Starts a worker with a name. It wakes the loop through `waker`.
    pub(crate) fn start(
        name: &str,
        waker: Arc<Waker>,
        write: impl FnOnce(ChunkReceiver) + Send + 'static,
    ) -> io::Result<(ChunkSender, JoinHandle<()>)> {
        let (sender, chunks) = sync_channel(MAX_WAITING_CHUNKS);
        let writer = worker::start(name, move || {
            let loop_waker = waker.clone();
            write(ChunkReceiver { chunks, waker });
            wake(&loop_waker);
        })?;
        Ok((ChunkSender { sender, refused: None }, writer))
    }

    /// Returns true if the next piece can be composed.
    pub(crate) fn has_room(&self) -> bool {
        self.refused.is_none()
    }

    /// Sends the worker one more piece, if it has room. Returns true once the end is sent.
    ///
    /// `next` composes the piece, or returns `None` at the end.
    pub(crate) fn send_next(&mut self, next: impl FnOnce() -> Option<Vec<u8>>) -> bool {
        let chunk = self.refused.take().unwrap_or_else(next);
        let is_last = chunk.is_none();
        match self.sender.try_send(chunk) {
            Ok(()) => is_last,
            Err(TrySendError::Full(chunk)) => {
                self.refused = Some(chunk);
                false
            }
            // The worker has failed and has logged why.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }
}

impl ChunkReceiver {
    /// Writes all pieces as they come. Fails if the loop drops its end before the last piece.
    pub(crate) fn write_all(&self, out: &mut impl io::Write) -> io::Result<()> {
        loop {
            let chunk = self.chunks.recv();
            wake(&self.waker);
            match chunk {
                Ok(Some(text)) => out.write_all(&text)?,
                Ok(None) => return Ok(()),
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
