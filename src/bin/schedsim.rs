//! What would the scheduler do? Simulations for operators.

use clap::Parser;
use zsched::schedsim;

fn main() {
    std::process::exit(schedsim::main(schedsim::Options::parse()));
}
