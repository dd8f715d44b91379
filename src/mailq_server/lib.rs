//! MAILQ: how the queue is shown to others, and the client that shows it to people.

pub mod acl;
pub mod attributes;
pub mod auth_file;
pub mod login;
pub mod report;
pub mod v1;
pub mod v2;
pub mod why;
