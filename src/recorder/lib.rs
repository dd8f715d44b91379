//! Recordings: all input of the core, so that its decisions can be replayed.
//!
//! This crate decides what a recording holds, when a new file begins, and whether a replay makes
//! the same decisions. It must not know why the core decides, and it never makes the event loop
//! wait for a disk. Begin with [`RecordedCore`], which wraps the core, and with [`Replay`].
//!
//! ```text
//!  loop:    RecordedCore::handle ──► block of entries ──bounded channel──► worker: frames, files
//!                     │
//!                     └──► the core
//!  later:   Recording (frames ► entries) ──► Replay: the core again, each decision compared
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`recorder`] | on the loop: wraps the core, collects entries, decides when a new file begins |
//! | [`writer`] | the worker that writes, and the files `FILE`, `FILE.1` … |
//! | [`reader`], [`replay`] | reading a recording, and replaying it |
//! | [`frame`], [`entry`], [`header`] | the format, see `docs/recording.md` |
//! | [`source`] | a configuration with all that is needed to read it again on another system |
//! | [`digest`] | check values |

#![warn(unreachable_pub)]

// Recording.
mod recorder;
mod writer;

// Replaying.
mod reader;
mod replay;

// The format.
mod digest;
mod entry;
mod frame;
mod header;
pub mod source;

#[cfg(test)]
mod tests;

pub use header::Header;
pub use reader::{ReadError, Recording, RecordingEnd};
pub use recorder::{RecordedCore, Recorder, RotationLimits};
pub use replay::{
    Replay, ReplayDifference, ReplayError, ReplayObserver, ReplaySummary, ReplayedEvent,
};
pub use source::ConfigSource;

/// Version of the format.
///
/// It must be raised with every change of the recorded data: of an event, or of any part of a
/// checkpoint. `tests::the_format_has_not_changed` detects changes.
pub const FORMAT: u32 = 25;
