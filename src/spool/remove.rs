//! Taking messages out of the spool: removed when they are finished, moved aside when they cannot be
//! handled or when somebody is still owed a report.

use super::folder::exists;
use super::{Spool, SpoolName, folder, note};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use zsched_format::control_file::{self, Tag};

/// Removes a finished message: the control file first, then the message file, so that a crash in
/// between leaves a message that nobody delivers again. Files that are gone already are no error.
pub fn remove(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    unless_gone(fs::remove_file(spool.control_file(name)))?;
    unless_gone(fs::remove_file(spool.message_file(name)))
}

/// Why a message is moved aside; it becomes part of the file names in `postman/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All recipients are finished, but the sender is still owed a report.
    OwedReport,
    /// The control file cannot be used.
    Malformed,
}

impl Reason {
    /// What the names of its files begin with: the cron job of the original deletes `postman/[0-9]*`.
    fn prefix(self) -> &'static str {
        match self {
            Reason::OwedReport => "owed-report",
            Reason::Malformed => "malformed",
        }
    }

    fn name_of(self, name: &SpoolName) -> String {
        format!("{}:{}", self.prefix(), name.base())
    }
}

/// Whether a finished message still has something in it that somebody must see: a report that is owed,
/// a failure that nobody noted, a line that nobody could deliver. A control file that cannot be read
/// must be seen, too; and a very large one is not looked through for that.
pub fn must_be_kept(spool: &Spool, name: &SpoolName) -> io::Result<bool> {
    let text = match read(&spool.control_file(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Ok(true),
        other => other?,
    };
    Ok(has_something_to_see(text))
}

/// The same, asked of the text of the control file.
pub fn has_something_to_see(text: Vec<u8>) -> bool {
    // All recipients are finished, so whoever is not marked as delivered has failed.
    control_file::parse(text).map_or(true, |file| {
        note::owes_report(&file)
            || note::hides_failure(&file, |tag| tag != Tag::Done)
            || !file.undeliverable.is_empty()
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > control_file::LARGE {
        return Err(ErrorKind::FileTooLarge.into());
    }
    control_file::contents(&mut file, size)
}

/// Moves both files of a message to `postman/`, as `<reason>:<name>` (the control file) and
/// `<reason>:<name>:message`. Returns where the control file is now. The time of the message file's last
/// change, which is that of its arrival, stays.
///
/// The message gets its second name before the control file moves, and loses the first one after:
/// a crash in between leaves a message in the queue as it was, or a needless second name.
pub fn move_aside(spool: &Spool, name: &SpoolName, reason: Reason) -> io::Result<PathBuf> {
    let postman = spool.postman();
    folder::make(&postman, folder::OURS)?;
    let wanted = postman.join(reason.name_of(name));
    let original = spool.message_file(name);
    let control = free_name(&wanted, |path| Ok(!exists(path)? && !exists(&message_of(path))?))?;
    let message = message_of(&control);
    let has_message = match fs::hard_link(&original, &message) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    fs::rename(spool.control_file(name), &control)?;
    File::open(&postman)?.sync_all()?;
    if has_message {
        unless_gone(fs::remove_file(&original))?;
    }
    Ok(control)
}

/// Hides a control file from all scans where it is, for when it cannot be moved to `postman/`.
pub fn hide(spool: &Spool, name: &SpoolName, reason: Reason) -> io::Result<PathBuf> {
    let control = spool.control_file(name);
    let hidden = control.with_file_name(format!(".{}", reason.name_of(name)));
    let hidden = free_name(&hidden, |path| Ok(!exists(path)?))?;
    fs::rename(&control, &hidden)?;
    Ok(hidden)
}

/// What belongs to a control file in `postman/`. A crash may have left one without the other.
fn message_of(control: &Path) -> PathBuf {
    let mut path = control.to_path_buf().into_os_string();
    path.push(":message");
    path.into()
}

/// The first of `path`, `path.2`, `path.3` and so on that is free. What cannot be examined is not.
fn free_name(path: &Path, is_free: impl Fn(&Path) -> io::Result<bool>) -> io::Result<PathBuf> {
    let mut candidate = path.to_path_buf();
    let mut count = 1;
    while !is_free(&candidate)? {
        count += 1;
        candidate = PathBuf::from(format!("{}.{count}", path.display()));
    }
    Ok(candidate)
}

fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use std::time::{Duration, SystemTime};

    /// The original's cron job deletes what begins with a digit in `postman/` and is a week old.
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
        let control = move_aside(&spool, &name, Reason::OwedReport).expect("moved");
        assert_eq!(control, spool.postman().join("owed-report:4711"));
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
