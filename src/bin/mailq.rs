//! Shows the queue of a running scheduler.

use zsched::mailq::client;

fn main() {
    std::process::exit(client::main(client::Options::of_process()));
}
