//! Puts one message into the spool.

use zsched::submit;

fn main() {
    std::process::exit(submit::main(&submit::Options::from_command_line()));
}
