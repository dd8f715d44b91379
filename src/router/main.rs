//! Routes new mail.

fn main() {
    std::process::exit(zsched_router::main(&zsched_command_line::parse()));
}
