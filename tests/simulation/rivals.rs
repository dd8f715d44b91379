//! Worlds in which some rings always have mail, and others get a message now and then. Agents are
//! scarce all the time.

use crate::oracle::{Oracle, Totals};
use crate::trace::Trace;
use crate::world;
use fastrand::Rng;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::Settings;
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_simulation::faults::AgentFaults;
use zsched_simulation::hosts::{HostBehaviour, Hosts};
use zsched_simulation::{Delays, Simulation, SimulationSetup};
use zsched_spool::{HashFolder, HashLevel, SpoolName};

/// Number of steps between two full checks.
const LOOK_EVERY: u64 = 10;
/// How long mail arrives.
const MAIL_DURATION: Duration = Duration::from_secs(180);
/// Time between two arrivals of mail.
const ARRIVAL_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum time from the last arrival until all mail has left.
const MAX_RECOVERY: Duration = Duration::from_secs(2 * 3600);

/// Runs the world of a seed.
pub fn live(seed: u64, trace: &Rc<Trace>) -> Totals {
    let mut random = Rng::with_seed(seed);
    let rings = random.usize(2..7);
    let busy = random.usize(1..3);
    let config = config(rings, &mut random);
    let latency = Duration::from_millis(random.u64(100..3000));
    let nature = HostBehaviour { latency, spread: latency, ..HostBehaviour::default() };
    let mut oracle = Oracle::new(trace.clone(), config.clone(), seed);
    oracle.look_every = LOOK_EVERY;
    let setup = setup(seed, &mut random);
    let mut world = Simulation::new(setup, Hosts::new(Vec::new(), nature), config, oracle);
    world.start();
    let (start, mut number) = (world.at().now, 0);
    let mut submit = |world: &mut Simulation<Oracle>, ring: usize, random: &mut Rng| {
        number += 1;
        let (text, name) = (mail(number, ring, random), SpoolName::plain(HashFolder::TOP, number));
        world.submit(name, text, true, true);
        world.observer.submitted_as(number, true);
    };
    while world.at().now.since(start) < MAIL_DURATION {
        // This is more than the agents can deliver until the next arrival.
        while world.observer.unresolved().len() < 60 {
            submit(&mut world, random.usize(0..busy), &mut random);
        }
        if random.u8(0..3) == 0 {
            submit(&mut world, random.usize(0..rings), &mut random);
        }
        world.run_until(world.at().now + ARRIVAL_INTERVAL);
    }
    let end = world.at().now + MAX_RECOVERY;
    while world.at().now < end && !world.observer.unresolved().is_empty() {
        world.run_until(world.at().now + ARRIVAL_INTERVAL);
    }
    assert!(world.observer.unresolved().is_empty(), "there still is mail");
    std::mem::take(&mut world.observer.totals)
}

fn setup(seed: u64, random: &mut Rng) -> SimulationSetup {
    let settings = Settings { fork_rate: [1, 3, 30][random.usize(0..3)], ..Settings::default() };
    SimulationSetup {
        seed,
        start: world::START,
        settings,
        first_pid: 1000,
        level: HashLevel::Flat,
        delays: if random.bool() { Delays::default() } else { Delays::usual() },
        agent_faults: AgentFaults::default(),
        multi_event_turns: 0.3,
        pieces: false,
        scans: false,
    }
}

/// Returns a configuration with a clause for each ring, and limits for all rings together.
fn config(rings: usize, random: &mut Rng) -> Rc<Config> {
    let mut one_of = |values: &[&str]| values[random.usize(0..values.len())].to_string();
    let mut text = format!(
        "*/*\n\t{} {} interval=10s\n",
        one_of(&["maxta=1", "maxta=2", "maxta=3", "maxta=8"]),
        one_of(&["", "", "maxchannel=1", "maxchannel=2"]),
    );
    for ring in 0..rings {
        let settings = [
            one_of(&["", "", "", "maxta=1", "maxta=2", "maxta=0 maxchannel=0"]),
            one_of(&["overfeed=0", "overfeed=10", ""]),
            one_of(&["maxthr=1", "maxthr=4"]),
            one_of(&["", "", "job-order", "slot-cost=2"]),
            one_of(&["", "", "", "mail-priority=3", "mail-priority=8"]),
        ];
        let (channel, settings) = (channel(ring), settings.join(" "));
        text += &format!("{channel}/*.r{ring}.x\n\t{settings}\n\tcommand=\"r{ring}\"\n");
    }
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    Rc::new(loaded.unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).config)
}

/// Returns the channel of a ring; two rings share one.
fn channel(ring: usize) -> String {
    format!("c{}", ring / 2)
}

/// Returns a message for one host of a ring.
fn mail(number: u64, ring: usize, random: &mut Rng) -> Vec<u8> {
    let host = format!("h{}.r{ring}.x", random.usize(0..3));
    let recipient = Recipient {
        address: Address::new(&channel(ring), &host, "user", 65534),
        ..Recipient::default()
    };
    let group = Group {
        sender: Address::new("local", "", "sender", 0),
        recipients: vec![recipient],
        headers: b"Subject: simulated\n".to_vec(),
        ..Group::default()
    };
    let draft = ControlFileDraft {
        name: number.to_string(),
        body_offset: 100,
        log_id: format!("<{number}@x>"),
        groups: vec![group],
        ..ControlFileDraft::default()
    };
    draft.to_text().expect("a good draft")
}
