//! The group that the file of this program lends to its callers (set-group-id).
//!
//! The program has it only while it works on the drop folder.

use crate::error::EnqueueError;
use rustix::process::{Gid, getegid, getgid};
use rustix::thread::set_thread_res_gid;

/// The groups of this process.
pub struct Rights {
    caller: Gid,
    lent: Gid,
}

impl Rights {
    /// Gives the lent group up for now.
    pub fn take_back() -> Result<Rights, EnqueueError> {
        let rights = Rights { caller: getgid(), lent: getegid() };
        rights.become_group(rights.caller)?;
        Ok(rights)
    }

    /// Takes the lent group.
    pub fn lend(&self) -> Result<(), EnqueueError> {
        self.become_group(self.lent)
    }

    /// Returns true if the program has a group that its caller lacks.
    pub fn are_lent(&self) -> bool {
        self.caller != self.lent
    }

    /// The group that the drop folder must have, if any.
    pub fn lent_group(&self) -> Option<u32> {
        self.are_lent().then(|| self.lent.as_raw())
    }

    fn become_group(&self, group: Gid) -> Result<(), EnqueueError> {
        if !self.are_lent() {
            return Ok(());
        }
        // The process has one thread.
        set_thread_res_gid(self.caller, group, self.lent)
            .map_err(|error| EnqueueError::Rights(error.into()))
    }
}
