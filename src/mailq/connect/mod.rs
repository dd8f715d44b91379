//! Connections to a scheduler, with either version of its protocol.
//!
//! [`dial`] connects to a [`server`] and reads its [`greeting`]. Version 1 sends a dump of the
//! queue at once. Version 2 and the control socket are a [`session`] of requests, after a login
//! with [`credentials`] in version 2.

pub(crate) mod connection;
pub(crate) mod credentials;
pub(crate) mod denial;
pub(crate) mod dial;
mod greeting;
pub(crate) mod lines;
pub(crate) mod server;
pub(crate) mod session;
