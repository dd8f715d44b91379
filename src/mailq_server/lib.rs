//! MAILQ: the protocol that shows and controls the queue, and its client `mailq`.

pub mod acl;
pub mod attributes;
pub mod auth_file;
pub mod explain;
pub mod login;
pub mod report;
pub mod v1;
pub mod v2;
