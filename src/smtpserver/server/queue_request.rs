//! ETRN (RFC 1985): a file asks the scheduler to try a host now.

use crate::session::Reply;
use std::io;
use std::path::PathBuf;
use zsched_spool::submit::Submitter;
use zsched_spool::{HashLevel, Spool};

/// Where requests go.
#[derive(Clone, Debug)]
pub(super) struct QueueRequests {
    pub(super) spool: Spool,
    /// Nesting of `transport/`.
    pub(super) level: HashLevel,
    /// The socket of the scheduler.
    pub(super) scheduler: PathBuf,
}

impl QueueRequests {
    /// Asks for a host. Returns the reply for the client.
    pub(super) fn start(&self, host: &str, client: &str) -> Reply {
        match self.write(host, client) {
            Ok(()) => {
                log::info!("{client}: ETRN {host}");
                Reply::new(250, "2.0.0", format!("Queuing for {host} is started"))
            }
            Err(error) => {
                log::error!("{client}: ETRN {host}: {error}");
                Reply::new(458, "4.3.0", format!("Queuing for {host} cannot be started"))
            }
        }
    }

    fn write(&self, host: &str, client: &str) -> io::Result<()> {
        let submitter = Submitter { spool: self.spool.clone(), level: self.level, sync: false };
        let client: String = client.chars().filter(|c| !c.is_whitespace()).collect();
        let name = submitter.request_queue_run(host, &client)?;
        submitter.notify(&self.scheduler, &[name])
    }
}
