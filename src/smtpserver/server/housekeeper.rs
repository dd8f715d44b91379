//! A worker that reads and writes files for the event loop, which waits for no disk.

use super::traffic_file::TrafficFile;
use crate::installation::{FileStamp, Installation, Loaded};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use zsched_service::worker;
use zsched_sys as sys;

/// Interval of looks at the free space and at files that may have changed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Number of free inodes that is left to others.
const MIN_FREE_FILES: u64 = 1000;

/// What was read, with its warnings; or all errors.
pub(super) type LoadResult = Result<(Loaded, Vec<String>), Vec<String>>;

/// What the loop asks for.
pub(super) enum Chore {
    /// Read everything again now.
    Load,
    /// Write the counters.
    WriteTraffic(Vec<u8>),
}

/// The worker's side.
pub(super) struct Housekeeper {
    /// What it reads.
    pub(super) installation: Installation,
    /// Files that are read again when they change, as they were when they were read.
    pub(super) watched: Vec<FileStamp>,
    /// The folder whose free space counts.
    pub(super) folder: PathBuf,
    /// Free space of it that submissions may take, in bytes.
    pub(super) free_space: Arc<AtomicU64>,
    /// Free space that is left to others, in bytes.
    pub(super) min_free_space: u64,
    /// The file with the counters.
    pub(super) traffic: Arc<TrafficFile>,
}

impl Housekeeper {
    /// Starts the worker. What it reads goes to `done`.
    ///
    /// It ends with the returned sender.
    pub(super) fn start(
        mut self,
        done: impl Fn(LoadResult) + Send + 'static,
    ) -> io::Result<Sender<Chore>> {
        self.measure_space();
        let (sender, chores) = channel();
        let work = move || {
            while let Some(is_asked) = self.wait(&chores) {
                if is_asked || self.watched.iter().any(FileStamp::has_changed) {
                    done(self.load());
                }
            }
        };
        worker::start("housekeeper", work)?;
        Ok(sender)
    }

    /// Waits for chores or for the next look.
    ///
    /// Returns true if everything is to be read, `None` at the end.
    fn wait(&self, chores: &Receiver<Chore>) -> Option<bool> {
        self.measure_space();
        let (mut next, mut is_asked) = (chores.recv_timeout(INTERVAL), false);
        // One reading serves all requests before it.
        loop {
            match next {
                Ok(Chore::Load) => is_asked = true,
                Ok(Chore::WriteTraffic(text)) => self.traffic.write(&text, false),
                Err(RecvTimeoutError::Timeout) => return Some(is_asked),
                Err(RecvTimeoutError::Disconnected) => return is_asked.then_some(true),
            }
            next = chores.recv_timeout(Duration::ZERO);
        }
    }

    fn measure_space(&self) {
        let Ok(space) = sys::statvfs(&self.folder) else { return };
        // Some file systems do not count files.
        let has_files = space.f_files == 0 || space.f_favail >= MIN_FREE_FILES;
        let free = if has_files { space.f_bavail.saturating_mul(space.f_frsize) } else { 0 };
        self.free_space.store(free.saturating_sub(self.min_free_space), Ordering::Relaxed);
    }

    /// Reads everything. Files with an error are read again when they change.
    fn load(&mut self) -> LoadResult {
        self.watched.iter_mut().for_each(|stamp| *stamp = FileStamp::of(&stamp.path));
        let loaded = worker::catch_panic(|| self.installation.load());
        let loaded = loaded.unwrap_or_else(|| Err(vec!["a fault while files are read".into()]));
        if let Ok((loaded, _)) = &loaded {
            self.watched.clone_from(&loaded.watched);
            self.min_free_space = loaded.config.limits.min_free_space;
        }
        loaded
    }
}
