//! Unit tests of the core in a world without processes, files or real clocks.

mod agents;
mod bulk_share;
mod clock_step;
mod etrn;
mod fair_share;
mod feeding;
mod jobs;
mod learned;
mod lifecycle;
mod limits;
mod orders;
mod outcomes;
mod paged_threads;
mod paging;
mod partial;
mod preemption_reserve;
mod reload;
mod schedules;
mod status;
mod windows;
// tests/compat/ uses the rest of it.
#[allow(dead_code)]
mod world;

use super::*;
use crate as zsched_core;
use crate::query::why::Reason;
use std::time::Duration;
use world::{START, World, arrival, config};
use zsched_config::Clause;
use zsched_spool::{Arrival, Group};

/// The clause that results from settings.
pub fn clause(settings: &str) -> Clause {
    let config = config(&format!("c/*\n\t{settings}\n\tcommand=x\n"));
    Clause::clone(&config.select(b"c", b"h").expect("c/* matches"))
}
