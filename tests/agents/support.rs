//! The agents under test.

use std::path::PathBuf;
use std::sync::LazyLock;
pub use zsched_tests::agent_session::*;

pub const DISCARD: &str = env!("CARGO_BIN_EXE_discard");
pub const EXPIRER: &str = env!("CARGO_BIN_EXE_expirer");
pub const HOLD: &str = env!("CARGO_BIN_EXE_hold");
pub const MAILBOX: &str = env!("CARGO_BIN_EXE_mailbox");
pub const PIPE: &str = env!("CARGO_BIN_EXE_pipe");
pub const RUNNER: &str = env!("CARGO_BIN_EXE_runner");
pub const REROUTE: &str = env!("CARGO_BIN_EXE_reroute");

/// The agent `errormail`, which is a package of its own.
pub fn errormail() -> &'static str {
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| zsched_tests::program("errormail"));
    PATH.to_str().expect("the path is text")
}
