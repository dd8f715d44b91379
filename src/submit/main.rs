//! Puts one message into the spool.

fn main() {
    std::process::exit(zsched_submit::main(&zsched_command_line::parse()));
}
