//! What several agents of this package share.
//!
//! It decides which lines a local delivery adds to a message, and which part of an address names a
//! mailbox. It must not know the scheduler, sessions or control files; those are in the crate
//! `agent`. Begin with [`mail_text`]. Each agent begins in its own file or folder; `discard.rs` is
//! the shortest.
#![warn(unreachable_pub)]

pub mod local_part;
pub mod mail_text;
