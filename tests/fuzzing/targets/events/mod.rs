//! The order of events in the core: whatever happens, and whatever comes of what it wants done, it does
//! not contradict itself; and once the world behaves again, everything gets delivered.
//!
//! ```text
//! bytes ──script──► facts ──► world ──► core
//!                               ▲         │
//!                 model of the spool, of agents, of what is not answered yet
//! ```

mod configurations;
mod model;
mod script;
mod settle;
mod world;

use super::draw::Draw;
use script::Script;
use world::World;

/// How many things happen in one run, at most.
const MOST_EVENTS: usize = 1500;

/// The settings in the first bytes, then what happens.
pub fn run(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let world = World::new(configurations::settings(&mut draw), draw.below(4));
    let mut script = Script { world, draw };
    for _ in 0..MOST_EVENTS {
        if script.draw.is_over() {
            break;
        }
        script.happen();
    }
    settle::settle(script.world);
}
