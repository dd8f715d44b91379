//! Files in POSTOFFICE that outlive the process.
//!
//! | file | what |
//! |---|---|
//! | [`spool_lock`] | the lock of one scheduler on the spool, and the pid file |
//! | [`learned_file`] | learned state: attempts, retry times, windows |
//! | [`overrides`] | overrides of operators |
//! | [`duplicates`] | the list of possible duplicate deliveries |
//! | [`json_lines`] | what these files have in common |

pub(crate) mod spool_lock;
pub(crate) mod learned_file;
pub(crate) mod overrides;
pub(crate) mod duplicates;
mod json_lines;
