//! A place to run the real programs in, and ways to look at what they do.
//!
//! | file | what |
//! |---|---|
//! | [`site`] | a temporary folder: spool, configuration, ZENV file, logs, mailboxes |
//! | [`daemon`] | a running scheduler, and its end |
//! | [`events`] | what the agent `count.py` has written down about itself |
//! | [`mailq`] | the queue as MAILQ shows it, taken apart |
//! | [`dialogue`] | requests of MAILQ version 2 |
//! | [`processes`] | what the system knows of processes |
//! | [`wait`] | waiting for conditions, never for a time |

pub mod daemon;
pub mod dialogue;
pub mod events;
pub mod mailq;
pub mod processes;
pub mod site;
pub mod wait;

pub use daemon::Daemon;
pub use dialogue::Client;
pub use events::Event;
pub use mailq::Dump;
pub use site::{Site, control_file};
pub use wait::{DEADLINE, hold_for, holds_in_time, timeout, until, until_some, until_within};

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub const SCHEDULER: &str = env!("CARGO_BIN_EXE_scheduler");

pub fn is_root() -> bool {
    zsched_sys::users::is_root()
}

pub fn allow(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("change the mode");
}

/// Says loudly that a part of a test did not happen: past the test harness, which keeps what a
/// successful test prints to itself.
pub fn not_run(why: &str) {
    say(&format!("*** NOT RUN: {why}"));
}

/// Says something to whoever runs the tests, past the test harness.
pub fn say(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).expect("standard error takes it");
}
