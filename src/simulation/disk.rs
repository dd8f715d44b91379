//! The spool in memory: control files with their real bytes, which the real parser reads and the real
//! marks change. It can be full, fail, and lose files.

use super::memory_file::MemoryFile;
use crate::control_file::{self, ControlFile, ControlFileError, mark};
use crate::scheduler::standing::Standing;
use crate::scheduler::{Note, OrderTicket};
use crate::spool::note::{self, Remark};
use crate::spool::read::{self, Found};
use crate::spool::remove;
use crate::spool::{Arrival, HashFolder, LockOwner, SpoolName, owner_among};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;

/// How a disk fails. Changes of tags in place never do: they need no room.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// Nothing can be appended, or moved to `postman/`.
    pub is_full: bool,
    /// Part of all reads of control files that fail, 0 to 1.
    pub reads: f64,
    /// Part of all notes and removals that fail, 0 to 1.
    pub writes: f64,
}

/// The files of a POSTOFFICE.
pub struct Disk {
    messages: BTreeMap<u64, Files>,
    postman: Vec<Rc<MemoryFile>>,
    orders: Vec<Standing>,
    /// How it fails now.
    pub faults: DiskFaults,
    serial: u64,
    random: fastrand::Rng,
}

/// What there is of one message.
struct Files {
    control: Option<Rc<MemoryFile>>,
    /// When the control file came.
    changed: Timestamp,
    /// When the message file was written, if there is one.
    message: Option<Timestamp>,
}

/// Why a control file gives no arrival.
enum Problem {
    Gone,
    Failed(io::Error),
    Malformed(ControlFileError),
}

impl Files {
    /// When the message came, if the control file names one.
    fn check_message(
        &self,
        name: &SpoolName,
        file: &ControlFile,
    ) -> Result<Option<Timestamp>, ControlFileError> {
        if file.name().is_none() {
            return Ok(None);
        }
        read::check_name(name, file)?;
        let missing = || ControlFileError::new(0, "there is no message file");
        self.message.ok_or_else(missing).map(Some)
    }
}

/// What the writer is asked to do.
pub enum WriteRequest {
    /// Append diagnostics.
    Note(Box<Note>),
    /// Take a message out of the spool; aside if a report is owed.
    Remove(SpoolName, bool),
    /// Clear the locks of a dead process.
    ClearLocks(SpoolName, u32),
    /// Store the orders in force.
    KeepOrders(Option<OrderTicket>, Vec<Standing>),
}

/// How a message left the spool.
#[derive(Clone, Debug)]
pub enum Left {
    /// Its files are removed.
    Removed(Rc<MemoryFile>),
    /// It is in `postman/`.
    Aside(Rc<MemoryFile>),
    /// There was nothing of it.
    Gone,
}

/// The name of the message of a number. All simulated spools are flat.
pub fn name(number: u64) -> SpoolName {
    let digits = number.to_string();
    SpoolName::new(HashFolder::TOP, digits.as_bytes()).expect("a number is a name")
}

impl Disk {
    /// An empty spool.
    pub fn new(seed: u64) -> Disk {
        Disk {
            messages: BTreeMap::new(),
            postman: Vec::new(),
            orders: Vec::new(),
            faults: DiskFaults::default(),
            serial: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// A router writes a message. Returns the control file.
    pub fn put(
        &mut self,
        wall: Timestamp,
        number: u64,
        text: Vec<u8>,
        has_message: bool,
    ) -> Rc<MemoryFile> {
        self.serial += 1;
        let file = Rc::new(MemoryFile::new(self.serial, text));
        let message = has_message.then_some(wall);
        let files = Files { control: Some(file.clone()), changed: wall, message };
        self.messages.insert(number, files);
        file
    }

    /// Whether neither file of a message is there.
    pub fn is_free(&self, number: u64) -> bool {
        !self.messages.contains_key(&number)
    }

    /// The control file of a message.
    pub fn control_file(&self, number: u64) -> Option<&Rc<MemoryFile>> {
        self.messages.get(&number)?.control.as_ref()
    }

    /// Numbers of all control files, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.messages.iter().filter(|(_, files)| files.control.is_some()).map(|(number, _)| *number)
    }

    /// What was moved to `postman/`, in that order.
    pub fn postman(&self) -> &[Rc<MemoryFile>] {
        &self.postman
    }

    /// When the control file of a message came.
    pub fn changed(&self, number: u64) -> Option<Timestamp> {
        self.messages.get(&number).map(|files| files.changed)
    }

    /// Somebody deletes both files of a message. Returns the control file.
    pub fn lose(&mut self, number: u64) -> Option<Rc<MemoryFile>> {
        self.messages.remove(&number)?.control
    }

    /// Reads a control file for the scheduler, as `spool::read::read` does.
    pub fn read(&mut self, number: u64, is_alive: impl Fn(u32) -> bool) -> Found {
        match self.parse(number, is_alive) {
            Ok((file, arrival)) => {
                read::holder(&file).map_or(Found::Arrival(arrival), Found::Locked)
            }
            Err(problem) => self.found(number, problem),
        }
    }

    /// Reads the control file of a loaded message, as `spool::read::read_again` does.
    pub fn read_again(&mut self, number: u64, is_alive: impl Fn(u32) -> bool) -> Found {
        match self.parse(number, is_alive) {
            Ok((_, arrival)) => Found::Arrival(arrival),
            Err(problem) => self.found(number, problem),
        }
    }

    fn parse(
        &mut self,
        number: u64,
        is_alive: impl Fn(u32) -> bool,
    ) -> Result<(ControlFile, Arrival), Problem> {
        let fails = self.faults.reads > 0.0 && self.random.f64() < self.faults.reads;
        let files = self.messages.get(&number).ok_or(Problem::Gone)?;
        let on_disk = files.control.as_ref().ok_or(Problem::Gone)?;
        if fails {
            return Err(Problem::Failed(ErrorKind::PermissionDenied.into()));
        }
        let name = name(number);
        let text = on_disk.text().clone();
        let mut file = control_file::parse(text).map_err(Problem::Malformed)?;
        let received = files.check_message(&name, &file).map_err(Problem::Malformed)?;
        let is_dead = |field| owner_among(field, &is_alive) == LockOwner::Dead;
        read::unlock_dead(&**on_disk, &mut file, is_dead).map_err(Problem::Failed)?;
        let received = received.unwrap_or(files.changed);
        let arrival = Arrival::new(name, &file, received, files.changed);
        Ok((file, arrival))
    }

    fn found(&mut self, number: u64, problem: Problem) -> Found {
        match problem {
            Problem::Gone => Found::Nothing,
            Problem::Failed(error) => Found::Failed(error),
            Problem::Malformed(error) => self.malformed(number, error),
        }
    }

    /// A file that cannot be used goes to `postman/`. If there is no room, it stays where it is; the
    /// real reader can hide it there, unless the folder is read-only.
    fn malformed(&mut self, number: u64, error: ControlFileError) -> Found {
        let moved = self.move_aside(number).map(|_| PathBuf::from(format!("postman/{number}")));
        Found::Malformed { error, moved }
    }

    fn fails(&mut self) -> io::Result<()> {
        if self.faults.writes > 0.0 && self.random.f64() < self.faults.writes {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    /// Appends diagnostics, as `spool::note::write` does. Returns the control file, and whether there
    /// were any lines.
    pub fn note(&mut self, note: &Note) -> io::Result<(Rc<MemoryFile>, bool)> {
        self.fails()?;
        let number = note.name.number();
        let on_disk = self.control_file(number).cloned().ok_or(ErrorKind::NotFound)?;
        let file = control_file::parse(on_disk.text().clone())
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let remark = Remark {
            offsets: &note.offsets,
            occasion: note.occasion,
            time: note.time,
            notary: &note.notary,
            message: &note.message,
        };
        let lines = note::lines(&file, &remark);
        if !lines.is_empty() {
            self.append(&on_disk, &lines)?;
        }
        note::mark_ended(&*on_disk, &remark)?;
        Ok((on_disk, !lines.is_empty()))
    }

    /// Puts the orders in force in the place of those that are stored.
    pub fn keep_orders(&mut self, orders: Vec<Standing>) -> io::Result<()> {
        self.fails()?;
        if self.faults.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        self.orders = orders;
        Ok(())
    }

    /// The orders that are stored.
    pub fn orders(&self) -> &[Standing] {
        &self.orders
    }

    /// The first half of what [`note`](Self::note) does: the scheduler is killed before the second.
    pub fn half_note(&mut self, note: &Note) {
        let occasion = match note.occasion {
            note::Occasion::Expiry => note::Occasion::Failure,
            note::Occasion::Deletion | note::Occasion::Reroute => return,
            other => other,
        };
        // A kill has no answer, whatever became of the write.
        self.note(&Note { occasion, ..note.clone() }).ok();
    }

    /// Appends whole lines to a control file, as agents and the scheduler do.
    pub fn append(&mut self, file: &MemoryFile, lines: &[u8]) -> io::Result<()> {
        if self.faults.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        let length = file.text().len() as u64;
        file.append(&mark::after_whole_line(file, length, lines)?);
        Ok(())
    }

    /// Takes a message out of the spool, as `spool::remove` does.
    pub fn remove(&mut self, number: u64, aside: bool) -> io::Result<Left> {
        self.fails()?;
        let Some(file) = self.control_file(number).cloned() else {
            self.messages.remove(&number);
            return Ok(Left::Gone);
        };
        if aside && remove::has_something_to_see(file.text().clone()) {
            return self.move_aside(number);
        }
        self.messages.remove(&number);
        Ok(Left::Removed(file))
    }

    /// The first half of what [`remove`](Self::remove) does: the scheduler is killed before the second.
    /// Returns the control file, if it is gone now.
    pub fn half_remove(&mut self, number: u64, aside: bool) -> Option<Rc<MemoryFile>> {
        let files = self.messages.get_mut(&number)?;
        let file = files.control.as_ref()?;
        // The first step of moving aside is a second name, which changes nothing here.
        if aside && remove::has_something_to_see(file.text().clone()) {
            return None;
        }
        files.control.take()
    }

    fn move_aside(&mut self, number: u64) -> io::Result<Left> {
        if self.faults.is_full {
            return Err(ErrorKind::StorageFull.into());
        }
        let files = self.messages.remove(&number);
        let file = files.and_then(|files| files.control).ok_or(ErrorKind::NotFound)?;
        self.postman.push(file.clone());
        Ok(Left::Aside(file))
    }

    /// Clears the locks of dead processes, among them the given one, as `spool::read` does.
    pub fn clear_locks(
        &mut self,
        number: u64,
        dead: u32,
        is_alive: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let Some(on_disk) = self.control_file(number).cloned() else {
            return Ok(());
        };
        let Ok(mut file) = control_file::parse(on_disk.text().clone()) else {
            return Ok(());
        };
        read::unlock_dead(&*on_disk, &mut file, |field| {
            field.pid() == Some(dead) || owner_among(field, &is_alive) == LockOwner::Dead
        })
    }
}
