//! Removes finished messages from the spool.
//!
//! Those that need the attention of a person are moved aside instead
//! ([`move_aside`](crate::move_aside)).

use super::{OpenSpool, SpoolName};
use std::io;
use zsched_sys::if_exists;

/// Removes the control file of a finished message, then the message file.
///
/// So a crash in between leaves a message file that cannot be delivered again. Files that do not
/// exist are no error.
pub fn remove(spool: &OpenSpool, name: &SpoolName) -> io::Result<()> {
    let name = name.path();
    if_exists(spool.transport.remove_file(&name))?;
    if_exists(spool.queue.remove_file(&name)).map(drop)
}
