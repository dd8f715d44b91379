//! Removes finished messages from the spool.
//!
//! Those that need the attention of a person are moved aside instead
//! ([`move_aside`](crate::move_aside)).

use super::{Spool, SpoolName};
use std::fs;
use std::io;
use zsched_sys::if_exists;

/// Removes the control file of a finished message, then the message file.
///
/// So a crash in between leaves a message file that cannot be delivered again. Files that do not
/// exist are no error.
pub fn remove(spool: &Spool, name: &SpoolName) -> io::Result<()> {
    if_exists(fs::remove_file(spool.control_file(name)))?;
    if_exists(fs::remove_file(spool.message_file(name))).map(drop)
}
