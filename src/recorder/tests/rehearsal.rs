//! A recorder beside a simulated scheduler: a second core, which gets the same events.

use super::{START, config, settings};
use crate::{RecordedCore, Recorder};
use std::rc::Rc;
use std::time::Duration;
use zsched_config::Config;
use zsched_core::overrides::{DestinationPattern, Scope};
use zsched_core::{Action, Event, Order, Scheduler, Settings};
use zsched_simulation::disk::{Disk, DiskFaults};
use zsched_simulation::faults::AgentFaults;
use zsched_simulation::hosts::{HostBehaviour, Hosts};
use zsched_simulation::observer::{SimTime, SimulationObserver};
use zsched_simulation::{Delays, Simulation, SimulationSetup};
use zsched_spool::{HashFolder, HashLevel, SpoolName};

/// Configurations that are used alternately.
pub(crate) const CONFIGS: [&str; 3] = [
    "a/*\n\tinterval=1s retries=\"1 4\" skew=1 maxring=3 maxthr=2 overfeed=3 idlemax=20s expiry=10m \
     agent-timeout=1m command=a\nb/*\n\tinterval=3s retries=\"1 1 2\" maxring=2 user=somebody \
     command=\"b $host\"\n*/*\n\tqueueonly\n",
    "a/*\n\tinterval=7s retries=\"2 1\" maxring=5 ageorder command=a\nb/h1\n\tcommand=other\n\
     b/*\n\tuser=somebody command=\"b $host\"\n",
    "*/*\n\tmaxta=4 interval=2s command=all expiry=1m expiry2=1m\n",
];

/// Time that passes before the writer must have written everything.
const MAX_TIME_AHEAD: Duration = Duration::from_secs(5);

/// A simulated scheduler, and the recorder.
pub(super) struct Rehearsal {
    world: Simulation<RecordingObserver>,
    random: fastrand::Rng,
    messages: u64,
    orders: u64,
}

/// Sends the events of the simulated core to a core with a recorder, too.
struct RecordingObserver {
    recorder: Option<Recorder>,
    core: Option<RecordedCore>,
}

impl RecordingObserver {
    fn core(&mut self) -> &mut RecordedCore {
        self.core.as_mut().expect("a scheduler was started")
    }
}

impl SimulationObserver for RecordingObserver {
    fn started(&mut self, at: SimTime, config: &Rc<Config>, settings: &Settings) {
        let (settings, recorder) = (settings.clone(), self.recorder.take());
        self.core = Some(RecordedCore::new(settings, config.clone(), at.wall, recorder));
    }

    fn event_sent(&mut self, at: SimTime, event: &Event<'_>) {
        if let Event::Configured(config) = event {
            return self.core().handle(at.wall, Event::Configured(config.clone()));
        }
        let written = postcard::to_stdvec(event).expect("written");
        self.core().handle(at.wall, postcard::from_bytes(&written).expect("read"));
    }

    fn action_taken(&mut self, _: SimTime, action: &Action) {
        let own = self.core().poll().expect("it decides the same");
        assert_eq!(format!("{own:?}"), format!("{action:?}"));
    }

    fn step_over(&mut self, at: SimTime, _: Option<&Scheduler>, _: &Disk, is_settled: bool) {
        if is_settled {
            self.core().end_turn(at.wall);
        }
    }
}

impl Rehearsal {
    pub(super) fn new(recorder: Recorder, seed: u64) -> Rehearsal {
        let share = 0.03;
        let agent_faults = AgentFaults {
            start_fails: share,
            dies_at_start: share,
            dies: share,
            stops: share,
            stalls: share,
            stall: Duration::from_secs(100),
            reports_others: share,
            repeats: share,
            writes_garbage: share,
            extra_hungry: share,
            resyncs: share,
            silent: share,
            retry_at: share,
            only_deferred: 0.5,
            defers_all: share,
        };
        let setup = SimulationSetup {
            level: HashLevel::Once,
            delays: Delays::usual(),
            agent_faults,
            multi_event_turns: 0.3,
            ..SimulationSetup::new(seed, START, settings(seed))
        };
        let latency = Duration::from_millis(300);
        let usual = HostBehaviour { latency, spread: latency, ..HostBehaviour::default() };
        let hosts = HostBehaviour { defer_rate: 0.2, fail_rate: 0.2, connections: 2, ..usual };
        let observer = RecordingObserver { recorder: Some(recorder), core: None };
        let mut world =
            Simulation::new(setup, Hosts::new(Vec::new(), hosts), config(CONFIGS[0]), observer);
        world.disk.faults = DiskFaults { is_full: false, reads: 0.1, writes: 0.1 };
        world.start();
        let random = fastrand::Rng::with_seed(seed);
        Rehearsal { world, random, messages: 0, orders: 0 }
    }

    /// One random act, and some time.
    pub(super) fn step(&mut self) {
        match self.random.u32(0..100) {
            0..40 => self.submit(),
            40 => self.world.etrn(b"h1"),
            41 => self.world.reload(config(CONFIGS[self.random.usize(0..CONFIGS.len())])),
            42 => self.order(),
            43 => self.pass(60_000),
            _ => {}
        }
        self.pass(400);
        let core = self.world.observer.core();
        core.query().check_invariants();
    }

    pub(super) fn is_paused(&mut self) -> bool {
        self.world.observer.core().is_paused()
    }

    pub(super) fn finish(mut self) {
        let at = self.world.at();
        self.world.observer.core().handle(at.wall, Event::Drain);
        self.world.observer.core().finish(at.wall);
    }

    /// Passes a random time below a limit in milliseconds.
    fn pass(&mut self, limit: u64) {
        let mut time = Duration::from_millis(self.random.u64(0..limit));
        // A slow disk pauses the recording, and virtual time is faster than any disk.
        while !time.is_zero() {
            let part = time.min(MAX_TIME_AHEAD);
            self.world.run_until(self.world.at().now + part);
            self.wait_for_writer();
            time -= part;
        }
    }

    fn wait_for_writer(&mut self) {
        let core = self.world.observer.core();
        let writer = &core.recorder.as_ref().expect("it records").writer;
        while !writer.is_idle() {
            std::thread::yield_now();
        }
    }

    fn submit(&mut self) {
        self.messages += 1;
        let number = self.messages;
        let mut text = format!("i {number}\ns local - sender 0\n");
        for recipient in 0..self.random.u32(1..5) {
            let channel = ["a", "a", "b", "c"][self.random.usize(0..4)];
            let host = self.random.u32(0..6);
            text += &format!("r           {channel} h{host} user{recipient} 0\n");
        }
        text += "m\nSubject: rehearsal\n\n";
        let name = SpoolName::plain(HashFolder::of(number, HashLevel::Once), number);
        self.world.submit(name, text.into_bytes(), true, true);
    }

    fn order(&mut self) {
        self.orders += 1;
        let pattern = DestinationPattern::parse("a/h1").expect("a pattern");
        let scope = Scope::Destinations(pattern);
        let order = match self.random.bool() {
            true => Order::Hold { scope, reason: "a rehearsal".to_string() },
            false => Order::Release(scope),
        };
        self.world.order(self.orders, order);
    }
}
