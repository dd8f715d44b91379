//! Events that concern several parts: what each of them does, in order.
//!
//! Orders of operators are in [`crate::operator`], reports of agents in [`crate::outcome`].

mod arrival;
mod destination;

mod wake;
mod schedule;
mod expiry;
mod window_round;

mod message_removal;
