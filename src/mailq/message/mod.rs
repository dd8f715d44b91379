//! Messages as they lie in the spool: what the scheduler does not send.
//!
//! ```text
//! transport/N: sender, recipients, headers ──┬──► files ──► envelope ──► list -m, show, events, trace
//! queue/N: body, size, time of arrival ──────┘      └─────► cat
//! ```
//!
//! `mailq` reads the files with the rights of its caller. Other programs write and remove them at
//! any time.

pub(crate) mod cat;
pub(crate) mod envelope;
pub(crate) mod files;
pub(crate) mod origin;
