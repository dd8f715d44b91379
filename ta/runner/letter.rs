//! The file with a message, which the program reads.
//!
//! The file belongs to the user of the program, and only that user can read it. The folder around
//! it belongs to the agent, so no program can put another file in its place. Both are removed when
//! the message is done. A killed agent leaves them.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use zsched_agent::{Delivery, Message};
use zsched_agents::identity::Identity;

/// Number of names that are tried for a folder.
const MAX_TRIES: usize = 100;

/// A message in a file: headers, empty line, body. It has no `From_` line.
pub struct LetterFile {
    folder: PathBuf,
    path: PathBuf,
}

impl LetterFile {
    /// Writes the message for a recipient below `directory`.
    pub fn write(
        directory: &Path,
        owner: &Identity,
        delivery: &Delivery<'_>,
        message: &Message,
    ) -> io::Result<LetterFile> {
        let folder = new_folder(directory)?;
        let letter = LetterFile { path: folder.join("message"), folder };
        let file = File::options().write(true).create_new(true).mode(0o600).open(&letter.path)?;
        let mut out = BufWriter::with_capacity(64 * 1024, file);
        out.write_all(delivery.headers())?;
        out.write_all(b"\n")?;
        io::copy(&mut delivery.body(message), &mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some((user, group)) = owner.other_ids() {
            fchown(&file, Some(user), Some(group))?;
        }
        Ok(letter)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LetterFile {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the folder.
        fs::remove_file(&self.path).ok();
        fs::remove_dir(&self.folder).ok();
    }
}

/// Creates a folder that others can search, but not list or change.
fn new_folder(directory: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    for _ in 0..MAX_TRIES {
        let folder = directory.join(format!("zsched-runner.{pid}.{:08x}", fastrand::u32(..)));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {
                // The mask of the agent keeps others out.
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
                fs::set_permissions(&folder, mode)?;
                return Ok(folder);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
