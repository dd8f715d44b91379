//! What several agents of this package share.
//!
//! It decides which lines a local delivery adds to a message, which part of an address names a
//! mailbox, which rights a program gets, and what its exit status means. It must not know the
//! scheduler, sessions or control files; those are in the crate `agent`. Begin with [`mail_text`].
//! Each agent begins in its own file or folder; `discard.rs` is the shortest.
#![warn(unreachable_pub)]

pub mod exit_status;
pub mod identity;
pub mod local_part;
pub mod mail_text;

/// Search path of programs if the agent has none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Variables of the agent that programs get.
pub const INHERITED_VARIABLES: [&str; 2] = ["PATH", "TZ"];
