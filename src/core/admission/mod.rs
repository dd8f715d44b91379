//! Which mail is in memory.
//!
//! [`intake`] chooses the control files that are read. Of large messages only some recipients are
//! loaded ([`partial`]); messages that wait may be evicted ([`paging`]).

pub mod intake;

pub mod paged_message;
pub mod paging;
pub mod partial;
