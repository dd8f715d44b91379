//! Whole lives of the scheduler in simulated worlds, where everything goes wrong that can, and then
//! nothing does. See `docs/testing.md`.
//!
//! | file | what |
//! |---|---|
//! | this one | which seeds |
//! | [`life`] | what happens in a world, and that it all comes to an end |
//! | [`world`] | configurations, hosts, agents and mail, drawn by chance |
//! | [`operator`] | what operators order, and what may not happen then |
//! | [`oracle`] | what must never happen |
//! | [`memory`] | the same, as far as memory is limited |
//! | [`mode`] | the same, as far as the command line goes |
//! | [`rivals`] | worlds in which some rings never run out of mail, and others want an agent, too |
//! | [`shares`] | what must not happen: how long rings wait for agents |
//! | [`waits`] | the same, of new mail and retry times |
//! | [`book`], [`dump`] | what the scheduler must know; what it shows of that to others |
//! | [`trace`] | what did |

mod book;
mod dump;
mod life;
mod memory;
mod mode;
mod operator;
mod oracle;
mod rivals;
mod shares;
mod trace;
mod waits;
mod world;

use life::{Size, live};
use oracle::Totals;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use trace::Trace;

/// Many small worlds, looked at after every step.
const SMALL: Size = Size { deeds: 30, burst: 4, look_every: 1, recovery: 6 * 3600 };
/// A few large ones, with thousands of messages.
const LARGE: Size = Size { deeds: 25, burst: 300, look_every: 1000, recovery: 48 * 3600 };
/// So many small worlds are lived through, if nothing else is asked for.
const SEEDS: u64 = 200;
/// So many large ones.
const LARGE_SEEDS: u64 = 3;
/// Number of worlds with rival rings.
const RIVAL_SEEDS: u64 = 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Lives through a world. What must not happen ends the test, with what is needed to see it again.
fn survives(
    test: &str,
    seed: u64,
    is_kept: bool,
    live: &dyn Fn(u64, &Rc<Trace>) -> Totals,
) -> (Totals, Rc<Trace>) {
    let trace = Rc::new(Trace::new(world::START, is_kept));
    match catch_unwind(AssertUnwindSafe(|| live(seed, &trace))) {
        Ok(totals) => (totals, trace),
        Err(_) if !is_kept => survives(test, seed, true, live),
        Err(panic) => {
            eprintln!("{}", trace.lines().join("\n"));
            let why = panic.downcast_ref::<String>().map(String::as_str);
            let why = why.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            eprintln!("{test}: seed {seed} failed at {}: {why}. Again:", trace.last());
            eprintln!("    ZSCHED_SEED={seed} cargo test --test simulation {test} -- --nocapture");
            std::panic::resume_unwind(panic)
        }
    }
}

fn survive_all(test: &str, count: u64, live: &dyn Fn(u64, &Rc<Trace>) -> Totals) {
    let mut all = Totals::default();
    let count = match (number("ZSCHED_SEED"), number("ZSCHED_SEEDS")) {
        (Some(_), None) => 1,
        _ => count,
    };
    let first = number("ZSCHED_SEED").unwrap_or(1);
    for seed in first..first + count {
        let (totals, _) = survives(test, seed, count == 1, live);
        all.add(&totals);
    }
    println!("{test}: {count} seeds, {all:?}");
    assert!(all.delivered > 0);
}

#[test]
fn small_worlds() {
    let count = number("ZSCHED_SEEDS").unwrap_or(SEEDS);
    survive_all("small_worlds", count, &|seed, trace| live(seed, SMALL, trace));
}

#[test]
fn large_worlds() {
    let count = number("ZSCHED_SEEDS").map_or(LARGE_SEEDS, |seeds| (seeds / 100).max(1));
    survive_all("large_worlds", count, &|seed, trace| live(seed, LARGE, trace));
}

#[test]
fn rival_rings() {
    let count = number("ZSCHED_SEEDS").map_or(RIVAL_SEEDS, |seeds| (seeds / 10).max(1));
    survive_all("rival_rings", count, &rivals::live);
}

#[test]
fn the_same_seed_is_the_same_life() {
    let test = "the_same_seed_is_the_same_life";
    let survives = |seed| survives(test, seed, true, &|seed, trace| live(seed, SMALL, trace));
    for seed in 1..=5 {
        let (once, again) = (survives(seed), survives(seed));
        assert_eq!(once.1.sum(), again.1.sum(), "seed {seed}");
        let other = survives(seed + 1000);
        assert_ne!(once.1.sum(), other.1.sum());
    }
}
