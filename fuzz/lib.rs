//! The targets of `tests/fuzzing/` for libFuzzer.

#[path = "../tests/fuzzing/targets/mod.rs"]
mod targets;

pub use targets::{TARGETS, Target, find};
