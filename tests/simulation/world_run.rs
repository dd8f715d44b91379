//! The life of one world: mail and all kinds of failures, then a recovery without failures.

use crate::operator;
use crate::oracle::{Oracle, Totals};
use crate::trace::Trace;
use crate::world::{self, HOSTS, ON_REQUEST, START};
use fastrand::Rng;
use std::rc::Rc;
use std::time::Duration;
use zsched_core::{Order, Scheduler};
use zsched_format::time::ClockStep;
use zsched_simulation::Simulation;
use zsched_simulation::disk::DiskFaults;
use zsched_simulation::faults::AgentFaults;
use zsched_spool::{HashLevel, SpoolName};

/// How much happens in a world.
#[derive(Clone, Copy)]
pub struct WorldSize {
    /// Number of actions: mail, kills, reloads, faults, orders.
    pub actions: usize,
    /// Maximum number of messages that arrive at once.
    pub burst: usize,
    /// Number of steps between two full checks of the core.
    pub look_every: u64,
    /// Seconds after the last failure within which all mail must leave.
    ///
    /// They cover the longest retry, an agent that stalls and is killed, and a file that is read
    /// again. In large worlds they also cover one slow agent that delivers everything.
    pub recovery: u64,
}

struct WorldRun {
    world: Simulation<Oracle>,
    random: Rng,
    /// Level of letter folders in the spool.
    level: HashLevel,
    size: WorldSize,
    next_number: u64,
    next_ticket: u64,
    next_job: u32,
    /// Numbers of former messages, which may be used again.
    used: Vec<u64>,
    /// Total time by which the wall clock was set back; earlier plans may be late by as much.
    set_back: Duration,
    /// The part of the configuration that limits memory.
    memory: String,
}

/// Runs the world of a seed.
pub fn live(seed: u64, size: WorldSize, trace: &Rc<Trace>) -> Totals {
    let mut random = Rng::with_seed(seed);
    let setup = world::setup(seed, &mut random);
    let memory = world::memory(&mut random);
    let config = world::config(&memory, &mut random);
    let hosts = world::hosts(&mut random);
    let mut oracle = Oracle::new(trace.clone(), config.clone(), seed);
    oracle.look_every = size.look_every;
    let level = setup.level;
    let world = Simulation::new(setup, hosts, config, oracle);
    let set_back = Duration::ZERO;
    let mut life = WorldRun {
        world,
        random,
        level,
        size,
        next_number: 1,
        next_ticket: 0,
        next_job: 0,
        used: Vec::new(),
        set_back,
        memory,
    };
    life.submit_mail();
    life.start_scheduler();
    for _ in 0..size.actions {
        life.pass_time();
        life.act_at_random();
    }
    life.recover();
    std::mem::take(&mut life.world.observer.totals)
}

impl WorldRun {
    fn pass_time(&mut self) {
        let pause = match self.random.u8(0..20) {
            0 => Duration::from_secs(self.random.u64(0..5000)),
            1..=4 => {
                // The next action comes in the middle of other work.
                let steps = self.random.u32(0..200);
                let far = self.world.at().now + Duration::from_secs(3600);
                let goes_on = |_: &u32| self.world.step(far);
                (0..steps).take_while(goes_on).for_each(drop);
                Duration::ZERO
            }
            5..=9 => Duration::from_secs(self.random.u64(0..120)),
            _ => Duration::from_millis(self.random.u64(0..3000)),
        };
        self.world.run_until(self.world.at().now + pause);
        if self.world.core().is_none() && self.random.u8(0..4) > 0 {
            self.start_scheduler();
        }
    }

    fn start_scheduler(&mut self) {
        self.world.setup.settings = world::settings(&mut self.random);
        self.world.start();
    }

    /// Returns true if the running scheduler has options that hold back mail.
    fn is_restricted(&self) -> bool {
        let settings = self.world.core().map(|core| core.view().settings());
        settings.is_some_and(|settings| settings.frozen || settings.selection.is_some())
    }

    fn act_at_random(&mut self) {
        let seconds = |random: &mut Rng, most: u64| Duration::from_secs(random.u64(0..most));
        if self.is_restricted() && self.random.u8(0..5) == 0 {
            // Such options are used for a short time only.
            self.world.kill();
            return self.start_scheduler();
        }
        match self.random.u8(0..49) {
            0..=15 => self.submit_mail(),
            16 => self.world.kill(),
            17..=19 => self.world.kill_after(self.random.u32(0..300)),
            20..=22 => {
                if self.random.u8(0..8) == 0 {
                    self.memory = world::memory(&mut self.random);
                }
                self.world.reload(world::config(&self.memory, &mut self.random));
            }
            23 => self.world.drain(),
            24..=26 => self.world.etrn(HOSTS[self.random.usize(0..HOSTS.len())].as_bytes()),
            27 => self.world.set_clock(ClockStep::Forward(seconds(&mut self.random, 4000))),
            28 => {
                let by = seconds(&mut self.random, 4000);
                self.set_back += by;
                self.world.set_clock(ClockStep::Back(by));
            }
            29..=31 => {
                let part = |random: &mut Rng| if random.bool() { 0.0 } else { random.f64() * 0.5 };
                self.world.disk.faults = DiskFaults {
                    is_full: self.random.u8(0..3) == 0,
                    reads: part(&mut self.random),
                    writes: part(&mut self.random),
                };
            }
            32 | 33 => self.world.disk.faults = DiskFaults::default(),
            34 => self.world.kill_agents(),
            35 => self.delete_a_file(),
            36 | 37 => self.world.kill_during_write_or_report(),
            40..=45 => self.give_random_order(),
            46..=48 => self.submit_job(),
            _ => self.change_agent_faults(),
        }
    }

    fn change_agent_faults(&mut self) {
        let faults = world::faults(&mut self.random);
        self.world.observer.jobs.are_reports_repeated |= faults.repeats > 0.0;
        self.world.setup.agent_faults = faults;
    }

    fn give_random_order(&mut self) {
        let wall = self.world.at().wall;
        if let Some(core) = self.world.core() {
            let order = operator::order(&mut self.random, core, wall);
            self.give_order(order);
        }
    }

    fn give_order(&mut self, order: Order) {
        self.next_ticket += 1;
        self.world.order(self.next_ticket, order);
    }

    fn submit_mail(&mut self) {
        for _ in 0..self.random.usize(1..=self.size.burst) {
            let number = self.free_number();
            let (text, is_good) = world::mail(number, &mut self.random);
            let has_message = self.random.u8(0..100) > 0;
            let notice = self.random.u8(0..4) > 0;
            let folder = world::folder(number, self.level, &mut self.random);
            self.world.submit(SpoolName::plain(folder, number), text, has_message, notice);
            self.world.observer.submitted_as(number, is_good && has_message);
            self.used.push(number);
        }
    }

    fn submit_job(&mut self) {
        self.next_job += 1;
        let wall = self.world.at().wall;
        let (id, files) = world::job(self.next_job, wall, &mut self.random);
        let notice = self.random.u8(0..4) > 0;
        self.world.submit_job(id, files, notice);
    }

    /// Returns a number for a new message. File systems use inode numbers again, and so does this.
    fn free_number(&mut self) -> u64 {
        if !self.used.is_empty() && self.random.u8(0..4) == 0 {
            let index = self.random.usize(0..self.used.len());
            if self.world.disk.is_free(self.used[index]) {
                return self.used.swap_remove(index);
            }
        }
        self.next_number += 1;
        self.next_number
    }

    fn delete_a_file(&mut self) {
        let numbers: Vec<u64> = self.world.disk.names().map(|name| name.number()).collect();
        if !numbers.is_empty() {
            let number = numbers[self.random.usize(0..numbers.len())];
            self.world.observer.record_loss(number);
            self.world.disk.delete_message(number);
            // A scheduler that missed the deletion would take the next file of this number for the
            // old one.
            self.used.retain(|used| *used != number);
        }
    }

    /// Ends all failures and checks that all mail leaves.
    fn recover(&mut self) {
        self.world.setup.agent_faults = AgentFaults::default();
        self.world.disk.faults = DiskFaults::default();
        self.world.hosts.end_faults();
        self.world.setup.settings = world::open_settings(&mut self.random);
        if self.is_restricted() {
            self.world.kill();
        }
        self.world.start();
        let recovery = Duration::from_secs(self.size.recovery);
        let end = self.world.at().now + recovery + self.set_back;
        while self.world.at().now < end && !self.is_over() {
            // Mail that is tried on request only needs a request; all other mail must leave without
            // one.
            self.world.etrn(ON_REQUEST.as_bytes());
            self.world.start();
            // A scheduler that was about to end may not have stored earlier orders of this kind.
            for order in self.world.core().map_or(Vec::new(), operator::undo) {
                self.give_order(order);
            }
            let wall = self.world.at().wall;
            let orders =
                self.world.core().map(|core| operator::go_on(core, wall, &mut self.random));
            orders.into_iter().flatten().for_each(|order| self.give_order(order));
            self.world.run_until(self.world.at().now + Duration::from_secs(300));
        }
        let left = self.world.observer.unresolved();
        let hours = end.since(START).as_secs() / 3600;
        let why = self
            .world
            .core()
            .zip(left.first())
            .map(|(core, number)| core.view().why_message(*number));
        assert!(left.is_empty(), "after {hours} h there still are messages {left:?}: {why:?}");
        let jobs = self.world.observer.jobs.unfinished();
        let states = self.world.core().into_iter().flat_map(|core| core.view().bulk_jobs());
        let states: Vec<_> = states.map(|job| (job.state(end), job.totals())).collect();
        assert!(jobs.is_empty(), "after {hours} h there still are jobs {jobs:?}: {states:?}");
        self.world.observer.operators.check_all_answered();
        let core = self.world.core().expect("it is no longer killed");
        let totals = core.view().totals();
        assert_eq!((totals.messages, totals.threads), (0, 0), "the core still has mail");
        assert_eq!(self.world.disk.orphans(), 0, "message files without control files");
    }

    fn is_over(&self) -> bool {
        // A finished message may still have an agent that has not asked for more work.
        let is_empty = |core: &Scheduler| {
            let totals = core.view().totals();
            (totals.messages, totals.threads) == (0, 0)
        };
        let observer = &self.world.observer;
        let is_done = observer.unresolved().is_empty()
            && observer.jobs.unfinished().is_empty()
            && observer.operators.all_answered();
        is_done && self.world.core().is_some_and(is_empty)
    }
}
