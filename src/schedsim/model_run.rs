//! Simulates the mail of a recording under a configuration.
//!
//! Its control files are composed from what the recording knows of them. The attempts of agents
//! take as long, and have the same outcomes, as those in the recording.

use super::agent_model::AgentModel;
use super::statistics::Statistics;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::{Scheduler, Settings};
use zsched_format::time::Timestamp;
use zsched_simulation::hosts::Hosts;
use zsched_simulation::{Delays, Simulation, SimulationSetup, disk};
use zsched_spool::{Arrival, HashFolder};

/// Duration of a write to the spool. Randomness may double it.
const WRITE_DELAY: Duration = Duration::from_millis(1);
/// Duration of a read, which only spreads a queue that is loaded at once over time.
const READ_DELAY: Duration = Duration::from_micros(1);

/// The results of a run.
pub(crate) struct RunResults {
    /// The counters.
    pub statistics: Statistics,
    /// Recipients left in the queue.
    pub left: u64,
    /// Attempts whose outcome is not in the recording.
    pub made_up: u64,
}

/// Simulates the model from `start` to `end`.
pub(crate) fn run(
    settings: Settings,
    config: Rc<Config>,
    model: &AgentModel,
    (start, end): (Timestamp, Timestamp),
) -> RunResults {
    let start_delay = model.start.value();
    let setup = SimulationSetup {
        delays: Delays {
            start: start_delay,
            read: READ_DELAY,
            write: WRITE_DELAY,
            ..Delays::default()
        },
        ..SimulationSetup::new(settings.seed, start, settings)
    };
    let hosts = Hosts::recorded(model.attempts());
    let mut simulation = Simulation::new(setup, hosts, config, Statistics::new(start));
    simulation.start();
    let mut etrn_requests = model.etrn_requests.iter().peekable();
    for (number, (time, arrival)) in (1..).zip(&model.mail) {
        while let Some((time, host)) = etrn_requests.next_if(|(earlier, _)| earlier < time) {
            simulation.run_until(*time);
            simulation.etrn(host);
        }
        simulation.run_until(*time);
        let name = disk::name(number, HashFolder::TOP);
        simulation.submit(name, control_file(number, arrival), true, true);
        simulation.disk.set_received(number, arrival.modified);
    }
    for (time, host) in etrn_requests {
        simulation.run_until(*time);
        simulation.etrn(host);
    }
    simulation.run_until(end);
    let left = simulation.core().map_or(0, |core: &Scheduler| core.totals().recipients);
    let made_up = simulation.hosts.recorded.as_ref().map_or(0, |recorded| recorded.made_up);
    RunResults { statistics: simulation.observer, left, made_up }
}

/// Composes the control file of a message. The address of a recipient is its recorded offset.
fn control_file(number: u64, arrival: &Arrival) -> Vec<u8> {
    let mut text = format!("i {number}\np {}\n", arrival.priority).into_bytes();
    for host in &arrival.etrn_hosts {
        text.extend_from_slice(&[b"T ", &host[..], b"\n"].concat());
    }
    text.extend_from_slice(b"s local - sender 0\n");
    for group in &arrival.groups {
        for offset in &group.offsets {
            let end = format!(" {offset} 0\n");
            let words = [b"r           ", &group.channel[..], b" ", &group.host, end.as_bytes()];
            text.extend_from_slice(&words.concat());
        }
    }
    text.extend_from_slice(b"m\n\n");
    text
}
