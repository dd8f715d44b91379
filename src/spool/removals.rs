//! The list of messages that are about to be removed.
//!
//! A kill may come between the removals of the control file and of the message file. Without the
//! list the message file would then stay permanently.
//!
//! ```text
//! F/4711 1795259643 7001500     name; modification time of the message file (s, ns)
//! end
//! ```
//!
//! Former versions wrote its inode number before the time.
//!
//! The list is written in place before each batch of removals. Text after `end` is of earlier
//! batches. It is not synced: a kill loses nothing that was written. After a power failure message
//! files may be left over.

use super::{HashFolder, Spool, SpoolName};
use std::fmt::Write as _;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zsched_format::time::Timestamp;
use zsched_sys::{if_exists, open_regular};

/// Size of a new list, in bytes. Writing in place needs no space on a full disk.
const LIST_FILE_SIZE: usize = 64 * 1024;
/// The last line.
const END: &str = "end";

/// A list in a file that stays open.
pub struct RemovalList {
    path: PathBuf,
    file: Option<File>,
    text: String,
}

impl RemovalList {
    /// Creates a list in this file, without accessing it.
    pub fn new(path: PathBuf) -> RemovalList {
        RemovalList { path, file: None, text: String::new() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the list by the messages that are about to be removed.
    ///
    /// Each has the modification time of its message file.
    pub fn write<'n>(
        &mut self,
        messages: impl Iterator<Item = (&'n SpoolName, Timestamp)>,
    ) -> io::Result<()> {
        self.text.clear();
        for (name, modified) in messages {
            let (seconds, nanoseconds) = (modified.seconds(), modified.subsec_nanoseconds());
            // Writing to a String cannot fail.
            writeln!(self.text, "{name} {seconds} {nanoseconds}").ok();
        }
        self.text.push_str(END);
        self.text.push('\n');
        let file = self.file.take().map_or_else(|| open(&self.path), Ok)?;
        file.write_all_at(self.text.as_bytes(), 0)?;
        self.file = Some(file);
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file = open_regular(&mut options, path)?;
    if file.metadata()?.len() == 0 {
        file.write_all(&[b'\n'; LIST_FILE_SIZE])?;
    }
    Ok(file)
}

/// Removes the message files that a killed scheduler has left.
///
/// Returns their number.
///
/// Inode numbers are reused, and a router puts a message file into `queue/` before its control file
/// is visible. So the message file must be the listed one, and must not have a control file, not
/// even a hidden one.
pub fn finish(spool: &Spool, list: &Path) -> io::Result<usize> {
    let Some(text) = if_exists(fs::read(list))? else {
        return Ok(0);
    };
    let text = String::from_utf8_lossy(&text);
    let mut count = 0;
    for line in text.lines().take_while(|line| *line != END) {
        if let Some((name, listed)) = parse(line) {
            count += usize::from(finish_one(spool, &name, listed)?);
        }
    }
    Ok(count)
}

fn finish_one(spool: &Spool, name: &SpoolName, listed: Timestamp) -> io::Result<bool> {
    let path = spool.message_file(name);
    let found = if_exists(fs::symlink_metadata(&path))?;
    let is_same = |found: Metadata| found.is_file() && Timestamp::modified(&found) == listed;
    let is_listed = found.is_some_and(is_same);
    if !is_listed || has_control_file(spool, name)? {
        return Ok(false);
    }
    fs::remove_file(path).map(|()| true)
}

/// Returns true if a message file has a control file.
///
/// That may be hidden, and in its own folder or in the top folder.
pub(crate) fn has_control_file(spool: &Spool, name: &SpoolName) -> io::Result<bool> {
    for name in [name.clone(), name.in_folder(HashFolder::TOP)] {
        let path = spool.control_file(&name);
        let hidden = path.with_file_name(format!(".{}", name.base()));
        for path in [path, hidden] {
            if if_exists(fs::symlink_metadata(path))?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn parse(line: &str) -> Option<(SpoolName, Timestamp)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, seconds, nanoseconds) = match words[..] {
        [name, seconds, nanoseconds] | [name, _, seconds, nanoseconds] => {
            (name, seconds.parse().ok()?, nanoseconds.parse().ok()?)
        }
        _ => return None,
    };
    Some((SpoolName::from_path(name.as_bytes())?, Timestamp::from_parts(seconds, nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashLevel;
    use std::time::{Duration, SystemTime};

    struct TestSpool {
        _folder: tempfile::TempDir,
        spool: Spool,
        names: Vec<SpoolName>,
        list: PathBuf,
    }

    /// A spool with listed messages that have lost their control files.
    fn killed() -> TestSpool {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let below = HashFolder::of(4711, HashLevel::Twice);
        let of = |folder, base: &str| SpoolName::new(folder, base.as_bytes()).expect("a name");
        let names = vec![of(HashFolder::TOP, "1"), of(below, "4711"), of(HashFolder::TOP, "7-odd")];
        for name in &names {
            fs::create_dir_all(spool.message_file(name).parent().expect("a folder")).expect("made");
            fs::create_dir_all(spool.control_file(name).parent().expect("a folder")).expect("made");
            fs::write(spool.message_file(name), "x").expect("written");
        }
        let list = folder.path().join(".scheduler.removals");
        let mut removals = RemovalList::new(list.clone());
        let modified =
            |name| Timestamp::modified(&spool.message_file(name).metadata().expect("there"));
        let listed = || names.iter().map(|name| (name, modified(name)));
        removals.write(listed().cycle().take(100)).expect("a longer batch before");
        removals.write(listed()).expect("listed");
        TestSpool { _folder: folder, spool, names, list }
    }

    fn left(place: &TestSpool) -> Vec<String> {
        let is_left = |name: &&SpoolName| place.spool.message_file(name).exists();
        place.names.iter().filter(is_left).map(SpoolName::path).collect()
    }

    #[test]
    fn listed_message_file_without_control_file_is_removed() {
        let place = killed();
        assert_eq!(finish(&place.spool, &place.list).expect("finished"), 3);
        assert_eq!(left(&place), [""; 0]);
        assert_eq!(finish(&place.spool, &place.list).expect("finished before"), 0);
    }

    #[test]
    fn message_with_visible_or_hidden_control_file_stays() {
        for is_hidden in [false, true] {
            let place = killed();
            let name = &place.names[1];
            let control = place.spool.control_file(name);
            let hidden = control.with_file_name(".4711");
            fs::write(if is_hidden { hidden } else { control }, "x").expect("written");
            let at_top = place.spool.control_file(&place.names[0]).with_file_name(".1");
            fs::write(at_top, "x").expect("written");
            assert_eq!(finish(&place.spool, &place.list).expect("finished"), 1);
            assert_eq!(left(&place), ["1", "Z/F/4711"]);
        }
    }

    #[test]
    fn other_file_with_listed_name_stays() {
        let place = killed();
        let path = place.spool.message_file(&place.names[0]);
        let later = SystemTime::now() + Duration::from_nanos(100);
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_modified(later).expect("changed");
        assert_eq!(finish(&place.spool, &place.list).expect("finished"), 2);
        assert_eq!(left(&place), ["1"]);
    }

    #[test]
    fn list_of_former_version_is_read() {
        let place = killed();
        let text = fs::read_to_string(&place.list).expect("a list");
        let with_inode = |line: &str| line.replacen(' ', " 4711 ", 1) + "\n";
        fs::write(&place.list, text.lines().map(with_inode).collect::<String>()).expect("written");
        assert_eq!(finish(&place.spool, &place.list).expect("finished"), 3);
    }

    #[test]
    fn damaged_list_removes_only_listed_files() {
        let place = killed();
        let text = fs::read_to_string(&place.list).expect("a list");
        let second = text.lines().nth(1).expect("a line");
        fs::write(&place.list, format!("\0\n1 2\n../queue/1 1 1 1\n{second}\n7-odd"))
            .expect("written");
        assert_eq!(finish(&place.spool, &place.list).expect("finished"), 1);
        assert_eq!(left(&place), ["1", "7-odd"]);
    }
}
