//! MAILQ: how the queue is shown to others, and the client that shows it to people.

pub mod acl;
pub mod attributes;
pub mod auth_file;
pub mod client;
pub mod login;
pub mod port;
pub mod report;
pub mod scram_client;
pub mod scram_server;
pub mod v1;
pub mod v2;
pub mod why;
