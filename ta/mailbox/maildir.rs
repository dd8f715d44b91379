//! Delivering into a Maildir: a file of its own for each message, so that nothing needs a lock.
//!
//! The message is written under a unique name in `tmp/`, synced, and moved to `new/`: readers see all
//! of it or nothing.

use crate::letter::Letter;
use crate::owner::Owner;
use crate::trouble::Trouble;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zsched::sys;

/// Size of the buffer between message and file, in bytes.
const BUFFER: usize = 64 * 1024;

/// Makes an empty mailbox, unless somebody else has made it just now.
pub fn create(path: &Path) -> Result<(), Trouble> {
    make_folder(path).map(drop)
}

/// Delivers `letter` into the Maildir `path`, making the folders in it where they are missing.
pub fn deliver(path: &Path, owner: &Owner, letter: &Letter<'_>) -> Result<(), Trouble> {
    let metadata = path.symlink_metadata().map_err(Trouble::with("cannot examine the mailbox"))?;
    if !metadata.is_dir() {
        return Err(Trouble::Unusable("the mailbox is not a folder"));
    }
    if !owner.may_own(metadata.uid()) {
        return Err(Trouble::Unusable("the mailbox belongs to somebody else"));
    }
    let mut has_new_folders = false;
    for name in ["tmp", "new", "cur"] {
        has_new_folders |= make_folder(&path.join(name))?;
    }
    let written = write(path, has_new_folders, letter);
    written.map_err(Trouble::with("cannot copy the message to the mailbox"))
}

/// Makes a folder, unless there is one.
fn make_folder(path: &Path) -> Result<bool, Trouble> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Trouble::System("cannot create the mailbox", error)),
    }
}

fn write(maildir: &Path, has_new_folders: bool, letter: &Letter<'_>) -> io::Result<()> {
    let name = unique_name(jiff::Timestamp::now())?;
    let draft = Draft { path: maildir.join("tmp").join(&name) };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.path)?;
    let mut buffer = BufWriter::with_capacity(BUFFER, &file);
    letter.write_to(&mut buffer)?;
    buffer.flush()?;
    file.sync_all()?;
    let new = maildir.join("new");
    let target = new.join(&name);
    if target.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(&draft.path, &target)?;
    let synced = File::open(&new).and_then(|folder| folder.sync_all());
    let synced = match has_new_folders {
        true => synced.and_then(|()| File::open(maildir)?.sync_all()),
        false => synced,
    };
    // What may not survive a crash will be delivered again, so it must not stay.
    synced.inspect_err(|_| drop(fs::remove_file(&target)))
}

/// A message that is not complete; it goes away unless it is moved to `new/`.
struct Draft {
    path: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Readers remove what is left in tmp/ after 36 hours.
        fs::remove_file(&self.path).ok();
    }
}

/// A name that nobody else makes: time, process, count, host.
fn unique_name(now: jiff::Timestamp) -> io::Result<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let host = sys::host_name()?.replace('/', "\\057").replace(':', "\\072");
    let (seconds, micros) = (now.as_second(), now.subsec_nanosecond() / 1000);
    Ok(format!("{seconds}.M{micros:06}P{}Q{count}.{host}", std::process::id()))
}
