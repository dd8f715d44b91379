//! What the standard library cannot ask of the operating system. The only `unsafe` code is here.
#![allow(unsafe_code)]

mod process;

pub use process::{clock_ticks, process_exists};
