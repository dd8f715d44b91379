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
use zsched_sys::open_nofollow;

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
        VerboseFile::of_control_file(spool, &spool.control_file(name))
    }

    /// The verbose file that the control file at `path` names, in the spool or moved aside.
    pub fn of_control_file(spool: &Spool, path: &Path) -> Option<VerboseFile> {
        let file = open_nofollow(File::options().read(true), path).ok()?;
        let owner = file.metadata().ok()?.uid();
        let mut head = Vec::new();
        file.take(MAX_SEARCHED_BYTES).read_to_end(&mut head).ok()?;
        VerboseFile::named_in(&head, spool, owner)
    }

    /// The verbose file that the text of a control file of `owner` names.
    pub fn named_in(text: &[u8], spool: &Spool, owner: u32) -> Option<VerboseFile> {
        // A line that is cut at the end of the head has no LF.
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let mut before_addresses =
            lines.take_while(|line| !matches!(line.first(), Some(b's' | b'r' | b'm')));
        let path =
            before_addresses.find_map(|line| line.strip_prefix(b"v ")?.strip_suffix(b"\n"))?;
        Some(VerboseFile { path: path_of(spool.transport(), path), owner })
    }

    /// Appends a line of the scheduler that is not the last one. Errors are ignored, as for
    /// [`end`](VerboseFile::end).
    pub fn add(&self, text: impl std::fmt::Display) {
        drop(append(&self.path, self.owner, &format!("scheduler: {text}")));
    }

    /// Appends the last line. Nothing depends on it, so an error is ignored.
    pub fn end(&self, name: &SpoolName) {
        drop(append(&self.path, self.owner, &format!("scheduler done with {name}")));
    }
}

/// The path for the value of a `v` line.
pub fn path_of(transport: &Path, value: &[u8]) -> PathBuf {
    transport.join(std::ffi::OsStr::from_bytes(value.trim_ascii()))
}

/// Appends one line, made printable.
///
/// The writer may run as root, and the user has chosen the path. So the file must exist, be a
/// regular file with one name, and belong to `owner`, the owner of the control file.
pub fn append(path: &Path, owner: u32, line: &str) -> io::Result<()> {
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
