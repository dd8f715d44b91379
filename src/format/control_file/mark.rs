//! Changes to a control file after the router has written it.
//!
//! Three things change: a recipient's tag with the pid column after it (7 bytes in place), lines
//! appended at the end, and the tag of a `d` line whose report has been sent. Nothing else may
//! change, because offsets identify recipients.
//!
//! A lock is a convention, not a kernel lock: read, compare, write. It is safe because the
//! scheduler gives the recipients of one message for one channel and host to one agent at a time.
//!
//! The functions accept any file that is read and written by position. The simulation has one in
//! memory.

use super::{PidField, Tag};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Changes the tag of the line at `offset` from `was` to `new`.
///
/// Taking a lock (`new` is [`Tag::Locked`]) writes `pid` into the pid column. Every other change
/// blanks it. A file without that column is not changed.
///
/// Returns true if the tag was `was`; if not, nothing is written.
pub fn change_tag(
    file: &impl FileExt,
    offset: u32,
    was: Tag,
    new: Tag,
    pid: u32,
) -> io::Result<bool> {
    let (found, field) = match read_tag(file, offset) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    };
    if found != was {
        return Ok(false);
    }
    write_new_tag(file, offset, field, new, pid)?;
    Ok(true)
}

/// Locks a recipient without reading its line again.
///
/// The tag must be pending in a text of the file that was read under the lock of
/// [`try_lock_file`], and that lock must still be held. `field` is the pid column in that text.
/// A file without that column is not changed.
pub fn lock_pending(
    file: &impl FileExt,
    offset: u32,
    field: Option<PidField>,
    pid: u32,
) -> io::Result<()> {
    field.map_or(Ok(()), |field| write_new_tag(file, offset, field, Tag::Locked, pid))
}

/// Writes a tag, and the pid if it is a lock, over the pid column `field`.
///
/// If `field` shows that the file has no such column, nothing is written.
fn write_new_tag(
    file: &impl FileExt,
    offset: u32,
    field: PidField,
    new: Tag,
    pid: u32,
) -> io::Result<()> {
    if !has_pid_column(field) {
        return Ok(());
    }
    let field = if new == Tag::Locked { PidField::from_pid(pid) } else { PidField::BLANK };
    write_tag(file, offset, new, field)
}

/// Writes the tag of a line without checking the old one.
///
/// The pid column is blanked.
///
/// The caller must have just read the line, or must hold its lock. The file must have the pid
/// column.
pub fn set_tag(file: &impl FileExt, offset: u32, tag: Tag) -> io::Result<()> {
    write_tag(file, offset, tag, PidField::BLANK)
}

fn write_tag(file: &impl FileExt, offset: u32, tag: Tag, field: PidField) -> io::Result<()> {
    let mut bytes = [tag.byte(); 1 + PidField::WIDTH];
    bytes[1..].copy_from_slice(&field.0);
    file.write_all_at(&bytes, u64::from(offset) + 1)
}

/// Writes the tag of a line, and not its pid column.
pub fn write_bare_tag(file: &impl FileExt, offset: u32, tag: Tag) -> io::Result<()> {
    file.write_all_at(&[tag.byte()], u64::from(offset) + 1)
}

/// Tags a `d` line as reported.
pub fn set_reported(file: &impl FileExt, offset: u32) -> io::Result<()> {
    write_bare_tag(file, offset, Tag::Done)
}

/// Returns true if a recipient is locked on disk.
///
/// If there is a pid column, the lock must be of this owner.
pub fn has_lock(file: &impl FileExt, offset: u32, owner: Option<PidField>) -> io::Result<bool> {
    let (found, field) = read_tag(file, offset)?;
    Ok(found == Tag::Locked && owner.is_none_or(|owner| owner == field))
}

/// Clears the lock of a dead process, and returns the new tag.
///
/// `owner` is the content of the pid column, if there is one, when the process was found to be
/// dead. If the line has changed since, the process finished the recipient before it died. Then
/// nothing is written, and the present tag is returned.
pub fn clear_dead_lock(
    file: &impl FileExt,
    offset: u32,
    owner: Option<PidField>,
) -> io::Result<Tag> {
    let (found, field) = read_tag(file, offset)?;
    if found != Tag::Locked || owner.is_some_and(|owner| owner != field) {
        return Ok(found);
    }
    match owner {
        Some(_) => write_tag(file, offset, Tag::Pending, PidField::BLANK)?,
        None => write_bare_tag(file, offset, Tag::Pending)?,
    }
    Ok(Tag::Pending)
}

/// Writes the final tag of a recipient, and returns its tag.
///
/// The pid column is blanked.
///
/// `was` and `lock` are the tag and the pid column at the time of reading. If the line has changed
/// since, by another process, nothing is written and the present tag is returned. Without a pid
/// column only the tag is written.
pub fn write_final_tag(
    file: &impl FileExt,
    offset: u32,
    was: Tag,
    lock: Option<PidField>,
    tag: Tag,
) -> io::Result<Tag> {
    let (found, field) = read_tag(file, offset)?;
    let is_same_lock = was != Tag::Locked || lock.is_none_or(|lock| lock == field);
    if found != was || !is_same_lock {
        return Ok(found);
    }
    match has_pid_column(field) || (was == Tag::Locked && lock.is_some()) {
        true => write_tag(file, offset, tag, PidField::BLANK)?,
        false => write_bare_tag(file, offset, tag)?,
    }
    Ok(tag)
}

/// Reads the tag of the line at `offset`, and the pid column.
///
/// Without such a column, the second value is meaningless.
pub fn read_tag(file: &impl FileExt, offset: u32) -> io::Result<(Tag, PidField)> {
    let mut found = [0; 1 + PidField::WIDTH];
    file.read_exact_at(&mut found, u64::from(offset) + 1)?;
    let [tag, lock @ ..] = found;
    Ok((Tag::from_byte(tag), PidField(lock)))
}

/// Appends whole lines, and returns when they are on disk.
///
/// It uses a single `write`, because agents append as well. The write may fail or fall short (disk
/// full), and so may the sync. Then the file is truncated to its former length, unless another
/// process has appended since, and the error is returned. So a retry does not write the lines
/// twice.
pub fn append_lines(path: &Path, lines: &[u8]) -> io::Result<()> {
    append_and_sync(path, lines, File::sync_data)
}

fn append_and_sync(
    path: &Path,
    lines: &[u8],
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    // Programs of zsched append only while holding this lock, so the truncation removes nothing of
    // theirs. Closing the file releases it.
    try_lock_file(&file);
    let length = file.metadata()?.len();
    let lines = on_new_line(&file, length, lines)?;
    let written = file.write(&lines);
    let appended = *written.as_ref().unwrap_or(&0);
    let result = match written {
        Ok(count) if count == lines.len() => sync(&file),
        Ok(_) => Err(ErrorKind::StorageFull.into()),
        Err(error) => Err(error),
    };
    if result.is_err() && appended > 0 && file.metadata()?.len() == length + appended as u64 {
        file.set_len(length)?;
    }
    result
}

/// Maximum time to wait for the lock on a control file.
///
/// Other processes hold it only while they write a few lines, or read a small file.
pub const MAX_LOCK_WAIT: Duration = Duration::from_millis(100);

/// The pause after the first attempt to lock a control file. It doubles with each attempt.
///
/// An agent holds the lock for some microseconds, a process that syncs for some milliseconds.
const MIN_LOCK_PAUSE: Duration = Duration::from_micros(20);
const MAX_LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Takes the lock (`flock`) of a control file.
///
/// The programs of zsched lock recipients and append under it.
///
/// Returns false if it cannot be had within [`MAX_LOCK_WAIT`]. A process that keeps it for long has
/// been stopped, and some file systems have no locks. Neither may keep other processes from their
/// work.
pub fn try_lock_file(file: &File) -> bool {
    let (mut pause, mut waited) = (MIN_LOCK_PAUSE, Duration::ZERO);
    loop {
        match file.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if waited < MAX_LOCK_WAIT => thread::sleep(pause),
            Err(_) => return false,
        }
        waited += pause;
        pause = (pause * 2).min(MAX_LOCK_PAUSE);
    }
}

/// Puts a line end before lines that follow an incomplete one.
///
/// A crash may have cut it short.
pub fn on_new_line(file: &impl FileExt, length: u64, lines: &[u8]) -> io::Result<Vec<u8>> {
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    let start: &[u8] = if last[0] == b'\n' { b"" } else { b"\n" };
    Ok([start, lines].concat())
}

fn has_pid_column(field: PidField) -> bool {
    field.0[0] == b' ' || field.0[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PID: u32 = 31337;

    fn after(text: &str, offset: u32, was: Tag, new: Tag) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1");
        fs::write(&path, text).expect("write");
        let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
        let changed = change_tag(&file, offset, was, new, PID).expect("change");
        (changed, fs::read_to_string(&path).expect("read"))
    }

    #[test]
    fn change_tag_writes_in_place() {
        let pending = "i 1\nr           c h u 0\nm\n\n";
        let locked = "i 1\nr~ 31337    c h u 0\nm\n\n";
        let done = "i 1\nr+          c h u 0\nm\n\n";
        assert_eq!(after(pending, 4, Tag::Pending, Tag::Locked), (true, locked.into()));
        assert_eq!(after(locked, 4, Tag::Locked, Tag::Done), (true, done.into()));
        assert_eq!(after(locked, 4, Tag::Locked, Tag::Pending), (true, pending.into()));
    }

    #[test]
    fn change_tag_with_other_old_tag_writes_nothing() {
        let done = "i 1\nr+          c h u 0\nm\n\n";
        assert_eq!(after(done, 4, Tag::Pending, Tag::Locked), (false, done.into()));
        assert_eq!(after(done, 1000, Tag::Pending, Tag::Locked), (false, done.into()));
    }

    #[test]
    fn change_tag_without_pid_column_writes_nothing() {
        let bare = "i 1\nr local - rayan 7\nm\n\n";
        assert_eq!(after(bare, 4, Tag::Pending, Tag::Locked), (true, bare.into()));
    }

    #[test]
    fn unlock_with_any_pid_column_clears_lock() {
        let column = |bytes: &[u8; 6]| Some(PidField(*bytes));
        for (found, owner, tag, left) in [
            (
                "i 1\nr~abcdef    c h u 0\n",
                column(b"abcdef"),
                Tag::Pending,
                "i 1\nr           c h u 0\n",
            ),
            ("i 1\nr~local - rayan 7\n", None, Tag::Pending, "i 1\nr local - rayan 7\n"),
            // The owner finished the recipient before it died, or another process has locked it.
            (
                "i 1\nr+          c h u 0\n",
                column(b"  4711"),
                Tag::Done,
                "i 1\nr+          c h u 0\n",
            ),
            (
                "i 1\nr~  4712    c h u 0\n",
                column(b"  4711"),
                Tag::Locked,
                "i 1\nr~  4712    c h u 0\n",
            ),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("1");
            fs::write(&path, found).expect("write");
            let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
            assert_eq!(clear_dead_lock(&file, 4, owner).expect("unlocked"), tag, "{found}");
            assert_eq!(fs::read_to_string(&path).expect("read"), left);
        }
    }

    #[test]
    fn append_lines_after_cut_line_starts_new_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1");
        fs::write(&path, "m\n\nd 1:2:-").expect("write");
        append_lines(&path, b"d 3\n").expect("append");
        append_lines(&path, b"d 4\n").expect("append");
        assert_eq!(fs::read(&path).expect("read"), b"m\n\nd 1:2:-\nd 3\nd 4\n");
    }

    #[test]
    fn append_lines_that_fails_restores_length() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1");
        fs::write(&path, "m\n\n").expect("write");
        let fails = |_: &File| Err(ErrorKind::StorageFull.into());
        append_and_sync(&path, b"d 3\n", fails).expect_err("not on disk");
        assert_eq!(fs::read(&path).expect("read"), b"m\n\n");
        // A process without the lock has appended meanwhile. Its line must remain.
        let interrupted = |_: &File| {
            let mut other = OpenOptions::new().append(true).open(&path)?;
            other.write_all(b"d 4\n")?;
            Err(ErrorKind::StorageFull.into())
        };
        append_and_sync(&path, b"d 3\n", interrupted).expect_err("not on disk");
        assert_eq!(fs::read(&path).expect("read"), b"m\n\nd 3\nd 4\n");
    }

    #[test]
    fn append_lines_holds_lock_until_done() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("1");
        fs::write(&path, "m\n\n").expect("write");
        let other = File::open(&path).expect("open");
        let watch = |_: &File| match other.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            _ => panic!("nobody has the lock"),
        };
        append_and_sync(&path, b"d 3\n", watch).expect("append");
        // A process that keeps the lock for long is not waited for.
        other.lock().expect("free again");
        append_lines(&path, b"d 4\n").expect("append");
        assert_eq!(fs::read(&path).expect("read"), b"m\n\nd 3\nd 4\n");
    }

    #[test]
    fn append_lines_to_missing_file_creates_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let gone = append_lines(&folder.path().join("1"), b"d 3\n").expect_err("no such file");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}
