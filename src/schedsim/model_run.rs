//! Simulates the mail of a recording under a configuration.
//!
//! Its control files are composed from what the recording knows of them. The attempts of agents
//! take as long, and have the same outcomes, as those in the recording.

use super::agent_model::AgentModel;
use super::progress::Progress;
use super::statistics::Statistics;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::Settings;
use zsched_format::time::Timestamp;
use zsched_simulation::hosts::Hosts;
use zsched_simulation::{Delays, Simulation, SimulationSetup};
use zsched_spool::{Arrival, HashFolder, SpoolName};

/// Duration of a write to the spool. Randomness may double it.
const WRITE_DELAY: Duration = Duration::from_millis(1);
/// Duration of a read, which only spreads a queue that is loaded at once over time.
const READ_DELAY: Duration = Duration::from_micros(1);

/// Time in which mail that came at the end is loaded.
///
/// It counts as queued then.
const LOAD_TIME: Duration = Duration::from_millis(1);

/// The results of a run.
pub(crate) struct RunResults {
    /// The counters.
    pub statistics: Statistics,
    /// Attempts whose outcome is not in the recording.
    pub made_up: u64,
}

/// Simulates the model from `start` to `end`. `name` is shown with the progress.
pub(crate) fn run(
    name: &str,
    settings: Settings,
    config: Rc<Config>,
    model: &AgentModel,
    (start, end): (Timestamp, Timestamp),
) -> RunResults {
    let delays = Delays {
        start: model.attempts.start.value(),
        read: READ_DELAY,
        write: WRITE_DELAY,
        ..Delays::default()
    };
    let setup = SimulationSetup { delays, ..SimulationSetup::new(settings.seed, start, settings) };
    let hosts = Hosts::recorded(model.attempts.clone());
    let mut simulation = Simulation::new(setup, hosts, config, Statistics::new(start));
    simulation.start();
    let progress = Progress::of_simulation(name, end.since(start));
    let mut etrn_requests = model.etrn_requests.iter().peekable();
    for (number, (time, arrival)) in (1..).zip(&model.mail) {
        while let Some((time, host)) = etrn_requests.next_if(|(earlier, _)| earlier < time) {
            simulation.run_until(*time);
            simulation.etrn(host);
        }
        simulation.run_until(*time);
        progress.set_time(time.since(start));
        let name = SpoolName::plain(HashFolder::TOP, number);
        simulation.submit(name, control_file(number, arrival), true, true);
        simulation.disk.set_received(number, arrival.modified);
    }
    for (time, host) in etrn_requests {
        simulation.run_until(*time);
        simulation.etrn(host);
    }
    simulation.run_until(end + LOAD_TIME);
    if let Some((core, statistics)) = simulation.core_and_observer() {
        statistics.end(core);
    }
    let made_up = simulation.hosts.recorded.as_ref().map_or(0, |recorded| recorded.made_up);
    RunResults { statistics: simulation.observer, made_up }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use zsched_config::{ConfigContext, Zenv};
    use zsched_core::AgentEnd;
    use zsched_format::control_file;
    use zsched_simulation::recorded::{RecordedAttempt, RecordedOutcome};

    #[test]
    fn recorded_deferral_and_death_are_repeated() {
        let start = Timestamp::from_seconds(1_795_255_200);
        let text = "i 7\ns l - a 0\nr           c a.test u 0\nr           c b.test u 0\nm\n\n";
        let file = control_file::parse(text.into()).expect("a good control file");
        let arrival = Arrival::new(SpoolName::plain(HashFolder::TOP, 7), &file, start, start);
        let mut model = AgentModel::default();
        let report = |text: &str| RecordedOutcome::Report(text.as_bytes().into());
        let [a, b] = [0, 1].map(|index: usize| arrival.groups[index].offsets[0]);
        for (address, outcome) in [
            (a, report("\tdeferred not now")),
            (a, report("\tok3 250")),
            (b, RecordedOutcome::Death(AgentEnd::Signalled(9))),
            (b, report("n\terror2 550")),
        ] {
            model.attempts.add(
                1,
                address,
                RecordedAttempt { outcome, took: Duration::from_secs(9) },
            );
        }
        model.mail.push((start + Duration::from_secs(1), arrival));
        let context = ConfigContext::unprivileged(Zenv::default());
        let config = b"c/*\n\tinterval=1m command=x\n";
        let config = Config::parse(Path::new("cf"), config, &context).expect("a configuration");
        let end = start + Duration::from_secs(3600);
        let results = run("cf", Settings::default(), Rc::new(config.config), &model, (start, end));
        assert_eq!(results.made_up, 0);
        let RunResults { statistics, .. } = results;
        let ends = |destination: &str| {
            let found = statistics.destinations.iter();
            let found = found.filter(|(one, _)| one.to_string() == destination);
            found.map(|(_, one)| (one.deliveries.len(), one.failed, one.queued)).collect::<Vec<_>>()
        };
        assert_eq!((ends("c/a.test"), ends("c/b.test")), (vec![(1, 0, 0)], vec![(0, 1, 0)]));
        assert_eq!((statistics.deferrals, statistics.jobs), (1, 4));
        assert!(statistics.agents_started >= 2, "one has died");
    }
}
