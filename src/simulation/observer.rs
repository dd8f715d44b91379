//! The observer of a simulation.
//!
//! Examples are an oracle that checks rules, and a collector of statistics.

use super::disk::{Departure, Disk};
use super::jobs::JobFiles;
use std::rc::Rc;
use zsched_bulk::JobId;
use zsched_bulk::result::Ended;
use zsched_config::Config;
use zsched_core::{Action, Event, Scheduler, Settings};
use zsched_format::agent_protocol::ReportStatus;
use zsched_format::time::Timestamp;
use zsched_spool::memory_file::MemoryFile;

/// The time of an event.
#[derive(Clone, Copy, Debug)]
pub struct SimTime {
    /// The monotonic time.
    pub now: Timestamp,
    /// The wall clock.
    pub wall: Timestamp,
    /// Number of the simulation step, from 1.
    pub step: u64,
}

/// Observes all events. Files are identified by their [serial numbers](MemoryFile::serial).
pub trait SimulationObserver {
    /// A router has put a message into the spool.
    fn submitted(&mut self, _at: SimTime, _number: u64, _file: &MemoryFile) {}
    /// A bulk job is submitted.
    fn job_submitted(&mut self, _at: SimTime, _id: JobId, _files: &JobFiles) {}
    /// The scheduler reports that it sends again to a recipient of a vanished packet.
    fn sent_again(&mut self, _at: SimTime, _id: JobId, _offset: u32) {}
    /// The scheduler has written the result of a bulk job.
    fn job_ended(&mut self, _at: SimTime, _id: JobId, _ended: &Ended, _files: &JobFiles) {}
    /// The core is about to handle an event.
    fn event_sent(&mut self, _at: SimTime, _event: &Event<'_>) {}
    /// The core has decided on an action, which is about to be executed.
    fn action_taken(&mut self, _at: SimTime, _action: &Action) {}
    /// A host has accepted a message for the recipient at an offset.
    fn accepted(&mut self, _at: SimTime, _file: &MemoryFile, _offset: u32) {}
    /// An agent dies before it has reported and marked the outcome of a recipient.
    ///
    /// `secret`: the delivery was made, but is not recorded anywhere.
    fn abandoned(&mut self, _at: SimTime, _file: &MemoryFile, _offset: u32, _secret: bool) {}
    /// An agent reports the outcome of one of its recipients.
    fn concluded(&mut self, _at: SimTime, _file: &MemoryFile, _offset: u32, _status: ReportStatus) {
    }
    /// The scheduler has found a recipient locked by a dead agent.
    ///
    /// It reports that before it clears the lock.
    fn duplicate_reported(&mut self, _at: SimTime, _serial: u64, _offset: u32) {}
    /// The router was given a recipient of a file.
    fn rerouted(&mut self, _at: SimTime, _serial: u64, _offset: u32) {}
    /// The router was given a report about the `d` line at an offset of a file.
    fn reported(&mut self, _at: SimTime, _serial: u64, _line: u32) {}
    /// The scheduler has appended diagnostics to a control file.
    fn noted(&mut self, _at: SimTime, _file: &MemoryFile) {}
    /// A message has left the spool.
    fn departed(&mut self, _at: SimTime, _number: u64, _left: &Departure) {}
    /// The scheduler was killed, or has ended.
    fn stopped(&mut self, _at: SimTime) {}
    /// A scheduler is started with this configuration and these settings.
    fn started(&mut self, _at: SimTime, _config: &Rc<Config>, _settings: &Settings) {}
    /// A step is over. There is no core while no scheduler runs.
    ///
    /// `is_settled` is true if all decided actions are executed, or at least in progress.
    fn step_over(
        &mut self,
        _at: SimTime,
        _core: Option<&Scheduler>,
        _disk: &Disk,
        _is_settled: bool,
    ) {
    }
}

/// Observes nothing.
impl SimulationObserver for () {}
