//! Bulk jobs: one message for very many recipients.
//!
//! ```text
//! POSTOFFICE/bulk/ID/job          parameters
//!                    message      headers and body, once
//!                    recipients   a line each: status byte, address, fields; grouped by destination
//!                    index        the destinations, those with most recipients first
//!                    orders       what operators have changed
//!                    failures     offset and text of recipients that have failed
//!                    progress     how much of it is submitted, if it is submitted as a stream
//!                    summary      number of recipients with each outcome, at the end
//!                    result       every recipient and its outcome, at the end
//! ```
//!
//! A job is written to a temporary folder, synced and renamed ([`draft`]): the rename is the
//! commit. The scheduler then cuts *packets* ([`packet`]): ordinary control files, which any agent
//! delivers. Each has recipients of one destination, and names their offsets in `recipients` in its
//! `J` line. The number of a packet consists of the job and the offset of its first recipient.
//!
//! A recipient is marked as cut before its packet is visible, and its outcome is written and synced
//! before the packet is removed ([`status`]). So it is in no packet yet, in a packet, or final. A
//! recipient that is marked as cut and is in no packet is *lost*: another scheduler may have
//! delivered its packet. It is not sent again before an operator has decided that.
//!
//! This crate decides how a job is stored, which recipients are in a packet, and what is written
//! about them. It must not know when a packet is cut: the core decides that. Begin with [`draft`].
#![warn(unreachable_pub)]

pub mod counts;
pub mod cut;
pub mod draft;
pub mod export;
mod id;
pub mod layout;
mod merge;
pub mod packet;
mod parameters;
pub mod recipient;
pub mod result;
mod sorter;
pub mod status;
pub mod store;
pub mod stream;

#[cfg(test)]
mod tests;

pub use id::{JobId, JobIdError, PacketNumber};
pub use parameters::{BulkOrders, BulkParameters, MAX_HEADERS, MAX_SHARE};

use std::fs;
use std::io;
use std::path::PathBuf;
use zsched_spool::{Spool, folder};
use zsched_sys::if_exists;

/// Names of the files of a job.
const JOB: &str = "job";
const MESSAGE: &str = "message";
const RECIPIENTS: &str = "recipients";
const INDEX: &str = "index";
const ORDERS: &str = "orders";
const FAILURES: &str = "failures";
const PROGRESS: &str = "progress";
const SUMMARY: &str = "summary";
const RESULT: &str = "result";

/// Beginning of the name of a job's folder before the commit.
const UNFINISHED: &str = ".new-";

/// The folder of a job.
pub fn job_folder(spool: &Spool, job: JobId) -> PathBuf {
    spool.bulk().join(job.to_string())
}

/// The result of a job: a line for each recipient. It exists once the job is finished.
pub fn result_file(spool: &Spool, job: JobId) -> PathBuf {
    job_folder(spool, job).join(RESULT)
}

/// Lists the jobs of a spool, finished ones included, in ascending order.
pub fn list(spool: &Spool) -> io::Result<Vec<JobId>> {
    let Some(entries) = if_exists(fs::read_dir(spool.bulk()))? else {
        return Ok(Vec::new());
    };
    let mut jobs = Vec::new();
    for entry in entries {
        jobs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<JobId>().ok()));
    }
    jobs.sort_unstable();
    Ok(jobs)
}

/// Returns true if a job has a result, so that nothing is left to do.
pub fn is_finished(spool: &Spool, job: JobId) -> io::Result<bool> {
    folder::exists(&result_file(spool, job))
}

/// Returns true while a job is not over.
///
/// Its result takes the place of reports then.
pub fn is_open(spool: &Spool, job: JobId) -> io::Result<bool> {
    folder::exists(&job_folder(spool, job).join(RECIPIENTS))
}
