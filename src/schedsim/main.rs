//! Simulations and recordings of the scheduler.

fn main() {
    std::process::exit(zsched_schedsim::main(zsched_command_line::parse()));
}
