//! Takes up messages that former versions have kept in `postman/`, because they owe a report.
//!
//! They sent no reports. Both files return to their folders, where the scheduler finds the message:
//! it has no recipient left, so its report is sent and the files are removed.

use crate::{HashFolder, HashLevel, Spool, SpoolName, folder};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zsched_sys::{self as sys, if_exists, with_suffix};

/// Begins or ends the name of such a control file: `owed-report:4711` or `4711:owed-report`.
const MARK: &str = "owed-report";

/// What was found in `postman/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwedReports {
    /// Messages that were put back.
    pub taken: usize,
    /// Messages that cannot be put back now: their number is in use, or a file is missing.
    pub left: usize,
}

/// Puts the messages back. Their report is due.
///
/// The message file gets its name in `queue/` before the control file moves, and loses the other
/// one after that. So a crash in between is completed by the next call.
pub fn take_up(spool: &Spool, level: HashLevel) -> io::Result<OwedReports> {
    let mut found = OwedReports::default();
    for entry in if_exists(fs::read_dir(spool.postman()))?.into_iter().flatten() {
        let Ok(file) = entry?.file_name().into_string() else {
            continue;
        };
        let path = spool.postman().join(&file);
        if let Some(control) = file.strip_suffix(":message") {
            if name_of(control, level).is_some() {
                remove_second_name(&spool.postman().join(control), &path)?;
            }
        } else if let Some(name) = name_of(&file, level) {
            match put_back(spool, &name, &path)? {
                true => found.taken += 1,
                false => found.left += 1,
            }
        }
    }
    Ok(found)
}

/// The name in the spool of a control file in `postman/`.
///
/// A number after a dot tells files of one name apart.
fn name_of(file: &str, level: HashLevel) -> Option<SpoolName> {
    let prefixed = file.strip_prefix(MARK).and_then(|rest| rest.strip_prefix(':'));
    let suffixed = || file.strip_suffix(MARK).and_then(|rest| rest.strip_suffix(':'));
    let base = prefixed.or_else(suffixed)?;
    let base = match base.rsplit_once('.') {
        Some((base, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => base,
    };
    let name = SpoolName::new(HashFolder::TOP, base.as_bytes())?;
    Some(name.in_folder(HashFolder::of(name.number(), level)))
}

/// Returns false if the message has to stay.
fn put_back(spool: &Spool, name: &SpoolName, control: &Path) -> io::Result<bool> {
    let message = with_suffix(control, ":message");
    let [to_control, to_message] = [spool.control_file(name), spool.message_file(name)];
    if folder::exists(&to_control)? || !control.symlink_metadata()?.is_file() {
        return Ok(false);
    }
    folder::make_below(spool.queue(), name.folder(), true)?;
    folder::make_below(spool.transport(), name.folder(), true)?;
    let identity = |path: &Path| -> io::Result<Option<(u64, u64)>> {
        let metadata = if_exists(path.symlink_metadata())?.filter(Metadata::is_file);
        Ok(metadata.map(|metadata| sys::device_and_inode(&metadata)))
    };
    match (identity(&message)?, identity(&to_message)?) {
        (Some(_), None) => fs::hard_link(&message, &to_message)?,
        (Some(file), Some(other)) if file == other => {}
        _ => return Ok(false),
    }
    folder::rename_to_free_name(control, &to_control)?;
    fs::remove_file(message)?;
    Ok(true)
}

/// Removes a message file whose control file was put back before a crash.
fn remove_second_name(control: &Path, message: &Path) -> io::Result<()> {
    let has_other_name = if_exists(message.symlink_metadata())?.is_some_and(|it| it.nlink() > 1);
    match has_other_name && !folder::exists(control)? {
        true => if_exists(fs::remove_file(message)).map(drop),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn pairs_return_to_the_spool() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let put = |name: &str| fs::write(spool.postman().join(name), name).expect("written");
        for control in ["owed-report:1", "owed-report:2-a.3", "4:owed-report", "owed-report:5"] {
            put(control);
            put(&format!("{control}:message"));
        }
        // One without a message, one whose number is in use, and others.
        for name in ["owed-report:6", "malformed:7", "8", "owed-report:x"] {
            put(name);
        }
        fs::write(spool.transport().join("5"), "").expect("written");
        let found = take_up(&spool, HashLevel::Flat).expect("taken");
        assert_eq!(found, OwedReports { taken: 3, left: 2 });
        assert_eq!(names(spool.transport()), ["1", "2-a", "4", "5"]);
        assert_eq!(names(spool.queue()), ["1", "2-a", "4"]);
        let text = fs::read_to_string(spool.queue().join("2-a")).expect("a message");
        assert_eq!(text, "owed-report:2-a.3:message");
        let left = ["8", "malformed:7", "owed-report:5", "owed-report:5:message", "owed-report:6"];
        assert_eq!(names(spool.postman()), [&left[..], &["owed-report:x"]].concat());
    }

    #[test]
    fn crash_between_steps_is_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let control = spool.postman().join("owed-report:1");
        let message = spool.postman().join("owed-report:1:message");
        for has_moved in [false, true] {
            fs::write(&message, "message").expect("written");
            fs::hard_link(&message, spool.queue().join("1")).expect("linked");
            fs::write(&control, "control").expect("written");
            if has_moved {
                fs::rename(&control, spool.transport().join("1")).expect("moved");
            }
            take_up(&spool, HashLevel::Flat).expect("taken");
            assert_eq!(names(spool.postman()), [""; 0]);
            for file in [spool.transport().join("1"), spool.queue().join("1")] {
                fs::remove_file(file).expect("it is there");
            }
        }
    }
}
