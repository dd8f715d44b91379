//! The scheduler daemon.

fn main() {
    if let Some(status) = zsched_sys::become_agent() {
        std::process::exit(status);
    }
    zsched_service::reset_inherited_state_or_exit("scheduler");
    std::process::exit(zsched_daemon::main(zsched_command_line::parse()));
}
