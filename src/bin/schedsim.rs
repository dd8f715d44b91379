//! Simulations and recordings of the scheduler.

use zsched::schedsim;

fn main() {
    std::process::exit(schedsim::main(schedsim::Options::from_command_line()));
}
