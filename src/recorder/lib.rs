//! The flight recorder: everything the core was told, so that everything it decided can be decided
//! again.
//!
//! ```text
//!  loop:    Recorded::handle ──► block of entries ──bounded channel──► OS thread: frames, files
//!                     │
//!                     └──► the core
//!  later:   Recording (frames ► entries) ──► Replay: the core again, each decision compared
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`recorder`] | on the loop: wraps the core, gathers entries, decides when a new file begins |
//! | [`writer`] | the OS thread that writes, and the files `FILE`, `FILE.1` … |
//! | [`frame`], [`entry`], [`header`] | the format, see `docs/recording.md` |
//! | [`source`] | a configuration, so that it can be read again without its surroundings |
//! | [`digest`] | check values |
//! | [`reader`], [`replay`] | reading it, and having the core decide again |
//! | [`bytes`], [`error_kind`] | how some types are written |

mod digest;
mod entry;
mod frame;
mod header;
mod reader;
mod recorder;
mod replay;
pub mod source;
mod writer;

#[cfg(test)]
mod tests;

pub use entry::What;
pub use header::Header;
pub use reader::{Ending, Entry, ReadError, Recording};
pub use recorder::{Limits, Recorded, Recorder};
pub use replay::{Difference, Failure, Observer, Played, Replay, Told, moment};
pub use source::Source;

/// The version of the format. It is raised with every change of what is written: of an event, or of
/// anything that is part of a checkpoint. `tests::the_format_has_not_changed` notices.
pub const FORMAT: u32 = 13;
