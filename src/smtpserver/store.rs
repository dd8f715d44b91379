//! Writes submissions, and gives them to the router. A message that is stored is on disk.

use super::session::Reply;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use zsched_spool::submit::notify;
use zsched_spool::{HashLevel, PublishedSubmission, Spool, SubmissionFile};

/// Where submissions go.
#[derive(Clone, Debug)]
pub struct Store {
    /// The spool.
    pub spool: Spool,
    /// Nesting of `router/`.
    pub level: HashLevel,
    /// The socket of the router.
    pub router_socket: PathBuf,
}

/// The reply to an error of the spool. The client tries again in any case.
fn failure(error: &io::Error) -> Reply {
    log::error!("a submission cannot be stored: {error}");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Reply::new(452, "4.3.1", "Not enough disk space")
        }
        _ => Reply::failure(),
    }
}

impl Store {
    /// Adds bytes to a submission, which is created if there is none.
    pub fn append(
        &self,
        file: Option<SubmissionFile>,
        bytes: &[u8],
    ) -> Result<SubmissionFile, Reply> {
        let write = || {
            let mut file = match file {
                Some(file) => file,
                None => SubmissionFile::create(&self.spool)?,
            };
            file.write_all(bytes)?;
            Ok(file)
        };
        write().map_err(|error| failure(&error))
    }

    /// Syncs submissions, and gives them to the router.
    pub fn publish(
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
