//! What is queued: messages, their vertices, and the threads that these are in.

pub mod destination;
pub mod message;
pub mod thread;
pub mod vertex;
pub mod waves;

mod arrival;
mod thread_of_arrival;

pub mod deferral;
pub mod expiry;
pub mod host_health;
pub mod retry;
pub mod unreachable;

pub mod attempt_records;
mod finish;
