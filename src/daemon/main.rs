//! The scheduler daemon.

use std::io::Write;
use zsched_sys as sys;

fn main() {
    if let Some(status) = sys::become_agent() {
        std::process::exit(status);
    }
    if let Err(error) = sys::reset_inherited_state() {
        // Standard error may be closed.
        writeln!(std::io::stderr(), "scheduler: inherited signals: {error}").ok();
        std::process::exit(1);
    }
    std::process::exit(zsched_daemon::main(zsched_command_line::parse()));
}
