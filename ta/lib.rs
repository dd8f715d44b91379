//! What several agents of this package share.
#![warn(unreachable_pub)]

pub mod local_part;
pub mod mail_text;
