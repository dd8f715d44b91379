//! The first frame of a recording: the environment of the core.

use super::source::ConfigSource;
use serde::{Deserialize, Serialize};
use zsched_format::time::Timestamp;

/// The header of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the scheduler.
    pub version: String,
    /// Start time of this file. The times of entries are relative to it.
    pub started: Timestamp,
    /// Number of unrecorded events between the previous file and this one.
    pub lost: u64,
    /// The configuration in force.
    pub source: ConfigSource,
}
