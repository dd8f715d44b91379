//! What both ends of the MAILQ protocol share: its port, its words, and SCRAM.
//!
//! This crate decides how a login is proved and what requests may name. It must not know queues, sockets or
//! files of accounts. Begin with [`subject`], which is what an operator asks about.

pub mod port;
pub mod scram;
pub mod subject;
pub mod words;
