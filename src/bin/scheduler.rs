//! The scheduler daemon.

use zsched::{daemon, sys};

fn main() {
    if let Some(status) = sys::become_agent() {
        std::process::exit(status);
    }
    std::process::exit(daemon::main(daemon::Options::from_command_line()));
}
