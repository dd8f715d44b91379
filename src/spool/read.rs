//! Reading a control file that was found in the spool.

use super::folder::exists;
use super::part::{self, NoPart};
use super::removals::RemovalList;
use super::remove::{self, Reason};
use super::{
    Arrival, Doubt, HashFolder, HashLevel, LockOwner, Portion, Spool, SpoolName, Tell, decided,
    folder, owner_at_load, owner_of,
};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zsched_format::control_file::{self, ControlFile, ControlFileError, PidField, Tag, mark};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// A control file of at most so many bytes is read as a whole, even if only some of it is wanted.
const SMALL: u64 = 1 << 20;
/// Of a larger one so many bytes are looked through at a time for recipients to do, or a little more.
const READ_AT_A_TIME: u32 = 16 << 20;

/// What a look at a control file brought.
#[derive(Debug)]
pub enum Found {
    /// It is good.
    Arrival(Arrival),
    /// There is none of this name, or what is there is no regular file.
    Nothing,
    /// A living process holds a recipient of it.
    Locked(u32),
    /// It cannot be used, and was moved out of the way.
    Malformed {
        /// What is wrong with it.
        error: ControlFileError,
        /// Where it is now; or why it could not be moved, and stays where it is.
        moved: Result<PathBuf, io::Error>,
    },
    /// It could not be read.
    Failed(io::Error),
    /// Its message is not there, nor is any other: most likely the folder of the message files is not
    /// mounted. It stays as it is.
    NoQueue,
}

/// What a look at a control file from outside tells. Taken before it is opened, it saves a second one.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    size: u64,
    /// When the inode last changed: when the file came.
    pub changed: Timestamp,
}

impl Look {
    /// Looks at the control file of a message. `None` if there is none, or no regular file.
    pub fn at(spool: &Spool, name: &SpoolName) -> io::Result<Option<Look>> {
        match fs::symlink_metadata(spool.control_file(name)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(Look {
                size: metadata.len(),
                changed: Timestamp::from_parts(metadata.ctime(), metadata.ctime_nsec()),
            })),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads the control file of a message, on behalf of the scheduler as a whole.
///
/// A file in the top folder of a spool with hash levels is moved down first. Locks of dead processes
/// are cleared, in the file too, after `tell` was told. A file that cannot be used is moved aside together
/// with its message.
pub fn read(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    at_most: Option<u32>,
    tell: Tell<'_>,
) -> Found {
    match Look::at(spool, &name) {
        Ok(Some(look)) => read_looked_at(spool, level, name, &look, at_most, tell),
        Ok(None) => Found::Nothing,
        Err(error) => Found::Failed(error),
    }
}

/// The same, for a file that has been looked at just now.
pub fn read_looked_at(
    spool: &Spool,
    level: HashLevel,
    name: SpoolName,
    look: &Look,
    at_most: Option<u32>,
    tell: Tell<'_>,
) -> Found {
    let name = match settle(spool, level, name) {
        Ok(name) => name,
        Err(error) => return Found::Failed(error),
    };
    let portion = at_most.map(|at_most| Portion { from: 0, at_most });
    match examine(spool, &name, look, portion, (owner_at_load, tell)) {
        Ok(arrival) => Found::Arrival(arrival),
        Err(problem) => problem.found(|| {
            set_aside(spool, &name).or_else(|_| remove::hide(spool, &name, Reason::Malformed))
        }),
    }
}

/// Reads a further portion of the control file of a message that is loaded in part. Recipients that a living
/// process holds are no obstacle: they are listed as locked.
pub fn read_more(spool: &Spool, name: SpoolName, portion: Portion, tell: Tell<'_>) -> Found {
    let look = match Look::at(spool, &name) {
        Ok(Some(look)) => look,
        Ok(None) => return Found::Nothing,
        Err(error) => return Found::Failed(error),
    };
    match examine(spool, &name, &look, Some(portion), (owner_of, tell)) {
        Ok(arrival) => Found::Arrival(arrival),
        Err(problem) => problem.found(|| set_aside(spool, &name)),
    }
}

/// Reads the control file of a message that is loaded already. Recipients that a living process holds
/// are no obstacle: they are listed as locked.
pub fn read_again(spool: &Spool, name: SpoolName, tell: Tell<'_>) -> Found {
    let look = match Look::at(spool, &name) {
        Ok(Some(look)) => look,
        Ok(None) => return Found::Nothing,
        Err(error) => return Found::Failed(error),
    };
    match parse_and_clear(spool, &name, &look, (owner_of, tell)) {
        Ok((file, received)) => Found::Arrival(arrival(name, &file, &look, received)),
        Err(problem) => problem.found(|| set_aside(spool, &name)),
    }
}

/// Moves a malformed message to `postman/`. It is listed first: a kill may leave its message file in `queue/`.
fn set_aside(spool: &Spool, name: &SpoolName) -> io::Result<PathBuf> {
    let mut removals = RemovalList::new(spool.removals_of_reader_file());
    if let Err(error) = removals.write(spool, std::iter::once(name)) {
        log::warn!("{}: {error}", removals.path().display());
    }
    remove::move_aside(spool, name, Reason::Malformed)
}

/// Clears the locks that dead processes hold in a control file, among them the given one, after `tell`
/// was told.
pub fn clear_locks(spool: &Spool, name: &SpoolName, dead: u32, tell: Tell<'_>) -> io::Result<()> {
    let path = spool.control_file(name);
    let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let metadata = file.metadata()?;
    let modified = modified(&metadata);
    if metadata.len() > control_file::LARGE {
        return clear_locks_in_parts(spool, &file, name, modified, dead, tell);
    }
    let text = control_file::contents(&mut file, metadata.len())?;
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
    tell: Tell<'_>,
) -> io::Result<()> {
    let owner = |field| owner_after_death(field, dead, modified);
    let size = file.metadata()?.len();
    decided::complete_large(file, size, |field| owner(field).is_gone())?;
    let received = fs::metadata(spool.message_file(name)).map_or(modified, |m| self::modified(&m));
    let mut from = Some(0);
    while let Some(at) = from {
        let mut part = match part::read(file, at, usize::MAX) {
            Ok(part) => part,
            Err(NoPart::Failed(error)) => return Err(error),
            // Whoever reads it next will find out.
            Err(NoPart::Malformed(_)) => return Ok(()),
        };
        unlock_dead(file, (name, received), &mut part.file, owner, &mut *tell)?;
        from = part.next;
    }
    Ok(())
}

/// Who holds a lock when a certain process has died.
fn owner_after_death(field: PidField, dead: u32, modified: Timestamp) -> LockOwner {
    if field.pid() == Some(dead) { LockOwner::Dead } else { owner_of(field, modified) }
}

/// Completes the tags of recipients that a `d` line decides on, and takes the locks of dead processes off the
/// others, on disk and in what was read of it, after `tell` was told: a crash in between shall not hide
/// anything. Locks without a pid are nobody's. The message has a name, and was received at a certain time.
pub fn unlock_dead(
    on_disk: &impl FileExt,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    owner: impl Fn(PidField) -> LockOwner,
    tell: Tell<'_>,
) -> io::Result<()> {
    let incomplete = decided::incomplete(file, |field| owner(field).is_gone());
    decided::complete(on_disk, file, &incomplete)?;
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
        tell(&Doubt::about(message.0, message.1, file, &doubtful));
    }
    for (place, _) in gone {
        let recipient = &mut file.recipients[place];
        recipient.tag = mark::unlock(on_disk, recipient.offset, recipient.lock)?;
    }
    Ok(())
}

/// The process that holds the first locked recipient of a file; 0 if the file does not say.
pub fn holder(file: &ControlFile) -> Option<u32> {
    let locked = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked)?;
    Some(locked.lock.and_then(|field| field.pid()).unwrap_or_default())
}

/// Finds out who holds a lock in a file that was last changed at a certain time.
type OwnerOf = fn(PidField, Timestamp) -> LockOwner;

enum Problem {
    Gone,
    Locked(u32),
    Malformed(ControlFileError),
    Failed(io::Error),
    NoQueue,
}

impl Problem {
    /// The verdict on the file; a malformed one is moved out of the way.
    fn found(self, move_away: impl FnOnce() -> io::Result<PathBuf>) -> Found {
        match self {
            Problem::Gone => Found::Nothing,
            Problem::Locked(pid) => Found::Locked(pid),
            Problem::Failed(error) => Found::Failed(error),
            Problem::NoQueue => Found::NoQueue,
            Problem::Malformed(error) => Found::Malformed { error, moved: move_away() },
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        match error.kind() {
            ErrorKind::NotFound => Problem::Gone,
            _ => Problem::Failed(error),
        }
    }
}

/// Where the files of a message are to be used: a control file found at the top, although the spool has
/// levels, goes where it belongs, and its message with it. A move that a crash has cut short is finished.
/// If it cannot be moved, or something is in its way, it is used where it is. Fails only if it cannot be
/// used anywhere yet: its message is still at the top.
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
            // What has gone away since is told by whoever reads it.
            if error.kind() != ErrorKind::NotFound {
                log::warn!("{name}: not moved to {below}, used where it is: {error}");
            }
            name
        }
    })
}

/// Moves a control file down, then its message. Never onto a file that is there: each of the two would
/// lose its own.
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
        // It has none, or has it there already.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            sys::rename_new(&control_below, &control)?;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// A crash may have come between the two steps of a move: then the message is still at the top, where no
/// control file lays claim to it. As long as it cannot be moved it is not missing.
fn finish_move(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    let at_top = name.in_folder(HashFolder::TOP);
    let (message, message_at_top) = (spool.message_file(name), spool.message_file(&at_top));
    if exists(&message)? || !exists(&message_at_top)? || exists(&spool.control_file(&at_top))? {
        return Ok(());
    }
    folder::make_below(spool.queue(), name.folder(), true)?;
    sys::rename_new(&message_at_top, &message)?;
    log::warn!("{name}: its message was still at the top of queue/, and is moved");
    Ok(())
}

fn examine(
    spool: &Spool,
    name: &SpoolName,
    look: &Look,
    portion: Option<Portion>,
    (owner, tell): (OwnerOf, Tell<'_>),
) -> Result<Arrival, Problem> {
    if let Some(portion) = portion.filter(|_| look.size > SMALL) {
        return examine_parts(spool, name, look, portion, (owner, tell));
    }
    let (file, received) = parse_and_clear(spool, name, look, (owner, tell))?;
    let is_beginning = portion.is_none_or(|portion| portion.from == 0);
    if let Some(pid) = holder(&file).filter(|_| is_beginning) {
        return Err(Problem::Locked(pid));
    }
    let mut arrival = arrival(name.clone(), &file, look, received);
    if let Some(portion) = portion {
        arrival.cut(portion);
    }
    Ok(arrival)
}

/// The same for a large file, of which only some is read.
fn examine_parts(
    spool: &Spool,
    name: &SpoolName,
    look: &Look,
    portion: Portion,
    (owner, tell): (OwnerOf, Tell<'_>),
) -> Result<Arrival, Problem> {
    let path = spool.control_file(name);
    let on_disk = open(&path)?;
    complete_large(&path, owner)?;
    let (mut all, mut from): (Option<Arrival>, _) = (None, portion.from);
    let mut received = None;
    loop {
        let has = all.as_ref().map_or(0, |all| all.pending() + all.locked.len());
        let left = portion.at_most as usize - has;
        let part = part::read(&on_disk, from, left.max(1)).map_err(|error| match error {
            NoPart::Failed(error) => error.into(),
            NoPart::Malformed(error) => Problem::Malformed(error),
        })?;
        let mut file = part.file;
        check_headers(&file).map_err(Problem::Malformed)?;
        if all.is_none() {
            received = check_message(spool, name, &file)?;
        }
        let message = (name, received.unwrap_or(look.changed));
        clear_dead_locks(&path, message, &mut file, (owner, &mut *tell))?;
        if let Some(pid) = holder(&file).filter(|_| portion.from == 0) {
            return Err(Problem::Locked(pid));
        }
        let mut more = arrival(name.clone(), &file, look, received);
        (more.unread, more.is_part) = (part.next, true);
        more.unread_at_most = part.next.map_or(0, |next| part::most_recipients(next, look.size));
        match &mut all {
            None => all = Some(more),
            Some(all) => all.add(more),
        }
        let all = all.as_mut().expect("it was put there just now");
        if portion.from > 0 {
            all.turns.clear();
        }
        let is_full = all.pending() + all.locked.len() >= portion.at_most as usize;
        match part.next {
            Some(next) if !is_full && next - portion.from < READ_AT_A_TIME => from = next,
            _ => return Ok(all.clone()),
        }
    }
}

/// Completes the tags that the `d` lines at the end of a large file decide on.
fn complete_large(path: &Path, owner: OwnerOf) -> io::Result<()> {
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    let metadata = on_disk.metadata()?;
    let modified = modified(&metadata);
    decided::complete_large(&on_disk, metadata.len(), |field| owner(field, modified).is_gone())
}

fn open(path: &Path) -> io::Result<File> {
    // It may have been replaced by something else meanwhile; that must not hold us up.
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Reads and parses a control file, with the locks of dead processes cleared. Also tells when its
/// message was received, if it has one.
fn parse_and_clear(
    spool: &Spool,
    name: &SpoolName,
    look: &Look,
    (owner, tell): (OwnerOf, Tell<'_>),
) -> Result<(ControlFile, Option<Timestamp>), Problem> {
    let path = spool.control_file(name);
    let mut file = control_file::parse(contents(&path, look)?).map_err(Problem::Malformed)?;
    check_headers(&file).map_err(Problem::Malformed)?;
    let received = check_message(spool, name, &file)?;
    let message = (name, received.unwrap_or(look.changed));
    clear_dead_locks(&path, message, &mut file, (owner, tell))?;
    Ok((file, received))
}

/// What is in a control file.
fn contents(path: &Path, look: &Look) -> Result<Vec<u8>, Problem> {
    let mut file = open(path)?;
    control_file::contents(&mut file, look.size).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let limit = control_file::LARGEST >> 20;
            let reason = format!("the file is larger than {limit} MiB");
            Problem::Malformed(ControlFileError::new(0, reason))
        }
        _ => error.into(),
    })
}

/// A control file must name itself, unless it names nothing.
pub fn check_name(name: &SpoolName, file: &ControlFile) -> Result<(), ControlFileError> {
    match file.name() {
        Some(own_name) if own_name != name.base().as_bytes() => {
            let shown = String::from_utf8_lossy(own_name);
            Err(error_in_name(file, format!("the i line says {shown}")))
        }
        _ => Ok(()),
    }
}

/// Agents refuse a file whose headers have no end; what follows them may be missing, too.
pub fn check_headers(file: &ControlFile) -> Result<(), ControlFileError> {
    match file.block_without_end {
        Some(offset) => Err(ControlFileError::new(offset as usize, "the headers have no end")),
        None => Ok(()),
    }
}

fn error_in_name(file: &ControlFile, reason: String) -> ControlFileError {
    let offset = file.name.map_or(0, |span| span.start as usize - 2);
    ControlFileError::new(offset, reason)
}

/// The message file that a control file must have, unless it only asks for a host to be tried.
fn check_message(
    spool: &Spool,
    name: &SpoolName,
    file: &ControlFile,
) -> Result<Option<Timestamp>, Problem> {
    if file.name().is_none() {
        return Ok(None);
    }
    check_name(name, file).map_err(Problem::Malformed)?;
    let malformed = |reason: String| Problem::Malformed(error_in_name(file, reason));
    let error = match fs::metadata(spool.message_file(name)) {
        Ok(message) if message.is_file() => return Ok(Some(modified(&message))),
        Ok(_) => return Err(malformed("the message file is no regular file".to_string())),
        Err(error) => error,
    };
    // Somebody may have taken both away since.
    if error.kind() != ErrorKind::NotFound || !exists(&spool.control_file(name))? {
        return Err(error.into());
    }
    if is_empty(spool.queue())? {
        return Err(Problem::NoQueue);
    }
    Err(malformed("there is no message file".to_string()))
}

/// Whether there is nothing at all in a folder.
fn is_empty(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder)?.next() {
        None => Ok(true),
        Some(entry) => entry.map(|_| false),
    }
}

/// Completes what is decided, and clears the locks of dead processes, in the file too.
///
/// How old the locks may be is asked only now: the look at the file, a long scan ago, may have been
/// before an agent of an earlier scheduler took a recipient.
fn clear_dead_locks(
    path: &Path,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    (owner, tell): (OwnerOf, Tell<'_>),
) -> io::Result<()> {
    let is_locked = |recipient: &control_file::Recipient| recipient.tag == Tag::Locked;
    let has_locks = file.recipients.iter().any(is_locked);
    if !has_locks && decided::incomplete(file, |_| false).is_empty() {
        return Ok(());
    }
    let modified = modified(&fs::symlink_metadata(path)?);
    let is_gone = |field| owner(field, modified).is_gone();
    let is_free = |recipient: &control_file::Recipient| {
        is_locked(recipient) && recipient.lock.is_none_or(is_gone)
    };
    let has_work =
        file.recipients.iter().any(is_free) || !decided::incomplete(file, |_| false).is_empty();
    if !has_work {
        return Ok(());
    }
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    unlock_dead(&on_disk, message, file, |field| owner(field, modified), tell)
}

fn arrival(
    name: SpoolName,
    file: &ControlFile,
    look: &Look,
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

    /// Writes a file of the spool: a control file, if it is in `transport/`, with this log id.
    fn put(spool: &Spool, path: &str, text: &str) {
        let path = spool.postoffice().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let control = format!("@ 7\ni 4711\nl {text}\ns l - a 0\nr           c h u 0\nm\n\n");
        let is_control = path.starts_with(spool.transport());
        fs::write(path, if is_control { control } else { text.to_string() }).expect("written");
    }

    /// Reads `4711` where it is found; returns where it is used.
    fn used_at(spool: &Spool, folder: HashFolder) -> String {
        let name = SpoolName::new(folder, NUMBER).expect("a name");
        match read(spool, HashLevel::Once, name, None, &mut |_| {}) {
            Found::Arrival(arrival) => arrival.name.path(),
            other => panic!("{other:?}"),
        }
    }

    fn text(spool: &Spool, path: &str) -> Option<String> {
        fs::read_to_string(spool.postoffice().join(path)).ok()
    }

    #[test]
    fn a_move_that_was_cut_short_is_finished() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "queue/4711", "one's message");
        assert_eq!(used_at(&spool, HashFolder::of(4711, HashLevel::Once)), "F/4711");
        assert_eq!(text(&spool, "queue/F/4711").as_deref(), Some("one's message"));
        assert_eq!(text(&spool, "queue/4711"), None);
    }

    #[test]
    fn a_message_that_cannot_be_moved_yet_is_not_missing() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "queue/4711", "one's message");
        put(&spool, "queue/F", "in the way of the folder");
        let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
        let found = read(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, Found::Failed(_)), "{found:?}");
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
        let found = read(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, Found::Failed(_)), "{found:?}");
        assert!(text(&spool, "queue/4711").is_some() && text(&spool, "transport/F/4711").is_some());
    }

    #[test]
    fn the_message_of_another_control_file_is_left_to_it() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        put(&spool, "transport/4711", "two");
        put(&spool, "queue/4711", "two's message");
        let below = HashFolder::of(4711, HashLevel::Once);
        let name = SpoolName::new(below, NUMBER).expect("a name");
        let found = read(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, Found::Malformed { .. }), "{found:?}");
        assert_eq!(text(&spool, "queue/4711").as_deref(), Some("two's message"));
    }

    #[test]
    fn two_messages_of_one_number_both_stay() {
        // Those that are in the way, and what is at the top with them.
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
    fn where_no_message_is_at_all_none_is_declared_missing() {
        let (_folder, spool) = spool();
        put(&spool, "transport/F/4711", "one");
        let name = SpoolName::new(HashFolder::of(4711, HashLevel::Once), NUMBER).expect("a name");
        let found = read(&spool, HashLevel::Once, name.clone(), None, &mut |_| {});
        assert!(matches!(found, Found::NoQueue), "{found:?}");
        put(&spool, "transport/4711", "two");
        let at_top = SpoolName::new(HashFolder::TOP, NUMBER).expect("a name");
        let found = read(&spool, HashLevel::Once, at_top, None, &mut |_| {});
        assert!(matches!(found, Found::NoQueue), "{found:?}");
        assert!(is_empty(spool.queue()).expect("listed"), "and no folder is made");
        put(&spool, "queue/1", "another's");
        let found = read(&spool, HashLevel::Once, name, None, &mut |_| {});
        assert!(matches!(found, Found::Malformed { .. }), "{found:?}");
    }
}
