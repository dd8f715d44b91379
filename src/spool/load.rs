//! Loads a control file that was found in the spool.

use super::chunk::{self, ChunkError};
use super::folder::exists;
use super::removals::RemovalList;
use super::remove::{self, Reason};
use super::{
    Arrival, DuplicateSink, HashFolder, HashLevel, LockOwner, Portion, PossibleDuplicates, Spool,
    SpoolName, decisions, folder, owner_of, owner_when_unloaded,
};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zsched_format::control_file::{self, ControlFile, ControlFileError, PidField, Tag, mark};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Maximum size of a control file that is always read as a whole, in bytes.
const MAX_WHOLE_READ: u64 = 1 << 20;
/// Number of bytes of a larger file that are searched at a time.
///
/// It may be slightly exceeded.
const CHUNK_SIZE: u32 = 16 << 20;

/// The result of loading a control file.
#[derive(Debug)]
pub enum LoadResult {
    /// The file is valid.
    Arrival(Arrival),
    /// There is no regular file of this name.
    Nothing,
    /// A living process with this pid has locked one of the recipients.
    Locked(u32),
    /// The file cannot be used, and was moved away.
    Malformed {
        /// The error in it.
        error: ControlFileError,
        /// Its new path, or the reason why it stays where it is.
        moved: Result<PathBuf, io::Error>,
    },
    /// The file could not be read.
    Failed(io::Error),
    /// Neither its message file nor any other exists.
    ///
    /// Most likely the folder of the message files is not mounted. The control file stays as it is.
    NoQueue,
}

/// Size and time of a control file, from one `stat(2)`.
///
/// With it, loading needs no second call.
#[derive(Clone, Copy, Debug)]
pub struct FileStat {
    size: u64,
    /// Last change of the inode: the time when the file arrived.
    pub changed: Timestamp,
}

impl FileStat {
    /// Examines the control file of a message. Returns `None` if there is no regular file.
    pub fn at(spool: &Spool, name: &SpoolName) -> io::Result<Option<FileStat>> {
        match fs::symlink_metadata(spool.control_file(name)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(FileStat {
                size: metadata.len(),
                changed: Timestamp::from_parts(metadata.ctime(), metadata.ctime_nsec()),
            })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Loads the control file of a message for the scheduler.
///
/// In a spool with hash levels, a file in the top folder is moved down first. `tell` receives
/// possible duplicates, and then locks of dead processes are cleared, in the file as well. A file
/// that cannot be used is moved aside together with its message.
pub fn load(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    at_most: Option<u32>,
    tell: DuplicateSink<'_>,
) -> LoadResult {
    match FileStat::at(spool, &name) {
        Ok(Some(look)) => load_examined(spool, level, name, &look, at_most, tell),
        Ok(None) => LoadResult::Nothing,
        Err(error) => LoadResult::Failed(error),
    }
}

/// The same, for a file that has just been examined.
pub fn load_examined(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    look: &FileStat,
    at_most: Option<u32>,
    tell: DuplicateSink<'_>,
) -> LoadResult {
    let name = match settle(spool, level, name) {
        Ok(name) => name,
        Err(error) => return LoadResult::Failed(error),
    };
    let portion = at_most.map(|at_most| Portion { from: 0, max_recipients: at_most });
    match examine(spool, &name, look, portion, (owner_when_unloaded, tell)) {
        Ok(arrival) => LoadResult::Arrival(arrival),
        Err(problem) => problem.found(|| {
            move_aside_malformed(spool, &name)
                .or_else(|_| remove::hide(spool, &name, Reason::Malformed))
        }),
    }
}

/// Loads a further portion of a partly loaded message.
///
/// Recipients that a living process has locked do not prevent this. They are listed as locked.
pub fn load_more(
    spool: &Spool,
    name: SpoolName,
    portion: Portion,
    tell: DuplicateSink<'_>,
) -> LoadResult {
    let look = match FileStat::at(spool, &name) {
        Ok(Some(look)) => look,
        Ok(None) => return LoadResult::Nothing,
        Err(error) => return LoadResult::Failed(error),
    };
    match examine(spool, &name, &look, Some(portion), (owner_of, tell)) {
        Ok(arrival) => LoadResult::Arrival(arrival),
        Err(problem) => problem.found(|| move_aside_malformed(spool, &name)),
    }
}

/// Loads the control file of a message that is already loaded.
///
/// Recipients that a living process has locked do not prevent this. They are listed as locked.
pub fn reload(spool: &Spool, name: SpoolName, tell: DuplicateSink<'_>) -> LoadResult {
    let look = match FileStat::at(spool, &name) {
        Ok(Some(look)) => look,
        Ok(None) => return LoadResult::Nothing,
        Err(error) => return LoadResult::Failed(error),
    };
    match parse_and_clear(spool, &name, &look, (owner_of, tell)) {
        Ok((file, received)) => LoadResult::Arrival(arrival(name, &file, &look, received)),
        Err(problem) => problem.found(|| move_aside_malformed(spool, &name)),
    }
}

/// Moves a malformed message to `postman/`.
///
/// It is listed first, because a kill may leave its message file in `queue/`.
fn move_aside_malformed(spool: &Spool, name: &SpoolName) -> io::Result<PathBuf> {
    let mut removals = RemovalList::new(spool.reader_removals_file());
    if let Err(error) = removals.write(spool, std::iter::once(name)) {
        log::warn!("{}: {error}", removals.path().display());
    }
    remove::move_aside(spool, name, Reason::Malformed)
}

/// Clears the locks of dead processes in a control file, among them the given one.
///
/// `tell` receives the possible duplicates before.
pub fn clear_locks(
    spool: &Spool,
    name: &SpoolName,
    dead: u32,
    tell: DuplicateSink<'_>,
) -> io::Result<()> {
    let path = spool.control_file(name);
    let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let metadata = file.metadata()?;
    let modified = modified(&metadata);
    if metadata.len() > control_file::MAX_QUERY_SIZE {
        return clear_locks_in_parts(spool, &file, name, modified, dead, tell);
    }
    let text = control_file::read_all(&mut file, metadata.len())?;
    let Ok(mut parsed) = control_file::parse(text) else {
        return Ok(());
    };
    let owner = |field| owner_after_death(field, dead, modified);
    let received = fs::metadata(spool.message_file(name)).map_or(modified, |m| self::modified(&m));
    unlock_dead(&file, (name, received), &mut parsed, owner, tell)
}

fn clear_locks_in_parts(
    spool: &Spool,
    file: &File,
    name: &SpoolName,
    modified: Timestamp,
    dead: u32,
    tell: DuplicateSink<'_>,
) -> io::Result<()> {
    let owner = |field| owner_after_death(field, dead, modified);
    let size = file.metadata()?.len();
    decisions::complete_large(file, size, |field| owner(field).is_gone())?;
    let received = fs::metadata(spool.message_file(name)).map_or(modified, |m| self::modified(&m));
    let mut from = Some(0);
    while let Some(at) = from {
        let mut part = match chunk::read(file, at, usize::MAX) {
            Ok(part) => part,
            Err(ChunkError::Failed(error)) => return Err(error),
            // The next program that reads the file will report the error.
            Err(ChunkError::Malformed(_)) => return Ok(()),
        };
        unlock_dead(file, (name, received), &mut part.file, owner, &mut *tell)?;
        from = part.next;
    }
    Ok(())
}

/// The owner of a lock after a certain process has died.
fn owner_after_death(field: PidField, dead: u32, modified: Timestamp) -> LockOwner {
    if field.pid() == Some(dead) { LockOwner::Dead } else { owner_of(field, modified) }
}

/// Completes the tags that `d` lines decide, and clears the other locks of dead processes.
///
/// Both are changed on disk and in `file`. `tell` receives the possible duplicates before locks are
/// cleared, so that a crash in between hides nothing. A lock without a pid has no owner. `message`
/// is the name of the message and the time of its arrival.
pub fn unlock_dead(
    on_disk: &impl FileExt,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    owner: impl Fn(PidField) -> LockOwner,
    tell: DuplicateSink<'_>,
) -> io::Result<()> {
    let incomplete = decisions::incomplete(file, |field| owner(field).is_gone());
    decisions::complete(on_disk, file, &incomplete)?;
    let owner =
        |recipient: &control_file::Recipient| recipient.lock.map_or(LockOwner::Dead, &owner);
    let locked = file.recipients.iter().enumerate().filter(|(_, r)| r.tag == Tag::Locked);
    let gone: Vec<(usize, LockOwner)> = locked
        .map(|(place, recipient)| (place, owner(recipient)))
        .filter(|(_, owner)| owner.is_gone())
        .collect();
    let of_agents = gone.iter().filter(|(_, owner)| *owner == LockOwner::Dead);
    let doubtful: Vec<usize> = of_agents.map(|(place, _)| *place).collect();
    if !doubtful.is_empty() {
        tell(&PossibleDuplicates::about(message.0, message.1, file, &doubtful));
    }
    for (place, _) in gone {
        let recipient = &mut file.recipients[place];
        recipient.tag = mark::clear_dead_lock(on_disk, recipient.offset, recipient.lock)?;
    }
    Ok(())
}

/// The process that has locked the first locked recipient of a file; 0 if the file has no pid.
pub fn holder(file: &ControlFile) -> Option<u32> {
    let locked = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked)?;
    Some(locked.lock.and_then(|field| field.pid()).unwrap_or_default())
}

/// Determines the owner of a lock, given the file's last change.
type OwnerOf = fn(PidField, Timestamp) -> LockOwner;

enum LoadError {
    Gone,
    Locked(u32),
    Malformed(ControlFileError),
    Failed(io::Error),
    NoQueue,
}

impl LoadError {
    /// The result for the caller. A malformed file is moved away.
    fn found(self, move_away: impl FnOnce() -> io::Result<PathBuf>) -> LoadResult {
        match self {
            LoadError::Gone => LoadResult::Nothing,
            LoadError::Locked(pid) => LoadResult::Locked(pid),
            LoadError::Failed(error) => LoadResult::Failed(error),
            LoadError::NoQueue => LoadResult::NoQueue,
            LoadError::Malformed(error) => LoadResult::Malformed { error, moved: move_away() },
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        match error.kind() {
            ErrorKind::NotFound => LoadError::Gone,
            _ => LoadError::Failed(error),
        }
    }
}

/// Determines where the files of a message are to be used.
///
/// If the spool has levels, a control file in the top folder moves down, and its message with it. A
/// move that a crash has cut short is finished. A file that cannot be moved, because another is in
/// its way for example, is used where it is. Returns an error only if the message file is still in
/// the top folder and cannot be moved yet.
fn settle(spool: &Spool, level: HashLevel, name: SpoolName) -> io::Result<SpoolName> {
    let folder = HashFolder::of(name.number(), level);
    if name.folder() != HashFolder::TOP {
        finish_move(spool, &name)?;
        return Ok(name);
    }
    if folder == HashFolder::TOP {
        return Ok(name);
    }
    let below = name.in_folder(folder);
    Ok(match move_down(spool, &name, &below) {
        Ok(()) => below,
        Err(error) => {
            // If the file has disappeared meanwhile, the caller reports that.
            if error.kind() != ErrorKind::NotFound {
                log::warn!("{name}: not moved to {below}, used where it is: {error}");
            }
            name
        }
    })
}

/// Moves a control file down, then its message.
///
/// Existing files are never replaced, since both messages would lose theirs.
fn move_down(spool: &Spool, from: &SpoolName, to: &SpoolName) -> io::Result<()> {
    let (control, control_below) = (spool.control_file(from), spool.control_file(to));
    let (message, message_below) = (spool.message_file(from), spool.message_file(to));
    if exists(&message)? && exists(&message_below)? {
        return Err(ErrorKind::AlreadyExists.into());
    }
    folder::make_below(spool.transport(), to.folder(), true)?;
    if exists(&message)? {
        folder::make_below(spool.queue(), to.folder(), true)?;
    }
    sys::rename_new(&control, &control_below)?;
    match sys::rename_new(&message, &message_below) {
        // The control file has no message file, or that is already below.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            sys::rename_new(&control_below, &control)?;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Finishes a move that a crash has cut short between its two steps.
///
/// The message is then still in the top folder, without a control file there. While it cannot be
/// moved it does not count as missing.
fn finish_move(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    let at_top = name.in_folder(HashFolder::TOP);
    let (message, message_at_top) = (spool.message_file(name), spool.message_file(&at_top));
    if exists(&message)? || !exists(&message_at_top)? || exists(&spool.control_file(&at_top))? {
        return Ok(());
    }
    folder::make_below(spool.queue(), name.folder(), true)?;
    sys::rename_new(&message_at_top, &message)?;
    log::warn!("{name}: its message file was still in the top folder of queue/; moved");
    Ok(())
}

fn examine(
    spool: &Spool,
    name: &SpoolName,
    look: &FileStat,
    portion: Option<Portion>,
    (owner, tell): (OwnerOf, DuplicateSink<'_>),
) -> Result<Arrival, LoadError> {
    if let Some(portion) = portion.filter(|_| look.size > MAX_WHOLE_READ) {
        return examine_parts(spool, name, look, portion, (owner, tell));
    }
    let (file, received) = parse_and_clear(spool, name, look, (owner, tell))?;
    let is_beginning = portion.is_none_or(|portion| portion.from == 0);
    if let Some(pid) = holder(&file).filter(|_| is_beginning) {
        return Err(LoadError::Locked(pid));
    }
    let mut arrival = arrival(name.clone(), &file, look, received);
    if let Some(portion) = portion {
        arrival.cut(portion);
    }
    Ok(arrival)
}

/// The same for a large file, of which only a chunk is read.
fn examine_parts(
    spool: &Spool,
    name: &SpoolName,
    look: &FileStat,
    portion: Portion,
    (owner, tell): (OwnerOf, DuplicateSink<'_>),
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
        let message = (name, received.unwrap_or(look.changed));
        clear_dead_locks(&path, message, &mut file, (owner, &mut *tell))?;
        if let Some(pid) = holder(&file).filter(|_| portion.from == 0) {
            return Err(LoadError::Locked(pid));
        }
        let mut more = arrival(name.clone(), &file, look, received);
        (more.next_offset, more.is_chunk) = (chunk.next, true);
        more.max_unread = chunk.next.map_or(0, |next| chunk::max_recipients_after(next, look.size));
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

/// Completes the tags decided by the `d` lines of a large file.
fn complete_large(path: &Path, owner: OwnerOf) -> io::Result<()> {
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    let metadata = on_disk.metadata()?;
    let modified = modified(&metadata);
    decisions::complete_large(&on_disk, metadata.len(), |field| owner(field, modified).is_gone())
}

fn open(path: &Path) -> io::Result<File> {
    // Another kind of file may have replaced it meanwhile, which must not block.
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Reads and parses a control file, and clears the locks of dead processes.
///
/// Also returns when its message was received, if it has one.
fn parse_and_clear(
    spool: &Spool,
    name: &SpoolName,
    look: &FileStat,
    (owner, tell): (OwnerOf, DuplicateSink<'_>),
) -> Result<(ControlFile, Option<Timestamp>), LoadError> {
    let path = spool.control_file(name);
    let mut file = control_file::parse(contents(&path, look)?).map_err(LoadError::Malformed)?;
    check_headers(&file).map_err(LoadError::Malformed)?;
    let received = check_message(spool, name, &file)?;
    let message = (name, received.unwrap_or(look.changed));
    clear_dead_locks(&path, message, &mut file, (owner, tell))?;
    Ok((file, received))
}

/// Reads the text of a control file.
fn contents(path: &Path, look: &FileStat) -> Result<Vec<u8>, LoadError> {
    let mut file = open(path)?;
    control_file::read_all(&mut file, look.size).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let limit = control_file::MAX_CONTROL_FILE_SIZE >> 20;
            let reason = format!("the file is larger than {limit} MiB");
            LoadError::Malformed(ControlFileError::new(0, reason))
        }
        _ => error.into(),
    })
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
fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder)?.next() {
        None => Ok(true),
        Some(entry) => entry.map(|_| false),
    }
}

/// Completes decided tags, and clears the locks of dead processes, in the file as well.
///
/// The file's time is read only now. An agent of an earlier scheduler may have locked a recipient
/// after the file was examined, which was before a long scan.
fn clear_dead_locks(
    path: &Path,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    (owner, tell): (OwnerOf, DuplicateSink<'_>),
) -> io::Result<()> {
    let is_locked = |recipient: &control_file::Recipient| recipient.tag == Tag::Locked;
    let has_locks = file.recipients.iter().any(is_locked);
    if !has_locks && decisions::incomplete(file, |_| false).is_empty() {
        return Ok(());
    }
    let modified = modified(&fs::symlink_metadata(path)?);
    let is_gone = |field| owner(field, modified).is_gone();
    let is_free = |recipient: &control_file::Recipient| {
        is_locked(recipient) && recipient.lock.is_none_or(is_gone)
    };
    let has_work =
        file.recipients.iter().any(is_free) || !decisions::incomplete(file, |_| false).is_empty();
    if !has_work {
        return Ok(());
    }
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    unlock_dead(&on_disk, message, file, |field| owner(field, modified), tell)
}

fn arrival(
    name: SpoolName,
    file: &ControlFile,
    look: &FileStat,
    received: Option<Timestamp>,
) -> Arrival {
    Arrival::new(name, file, received.unwrap_or(look.changed), look.changed)
}

fn modified(metadata: &Metadata) -> Timestamp {
    Timestamp::from_parts(metadata.mtime(), metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &[u8] = b"4711";

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        (folder, spool)
    }

    /// Writes a file of the spool. `text` is the log id of a control file, if it is in
    /// `transport/`.
    fn put(spool: &Spool, path: &str, text: &str) {
        let path = spool.postoffice().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let control = format!("@ 7\ni 4711\nl {text}\ns l - a 0\nr           c h u 0\nm\n\n");
        let is_control = path.starts_with(spool.transport());
        fs::write(path, if is_control { control } else { text.to_string() }).expect("written");
    }

    /// Settles `4711` found in `folder`, and returns the folder in which it is used.
    fn used_at(spool: &Spool, folder: HashFolder) -> String {
        let name = SpoolName::new(folder, NUMBER).expect("a name");
        match load(spool, HashLevel::Once, name, None, &mut |_| {}) {
            LoadResult::Arrival(arrival) => arrival.name.path(),
            other => panic!("{other:?}"),
        }
    }

    fn text(spool: &Spool, path: &str) -> Option<String> {
        fs::read_to_string(spool.postoffice().join(path)).ok()
    }

    #[test]
    fn interrupted_move_is_finished() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "queue/4711", "one's message");
        assert_eq!(used_at(&spool, HashFolder::of(4711, HashLevel::Once)), "F/4711");
        assert_eq!(text(&spool, "queue/F/4711").as_deref(), Some("one's message"));
        assert_eq!(text(&spool, "queue/4711"), None);
    }

    #[test]
    fn message_that_cannot_be_moved_is_not_missing() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "queue/4711", "one's message");
        put(&spool, "queue/F", "in the way of the folder");
        let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
        let found = load(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, LoadResult::Failed(_)), "{found:?}");
        fs::remove_file(spool.postoffice().join("queue/F")).expect("it was there");
        assert_eq!(used_at(&spool, HashFolder::of(4711, HashLevel::Once)), "F/4711");
        assert_eq!(text(&spool, "queue/F/4711").as_deref(), Some("one's message"));
    }

    #[test]
    fn a_message_that_cannot_be_examined_is_not_missing() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "queue/4711", "one's message, or another's");
        std::os::unix::fs::symlink("F", spool.queue().join("F")).expect("a link to itself");
        let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
        let found = load(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, LoadResult::Failed(_)), "{found:?}");
        assert!(text(&spool, "queue/4711").is_some() && text(&spool, "transport/F/4711").is_some());
    }

    #[test]
    fn message_of_other_control_file_is_not_moved() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "transport/4711", "two");
        put(&spool, "queue/4711", "two's message");
        let below = HashFolder::of(4711, HashLevel::Once);
        let name = SpoolName::new(below, NUMBER).expect("a name");
        let found = load(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, LoadResult::Malformed { .. }), "{found:?}");
        assert_eq!(text(&spool, "queue/4711").as_deref(), Some("two's message"));
    }

    #[test]
    fn two_messages_of_one_number_both_stay() {
        // The files that are in the way, and those in the top folder.
        for in_the_way in [&["transport/F/4711", "queue/F/4711"][..], &["queue/F/4711"]] {
            let (_folder, spool) = spool();
            let mut all = Vec::new();
            for path in in_the_way.iter().chain(&["transport/4711", "queue/4711"]) {
                put(&spool, path, path);
                all.push((path, text(&spool, path)));
            }
            assert_eq!(used_at(&spool, HashFolder::TOP), "4711");
            for (path, before) in all {
                assert_eq!(text(&spool, path), before, "{path}");
            }
        }
    }

    #[test]
    fn no_message_is_missing_while_queue_is_empty() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
        let found = load(&spool, HashLevel::Once, name.clone(), None, &mut |_| {});
        assert!(matches!(found, LoadResult::NoQueue), "{found:?}");
        put(&spool, "transport/4711", "two");
        let at_top = SpoolName::new(HashFolder::TOP, NUMBER).expect("a name");
        let found = load(&spool, HashLevel::Once, at_top, None, &mut |_| {});
        assert!(matches!(found, LoadResult::NoQueue), "{found:?}");
        assert!(is_empty(spool.queue()).expect("listed"), "and no folder is made");
        put(&spool, "queue/1", "another's");
        let found = load(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, LoadResult::Malformed { .. }), "{found:?}");
    }
}
