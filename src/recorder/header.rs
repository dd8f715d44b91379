//! The first frame of a recording: what the core was made with.

use super::source::Source;
use serde::{Deserialize, Serialize};
use zsched_format::time::Timestamp;

/// What a recording says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the scheduler.
    pub version: String,
    /// When this file was begun. The times of entries count from here.
    pub begun: Timestamp,
    /// Events that were not recorded, between the end of the file before this one and its begin.
    pub lost: u64,
    /// The configuration in force.
    pub source: Source,
}
