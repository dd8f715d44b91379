//! What both ends of the MAILQ protocol share.
//!
//! This crate decides what an operator may ask about, which JSON objects the server sends, and how
//! a login is proved. It must not know queues, sockets, terminals or files of accounts: the server
//! (`zsched-mailq-server`) and the client (`zsched-mailq`) do.
//!
//! Begin with [`subject`], which is what an operator asks about, and [`schema`], the objects of the
//! answers. [`size`] has the sizes in selections, [`words`] the lines that begin a session and an
//! answer, [`port`] the number of the TCP port. A login is proved by [`auth`], as in ZMailer, or by
//! [`scram`], both sides of SCRAM-SHA-256. `docs/mailq-protocol.md` describes the protocol.

#![warn(unreachable_pub)]

pub mod subject;

pub mod size;

pub mod schema;

pub mod words;

pub mod port;

pub mod auth;
pub mod scram;
