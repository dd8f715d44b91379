//! Routes new mail.

fn main() {
    zsched_service::reset_inherited_state_or_exit("router");
    std::process::exit(zsched_router::main(&zsched_command_line::parse()));
}
