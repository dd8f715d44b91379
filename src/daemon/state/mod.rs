//! Files in POSTOFFICE that outlive the process.
//!
//! | file | what |
//! |---|---|
//! | [`spool_lock`] | the lock of one scheduler on the spool, and the pid file |
//! | [`learned_file`] | learned state: attempts, retry times, windows |
//! | [`overrides`] | overrides of operators |
//! | [`duplicates`] | the list of possible duplicate deliveries |
//! | [`json_lines`] | what these files have in common |

pub mod spool_lock;
pub mod learned_file;
pub mod overrides;
pub mod duplicates;
mod json_lines;
