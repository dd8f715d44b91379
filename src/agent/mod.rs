//! Transport agents: the processes that deliver.
//!
//! [`protocol`] is the line protocol, both ends of it; [`library`] is what an agent is built from.

pub mod library;
pub mod protocol;
