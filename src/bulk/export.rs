//! The hand-back of a job to another scheduler, which knows no jobs.
//!
//! All recipients that have no outcome get packets, which any scheduler delivers without the job.
//!
//! | step | after a kill |
//! |---|---|
//! | outcomes in packets become status bytes, which are synced | they are written again |
//! | packets are made of all other recipients, and synced | those that are missing are made |
//! | the status byte of their recipients becomes `e`, and is synced | the rest is written |
//! | the result is written: the job is over | |
//!
//! A packet of a job that is over is an ordinary message: its sender gets reports about it.

use super::cut::{OpenJob, RecipientCounts};
use super::packet::{self, ExistingPacket};
use super::recipient::Status;
use super::status::StatusWriter;
use super::{JobId, is_finished, result};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use zsched_format::time::{Timestamp, format_time};
use zsched_spool::processes::Process;
use zsched_spool::submit::Submitter;
use zsched_spool::sync::sync_together;
use zsched_spool::{HashLevel, Spool, SpoolName, unfinished};
use zsched_sys as sys;

/// Maximum number of recipients of a control file that an export writes.
const MAX_RECIPIENTS: u32 = 1000;

/// Why a job cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A scheduler works on the spool.
    #[error("a scheduler runs on this spool{0}; end it before the export")]
    SchedulerRuns(String),
    /// There is no such job.
    #[error("there is no bulk job {0}")]
    NoJob(JobId),
    /// The time of the job has not come, and other schedulers do not wait for it.
    #[error("job {0} is not to be delivered before {1}; cancel it, or export it then")]
    TooEarly(JobId, String),
    /// The spool cannot be read or written.
    #[error(transparent)]
    Spool(#[from] io::Error),
}

/// A spool on which no scheduler runs, nor can start.
pub struct Export {
    submitter: Submitter,
    _lock: File,
}

impl Export {
    /// Keeps schedulers from the spool, as long as the value exists.
    pub fn begin(spool: &Spool, level: HashLevel) -> Result<Export, ExportError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = sys::open_regular(&mut options, &spool.lock_file())?;
        // A scheduler that has no lock, as ZMailer's, has a pid file.
        let text = sys::if_exists(fs::read_to_string(spool.pid_file()))?.unwrap_or_default();
        let pid = text.trim().parse().ok().filter(|pid| Process::alive(*pid).is_some());
        let runs = |pid: Option<u32>| {
            let shown = pid.map(|pid| format!(", pid {pid}"));
            ExportError::SchedulerRuns(shown.unwrap_or_default())
        };
        match lock.try_lock() {
            Ok(()) if pid.is_none() => {}
            Ok(()) | Err(TryLockError::WouldBlock) => return Err(runs(pid)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // What a kill has left of a packet becomes a packet.
        unfinished::finish(spool)?;
        let submitter = Submitter { spool: spool.clone(), level, sync: true };
        Ok(Export { submitter, _lock: lock })
    }

    /// Turns what is left of a job into ordinary messages, and ends the job.
    ///
    /// Can be called again after a kill, and for a finished job.
    pub fn export(&self, job: JobId) -> Result<RecipientCounts, ExportError> {
        let spool = &self.submitter.spool;
        if is_finished(spool, job)? {
            result::clean_up(spool, job)?;
            return Ok(result::counts(spool, job)?);
        }
        self.write_outcomes(job)?;
        let packets = self.packets(job)?;
        let open = sys::if_exists(OpenJob::open(spool, job, &packets))?;
        let mut open = open.ok_or(ExportError::NoJob(job))?;
        let now = Timestamp::now().seconds();
        let (orders, parameters) = (open.orders, &open.parameters);
        if let Some(at) = parameters.not_before.filter(|at| *at > now && !orders.is_cancelled) {
            let at = format_time(Timestamp::from_seconds(at));
            return Err(ExportError::TooEarly(job, at));
        }
        if orders.is_cancelled {
            open.drop_rest(spool, &packets, Status::Cancelled)?;
        } else if parameters.deadline.is_some_and(|at| at <= now) {
            open.drop_rest(spool, &packets, Status::TooLate)?;
        }
        self.cut_all(&mut open, job)?;
        // Those in packets, too: another scheduler delivers to them.
        open.drop_rest(spool, &[], Status::Exported)?;
        Ok(result::write(spool, job)?)
    }

    fn packets(&self, job: JobId) -> io::Result<Vec<ExistingPacket>> {
        let mut packets = packet::existing(&self.submitter.spool)?;
        packets.retain(|packet| packet.number.job == job);
        Ok(packets)
    }

    /// Writes the outcomes that the tags in packets tell.
    fn write_outcomes(&self, job: JobId) -> io::Result<()> {
        let mut writer = StatusWriter::new(&self.submitter.spool);
        for packet in self.packets(job)? {
            writer.write(&packet.number.name(self.submitter.level), false)?;
        }
        writer.sync()
    }

    /// Makes packets until each pending recipient is in one.
    fn cut_all(&self, open: &mut OpenJob, job: JobId) -> io::Result<()> {
        loop {
            open.rewind(&self.packets(job)?)?;
            let (destinations, _) = open.next_destinations(usize::MAX)?;
            if destinations.is_empty() {
                return Ok(());
            }
            let mut folders = BTreeSet::new();
            for destination in destinations {
                while let Some(made) =
                    open.make_packet(&self.submitter, destination.offset, MAX_RECIPIENTS)?
                {
                    folders.extend(self.folders(&made.name)?);
                }
            }
            let pairs = folders.into_iter().map(|folder| (None, folder)).collect();
            sync_together(pairs).into_iter().try_for_each(|synced| synced.folder)?;
        }
    }

    fn folders(&self, name: &SpoolName) -> io::Result<[PathBuf; 2]> {
        let (message, control) = self.submitter.folders(name)?;
        Ok([message, control])
    }
}
