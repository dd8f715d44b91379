//! Puts one message into the spool.

use clap::Parser;
use zsched::submit;

fn main() {
    std::process::exit(submit::main(&submit::Options::parse()));
}
