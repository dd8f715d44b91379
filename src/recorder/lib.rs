//! The flight recorder: records all input of the core.
//!
//! So its decisions can be replayed.
//!
//! ```text
//!  loop:    Recorded::handle ──► block of entries ──bounded channel──► worker: frames, files
//!                     │
//!                     └──► the core
//!  later:   Recording (frames ► entries) ──► Replay: the core again, each decision compared
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`recorder`] | on the loop: wraps the core, collects entries, decides when a new file begins |
//! | [`writer`] | the worker that writes, and the files `FILE`, `FILE.1` … |
//! | [`frame`], [`entry`], [`header`] | the format, see `docs/recording.md` |
//! | [`source`] | a configuration with all that is needed to read it again elsewhere |
//! | [`digest`] | check values |
//! | [`reader`], [`replay`] | reading a recording, and replaying it |
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

pub use entry::Input;
pub use header::Header;
pub use reader::{ReadError, RecordedEntry, Recording, RecordingEnd};
pub use recorder::{RecordedCore, Recorder, RotationLimits};
pub use replay::{
    Replay, ReplayDifference, ReplayError, ReplayObserver, ReplaySummary, ReplayedEvent,
    format_time,
};
pub use source::ConfigSource;

/// Version of the format.
///
/// It must be raised with every change of the recorded data: of an event, or of any part of a
/// checkpoint. `tests::the_format_has_not_changed` detects changes.
pub const FORMAT: u32 = 13;
