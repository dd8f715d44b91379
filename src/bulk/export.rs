//! Work on jobs while no scheduler runs: their hand-back to another scheduler, and cancellation.
//!
//! Another scheduler knows no jobs. All recipients that have no outcome get packets, which any
//! scheduler delivers without the job.
//!
//! | step of an export | after a kill |
//! |---|---|
//! | outcomes in packets become status bytes, which are synced | they are written again |
//! | packets whose fields agents merge into the body are removed | they are made again |
//! | packets are made of all other recipients, and synced | those that are missing are made |
//! | the status byte of their recipients becomes `e`, and is synced | the rest is written |
//! | the result is written: the job is over | |
//!
//! A packet of a job that is over is an ordinary message: its sender gets reports about it.

use super::cut::{OpenJob, WantedPackets};
use super::packet::{self, ExistingPacket};
use super::recipient::Status;
use super::result::{Ended, FinishedJob};
use super::status::{OpenTags, StatusWriter};
use super::{JobId, is_finished, result};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use zsched_format::time::{Timestamp, format_time};
use zsched_spool::processes::Process;
use zsched_spool::submit::Submitter;
use zsched_spool::sync::sync_together;
use zsched_spool::{HashLevel, OpenSpool, Spool, remove, unfinished};
use zsched_sys as sys;

/// Maximum number of recipients of a control file that an export writes.
const MAX_RECIPIENTS: u32 = 1000;

/// Why the work cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// A scheduler works on the spool.
    #[error("a scheduler runs on this spool{0}; end it before the export")]
    SchedulerRuns(String),
    /// There is no such job.
    #[error("there is no bulk job {0}")]
    NoJob(JobId),
    /// The time of the job has not come, and other schedulers do not wait for it.
    #[error("job {0} is not to be delivered before {1}; cancel it, or export it then")]
    TooEarly(JobId, String),
    /// Not all recipients of the job are submitted.
    #[error(
        "job {0} is not submitted completely; repeat its submission with --stream, or cancel it"
    )]
    Incomplete(JobId),
    /// Packets of the job have vanished.
    #[error(
        "packets of job {0} have vanished, with {1} recipients; decide what to do: mailq job {0} lost send|drop"
    )]
    Lost(JobId, u32),
    /// The spool cannot be read or written.
    #[error(transparent)]
    Spool(#[from] io::Error),
}

/// A spool on which no scheduler runs, nor can start.
pub struct OfflineSpool {
    submitter: Submitter,
    _lock: File,
}

impl OfflineSpool {
    /// Keeps schedulers from the spool, as long as the value exists.
    pub fn lock(spool: &Spool, level: HashLevel) -> Result<OfflineSpool, OfflineError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = sys::open_regular(&mut options, &spool.lock_file())?;
        // A scheduler that has no lock, as ZMailer's, has a pid file.
        let text = sys::if_exists(fs::read_to_string(spool.pid_file()))?.unwrap_or_default();
        let pid = text.trim().parse().ok().filter(|pid| Process::alive(*pid).is_some());
        let runs = |pid: Option<u32>| {
            let shown = pid.map(|pid| format!(", pid {pid}"));
            OfflineError::SchedulerRuns(shown.unwrap_or_default())
        };
        match lock.try_lock() {
            Ok(()) if pid.is_none() => {}
            Ok(()) | Err(TryLockError::WouldBlock) => return Err(runs(pid)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // What a kill has left of a packet becomes a packet.
        unfinished::finish(spool)?;
        let submitter = Submitter { spool: spool.clone(), level, sync: true };
        Ok(OfflineSpool { submitter, _lock: lock })
    }

    fn spool(&self) -> &Spool {
        &self.submitter.spool
    }

    /// Turns what is left of a job into ordinary messages, and ends the job.
    ///
    /// `None` if it was finished before. Can be called again after a kill.
    pub fn export(&self, job: JobId) -> Result<Option<FinishedJob>, OfflineError> {
        let Some((mut open, packets)) = self.open(job)? else { return Ok(None) };
        let now = Timestamp::now().seconds();
        let (orders, parameters) = (open.orders, &open.parameters);
        if !orders.is_cancelled {
            if let Some(at) = parameters.not_before.filter(|at| *at > now) {
                let at = format_time(Timestamp::from_seconds(at));
                return Err(OfflineError::TooEarly(job, at));
            }
            if !open.is_complete() {
                return Err(OfflineError::Incomplete(job));
            }
            if open.counts.lost > 0 {
                return Err(OfflineError::Lost(job, open.counts.lost));
            }
        }
        if orders.is_cancelled {
            return self.end_cancelled(job, open, &packets).map(Some);
        }
        if parameters.deadline.is_some_and(|at| at <= now) {
            open.drop_rest(Status::TooLate)?;
        }
        open.copy_body();
        if open.parameters.body_fields.is_some() {
            self.remove_packets(&open, &packets, Status::Pending)?;
        }
        self.cut_all(&mut open)?;
        // Those in packets, too: another scheduler delivers to them.
        open.drop_rest(Status::Exported)?;
        for packet in self.packets(job)? {
            open.uncut(&packet, Status::Exported)?;
        }
        self.finish(job).map(Some)
    }

    /// Cancels a job: what is not delivered is never sent.
    ///
    /// `None` if it was finished before.
    pub fn cancel(&self, job: JobId) -> Result<Option<FinishedJob>, OfflineError> {
        let Some((mut open, packets)) = self.open(job)? else { return Ok(None) };
        open.orders.is_cancelled = true;
        open.orders.write(self.spool(), job)?;
        self.end_cancelled(job, open, &packets).map(Some)
    }

    fn end_cancelled(
        &self,
        job: JobId,
        mut open: OpenJob,
        packets: &[ExistingPacket],
    ) -> Result<FinishedJob, OfflineError> {
        open.drop_rest(Status::Cancelled)?;
        open.decide_lost(false, &mut |_| {})?;
        self.remove_packets(&open, packets, Status::Cancelled)?;
        self.finish(job)
    }

    /// Opens a job, and writes the outcomes that packets have. `None` if it is finished.
    fn open(&self, job: JobId) -> Result<Option<(OpenJob, Vec<ExistingPacket>)>, OfflineError> {
        if is_finished(self.spool(), job)? {
            result::clean_up(self.spool(), job)?;
            return Ok(None);
        }
        let packets = self.packets(job)?;
        let mut writer = StatusWriter::new(self.spool());
        for packet in &packets {
            writer.write(&packet.number.name(self.submitter.level), OpenTags::Queued)?;
        }
        writer.sync()?;
        let open = sys::if_exists(OpenJob::open(self.spool(), job))?;
        let mut open = open.ok_or(OfflineError::NoJob(job))?;
        open.reconcile(&packets)?;
        Ok(Some((open, packets)))
    }

    fn packets(&self, job: JobId) -> io::Result<Vec<ExistingPacket>> {
        let mut packets = packet::existing(self.spool())?;
        packets.retain(|packet| packet.number.job == job);
        Ok(packets)
    }

    /// Removes packets. Their recipients that have no outcome get a status before.
    fn remove_packets(
        &self,
        open: &OpenJob,
        packets: &[ExistingPacket],
        status: Status,
    ) -> io::Result<()> {
        let spool = OpenSpool::new(self.spool().clone())?;
        for packet in packets {
            open.uncut(packet, status)?;
            remove::remove(&spool, &packet.number.name(self.submitter.level))?;
        }
        Ok(())
    }

    /// Makes packets until each pending recipient is in one.
    fn cut_all(&self, open: &mut OpenJob) -> io::Result<()> {
        loop {
            open.rewind()?;
            let (destinations, _) = open.next_destinations(usize::MAX)?;
            if destinations.is_empty() {
                return Ok(());
            }
            let wanted = |destination: &super::cut::BulkDestination| WantedPackets {
                destination: destination.offset,
                packets: u32::MAX,
                at_most: MAX_RECIPIENTS,
            };
            let wanted: Vec<WantedPackets> = destinations.iter().map(wanted).collect();
            let mut folders = BTreeSet::new();
            for made in open.make_packets(&self.submitter, &wanted) {
                for packet in made? {
                    let (message, control) = self.submitter.folders(&packet.name)?;
                    folders.extend([message, control]);
                }
            }
            let pairs = folders.into_iter().map(|folder| (None, folder)).collect();
            sync_together(pairs).into_iter().try_for_each(|synced| synced.folder)?;
        }
    }

    fn finish(&self, job: JobId) -> Result<FinishedJob, OfflineError> {
        match result::write(self.spool(), job, Timestamp::now().seconds())? {
            Ended::Finished(finished) => Ok(finished),
            Ended::Removed(counts) => {
                Ok(FinishedJob { id: job, list: None, counts, submitted: 0, finished: 0 })
            }
            Ended::NotYet(counts) => {
                let text = format!("{} recipients of job {job} have no outcome", counts.pending);
                Err(OfflineError::Spool(io::Error::other(text)))
            }
        }
    }
}
