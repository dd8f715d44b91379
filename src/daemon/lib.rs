//! The shell around the core: the program `scheduler`.
//!
//! It turns readiness of sockets, results of workers, signals and time into events of the core, and
//! the core's actions into system calls. It decides when to look and in which order, how much of a
//! turn each source gets, and what may wait; it makes no scheduling decision. It must not know the
//! reasons of the core, and nothing on the loop may wait for a disk, a client or an agent: workers
//! do what may block ([`spool_io`]). The formats of what it reads and writes belong to other
//! crates.
//!
//! Begin with [`event_loop`]: `Daemon::run` is one page. Its `sources` and `execute` are what goes
//! in and what comes out. [`start`] leads there from the command line.

#![warn(unreachable_pub)]

mod start;
mod event_loop;
mod agents;
mod agent_starter;
mod spool_io;
mod reports;
mod state;
mod net;
mod logging;
mod drop_worker;
mod service_manager;
mod chunked_writer;
mod timeouts;

pub use start::main;
pub use start::options::SchedulerOptions;
