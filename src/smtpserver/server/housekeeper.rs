//! A worker that looks at files for the event loop, which waits for no disk.

use crate::installation::{FileStamp, Installation, Loaded};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use zsched_sys as sys;

/// Interval of looks at the free space and at files that may have changed.
const INTERVAL: Duration = Duration::from_secs(5);

/// What was read, with its warnings; or all errors.
pub(super) type LoadResult = Result<(Loaded, Vec<String>), Vec<String>>;

/// The worker's side.
pub(super) struct Housekeeper {
    /// What it reads.
    pub(super) installation: Installation,
    /// Files that are read again when they change, as they were when they were read.
    pub(super) watched: Vec<FileStamp>,
    /// The folder whose free space counts.
    pub(super) folder: PathBuf,
    /// Free space of it, in bytes.
    pub(super) free_space: Arc<AtomicU64>,
}

impl Housekeeper {
    /// Starts the worker. What it reads goes to `done`.
    ///
    /// Each message to the returned sender makes it read everything now; it ends with the sender.
    pub(super) fn start(
        mut self,
        done: impl Fn(LoadResult) + Send + 'static,
    ) -> io::Result<Sender<()>> {
        let (sender, requests) = channel();
        let work = move || {
            while let Some(is_asked) = self.wait(&requests) {
                if is_asked || self.watched.iter().any(FileStamp::has_changed) {
                    done(self.load());
                }
            }
        };
        std::thread::Builder::new().name("housekeeper".into()).spawn(work)?;
        Ok(sender)
    }

    /// Waits for a request or for the next look. Returns true for a request, `None` at the end.
    fn wait(&self, requests: &Receiver<()>) -> Option<bool> {
        if let Ok(space) = sys::statvfs(&self.folder) {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            self.free_space.store(free, Ordering::Relaxed);
        }
        match requests.recv_timeout(INTERVAL) {
            Ok(()) => {
                // One reading serves all requests before it.
                while requests.try_recv().is_ok() {}
                Some(true)
            }
            Err(RecvTimeoutError::Timeout) => Some(false),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Reads everything. Files with an error are read again when they change.
    fn load(&mut self) -> LoadResult {
        self.watched.iter_mut().for_each(|stamp| *stamp = FileStamp::of(&stamp.path));
        let loaded = catch_unwind(AssertUnwindSafe(|| self.installation.load()));
        let loaded = loaded.unwrap_or_else(|_| Err(vec!["a fault while files are read".into()]));
        if let Ok((loaded, _)) = &loaded {
            self.watched.clone_from(&loaded.watched);
        }
        loaded
    }
}
