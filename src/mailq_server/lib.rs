//! The server's side of MAILQ, the protocol that shows and controls the queue.
//!
//! This crate decides what a client may see and change, how each request is read and how it is
//! answered. It has no side effects: a session takes bytes and returns bytes, lookups on a disk and
//! orders to the core, and the shell carries these out. It must not know sockets, workers or the
//! event loop.
//!
//! Begin with [`v2`]: the session, and the table of requests. [`v1`] writes the dump of the whole
//! queue that clients of ZMailer get without a login; [`queue_report`] writes the classic report of
//! both versions. The sentences on what mail waits for are those of the crate `zsched-explain`.
//! Which users may log in is decided by [`auth_file`] (accounts), [`acl`] (addresses),
//! [`attributes`] (permissions) and [`login`] (the challenge).

#![warn(unreachable_pub)]

pub mod v2;

pub mod queue_report;
pub mod v1;

mod classic;

pub mod auth_file;

pub mod acl;
pub mod attributes;

pub mod login;
