//! Takes mail by SMTP.

use std::io::Write;

fn main() {
    if let Err(error) = zsched_sys::reset_inherited_state() {
        // Standard error may be closed.
        drop(writeln!(std::io::stderr(), "smtpserver: inherited signals: {error}"));
        std::process::exit(1);
    }
    std::process::exit(zsched_smtpserver::main(&zsched_command_line::parse()));
}
