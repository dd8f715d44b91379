//! Puts one message into the spool.

use zsched::submit;

fn main() {
    std::process::exit(submit::main(&zsched::command_line::parse()));
}
