//! Appending to an mbox file: locked twice over, complete or not at all.

use crate::dotlock::DotLock;
use crate::letter::Letter;
use crate::owner::Owner;
use crate::quoting::Quoting;
use crate::trouble::Trouble;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use zsched::sys;

/// Pause between attempts to get the kernel's lock.
const PAUSE: Duration = Duration::from_millis(50);
/// Size of the buffer between message and mailbox, in bytes.
const BUFFER: usize = 64 * 1024;

/// Appends `letter` to the mailbox `path`, and returns when it is on disk. Tells whether the mailbox
/// is new, so that its folder has to be synced too.
pub fn append(
    path: &Path,
    owner: &Owner,
    letter: &Letter<'_>,
    patience: Duration,
) -> Result<bool, Trouble> {
    let deadline = Instant::now() + patience;
    let _dot_lock = DotLock::take(path, deadline)?;
    let (file, is_new) = open(path)?;
    lock(&file, deadline)?;
    check(&file, path, owner)?;
    let length = file.metadata().map_err(Trouble::with("cannot examine the mailbox"))?.len();
    let written = write(&file, length, letter);
    written.map_err(|error| match file.set_len(length) {
        Ok(()) => Trouble::System("cannot copy the message to the mailbox", error),
        Err(_) => {
            Trouble::System("cannot copy the message to the mailbox, nor undo the beginning", error)
        }
    })?;
    Ok(is_new)
}

/// Opens the mailbox, or makes it. Links are not followed, and nothing is waited for.
fn open(path: &Path) -> Result<(File, bool), Trouble> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    match options.open(path) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == ErrorKind::NotFound => options
            .create_new(true)
            .open(path)
            .map(|file| (file, true))
            .map_err(Trouble::with("cannot create the mailbox")),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            Err(Trouble::Unusable("the mailbox is a symbolic link"))
        }
        Err(error) => Err(Trouble::System("cannot open the mailbox", error)),
    }
}

/// Takes the kernel's lock, for programs that do not know dot locks.
fn lock(file: &File, deadline: Instant) -> Result<(), Trouble> {
    loop {
        if sys::try_posix_lock(file).map_err(Trouble::with("cannot lock the mailbox"))? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Trouble::Locked);
        }
        thread::sleep(PAUSE);
    }
}

/// Makes sure that what we have open is the owner's mailbox and nothing else, now that nobody who
/// respects locks can change it.
fn check(file: &File, path: &Path, owner: &Owner) -> Result<(), Trouble> {
    let trouble = || Trouble::with("cannot examine the mailbox");
    let opened = file.metadata().map_err(trouble())?;
    let named = fs::symlink_metadata(path).map_err(trouble())?;
    if !opened.is_file() {
        return Err(Trouble::Unusable("the mailbox is not a file"));
    }
    if opened.nlink() != 1 {
        return Err(Trouble::Unusable("the mailbox has another name (a hard link)"));
    }
    if !owner.may_own(opened.uid()) {
        return Err(Trouble::Unusable("the mailbox belongs to somebody else"));
    }
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(Trouble::Unusable("the mailbox was replaced while we opened it"));
    }
    Ok(())
}

fn write(file: &File, length: u64, letter: &Letter<'_>) -> io::Result<()> {
    let mut buffer = BufWriter::with_capacity(BUFFER, file);
    buffer.write_all(missing_line_ends(file, length)?)?;
    buffer.write_all(&letter.opening_line(jiff::Timestamp::now()))?;
    let mut quoting = Quoting::new(buffer);
    letter.write_to(&mut quoting)?;
    quoting.finish()?.flush()?;
    file.sync_all()
}

/// What has to come first so that the new message has an empty line before it, whatever another
/// program, or a crash, has left at the end of the mailbox.
fn missing_line_ends(file: &File, length: u64) -> io::Result<&'static [u8]> {
    let mut last = [b'\n'; 2];
    let known = usize::try_from(length.min(2)).unwrap_or(2);
    file.read_exact_at(&mut last[2 - known..], length - known as u64)?;
    Ok(match last {
        [b'\n', b'\n'] => b"",
        [_, b'\n'] => b"\n",
        _ => b"\n\n",
    })
}
