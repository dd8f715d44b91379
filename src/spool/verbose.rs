//! The verbose file of a message, named by a `v` line.
//!
//! A user who submits with ZMailer's `sendmail -v` follows this file. Agents append a line for each
//! outcome. The scheduler appends a line when it has read the message, gives it to an agent, or
//! drops it from memory. It appends the last line when the message leaves the spool: `sendmail`
//! stops at a line that begins with `scheduler done`.

use super::{Spool, SpoolName};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zsched_format::printable;
use zsched_sys::{open_nofollow, with_suffix};

/// Number of bytes of a control file that are searched for a `v` line. Routers write it second.
const MAX_SEARCHED_BYTES: u64 = 4096;

/// The verbose file of one message, and the user who follows it.
pub struct VerboseFile {
    path: PathBuf,
    owner: u32,
}

impl VerboseFile {
    /// The verbose file of a message, if it is named.
    ///
    /// A control file that cannot be read names none.
    pub fn of(spool: &Spool, name: &SpoolName) -> Option<VerboseFile> {
        VerboseFile::of_files(spool, &spool.control_file(name), &spool.message_file(name))
    }

    /// The verbose file of a message whose control file was moved aside to `path`.
    pub fn of_moved(spool: &Spool, path: &Path) -> Option<VerboseFile> {
        VerboseFile::of_files(spool, path, &with_suffix(path, ":message"))
    }

    fn of_files(spool: &Spool, control: &Path, message: &Path) -> Option<VerboseFile> {
        let file = open_nofollow(File::options().read(true), control).ok()?;
        let mut head = Vec::new();
        file.take(MAX_SEARCHED_BYTES).read_to_end(&mut head).ok()?;
        VerboseFile::named_in(&head, spool, message)
    }

    /// The verbose file that a control file names.
    ///
    /// It must be of the owner of the message file.
    pub fn named_in(text: &[u8], spool: &Spool, message: &Path) -> Option<VerboseFile> {
        // A line that is cut at the end of the head has no LF.
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut before_addresses =
            lines.take_while(|line| !matches!(line.first(), Some(b's' | b'r' | b'm')));
        let path =
            before_addresses.find_map(|line| line.strip_prefix(b"v ")?.strip_suffix(b"\n"))?;
        let owner = message.symlink_metadata().ok()?.uid();
        Some(VerboseFile { path: path_of(spool.transport(), path), owner })
    }

    /// Appends a line of the scheduler that is not the last one.
    pub fn add(&self, text: impl std::fmt::Display) {
        self.append(&format!("scheduler: {text}"));
    }

    /// Appends the last line.
    pub fn end(&self, name: &SpoolName) {
        self.append(&format!("scheduler done with {name}"));
    }

    /// Appends a line. Nothing depends on it, so an error is ignored.
    pub fn append(&self, line: &str) {
        drop(append(&self.path, self.owner, line));
    }
}

/// The path for the value of a `v` line.
fn path_of(transport: &Path, value: &[u8]) -> PathBuf {
    transport.join(std::ffi::OsStr::from_bytes(value.trim_ascii()))
}

/// Appends one line, made printable.
///
/// The writer may run as root, and the user has chosen the path. So the file must exist, be a
/// regular file with one name, and belong to `owner`: the owner of the message file, who has
/// submitted it. The control file belongs to the router.
fn append(path: &Path, owner: u32, line: &str) -> io::Result<()> {
    let mut file = open_nofollow(File::options().append(true), path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 || metadata.uid() != owner {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.write_all(format!("{}\n", printable::line(line)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashFolder;
    use std::fs;

    #[test]
    fn end_is_appended_only_to_regular_file_of_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = SpoolName::new(HashFolder::TOP, b"7").expect("a name");
        fs::write(spool.message_file(&name), "A: 1\n\n").expect("a message");
        let public = folder.path().join("public");
        let outside = folder.path().join("outside");
        fs::write(&outside, "untouched").expect("written");
        fs::write(public.join("v_1"), "first\n").expect("written");
        fs::write(public.join("v_2"), "").expect("written");
        fs::hard_link(public.join("v_2"), public.join("v_3")).expect("linked");
        std::os::unix::fs::symlink(&outside, public.join("v_4")).expect("linked");
        fs::create_dir(public.join("v_5")).expect("a folder");
        for (line, is_named) in [
            ("@ 0x00000007\nv ../public/v_1\ni 7\n", true),
            ("i 7\nv ../public/v_2\n", true),
            ("v ../public/v_4\ni 7\n", true),
            ("v ../public/v_5\ni 7\n", true),
            ("v ../public/none\ni 7\n", true),
            ("v+../public/v_1\ni 7\n", false),
            ("i 7\ns local - a 0\nv ../public/v_1\n", false),
            ("i 7\nv ../public/v_1", false),
            ("", false),
        ] {
            fs::write(spool.control_file(&name), line).expect("written");
            let file = VerboseFile::of(&spool, &name);
            assert_eq!(file.is_some(), is_named, "{line:?}");
            file.iter().for_each(|file| file.end(&name));
        }
        let read = |path: &Path| fs::read_to_string(path).expect("read");
        assert_eq!(read(&public.join("v_1")), "first\nscheduler done with 7\n");
        assert_eq!((read(&public.join("v_2")), read(&outside)), ("".into(), "untouched".into()));
        assert!(!public.join("none").exists());
        let owner = fs::metadata(public.join("v_1")).expect("there").uid();
        assert!(append(&public.join("v_1"), owner + 1, "x").is_err());
        append(&public.join("v_1"), owner, "\u{1b}[2J\nx").expect("appended");
        assert!(read(&public.join("v_1")).ends_with("\n^[[2J^Jx\n"));
    }
}
