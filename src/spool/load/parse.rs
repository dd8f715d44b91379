//! Parses and checks a control file, and reduces it to an arrival.

use super::locate::finish_move;
use super::repair::holder;
use super::{LoadError, LoadedFile, Loader, MessageFile};
use crate::folder::exists;
use crate::outbox::OnDisk;
use crate::{Arrival, Portion, SpoolName};
use crate::{alternatives, chunk};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use zsched_format::control_file::{self, ControlFile, ControlFileError};
use zsched_format::time::Timestamp;
use zsched_sys::{self as sys, FileFacts};

/// Maximum size of a control file that is always read as a whole, in bytes.
const MAX_WHOLE_READ: u64 = 1 << 20;

/// Number of bytes of a larger file that are searched at a time.
///
/// It may be slightly exceeded.
const CHUNK_SIZE: u32 = 16 << 20;

impl Loader<'_> {
    /// Loads the file, or a portion of it.
    ///
    /// With `refuses_locks`, a recipient that is locked prevents this.
    pub(super) fn load(
        &mut self,
        on_disk: File,
        portion: Option<Portion>,
        refuses_locks: bool,
    ) -> Result<Arrival, LoadError> {
        if let Some(portion) = portion.filter(|_| self.stat.size > MAX_WHOLE_READ)
            && !self.has_alternatives(&on_disk)?
        {
            return self.load_parts(&on_disk, portion, refuses_locks);
        }
        let mut arrival =
            self.arrival(control_file::parse(self.text(&on_disk)?)?, refuses_locks, false)?;
        portion.into_iter().for_each(|portion| arrival.cut(portion));
        Ok(arrival)
    }

    /// Returns true if a large file must be read as a whole for its alternatives.
    fn has_alternatives(&self, on_disk: &File) -> io::Result<bool> {
        let size = self.stat.size;
        Ok(alternatives::are_tried_in(size) && alternatives::may_be_in(on_disk, size)?)
    }

    /// Loads a portion of a large file, and reads no more.
    fn load_parts(
        &mut self,
        on_disk: &File,
        portion: Portion,
        refuses_locks: bool,
    ) -> Result<Arrival, LoadError> {
        self.complete_decided()?;
        let max_recipients = portion.max_recipients as usize;
        let (mut all, mut from): (Option<Arrival>, _) = (None, portion.from);
        loop {
            let count = |arrival: &Arrival| arrival.pending() + arrival.locked.len();
            let left = max_recipients - all.as_ref().map_or(0, count);
            let chunk = chunk::read(on_disk, from, left.max(1))?;
            let mut part = self.arrival(chunk.file, refuses_locks, chunk.next.is_some())?;
            (part.next_offset, part.is_chunk) = (chunk.next, true);
            let max_unread = |next| chunk::max_recipients_after(next, self.stat.size);
            part.max_unread = chunk.next.map_or(0, max_unread);
            if portion.from > 0 {
                part.etrn_hosts.clear();
            }
            let arrival = match all.take() {
                None => part,
                Some(mut arrival) => {
                    arrival.add(part);
                    arrival
                }
            };
            match chunk.next {
                Some(next)
                    if count(&arrival) < max_recipients && next - portion.from < CHUNK_SIZE =>
                {
                    (all, from) = (Some(arrival), next);
                }
                _ => return Ok(arrival),
            }
        }
    }

    /// Checks, repairs and reduces a file or a part of it.
    fn arrival(
        &mut self,
        mut file: ControlFile,
        refuses_locks: bool,
        is_part: bool,
    ) -> Result<Arrival, LoadError> {
        check_headers(&file)?;
        let is_first = self.message.is_none();
        if is_first {
            self.message = self.check_message(&file)?;
        }
        self.clear_dead_locks(&mut file)?;
        let tries_alternatives = !is_part && alternatives::are_tried_in(self.stat.size);
        if tries_alternatives && alternatives::must_advance(&file) {
            file = self.advance_alternatives(file)?;
        }
        match holder(&file).filter(|_| refuses_locks) {
            Some(pid) => Err(LoadError::Locked(pid)),
            None => {
                let (received, created) = (self.received(), self.stat.changed);
                let mut arrival = Arrival::new(self.name.clone(), &file, received, created);
                if !tries_alternatives {
                    arrival.keep_alternatives(&file);
                }
                if let Some(message) = self.message.filter(|_| is_first) {
                    let (file, arrival, made) = (&file, &arrival, self.stat.made);
                    let MessageFile { size: message_size, owner, .. } = message;
                    let loaded = LoadedFile { file, arrival, made, message_size, owner, is_part };
                    (self.observer)(loaded);
                }
                Ok(arrival)
            }
        }
    }

    fn advance_alternatives(&self, file: ControlFile) -> io::Result<ControlFile> {
        let path = self.spool.spool.control_file(self.name);
        let open = sys::open_nofollow(OpenOptions::new().read(true).write(true), &path)?;
        match alternatives::advance(&OnDisk { file: open, path }, &file)? {
            Some(text) => Ok(control_file::parse(text)?),
            None => Ok(file),
        }
    }

    /// When the message was received. A file without a message has its own time.
    pub(super) fn received(&self) -> Timestamp {
        self.message.map_or(self.stat.changed, |message| message.received)
    }

    fn text(&self, on_disk: &File) -> io::Result<Vec<u8>> {
        control_file::read_all(on_disk, self.stat.size).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let limit = control_file::MAX_CONTROL_FILE_SIZE >> 20;
                ControlFileError::new(0, format!("the file is larger than {limit} MiB")).into()
            }
            _ => error,
        })
    }

    /// Finds the message file, unless this is only an ETRN request.
    fn check_message(&self, file: &ControlFile) -> Result<Option<MessageFile>, LoadError> {
        if file.name().is_none() {
            return Ok(None);
        }
        check_name(self.name, file)?;
        let reason = match self.examine_message() {
            Ok(message) if message.is_file => {
                let (seconds, nanoseconds) = message.modified;
                let received = Timestamp::from_parts(seconds, nanoseconds);
                return Ok(Some(MessageFile {
                    received,
                    size: message.size,
                    owner: message.owner,
                }));
            }
            Ok(_) => "the message file is not a regular file",
            // Another process may have removed both files meanwhile.
            Err(error)
                if error.kind() != ErrorKind::NotFound
                    || !exists(&self.spool.spool.control_file(self.name))? =>
            {
                return Err(error.into());
            }
            Err(_) if is_empty(self.spool.spool.queue())? => return Err(LoadError::NoQueue),
            Err(_) => "there is no message file",
        };
        Err(error_in_name(file, reason).into())
    }

    /// Examines the message file, which may have to be moved down first.
    fn examine_message(&self) -> io::Result<FileFacts> {
        match self.spool.queue.examine(&self.path) {
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && finish_move(&self.spool.spool, self.name)? =>
            {
                self.spool.queue.examine(&self.path)
            }
            other => other,
        }
    }
}

/// Checks that an `i` line has the file's own name.
pub fn check_name(name: &SpoolName, file: &ControlFile) -> Result<(), ControlFileError> {
    match file.name() {
        Some(own_name) if SpoolName::new(name.folder(), own_name).as_ref() != Some(name) => {
            let shown = String::from_utf8_lossy(own_name);
            Err(error_in_name(file, format!("the i line says {shown}")))
        }
        _ => Ok(()),
    }
}

/// Checks that the last header block has an end.
///
/// Agents refuse a file without it, and later fields may be missing, too.
pub fn check_headers(file: &ControlFile) -> Result<(), ControlFileError> {
    match file.unterminated_block {
        Some(offset) if !file.has_torn_append => {
            Err(ControlFileError::new(offset as usize, "the headers have no end"))
        }
        _ => Ok(()),
    }
}

fn error_in_name(file: &ControlFile, reason: impl Into<String>) -> ControlFileError {
    let offset = file.name.map_or(0, |span| span.start as usize - 2);
    ControlFileError::new(offset, reason)
}

/// Returns true if a folder is empty.
pub(super) fn is_empty(folder: &Path) -> io::Result<bool> {
    fs::read_dir(folder)?.next().transpose().map(|entry| entry.is_none())
}
