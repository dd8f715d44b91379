//! Writes a text in the background that the loop composes in pieces.
//!
//! A worker writes the text, since a disk or the reader of a pipe may be slow. The number of pieces
//! that wait for it is limited. It wakes the loop whenever it has taken one.

use mio::Waker;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use zsched_service::worker;

/// Size of a piece, in bytes. The loop composes one per turn.
pub(crate) const CHUNK_SIZE: usize = 64 * 1024;
/// Maximum number of pieces waiting for the worker.
const MAX_WAITING_CHUNKS: usize = 4;

/// Piece of text; `None` is the end of the text.
type Chunk = Option<Vec<u8>>;

/// The event loop's side of the channel; it sends one text at a time.
pub(crate) struct ChunkedWriter<C> {
    /// Name of the worker.
    name: &'static str,
    waker: Arc<Waker>,
    composition: Option<Composition<C>>,
    worker: Option<JoinHandle<()>>,
}

/// Text that is being composed.
struct Composition<C> {
    composer: C,
    sender: SyncSender<Chunk>,
    /// Piece for which the channel had no room.
    refused: Option<Chunk>,
}

/// The worker's end.
pub(crate) struct ChunkReceiver {
    chunks: Receiver<Chunk>,
    waker: Arc<Waker>,
}

impl<C> ChunkedWriter<C> {
    /// Creates the state without a text. The worker wakes the loop through `waker`.
    pub(crate) fn new(name: &'static str, waker: Arc<Waker>) -> ChunkedWriter<C> {
        ChunkedWriter { name, waker, composition: None, worker: None }
    }

    /// Starts a worker for a text.
    ///
    /// Returns false, and does nothing, while the former text is composed or written.
    pub(crate) fn begin(
        &mut self,
        composer: C,
        write: impl FnOnce(ChunkReceiver) + Send + 'static,
    ) -> io::Result<bool> {
        let is_writing = self.worker.as_ref().is_some_and(|worker| !worker.is_finished());
        if is_writing || self.is_composing() {
            return Ok(false);
        }
        let (sender, chunks) = sync_channel(MAX_WAITING_CHUNKS);
        let waker = self.waker.clone();
        self.worker = Some(worker::start(self.name, move || {
            let loop_waker = waker.clone();
            write(ChunkReceiver { chunks, waker });
            wake(&loop_waker);
        })?);
        self.composition = Some(Composition { composer, sender, refused: None });
        Ok(true)
    }

    /// Returns true until the end of the text is sent to the worker.
    pub(crate) fn is_composing(&self) -> bool {
        self.composition.is_some()
    }

    /// Returns true if the next piece can be composed.
    pub(crate) fn is_busy(&self) -> bool {
        self.composition.as_ref().is_some_and(|composition| composition.refused.is_none())
    }

    /// Sends the worker one more piece, if it has room. Returns the composer once the end is sent.
    ///
    /// `next` composes the piece, or returns `None` at the end.
    pub(crate) fn advance(&mut self, next: impl FnOnce(&mut C) -> Option<Vec<u8>>) -> Option<C> {
        let Composition { composer, sender, refused } = self.composition.as_mut()?;
        let chunk = refused.take().unwrap_or_else(|| next(composer));
        let is_last = chunk.is_none();
        match sender.try_send(chunk) {
            Ok(()) if !is_last => return None,
            Err(TrySendError::Full(chunk)) => {
                *refused = Some(chunk);
                return None;
            }
            // If the worker has failed, it has logged why.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
        self.composition.take().map(|composition| composition.composer)
    }

    /// Gives up the present text, and waits for the worker.
    pub(crate) fn stop(&mut self) {
        self.composition = None;
        if let Some(worker) = self.worker.take() {
            // The worker has logged any error.
            drop(worker.join());
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
