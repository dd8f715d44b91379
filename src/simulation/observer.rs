//! Somebody who watches a simulation: an oracle that knows what must never happen, or a statistician.

use super::disk::{Disk, Left};
use std::rc::Rc;
use zsched_config::Config;
use zsched_core::{Action, Event, Scheduler, Settings};
use zsched_format::agent_protocol::Status;
use zsched_format::time::Timestamp;
use zsched_spool::memory_file::MemoryFile;

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The time that only goes on.
    pub now: Timestamp,
    /// What the wall clock shows.
    pub wall: Timestamp,
    /// Which step of the simulation it is, from 1.
    pub step: u64,
}

/// Is told everything that happens. Files are known by their [serial numbers](MemoryFile::serial).
pub trait Observer {
    /// A router has put a message into the spool.
    fn submitted(&mut self, _at: At, _number: u64, _file: &MemoryFile) {}
    /// The core is about to be told something.
    fn told(&mut self, _at: At, _event: &Event<'_>) {}
    /// The core has decided something, which is about to be carried out.
    fn decided(&mut self, _at: At, _action: &Action) {}
    /// A host has taken a message for the recipient at an offset.
    fn accepted(&mut self, _at: At, _file: &MemoryFile, _offset: u32) {}
    /// An agent dies before it has told and marked what became of a recipient. `secret`: it was
    /// delivered to, and that is marked nowhere.
    fn abandoned(&mut self, _at: At, _file: &MemoryFile, _offset: u32, _secret: bool) {}
    /// An agent says what became of a recipient that it was to deliver to.
    fn concluded(&mut self, _at: At, _file: &MemoryFile, _offset: u32, _status: Status) {}
    /// The scheduler has found a recipient locked by an agent that is dead, and tells so before it clears the
    /// lock.
    fn doubted(&mut self, _at: At, _serial: u64, _offset: u32) {}
    /// The router was given a recipient of a file.
    fn rerouted(&mut self, _at: At, _serial: u64, _offset: u32) {}
    /// The scheduler has appended diagnostics to a control file.
    fn noted(&mut self, _at: At, _file: &MemoryFile) {}
    /// A message has left the spool.
    fn left(&mut self, _at: At, _number: u64, _left: &Left) {}
    /// The scheduler was killed, or has ended.
    fn stopped(&mut self, _at: At) {}
    /// A scheduler is started with a configuration, and told this on its command line.
    fn started(&mut self, _at: At, _config: &Rc<Config>, _settings: &Settings) {}
    /// A step is over. Without a core while no scheduler runs. `is_settled` tells whether everything
    /// that was decided is carried out, or at least under way.
    fn step_over(&mut self, _at: At, _core: Option<&Scheduler>, _disk: &Disk, _is_settled: bool) {}
}

/// Nobody watches.
impl Observer for () {}
