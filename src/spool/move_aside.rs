//! Moves messages aside: to `postman/`, where a person looks at them.
//!
//! Their control file is malformed, or they are finished and have a line that cannot be delivered.
//! A malformed control file that cannot be moved is hidden in its own folder.

use super::atomic_write::write_atomically;
use super::folder::exists;
use super::{Spool, SpoolName, folder};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use zsched_sys::{if_exists, with_suffix};

/// The reason for moving a message aside.
///
/// It becomes part of the file names in `postman/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All recipients are finished, but the file has lines that cannot be delivered.
    Undeliverable,
    /// The control file cannot be used.
    Malformed,
}

impl Reason {
    /// A name for the control file.
    ///
    /// The cron job of the original deletes `postman/[0-9]*`.
    fn name_of(self, name: &SpoolName) -> String {
        let prefix = match self {
            Reason::Undeliverable => "undeliverable",
            Reason::Malformed => "malformed",
        };
        format!("{prefix}:{}", name.base())
    }
}

/// Moves both files of a message to `postman/`.
///
/// Returns the new path of the control file.
///
/// The names are `<reason>:<name>` (the control file) and `<reason>:<name>:message`. The
/// modification time of the message file, which is that of its arrival, does not change.
///
/// The message file gets its second name before the control file moves, and loses the first one
/// after that. So a crash in between leaves a message in the queue as it was, or an extra name.
pub fn move_aside(spool: &Spool, name: &SpoolName, reason: Reason) -> io::Result<PathBuf> {
    let postman = spool.postman();
    folder::make(&postman, folder::MAIL_FOLDER_MODE)?;
    let wanted = postman.join(reason.name_of(name));
    let original = spool.message_file(name);
    let control = free_name(&wanted, |path| Ok(!exists(path)? && !exists(&message_of(path))?))?;
    let message = message_of(&control);
    let has_message = if_exists(fs::hard_link(&original, &message))?.is_some();
    fs::rename(spool.control_file(name), &control)?;
    File::open(&postman)?.sync_all()?;
    if has_message {
        if_exists(fs::remove_file(&original))?;
    }
    Ok(control)
}

/// Moves a submission that cannot be routed from `router/` to `postman/`, with the reason.
///
/// Returns its new path, `router-error:<name>`. The reason is in a file of this name with `:reason`
/// behind it, which is written first: a crash in between leaves the submission where it was.
pub fn move_submission_aside(
    spool: &Spool,
    path: &Path,
    name: &str,
    reason: &str,
) -> io::Result<PathBuf> {
    let postman = spool.postman();
    folder::make(&postman, folder::MAIL_FOLDER_MODE)?;
    let reason_of = |path: &Path| with_suffix(path, ":reason");
    // A reason without a submission is what a crash has left.
    let wanted = postman.join(format!("router-error:{name}"));
    let moved = free_name(&wanted, |path| Ok(!exists(path)?))?;
    write_atomically(&reason_of(&moved), |out| writeln!(out, "{reason}"))?;
    folder::rename_to_free_name(path, &moved)?;
    File::open(&postman)?.sync_all()?;
    Ok(moved)
}

/// Hides a control file from scans, in its own folder.
///
/// This is done if it cannot be moved to `postman/`.
pub fn hide(spool: &Spool, name: &SpoolName, reason: Reason) -> io::Result<PathBuf> {
    let control = spool.control_file(name);
    let hidden = control.with_file_name(format!(".{}", reason.name_of(name)));
    let hidden = free_name(&hidden, |path| Ok(!exists(path)?))?;
    fs::rename(&control, &hidden)?;
    Ok(hidden)
}

/// The message file of a control file in `postman/`. After a crash only one of them may exist.
fn message_of(control: &Path) -> PathBuf {
    with_suffix(control, ":message")
}

/// The first free name of `path`, `path.2`, `path.3` and so on. One that cannot be examined is an
/// error.
fn free_name(path: &Path, is_free: impl Fn(&Path) -> io::Result<bool>) -> io::Result<PathBuf> {
    let mut candidate = path.to_path_buf();
    let mut count = 1;
    while !is_free(&candidate)? {
        count += 1;
        candidate = with_suffix(path, format!(".{count}"));
    }
    Ok(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use std::time::{Duration, SystemTime};

    /// Names begin with no digit: the original's cron job deletes others.
    ///
    /// It looks for files in `postman/` that are a week old.
    #[test]
    fn file_moved_aside_keeps_its_time_under_a_name_without_leading_digit() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
        let arrival = SystemTime::now() - Duration::from_secs(30 * 86_400);
        for path in [spool.control_file(&name), spool.message_file(&name)] {
            fs::write(&path, "x").expect("written");
            let file = File::options().write(true).open(&path).expect("opened");
            file.set_modified(arrival).expect("set");
        }
        let control = move_aside(&spool, &name, Reason::Undeliverable).expect("moved");
        assert_eq!(control, spool.postman().join("undeliverable:4711"));
        for path in [control.clone(), message_of(&control)] {
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            assert_eq!(modified.expect("a time"), arrival, "{}", path.display());
        }
    }

    #[test]
    fn free_name_that_cannot_be_examined_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("loop", at("loop")).expect("a link");
        fs::write(at("a"), "").expect("a file");
        fs::write(at("a.2"), "").expect("a file");
        let free = |name: &str| free_name(&at(name), |path| Ok(!exists(path)?));
        assert_eq!(free("a").expect("an answer"), at("a.3"));
        assert!(free("loop/a").is_err());
    }
}
