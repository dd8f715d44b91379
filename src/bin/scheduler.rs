//! The scheduler daemon.

use zsched::{daemon, sys};

fn main() {
    if let Some(status) = sys::become_agent() {
        std::process::exit(status);
    }
    std::process::exit(daemon::main(zsched::command_line::parse()));
}
