//! The order of events in the core: with any events the core stays consistent, and when the
//! failures end, all mail is delivered.
//!
//! ```text
//! bytes ──script──► facts ──► world ──► core
//!                               ▲         │
//!                 model of the spool, of agents, of unanswered actions
//! ```

mod configurations;
mod finish_run;
mod model;
mod script;
mod world;

use super::byte_source::ByteSource;
use script::Script;
use world::World;

/// Maximum number of events in a run.
const MAX_EVENTS: usize = 1500;

/// The input has the settings in the first bytes, then the events.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let world = World::new(configurations::settings(&mut draw), draw.below(4));
    let mut script = Script { world, draw };
    for _ in 0..MAX_EVENTS {
        if script.draw.is_over() {
            break;
        }
        script.perform_event();
    }
    finish_run::finish_run(script.world);
}
