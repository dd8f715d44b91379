//! The formats that zsched shares with other programs.
//!
//! This crate decides what bytes mean. It must not know where mail is, what is done about it, or
//! that a scheduler exists; it reads and writes only files that it is given. Begin with
//! [`control_file`], which routers write and agents mark. [`agent_protocol`] has the lines between
//! the scheduler and its agents, [`job_recipients`] what an agent finds in a control file.

#![warn(unreachable_pub)]

// Mail on disk.
pub mod address_list;
pub mod control_file;
pub mod header;
pub mod merge;
pub mod priority;
pub mod schedule;
pub mod selection;
pub mod spool_id;
pub mod time;
pub mod xtext;

// Agents.
pub mod agent_protocol;
pub mod job_recipients;
pub mod line_buffer;

// What people and programs read.
pub mod action_counts;
pub mod log_limiter;
pub mod printable;
pub mod status_code;
#[cfg(feature = "status-log")]
pub mod status_log;

// Parts of recordings.
#[cfg(feature = "serde")]
pub mod serde_bytes;
#[cfg(feature = "serde")]
pub mod serde_error_kind;
