//! The cheapest agent that the library can make, to be measured beside `agent.c`: it locks and
//! marks each recipient, and delivers nothing.

use std::process::ExitCode;
use zsched_agent::{Outcome, Scope, Verdict};

fn main() -> ExitCode {
    let channel = std::env::args().nth(1).expect("the channel is the argument");
    zsched_agent::serve("null_agent", &Scope::channel(&channel), |job| {
        job.deliver_each(|_| Outcome::new(Verdict::Delivered, "2.0.0", 250, "delivered"))
    })
}
