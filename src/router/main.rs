//! Routes new mail.

use std::io::Write;

fn main() {
    if let Err(error) = zsched_sys::reset_inherited_state() {
        // Standard error may be closed.
        drop(writeln!(std::io::stderr(), "router: inherited signals: {error}"));
        std::process::exit(1);
    }
    std::process::exit(zsched_router::main(&zsched_command_line::parse()));
}
