//! Shows the queue of a running scheduler.

fn main() {}
