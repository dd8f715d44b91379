//! Writes submissions, and gives them to the router. A message that is stored is on disk.

use super::session::Reply;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_spool::submit::notify;
use zsched_spool::{HashLevel, PublishedSubmission, Spool, SubmissionFile};

/// Size of a block of the file system, in bytes, as far as it matters.
const BLOCK_SIZE: u64 = 4096;

/// Where submissions go.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// The spool.
    pub(crate) spool: Spool,
    /// Nesting of `router/`.
    pub(crate) level: HashLevel,
    /// The socket of the router.
    pub(crate) router_socket: PathBuf,
    /// Space that submissions may still take, in bytes.
    ///
    /// What is written is taken off. The owner of the store sets it to the true value now and then.
    pub(crate) free_space: Arc<AtomicU64>,
}

/// The reply to an error of the spool. The client tries again in any case.
fn failure(error: &io::Error) -> Reply {
    log::error!("a submission cannot be stored: {error}");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Reply::full_disk()
        }
        _ => Reply::failure(),
    }
}

impl Store {
    /// Adds bytes to a submission, which is created if there is none.
    pub(crate) fn append(
        &self,
        file: Option<SubmissionFile>,
        bytes: &[u8],
    ) -> Result<SubmissionFile, Reply> {
        let write = || {
            let mut file = match file {
                Some(file) => file,
                None => SubmissionFile::create(&self.spool)?,
            };
            self.take_space(bytes.len() as u64 + BLOCK_SIZE)?;
            file.write_all(bytes)?;
            Ok(file)
        };
        write().map_err(|error| failure(&error))
    }

    fn take_space(&self, size: u64) -> io::Result<()> {
        let take = |free: u64| free.checked_sub(size);
        match self.free_space.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    /// Syncs submissions, and gives them to the router.
    pub(crate) fn publish(
        &self,
        files: Vec<SubmissionFile>,
    ) -> impl Iterator<Item = Result<PublishedSubmission, Reply>> {
        let results = SubmissionFile::publish_all(files, self.level);
        results.into_iter().map(|result| {
            let published = result.map_err(|error| failure(&error))?;
            // Otherwise the router finds it by its next scan.
            notify(&self.router_socket, &format!("NEW router {}", published.name)).ok();
            Ok(published)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submission_that_needs_the_last_space_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let store = Store {
            level: HashLevel::Flat,
            router_socket: spool.router_socket(None),
            free_space: Arc::new(AtomicU64::new(100_000)),
            spool,
        };
        let file = store.append(None, &[b'x'; 60_000]).expect("there is room");
        let refused = store.append(Some(file), &[b'x'; 60_000]).expect_err("there is none");
        assert_eq!(refused.to_string(), "452 4.3.1 Not enough disk space, try again later");
        assert_eq!(std::fs::read_dir(store.spool.public()).expect("a folder").count(), 0);
        store.append(None, b"small").expect("there is room");
    }
}
