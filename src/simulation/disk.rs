//! The spool in memory.
//!
//! Its control files have real bytes, for the real parser and the real marks.
//!
//! The disk can be full, fail, and lose files. It may have hash folders. Routers that do not use
//! them put files in the top folder, and the reader moves them down
//! ([`move_to_folder`](Disk::move_to_folder)). There is at most one message of each number, in
//! whatever folders its two files are.

use super::jobs::{Jobs, SharedSteps};
use super::outbox::{OpenFile, OpenOutbox, OutboxContents, WriteSteps};
use super::parsed::ParsedFiles;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;
use zsched_bulk::packet::{self, ExistingPacket};
use zsched_bulk::status::{self, OpenTags, PacketEnd};
use zsched_bulk::{JobId, PacketNumber};
use zsched_core::overrides::{OverrideChange, Overrides};
use zsched_core::{Note, OrderTicket};
use zsched_format::control_file::{self, ControlFile, ControlFileError, PidField, mark};
use zsched_format::time::Timestamp;
use zsched_spool::alternatives;
use zsched_spool::finalize::RecipientLocker;
use zsched_spool::load::{self, LoadError, LoadResult};
use zsched_spool::memory_file::MemoryFile;
use zsched_spool::note::{self, OutcomeKind, OutcomeNote};
use zsched_spool::outbox::{self, MessageIdentity, SubmissionKind};
use zsched_spool::report::{self, UnreportedRest};
use zsched_spool::{
    Arrival, HashFolder, HashLevel, LockOwner, Portion, PossibleDuplicates, SpoolName, owner_if,
};

/// The pid of all schedulers, which no agent has.
const SCHEDULER_PID: u32 = 998;
/// Number of waiting writes that the writer may be carrying out at the same time.
pub(crate) const MAX_CONCURRENT_WRITES: usize = 8;

/// Disk faults. Changing tags in place never fails, since it needs no space.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    /// Nothing can be appended, or moved to `postman/`.
    pub is_full: bool,
    /// Share of reads of control files that fail, 0 to 1.
    pub reads: f64,
    /// Share of notes and removals that fail, 0 to 1.
    pub writes: f64,
}

impl DiskFaults {
    /// Fails if the disk is full.
    pub(crate) fn need_room(&self) -> io::Result<()> {
        if self.is_full { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Fails for a share of writes.
    pub(crate) fn write(&self, random: &mut fastrand::Rng) -> io::Result<()> {
        let fails = self.writes > 0.0 && random.f64() < self.writes;
        if fails { Err(ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

/// The files of a POSTOFFICE.
#[derive(Default)]
pub struct Disk {
    messages: BTreeMap<u64, MessageFiles>,
    level: HashLevel,
    /// Files moved to `postman/`, in order of moving.
    pub(crate) postman: Vec<Rc<MemoryFile>>,
    orders: Overrides,
    /// Changes of the orders in force that could not be stored yet.
    unstored: Vec<OverrideChange>,
    pub(crate) outbox: RefCell<OutboxContents>,
    /// Messages whose removal was interrupted by a kill of the scheduler.
    removals: Vec<u64>,
    pub(crate) jobs: Jobs,
    /// The present faults.
    pub faults: DiskFaults,
    /// The processes of living agents, whose locks are valid.
    pub(crate) alive: BTreeSet<u32>,
    serial: u64,
    /// Recipients that were found left locked, by file: they may have been delivered to already.
    pub(crate) duplicates: Vec<(u64, u32)>,
    /// Parsed control files, whose tags may be out of date.
    pub(crate) parsed: ParsedFiles,
    /// True if a read found recipients to add to the control file.
    ///
    /// The caller clears it.
    pub(crate) has_advanced: bool,
    random: fastrand::Rng,
}

fn record_duplicates(found: &mut Vec<(u64, u32)>, serial: u64, reported: &PossibleDuplicates) {
    found.extend(reported.recipients.iter().map(|recipient| (serial, recipient.offset)));
}

/// The files of one message.
struct MessageFiles {
    control: Option<(HashFolder, Rc<MemoryFile>)>,
    /// Time when the control file arrived.
    changed: Timestamp,
    /// Folder and time of the message file, if there is one.
    message: Option<(HashFolder, Timestamp)>,
}

/// The owner of a lock. The scheduler's own locks count only for loaded messages.
fn owner(field: PidField, is_loaded: bool, alive: &BTreeSet<u32>) -> LockOwner {
    match field.pid() {
        Some(SCHEDULER_PID) if is_loaded => LockOwner::Alive(SCHEDULER_PID),
        Some(SCHEDULER_PID) => LockOwner::FormerScheduler,
        _ => owner_if(field, |pid| alive.contains(&pid)),
    }
}

impl MessageFiles {
    fn control(&self, folder: HashFolder) -> Option<&Rc<MemoryFile>> {
        self.control.as_ref().filter(|(of, _)| *of == folder).map(|(_, file)| file)
    }

    /// The arrival time of the message, if the control file names one.
    fn check_message(
        &self,
        name: &SpoolName,
        file: &ControlFile,
    ) -> Result<Option<Timestamp>, ControlFileError> {
        if file.name().is_none() {
            return Ok(None);
        }
        load::check_name(name, file)?;
        let missing = || ControlFileError::new(0, "there is no message file");
        let message = self.message.filter(|(folder, _)| *folder == name.folder());
        message.ok_or_else(missing).map(|(_, written)| Some(written))
    }
}

/// A request to the writer.
pub enum WriteRequest {
    /// Append diagnostics.
    Note(Box<Note>),
    /// Remove a message from the spool, or move it to `postman/`.
    Remove(SpoolName, bool),
    /// Clear the locks of a dead process.
    ClearLocks(SpoolName, u32),
    /// Store changes of the orders in force.
    KeepOrders(Option<OrderTicket>, Vec<OverrideChange>),
}

impl WriteRequest {
    /// The message whose files it changes.
    fn message(&self) -> Option<u64> {
        match self {
            WriteRequest::Note(note) => Some(note.name.number()),
            WriteRequest::Remove(name, _) | WriteRequest::ClearLocks(name, _) => {
                Some(name.number())
            }
            WriteRequest::KeepOrders(..) => None,
        }
    }

    /// Takes the request that the writer carries out next.
    pub(crate) fn take_one(
        waiting: &mut VecDeque<WriteRequest>,
        random: &mut fastrand::Rng,
    ) -> Option<WriteRequest> {
        let chosen = WriteRequest::choose(waiting, random)?;
        waiting.remove(chosen)
    }

    /// Chooses the first request of a message that has one among those carried out at once.
    fn choose(waiting: &VecDeque<WriteRequest>, random: &mut fastrand::Rng) -> Option<usize> {
        let at_once = waiting.len().min(MAX_CONCURRENT_WRITES);
        if at_once == 0 {
            return None;
        }
        let chosen = waiting[random.usize(0..at_once)].message();
        waiting.iter().position(|request| request.message() == chosen)
    }

    /// Takes up to `count` requests that the writer may be carrying out at the same time.
    ///
    /// Those about one message are carried out in their order, one after the other.
    pub(crate) fn take_some(
        waiting: &mut VecDeque<WriteRequest>,
        count: usize,
        random: &mut fastrand::Rng,
    ) -> Vec<WriteRequest> {
        let mut taken: Vec<WriteRequest> = Vec::new();
        for _ in 0..count.min(waiting.len()) {
            if let Some(chosen) = WriteRequest::choose(waiting, random)
                && taken.iter().all(|other| other.message() != waiting[chosen].message())
            {
                taken.extend(waiting.remove(chosen));
            }
        }
        taken
    }
}

/// The way in which a message left the spool.
#[derive(Clone, Debug)]
pub enum Departure {
    /// Its files were removed.
    Removed(Rc<MemoryFile>),
    /// It was moved to `postman/`.
    Aside(Rc<MemoryFile>),
    /// It did not exist.
    Gone,
}

impl Disk {
    /// Creates an empty spool.
    pub fn new(seed: u64, level: HashLevel) -> Disk {
        Disk { level, random: fastrand::Rng::with_seed(seed), ..Disk::default() }
    }

    /// Writes a message as a router does. Returns the control file.
    pub fn put(
        &mut self,
        wall: Timestamp,
        name: &SpoolName,
        text: Vec<u8>,
        has_message: bool,
    ) -> Rc<MemoryFile> {
        self.serial += 1;
        let file = Rc::new(MemoryFile::new(self.serial, text));
        let message = has_message.then_some((name.folder(), wall));
        let control = Some((name.folder(), file.clone()));
        self.messages.insert(name.number(), MessageFiles { control, changed: wall, message });
        file
    }

    /// Writes a packet of a bulk job. Returns the control file; `None` if the job is unknown.
    pub(crate) fn put_packet(
        &mut self,
        wall: Timestamp,
        name: &SpoolName,
        text: Vec<u8>,
    ) -> Option<Rc<MemoryFile>> {
        let packet = PacketNumber::of_message(name.number())?;
        let received = self.jobs.all.get(&packet.job)?.received();
        let file = self.put(wall, name, text, true);
        self.set_received(name.number(), received);
        Some(file)
    }

    /// The packets of a bulk job.
    pub(crate) fn packets_of(&self, job: JobId) -> Vec<ExistingPacket> {
        let of_job = |(number, files): (&u64, &MessageFiles)| {
            let number = PacketNumber::of_message(*number).filter(|number| number.job == job)?;
            packet::of_text(number, &files.control.as_ref()?.1.text())
        };
        self.messages.iter().filter_map(of_job).collect()
    }

    /// The job of a packet, and the packet's control file.
    fn job_of_packet(&mut self, name: &SpoolName) -> Option<(PacketNumber, Vec<u8>)> {
        let number = PacketNumber::of_message(name.number())?;
        let text = self.control_file(name)?.text().clone();
        self.jobs.find(number.job).is_ok().then_some((number, text))
    }

    /// Writes the outcomes of a packet that is about to leave, as `zsched_bulk::status` does.
    ///
    /// The scheduler is killed after the last step, if that is given.
    pub(crate) fn record_results(
        &mut self,
        name: &SpoolName,
        rest: OpenTags,
        last_step: Option<u32>,
    ) -> io::Result<Option<PacketEnd>> {
        let Some((number, text)) = self.job_of_packet(name) else {
            return Ok(None);
        };
        let steps = SharedSteps::new(self.write_steps(last_step));
        let recipients = self.jobs.find(number.job)?.store(&steps);
        let counts = status::write_outcomes(&recipients, text, rest, &mut Vec::new())?;
        steps.step()?;
        Ok(Some(PacketEnd { number, counts }))
    }

    /// Writes the status of a packet's recipients that an operator ends, as `zsched_bulk::status`
    /// does.
    fn record_ends(&mut self, note: &Note, last_step: Option<u32>) -> io::Result<()> {
        let Some((number, text)) = self.job_of_packet(&note.name) else {
            return Ok(());
        };
        let steps = SharedSteps::new(self.write_steps(last_step));
        let job = self.jobs.find(number.job)?;
        let (recipients, is_cancelled) = (job.store(&steps), job.orders.is_cancelled);
        status::write_ends(&recipients, text, &note.offsets, note.occasion, is_cancelled)
    }

    /// Begins a write. The scheduler is killed after the last step, if that is given.
    pub(crate) fn write_steps(&mut self, last_step: Option<u32>) -> WriteSteps {
        WriteSteps::new(self.faults, last_step, self.random.u64(..))
    }

    /// Sets the time of a message file.
    ///
    /// It is when the message arrived in the mail system.
    pub fn set_received(&mut self, number: u64, received: Timestamp) {
        let files = self.messages.get_mut(&number);
        if let Some((_, time)) = files.and_then(|files| files.message.as_mut()) {
            *time = received;
        }
    }

    /// Returns true if a message has neither of its files.
    pub fn is_free(&self, number: u64) -> bool {
        !self.messages.contains_key(&number)
    }

    /// The control file of a message.
    pub fn control_file(&self, name: &SpoolName) -> Option<&Rc<MemoryFile>> {
        self.messages.get(&name.number())?.control(name.folder())
    }

    /// Names of all control files, in ascending order of number.
    pub fn names(&self) -> impl Iterator<Item = SpoolName> {
        let name_of = |(number, files): (&u64, &MessageFiles)| {
            files.control.as_ref().map(|(folder, _)| SpoolName::plain(*folder, *number))
        };
        self.messages.iter().filter_map(name_of)
    }

    /// Time when the control file of a message arrived.
    pub fn changed(&self, number: u64) -> Option<Timestamp> {
        self.messages.get(&number).map(|files| files.changed)
    }

    /// Deletes both files of a message. Returns the control file.
    pub fn delete_message(&mut self, number: u64) -> Option<Rc<MemoryFile>> {
        self.messages.remove(&number)?.control.map(|(_, file)| file)
    }

    /// Loads a control file as `spool::load::load` does.
    pub fn load(&mut self, name: &SpoolName, at_most: Option<u32>) -> LoadResult {
        if self.control_file(name).is_none() {
            return LoadResult::Nothing;
        }
        let name = match self.move_to_folder(name) {
            Ok(name) => name,
            Err(error) => return LoadResult::Failed(error),
        };
        let portion = at_most.map(|at_most| Portion { from: 0, max_recipients: at_most });
        let loaded = self.parse(&name, portion, false, None);
        load::move_aside_if_malformed(loaded, || self.move_malformed(&name))
    }

    /// Loads the control file of a loaded message as `spool::load::reload` does.
    pub fn reload(&mut self, name: &SpoolName, portion: Option<Portion>) -> LoadResult {
        let loaded = self.parse(name, portion, true, None);
        load::move_aside_if_malformed(loaded, || self.move_malformed(name))
    }

    /// Returns true if the next load of a message adds recipients to its control file.
    pub(crate) fn adds_recipients(&self, name: &SpoolName) -> bool {
        let file = self.control_file(name).map(|file| control_file::parse(file.text().clone()));
        file.and_then(Result::ok).is_some_and(|file| alternatives::must_advance(&file))
    }

    /// Loads a control file up to a step. The scheduler is killed then.
    pub(crate) fn load_partially(&mut self, name: &SpoolName, last_step: u32) {
        self.parse(name, None, false, Some(last_step)).ok();
    }

    /// Moves files in the top folder down, if the spool has levels.
    ///
    /// Also finishes such a move.
    ///
    /// The control file is moved first. Returns where it is to be used.
    fn move_to_folder(&mut self, name: &SpoolName) -> io::Result<SpoolName> {
        let below = HashFolder::of(name.number(), self.level);
        let moves = name.folder() == HashFolder::TOP && below != HashFolder::TOP;
        if moves && (self.folder_is_missing() || self.faults.write(&mut self.random).is_err()) {
            return Ok(name.clone());
        }
        let fails = !moves && self.faults.write(&mut self.random).is_err();
        let Some(files) = self.messages.get_mut(&name.number()) else {
            return Ok(name.clone());
        };
        let to = if moves { below } else { name.folder() };
        let is_at_top = |(folder, _): &&mut (HashFolder, Timestamp)| *folder == HashFolder::TOP;
        if let Some(message) = files.message.as_mut().filter(is_at_top)
            && to != HashFolder::TOP
        {
            if fails {
                return Err(ErrorKind::ReadOnlyFilesystem.into());
            }
            message.0 = to;
        }
        if let Some(control) = &mut files.control {
            control.0 = to;
        }
        Ok(name.in_folder(to))
    }

    /// Moves a message down by the first step only.
    ///
    /// The scheduler is killed then.
    pub(crate) fn move_down_partially(&mut self) {
        let is_at_top = |files: &MessageFiles| matches!(files.control, Some((HashFolder::TOP, _)));
        let level = self.level;
        if let Some((number, files)) = self.messages.iter_mut().find(|(_, files)| is_at_top(files))
            && let Some(control) = &mut files.control
        {
            control.0 = HashFolder::of(*number, level);
        }
    }

    /// Returns true if a folder for moved files cannot be created.
    fn folder_is_missing(&mut self) -> bool {
        self.faults.is_full && self.random.bool()
    }

    /// Reads a message, or a portion of it. A new message must not be locked by an agent.
    ///
    /// The scheduler is killed after the last step of its writes, if that is given.
    fn parse(
        &mut self,
        name: &SpoolName,
        portion: Option<Portion>,
        is_loaded: bool,
        last_step: Option<u32>,
    ) -> Result<Arrival, LoadError> {
        let fails = self.faults.reads > 0.0 && self.random.f64() < self.faults.reads;
        let steps = WriteSteps::new(self.faults, last_step, self.random.u64(..));
        let files = self.messages.get(&name.number()).ok_or(ErrorKind::NotFound)?;
        let on_disk = files.control(name.folder()).ok_or(ErrorKind::NotFound)?;
        if fails {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut file = control_file::parse(on_disk.text().clone())?;
        load::check_headers(&file)?;
        let received = files.check_message(name, &file)?;
        let owner = |field| owner(field, is_loaded, &self.alive);
        let received = received.unwrap_or(files.changed);
        let (found, serial) = (&mut self.duplicates, on_disk.serial());
        let tell = &mut |reported: &PossibleDuplicates| record_duplicates(found, serial, reported);
        load::unlock_dead(&**on_disk, (name, received), &mut file, owner, tell)?;
        if alternatives::must_advance(&file) {
            self.has_advanced = true;
            let open = OpenFile { file: on_disk.clone(), steps: &steps };
            if let Some(text) = alternatives::advance(&open, &file)? {
                file = control_file::parse(text)?;
            }
        }
        if let Some(pid) = load::holder(&file).filter(|_| !is_loaded) {
            return Err(LoadError::Locked(pid));
        }
        let mut arrival = Arrival::new(name.clone(), &file, received, files.changed);
        portion.into_iter().for_each(|portion| arrival.cut(portion));
        self.parsed.add_small(serial, file);
        Ok(arrival)
    }

    /// Moves a malformed file to `postman/`.
    ///
    /// If the disk is full it stays where it is. The real reader can hide it there, unless the
    /// folder is read-only.
    fn move_malformed(&mut self, name: &SpoolName) -> io::Result<PathBuf> {
        self.record_results(name, OpenTags::Aside, None)?;
        self.move_aside(name)?;
        Ok(PathBuf::from(format!("postman/{}", name.number())))
    }

    /// Executes a note as `spool::note::write` does. Returns true if there were any lines.
    ///
    /// The scheduler is killed after the last step, if that is given.
    pub(crate) fn note(&mut self, note: &Note, last_step: Option<u32>) -> io::Result<bool> {
        let on_disk = self.control_file(&note.name).cloned().ok_or(ErrorKind::NotFound)?;
        let is_killed_early = self.random.bool();
        self.record_ends(note, last_step.filter(|_| is_killed_early))?;
        let steps = self.write_steps(last_step);
        let parsed = self.parsed.get(&on_disk);
        let owner = |field| owner(field, false, &self.alive);
        let locker = RecipientLocker { pid: SCHEDULER_PID, owner: &owner };
        let file = OpenFile { file: on_disk.clone(), steps: &steps };
        let outbox = OpenOutbox { outbox: &self.outbox, steps: &steps };
        let identity = self.identity(&note.name, &on_disk);
        if note.occasion == OutcomeKind::Reroute {
            outbox::resume(&file, &outbox, (&identity, SubmissionKind::Reroute))?;
        }
        let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
        if !note.occasion.ends_recipients() {
            // Only the lines of recipients are used, not their tags.
            let candidates =
                note::candidates(&parsed.map_err(invalid)?.control, &OutcomeNote::from(note));
            return note::conclude(&file, &candidates, note.occasion, &locker);
        }
        let parsed = control_file::parse(on_disk.text().clone()).map_err(invalid)?;
        let candidates = note::candidates(&parsed, &OutcomeNote::from(note));
        if note.occasion != OutcomeKind::Reroute {
            return note::conclude(&file, &candidates, note.occasion, &locker);
        }
        let (taken, is_busy) = locker.lock_all(&file, candidates.iter())?;
        let mut kinds: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for recipient in taken.iter().filter_map(|one| parsed.recipient_at(one.candidate.offset)) {
            let kind = (recipient.sender, recipient.headers);
            kinds.entry(kind).or_default().push(recipient.offset);
        }
        let submissions = kinds.into_values().map(|lines| (lines, ())).collect();
        outbox::hand_over(&file, &outbox, (&identity, SubmissionKind::Reroute), submissions)?;
        if is_busy { Err(ErrorKind::ResourceBusy.into()) } else { Ok(false) }
    }

    /// Sends the reports that a message owes, as `report::send` does.
    ///
    /// The scheduler is killed after the last step, if that is given.
    pub(crate) fn report(
        &mut self,
        wall: Timestamp,
        name: &SpoolName,
        is_finished: bool,
        last_step: Option<u32>,
    ) -> io::Result<UnreportedRest> {
        let on_disk = self.control_file(name).cloned().ok_or(ErrorKind::NotFound)?;
        let steps = self.write_steps(last_step);
        let identity = self.identity(name, &on_disk);
        let file = OpenFile { file: on_disk, steps: &steps };
        let outbox = OpenOutbox { outbox: &self.outbox, steps: &steps };
        let finished = is_finished.then_some(wall);
        let settled =
            report::settle(&file, &outbox, &identity, finished, &mut |_, _| Ok(Some(())))?;
        Ok(settled.left)
    }

    fn identity(&self, name: &SpoolName, file: &MemoryFile) -> MessageIdentity {
        MessageIdentity { name: name.clone(), control: file.serial(), modified: Timestamp::EPOCH }
    }

    /// Recovers the outbox after a kill of the scheduler.
    pub(crate) fn recover_outbox(&mut self) -> io::Result<()> {
        let steps = self.write_steps(None);
        let outbox = OpenOutbox { outbox: &self.outbox, steps: &steps };
        let messages = &self.messages;
        outbox::recover(&outbox, |message| {
            let files = messages.get(&message.name.number());
            let control = files.and_then(|files| files.control.as_ref()).map(|(_, file)| file);
            let same = control.filter(|file| file.serial() == message.control);
            Ok(same.map(|file| OpenFile { file: file.clone(), steps: &steps }))
        })?;
        outbox.publish_ready();
        Ok(())
    }

    /// Stores changes of the orders in force, including earlier ones that could not be stored.
    pub(crate) fn keep_orders(&mut self, changes: Vec<OverrideChange>) -> io::Result<()> {
        self.unstored.extend(changes);
        self.faults.write(&mut self.random)?;
        self.faults.need_room()?;
        self.unstored.drain(..).for_each(|change| self.orders.apply(change));
        Ok(())
    }

    /// The stored orders. Changes that could not be stored are dropped, as the scheduler restarts.
    pub(crate) fn take_orders(&mut self) -> Vec<OverrideChange> {
        self.unstored.clear();
        self.orders.iter().collect()
    }

    /// Appends whole lines to a control file, as agents and the scheduler do.
    pub fn append(&mut self, file: &MemoryFile, lines: &[u8]) -> io::Result<()> {
        self.faults.need_room()?;
        let length = file.text().len() as u64;
        file.append(&mark::on_new_line(file, length, lines)?);
        Ok(())
    }

    /// Removes a message from the spool as `spool::remove` does.
    pub fn remove(&mut self, name: &SpoolName, aside: bool) -> io::Result<Departure> {
        self.faults.write(&mut self.random)?;
        let Some(file) = self.control_file(name).cloned() else {
            let number = name.number();
            if self.messages.get(&number).is_some_and(|files| files.control.is_none()) {
                self.messages.remove(&number);
            }
            return Ok(Departure::Gone);
        };
        if aside {
            return self.move_aside(name);
        }
        self.messages.remove(&name.number());
        self.parsed.remove(&file);
        Ok(Departure::Removed(file))
    }

    /// Executes the first half of [`remove`](Self::remove), as if the scheduler were killed then.
    ///
    /// Returns the control file, if it is removed now.
    pub(crate) fn remove_partially(
        &mut self,
        name: &SpoolName,
        aside: bool,
    ) -> Option<Rc<MemoryFile>> {
        let files = self.messages.get_mut(&name.number())?;
        files.control(name.folder())?;
        // The first step of moving aside is a second name, which changes nothing here.
        if aside {
            return None;
        }
        let control = files.control.take().map(|(_, file)| file);
        self.removals.push(name.number());
        control
    }

    /// Finishes the removals that a killed scheduler had listed.
    pub(crate) fn finish_removals(&mut self) {
        for number in std::mem::take(&mut self.removals) {
            if self.messages.get(&number).is_some_and(|files| files.control.is_none()) {
                self.messages.remove(&number);
            }
        }
    }

    /// Number of message files without a control file.
    pub fn orphans(&self) -> usize {
        self.messages.values().filter(|files| files.control.is_none()).count()
    }

    fn move_aside(&mut self, name: &SpoolName) -> io::Result<Departure> {
        self.faults.need_room()?;
        let file = self.control_file(name).cloned().ok_or(ErrorKind::NotFound)?;
        self.messages.remove(&name.number());
        self.postman.push(file.clone());
        Ok(Departure::Aside(file))
    }

    /// Clears the locks of dead processes, among them the given one, as `spool::load` does.
    pub fn clear_locks(&mut self, name: &SpoolName, dead: u32) -> io::Result<()> {
        let Some(on_disk) = self.control_file(name).cloned() else {
            return Ok(());
        };
        let Ok(mut file) = control_file::parse(on_disk.text().clone()) else {
            return Ok(());
        };
        let owner = |field: PidField| match field.pid() {
            Some(pid) if pid == dead => LockOwner::Dead,
            _ => owner(field, true, &self.alive),
        };
        let (found, serial) = (&mut self.duplicates, on_disk.serial());
        let tell = &mut |reported: &PossibleDuplicates| record_duplicates(found, serial, reported);
        load::unlock_dead(&*on_disk, (name, Timestamp::EPOCH), &mut file, owner, tell)
    }
}
