//! Parses a control file, checks it, and reduces it to what the scheduler needs.

use super::repair::{OwnerOf, clear_dead_locks, complete_large, holder};
use super::{FileStat, LoadError, modified};
use crate::chunk::{self, ChunkError};
use crate::folder::exists;
use crate::{Arrival, DuplicateSink, Portion, Spool, SpoolName};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zsched_format::control_file::{self, ControlFile, ControlFileError};
use zsched_format::time::Timestamp;

/// Maximum size of a control file that is always read as a whole, in bytes.
const MAX_WHOLE_READ: u64 = 1 << 20;

/// Number of bytes of a larger file that are searched at a time.
///
/// It may be slightly exceeded.
const CHUNK_SIZE: u32 = 16 << 20;

pub(super) fn examine(
    spool: &Spool,
    name: &SpoolName,
    stat: &FileStat,
    portion: Option<Portion>,
    (owner, duplicates): (OwnerOf, DuplicateSink<'_>),
) -> Result<Arrival, LoadError> {
    if let Some(portion) = portion.filter(|_| stat.size > MAX_WHOLE_READ) {
        return examine_large(spool, name, stat, portion, (owner, duplicates));
    }
    let (file, received) = parse_and_clear(spool, name, stat, (owner, duplicates))?;
    let is_beginning = portion.is_none_or(|portion| portion.from == 0);
    if let Some(pid) = holder(&file).filter(|_| is_beginning) {
        return Err(LoadError::Locked(pid));
    }
    let mut arrival = arrival(name.clone(), &file, stat, received);
    if let Some(portion) = portion {
        arrival.cut(portion);
    }
    Ok(arrival)
}

/// The same for a large file, of which only a chunk is read.
fn examine_large(
    spool: &Spool,
    name: &SpoolName,
    stat: &FileStat,
    portion: Portion,
    (owner, duplicates): (OwnerOf, DuplicateSink<'_>),
) -> Result<Arrival, LoadError> {
    let path = spool.control_file(name);
    let on_disk = open(&path)?;
    complete_large(&path, owner)?;
    let (mut all, mut from): (Option<Arrival>, _) = (None, portion.from);
    let mut received = None;
    loop {
        let has = all.as_ref().map_or(0, |all| all.pending() + all.locked.len());
        let left = portion.max_recipients as usize - has;
        let chunk = chunk::read(&on_disk, from, left.max(1)).map_err(|error| match error {
            ChunkError::Failed(error) => error.into(),
            ChunkError::Malformed(error) => LoadError::Malformed(error),
        })?;
        let mut file = chunk.file;
        check_headers(&file).map_err(LoadError::Malformed)?;
        if all.is_none() {
            received = check_message(spool, name, &file)?;
        }
        let message = (name, received.unwrap_or(stat.changed));
        clear_dead_locks(&path, message, &mut file, (owner, &mut *duplicates))?;
        if let Some(pid) = holder(&file).filter(|_| portion.from == 0) {
            return Err(LoadError::Locked(pid));
        }
        let mut more = arrival(name.clone(), &file, stat, received);
        (more.next_offset, more.is_chunk) = (chunk.next, true);
        more.max_unread = chunk.next.map_or(0, |next| chunk::max_recipients_after(next, stat.size));
        match &mut all {
            None => all = Some(more),
            Some(all) => all.add(more),
        }
        let all = all.as_mut().expect("an arrival is stored above");
        if portion.from > 0 {
            all.etrn_hosts.clear();
        }
        let is_full = all.pending() + all.locked.len() >= portion.max_recipients as usize;
        match chunk.next {
            Some(next) if !is_full && next - portion.from < CHUNK_SIZE => from = next,
            _ => return Ok(all.clone()),
        }
    }
}

/// Reads and parses a control file, and clears the locks of dead processes.
///
/// Also returns when its message was received, if it has one.
pub(super) fn parse_and_clear(
    spool: &Spool,
    name: &SpoolName,
    stat: &FileStat,
    (owner, duplicates): (OwnerOf, DuplicateSink<'_>),
) -> Result<(ControlFile, Option<Timestamp>), LoadError> {
    let path = spool.control_file(name);
    let mut file = control_file::parse(contents(&path, stat)?).map_err(LoadError::Malformed)?;
    check_headers(&file).map_err(LoadError::Malformed)?;
    let received = check_message(spool, name, &file)?;
    let message = (name, received.unwrap_or(stat.changed));
    clear_dead_locks(&path, message, &mut file, (owner, duplicates))?;
    Ok((file, received))
}

/// Reads the text of a control file.
fn contents(path: &Path, stat: &FileStat) -> Result<Vec<u8>, LoadError> {
    let mut file = open(path)?;
    control_file::read_all(&mut file, stat.size).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let limit = control_file::MAX_CONTROL_FILE_SIZE >> 20;
            let reason = format!("the file is larger than {limit} MiB");
            LoadError::Malformed(ControlFileError::new(0, reason))
        }
        _ => error.into(),
    })
}

fn open(path: &Path) -> io::Result<File> {
    // Another kind of file may have replaced it meanwhile, which must not block.
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Checks that the `i` line, if there is one, has the file's own name.
pub fn check_name(name: &SpoolName, file: &ControlFile) -> Result<(), ControlFileError> {
    match file.name() {
        Some(own_name) if own_name != name.base().as_bytes() => {
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
        Some(offset) => Err(ControlFileError::new(offset as usize, "the headers have no end")),
        None => Ok(()),
    }
}

fn error_in_name(file: &ControlFile, reason: String) -> ControlFileError {
    let offset = file.name.map_or(0, |span| span.start as usize - 2);
    ControlFileError::new(offset, reason)
}

/// Checks that the message file exists, unless the control file is only an ETRN request.
fn check_message(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
) -> Result<Option<Timestamp>, LoadError> {
    if file.name().is_none() {
        return Ok(None);
    }
    check_name(name, file).map_err(LoadError::Malformed)?;
    let malformed = |reason: String| LoadError::Malformed(error_in_name(file, reason));
    let error = match fs::metadata(spool.message_file(name)) {
        Ok(message) if message.is_file() => return Ok(Some(modified(&message))),
        Ok(_) => return Err(malformed("the message file is not a regular file".to_string())),
        Err(error) => error,
    };
    // Another process may have removed both files meanwhile.
    if error.kind() != ErrorKind::NotFound || !exists(&spool.control_file(name))? {
        return Err(error.into());
    }
    if is_empty(spool.queue())? {
        return Err(LoadError::NoQueue);
    }
    Err(malformed("there is no message file".to_string()))
}

/// Returns true if a folder is empty.
pub(super) fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder)?.next() {
        None => Ok(true),
        Some(entry) => entry.map(|_| false),
    }
}

pub(super) fn arrival(
    name: SpoolName,
    file: &ControlFile,
    stat: &FileStat,
    received: Option<Timestamp>,
) -> Arrival {
    Arrival::new(name, file, received.unwrap_or(stat.changed), stat.changed)
}
