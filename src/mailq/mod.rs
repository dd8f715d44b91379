//! MAILQ: how the queue is shown to others, and the client that shows it to people.

pub mod client;
pub mod control;
pub mod port;
pub mod report;
pub mod v1;
pub mod why;
