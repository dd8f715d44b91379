//! zsched: a mail queue scheduler.
//!
//! Routers write *message control files* into a spool; the scheduler reads them, groups the
//! recipients by destination, runs *transport agents* as child processes over a line protocol,
//! retries, expires, cleans up, and answers queries about its queue.

pub mod agent;
pub mod command_line;
pub mod config;
pub mod control_file;
pub mod daemon;
pub mod mailq;
pub mod printable;
pub mod processes;
pub mod recording;
pub mod schedsim;
pub mod scheduler;
pub mod simulation;
pub mod spool;
pub mod status_log;
pub mod submit;
pub mod sys;
pub mod time;
