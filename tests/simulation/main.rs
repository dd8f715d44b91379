//! Complete lives of the scheduler in simulated worlds. See `docs/testing.md`.
//!
//! Each world first has every kind of failure, then a time without failures.
//!
//! | file | what |
//! |---|---|
//! | this one | seeds of the runs |
//! | [`world_run`] | what happens in a world, and the check that all mail leaves in the end |
//! | [`world`] | random configurations, hosts, agents and mail |
//! | [`operator`] | orders of operators, and the invariants that they add |
//! | [`oracle`] | invariants that must hold after every step |
//! | [`jobs`] | invariants of bulk jobs |
//! | [`memory`] | invariants about limited memory |
//! | [`options`] | invariants about options of the command line |
//! | [`rivals`] | worlds in which rings with endless mail compete with others for agents |
//! | [`agent_waits`] | invariants about how long a ring waits for an agent |
//! | [`retry_waits`] | invariants about new mail and retry times |
//! | [`expected_queue`], [`dump_client`] | the expected contents of the queue; the contents that MAILQ shows |
//! | [`trace`] | a log of what happened |

mod agent_waits;
mod dump_client;
mod expected_queue;
mod jobs;
mod memory;
mod operator;
mod options;
mod oracle;
mod retry_waits;
mod rivals;
mod trace;
mod world;
mod world_run;

use oracle::Totals;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use trace::Trace;
use world_run::{WorldSize, live};

/// Size of a small world; all of it is checked after every step.
const SMALL: WorldSize = WorldSize { actions: 30, burst: 4, look_every: 1, recovery: 6 * 3600 };
/// Size of a large world, with thousands of messages.
const LARGE: WorldSize =
    WorldSize { actions: 25, burst: 300, look_every: 1000, recovery: 48 * 3600 };
/// Default number of small worlds.
const SEEDS: u64 = 300;
/// Default number of large worlds.
const LARGE_SEEDS: u64 = 3;
/// Default number of worlds with rival rings.
const RIVAL_SEEDS: u64 = 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the world of a seed.
///
/// A violated invariant is an error, printed with the command that repeats the run.
fn run_world(
    test: &str,
    seed: u64,
    is_kept: bool,
    live: &dyn Fn(u64, &Rc<Trace>) -> Totals,
) -> thread::Result<(Totals, Rc<Trace>)> {
    let trace = Rc::new(Trace::new(world::START, is_kept));
    match catch_unwind(AssertUnwindSafe(|| live(seed, &trace))) {
        Ok(totals) => Ok((totals, trace)),
        Err(_) if !is_kept => run_world(test, seed, true, live),
        Err(panic) => {
            eprintln!("{}", trace.lines().join("\n"));
            let why = panic.downcast_ref::<String>().map(String::as_str);
            let why = why.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            eprintln!("{test}: seed {seed} failed at {}: {why}. Again:", trace.last());
            eprintln!("    ZSCHED_SEED={seed} cargo test --test simulation {test} -- --nocapture");
            Err(panic)
        }
    }
}

/// Runs the worlds of `count` seeds on all processors. After a failure no other world begins.
fn run_worlds(test: &str, count: u64, live: &(dyn Fn(u64, &Rc<Trace>) -> Totals + Sync)) {
    let count = match (number("ZSCHED_SEED"), number("ZSCHED_SEEDS")) {
        (Some(_), None) => 1,
        _ => count,
    };
    let first = number("ZSCHED_SEED").unwrap_or(1);
    let (next, end) = (AtomicU64::new(first), first + count);
    let run_some = || {
        let mut all = Totals::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok(all);
            }
            match run_world(test, seed, count == 1, live) {
                Ok((totals, _)) => all.add(&totals),
                Err(panic) => {
                    next.store(end, Ordering::Relaxed);
                    return Err(panic);
                }
            }
        }
    };
    let mut all = Totals::default();
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(run_some)).collect();
        for thread in threads {
            let totals = thread.join().unwrap_or_else(Err);
            all.add(&totals.unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    println!("{test}: {count} seeds, {all:?}");
    assert!(all.delivered > 0);
}

#[test]
fn small_worlds() {
    let count = number("ZSCHED_SEEDS").unwrap_or(SEEDS);
    run_worlds("small_worlds", count, &|seed, trace| live(seed, SMALL, trace));
}

#[test]
fn large_worlds() {
    let count = number("ZSCHED_SEEDS").map_or(LARGE_SEEDS, |seeds| (seeds / 100).max(1));
    run_worlds("large_worlds", count, &|seed, trace| live(seed, LARGE, trace));
}

#[test]
fn rival_rings() {
    let count = number("ZSCHED_SEEDS").map_or(RIVAL_SEEDS, |seeds| (seeds / 10).max(1));
    run_worlds("rival_rings", count, &rivals::live);
}

#[test]
fn equal_seeds_give_equal_lives() {
    let test = "equal_seeds_give_equal_lives";
    let run = |seed| {
        let run = run_world(test, seed, true, &|seed, trace| live(seed, SMALL, trace));
        run.unwrap_or_else(|panic| resume_unwind(panic))
    };
    for seed in 1..=5 {
        let (once, again) = (run(seed), run(seed));
        assert_eq!(once.1.sum(), again.1.sum(), "seed {seed}");
        let other = run(seed + 1000);
        assert_ne!(once.1.sum(), other.1.sum());
    }
}
