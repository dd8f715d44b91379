//! The formats that zsched shares with other programs: what stands on disk and what goes over a wire.
//!
//! This crate decides what bytes mean, and reads and writes no file. It must not know where mail is, what is
//! done about it, or that a scheduler exists. Begin with [`control_file`], which routers write and agents
//! mark; [`agent_protocol`] has the lines between the scheduler and its agents, [`job_recipients`] what an
//! agent finds in a control file.

pub mod agent_protocol;
pub mod control_file;
pub mod job_recipients;
pub mod line_buffer;
pub mod printable;
pub mod priority;
pub mod selection;
#[cfg(feature = "serde")]
pub mod serde_bytes;
#[cfg(feature = "serde")]
pub mod serde_error_kind;
#[cfg(feature = "status-log")]
pub mod status_log;
pub mod time;
