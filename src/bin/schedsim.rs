//! Simulations and recordings of the scheduler.

use zsched::schedsim;

fn main() {
    std::process::exit(schedsim::main(zsched::command_line::parse()));
}
