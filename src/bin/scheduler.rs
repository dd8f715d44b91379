//! The scheduler daemon.

use zsched::daemon;

fn main() {
    std::process::exit(daemon::main(daemon::Options::from_command_line()));
}
