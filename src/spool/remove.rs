//! Removes finished messages from the spool.
//!
//! Those that need the attention of a person are moved aside instead
//! ([`move_aside`](crate::move_aside)).

use super::{Spool, SpoolName, note};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use zsched_format::control_file::{self, Tag};
use zsched_sys::if_exists;

/// Removes the control file of a finished message, then the message file.
///
/// So a crash in between leaves a message file that cannot be delivered again. Files that do not
/// exist are no error.
pub fn remove(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    if_exists(fs::remove_file(spool.control_file(name)))?;
    if_exists(fs::remove_file(spool.message_file(name))).map(drop)
}

/// Returns true if a finished message needs the attention of a person.
///
/// That is a report that is due, a failure without a `d` line, or a line that could not be
/// delivered. A malformed control file counts as well. So does a very large one, which is not
/// searched.
pub fn needs_attention(spool: &Spool, name: &SpoolName) -> io::Result<bool> {
    let text = match read(&spool.control_file(name)) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Ok(true),
        other => if_exists(other)?,
    };
    Ok(text.is_some_and(text_needs_attention))
}

/// The same for the text of the control file.
pub fn text_needs_attention(text: Vec<u8>) -> bool {
    // All recipients are finished, so any that is not marked as delivered has failed.
    control_file::parse(text).map_or(true, |file| {
        note::has_report_due(&file)
            || !note::unnoted_failures(&file, |tag| tag != Tag::Done).is_empty()
            || !file.undeliverable_lines.is_empty()
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > control_file::MAX_QUERY_SIZE {
        return Err(ErrorKind::FileTooLarge.into());
    }
    control_file::read_all(&file, size)
}
