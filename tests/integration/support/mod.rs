//! A place to run the real programs in, and ways to observe them.
//!
//! | file | what |
//! |---|---|
//! | [`site`] | a temporary folder: spool, configuration, ZENV file, logs, mailboxes |
//! | [`daemon`] | a running scheduler, and its end |
//! | [`events`] | the log that the agent `count.py` writes |
//! | [`mailq`] | a parser of the queue that MAILQ shows |
//! | [`mailq_client`] | requests of MAILQ version 2 |
//! | [`processes`] | processes, as the system shows them |
//! | [`router`] | a running router |
//! | [`report`] | reports to senders, as mail programs read them |
//! | [`wait`] | waits for conditions, never for a time |

pub mod daemon;
pub mod events;
pub mod mailq;
pub mod mailq_client;
pub mod processes;
pub mod report;
pub mod router;
pub mod site;
pub mod wait;

pub use daemon::Daemon;
pub use events::Event;
pub use mailq::Dump;
pub use mailq_client::Client;
pub use report::ReadReport;
pub use site::{Site, control_file};
pub use wait::{
    DEADLINE, hold_for, holds_before_deadline, timeout, until, until_some, until_within,
};

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

/// Reports that a part of a test was skipped.
///
/// It writes past the test harness, which hides the output of successful tests.
pub fn not_run(why: &str) {
    say(&format!("*** NOT RUN: {why}"));
}

/// Writes a line to standard error, past the test harness.
pub fn say(text: &str) {
    std::io::stderr().write_all(format!("{text}\n").as_bytes()).expect("standard error takes it");
}

/// Returns a generator and prints its seed; `ZSCHED_SEED` repeats a run.
pub fn generator(test: &str) -> fastrand::Rng {
    let given = std::env::var("ZSCHED_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    say(&format!("{test}: ZSCHED_SEED={seed}"));
    fastrand::Rng::with_seed(seed)
}
