//! The scheduler's core in the place of the recorded scheduler.
//!
//! The core gets the recorded agent's lines at their recorded times. Its output must be equal to
//! that of the recorded scheduler.
//!
//! ZMailer's scheduler begins with random threads, and plans wake-ups in another way, so the
//! recording determines what is due. A *run* is a series of jobs for one thread. When it begins,
//! the core has exactly its jobs, in their order: those that wait for a retry become due
//! (`Event::Etrn`), others arrive. Mail that ZMailer cannot have had at that time arrives later:
//! after the first job, bursts contain everything that is due.

use crate::control_files::recorded_groups;
use crate::core_world::arrival;
use crate::recording::{Answer, End, Job, Session, Step, StepKind};
use crate::support::{START, spool_name};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_core::{Action, AgentEnd, AgentId, Event, RereadResult};
use zsched_format::agent_protocol::AgentLine as Line;
use zsched_format::control_file::Tag;
use zsched_spool::{Arrival, Group, Offsets, SpoolName};

/// The first output that differs from the recording, and its time.
type Difference = String;

/// Settings that the recording does not contain.
#[derive(Clone, Copy)]
pub struct SessionSettings {
    /// `overfeed` of the clause.
    pub overfeed: u32,
    /// Further keywords of the clause.
    pub keywords: &'static str,
    /// Time from the arrival of the mail to the start of the session.
    pub age: Duration,
    /// All mail is past its expiry: recipients that remain after their only try expire.
    pub is_last_chance: bool,
}

/// Replays a session. The error is the first difference.
pub fn replay(session: &Session, circumstances: SessionSettings) -> Result<(), Difference> {
    let mut replay = Replay::new(session, circumstances);
    replay.load_what_is_there_at_first();
    replay.play()?;
    replay.end()
}

/// The recipients of a message for one host.
type Key = (u64, String);

struct Vertex {
    name: SpoolName,
    /// Offsets of the recipients that are not finished.
    pending: BTreeSet<u32>,
    /// The core has loaded it.
    is_loaded: bool,
}

/// A series of jobs for one thread.
struct Run {
    host: String,
    /// Index of its first step.
    first_step: usize,
    /// The mail that ZMailer had when it began.
    known: Vec<Key>,
    /// It is the first run of its thread.
    is_first: bool,
}

struct Replay<'s> {
    session: &'s Session,
    circumstances: SessionSettings,
    world: World,
    vertices: BTreeMap<Key, Vertex>,
    runs: Vec<Run>,
    /// The messages that were loaded at the start, in this order.
    at_first: Vec<u64>,
    told: String,
}

impl<'s> Replay<'s> {
    fn new(session: &'s Session, circumstances: SessionSettings) -> Replay<'s> {
        let mut replay = Replay {
            session,
            circumstances,
            world: World::with_disk(&clause(session, circumstances)),
            vertices: BTreeMap::new(),
            runs: Vec::new(),
            at_first: Vec::new(),
            told: String::new(),
        };
        replay.find_vertices();
        replay.find_runs();
        replay
    }

    fn key(&self, job: &Job) -> Key {
        let host = job.host().or(self.session.host.as_deref()).expect("line or command name it");
        (spool_name(job.path()).number(), host.to_string())
    }

    fn job_steps(&self) -> impl Iterator<Item = (usize, &'s [Job])> + use<'s> {
        self.session.steps.iter().enumerate().filter_map(|(index, step)| match &step.what {
            StepKind::Jobs(jobs) => Some((index, &jobs[..])),
            _ => None,
        })
    }

    /// Finds the recipients of each vertex: those that the agent reports about.
    ///
    /// Without reports, they are those of the control file.
    fn find_vertices(&mut self) {
        for job in self.job_steps().flat_map(|(_, jobs)| jobs) {
            let key = self.key(job);
            let name = spool_name(job.path());
            let vertex = self.vertices.entry(key).or_insert_with(|| Vertex {
                name,
                pending: BTreeSet::new(),
                is_loaded: false,
            });
            let offsets = job.answers.iter().filter_map(|answer| match Line::parse(&answer.line) {
                Line::Report(report) => Some(report.offset),
                _ => None,
            });
            vertex.pending.extend(offsets);
        }
        for ((number, host), vertex) in &mut self.vertices {
            if vertex.pending.is_empty() {
                let recorded = recorded_groups(*number, &self.session.channel, host);
                vertex.pending =
                    recorded.unwrap_or(Offsets::from_slice(&[1])).into_iter().collect();
            }
        }
    }

    fn find_runs(&mut self) {
        let mut runs: Vec<(usize, Vec<Vec<Key>>)> = Vec::new();
        let mut last_step = None;
        for (step, jobs) in self.job_steps() {
            let keys: Vec<Key> = jobs.iter().map(|job| self.key(job)).collect();
            let goes_on = last_step.is_some_and(|last| last + 1 == step)
                && runs.last().is_some_and(|(_, bursts)| {
                    let in_run = bursts.concat();
                    in_run[0].1 == keys[0].1 && !keys.iter().any(|key| in_run.contains(key))
                });
            match runs.last_mut().filter(|_| goes_on) {
                Some((_, bursts)) => bursts.push(keys),
                None => runs.push((step, vec![keys])),
            }
            last_step = Some(step);
        }
        let mut hosts = BTreeSet::new();
        self.runs = runs
            .into_iter()
            .map(|(first_step, bursts)| {
                let host = bursts[0][0].1.clone();
                let known = known_at_first(&bursts, self.circumstances.overfeed as usize + 1);
                let is_first = hosts.insert(host.clone());
                Run { host, first_step, known, is_first }
            })
            .collect();
    }

    /// Loads the messages that the first runs of their threads need, as a whole.
    ///
    /// They wait, because no agent can be started. Each thread becomes due when its run begins.
    fn load_what_is_there_at_first(&mut self) {
        let mut loaded: BTreeSet<u64> = self.vertices.keys().map(|(number, _)| *number).collect();
        let known_first = |host: &str| {
            let first = self.runs.iter().find(|run| run.is_first && run.host == host);
            &first.expect("each thread has a first run").known
        };
        let mut count = usize::MAX;
        while count > loaded.len() {
            count = loaded.len();
            for (number, host) in self.vertices.keys() {
                let known = known_first(host);
                let is_known = known.contains(&(*number, host.clone()));
                if !is_known || known.iter().any(|(number, _)| !loaded.contains(number)) {
                    loaded.remove(number);
                }
            }
        }
        self.at_first = self.order(loaded);
        self.world.cannot_start_agents = true;
        for number in self.at_first.clone() {
            let of_message = self.vertices.keys().filter(|(other, _)| *other == number);
            self.arrive(of_message.cloned().collect());
        }
        self.world.cannot_start_agents = false;
    }

    /// Returns an order of messages that agrees with all first runs.
    fn order(&self, mut left: BTreeSet<u64>) -> Vec<u64> {
        let mut ordered = Vec::new();
        while !left.is_empty() {
            let comes_first = |number: &&u64| {
                let runs = self.runs.iter().filter(|run| run.is_first);
                runs.map(|run| run.known.iter().map(|(number, _)| number)).all(|mut known| {
                    !known.clone().any(|other| other == *number)
                        || known.find(|other| left.contains(other)) == Some(*number)
                })
            };
            let next = left.iter().find(comes_first).or(left.first()).copied();
            let next = next.expect("there is one left");
            left.remove(&next);
            ordered.push(next);
        }
        ordered
    }

    fn play(&mut self) -> Result<(), Difference> {
        // Due mail makes the core start the agent.
        self.prepare(0);
        let start = Answer { at: self.session.first_hungry, line: b"#hungry".to_vec() };
        self.answer_quietly(&start)?;
        for (index, step) in self.session.steps.iter().enumerate() {
            self.expect(&step.text())?;
            match &step.what {
                StepKind::Jobs(jobs) => self.answer(index, jobs)?,
                StepKind::Idle { hungry: Some(at) } => self.idle(index, *at)?,
                StepKind::Idle { hungry: None } | StepKind::EndLines(_) => {}
            }
        }
        self.expect("")?;
        assert_eq!(self.told.as_bytes(), self.session.told, "{}", self.session.name);
        Ok(())
    }

    /// Sends the agent's answers to the jobs of a step. The last answer triggers the next step.
    fn answer(&mut self, step: usize, jobs: &[Job]) -> Result<(), Difference> {
        let answers: Vec<&Answer> = jobs.iter().flat_map(|job| &job.answers).collect();
        let is_over = jobs.iter().all(Job::is_over);
        for (index, answer) in answers.iter().enumerate() {
            if is_over && index + 1 == answers.len() {
                self.world.pass_to(answer.at);
                self.prepare(step + 1);
                self.answer_quietly(answer)?;
            } else {
                self.answer_quietly(answer)?;
                self.expect("")?;
            }
        }
        Ok(())
    }

    /// Sends the agent's answer to `#idle`. The next step comes without an answer.
    fn idle(&mut self, step: usize, hungry: Duration) -> Result<(), Difference> {
        self.answer_quietly(&Answer { at: hungry, line: b"#hungry".to_vec() })?;
        self.expect("")?;
        let Some(next) = self.session.steps.get(step + 1) else {
            return Ok(());
        };
        if next.is_for_idleness() {
            // The limit is in whole seconds.
            self.world.pass_to(next.at.saturating_sub(Duration::from_secs(1)));
            self.expect("")?;
            self.world.pass_to(next.at);
            return Ok(());
        }
        self.world.pass_to(next.at);
        self.expect("")?;
        match next.what {
            StepKind::EndLines(_) => self.send_to_core(Event::Drain),
            _ => self.prepare(step + 1),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Difference> {
        let end = match self.session.end {
            End::Exited(status) => AgentEnd::Exited(status),
            End::Signalled(signal) => AgentEnd::Signalled(signal),
            End::SchedulerGone | End::Open => {
                self.compare_what_is_left();
                return Ok(());
            }
        };
        self.world.dies(self.agent(), end);
        self.compare_what_is_left();
        assert!(self.world.agents.is_empty(), "{}: a new agent for nothing", self.session.name);
        let Some(Step { what: StepKind::Jobs(jobs), .. }) = self.session.steps.last() else {
            return Ok(());
        };
        // The agent died during a job. That waits, and the next agent gets it.
        let job = jobs.iter().find(|job| !job.is_over()).expect("its death was no answer");
        let (_, host) = self.key(job);
        self.send_to_core(Event::Etrn(host.as_bytes()));
        self.world.agent_writes(self.agent(), b"#hungry");
        self.expect(&format!("{}\n", job.line))
    }

    /// Checks that the core's remaining recipients are those without a final report.
    fn compare_what_is_left(&mut self) {
        let of_core = |number: u64| {
            let core = &self.world.core;
            let vertices =
                core.view().message(number).into_iter().flat_map(|m| core.view().vertices_of(m));
            let left = vertices.map(|queued| {
                let host = queued.thread.destination.host().to_vec();
                let offsets = queued.vertex.pending_offsets().into_iter();
                (
                    (number, String::from_utf8(host).expect("text")),
                    offsets.collect::<BTreeSet<u32>>(),
                )
            });
            left.collect::<Vec<_>>()
        };
        let numbers: BTreeSet<u64> = self.vertices.keys().map(|(number, _)| *number).collect();
        let left: Vec<_> = numbers.into_iter().flat_map(of_core).collect();
        let loaded = self.vertices.iter().filter(|(_, vertex)| vertex.is_loaded);
        let mut expected: BTreeMap<_, _> =
            loaded.map(|(key, vertex)| (key.clone(), vertex.pending.clone())).collect();
        if self.circumstances.is_last_chance {
            expected.clear();
        }
        assert_eq!(left.into_iter().collect::<BTreeMap<_, _>>(), expected, "{}", self.session.name);
    }

    /// Loads the mail that a step needs.
    fn prepare(&mut self, step: usize) {
        let Some(StepKind::Jobs(jobs)) = self.session.steps.get(step).map(|step| &step.what) else {
            return;
        };
        match self.runs.iter().position(|run| run.first_step == step) {
            Some(run) => self.begin_run(run),
            None => {
                let keys: Vec<Key> = jobs.iter().map(|job| self.key(job)).collect();
                keys.into_iter().for_each(|key| self.load(key));
            }
        }
    }

    fn begin_run(&mut self, run: usize) {
        let Run { host, known, is_first, .. } = &self.runs[run];
        let (host, known) = (host.clone(), known.clone());
        let in_order: Vec<Key> = self.at_first.iter().map(|n| (*n, host.clone())).collect();
        let in_order: Vec<&Key> = in_order.iter().filter(|key| known.contains(key)).collect();
        let waiting: Vec<Key> = self
            .vertices
            .iter()
            .filter(|((_, other), vertex)| *other == host && vertex.is_loaded)
            .map(|(key, _)| key.clone())
            .collect();
        let is_ordered = (*is_first && in_order.into_iter().eq(&known)) || known.len() == 1;
        let is_all = waiting.len() == known.len() && waiting.iter().all(|key| known.contains(key));
        if is_all && is_ordered {
            self.send_to_core(Event::Etrn(host.as_bytes()));
            return;
        }
        // ZMailer shuffles the waiting mail of a thread; here it gets the recorded order.
        waiting.iter().for_each(|(number, _)| self.forget(*number));
        known.into_iter().for_each(|key| self.load(key));
    }

    /// Loads a vertex unless the core has it.
    fn load(&mut self, key: Key) {
        if !self.vertices[&key].is_loaded {
            self.forget(key.0);
            self.arrive(vec![key]);
        }
    }

    /// Makes the core drop a message.
    fn forget(&mut self, number: u64) {
        let mut was_loaded = false;
        for ((other, _), vertex) in &mut self.vertices {
            if *other == number {
                was_loaded |= std::mem::take(&mut vertex.is_loaded);
            }
        }
        if was_loaded {
            self.world.handle(Event::ChangedOnDisk { number });
            self.world.take_done(requested_read).expect("the core asks");
            self.send_to_core(Event::ReadAgain { number, outcome: RereadResult::Gone });
        }
    }

    /// Makes vertices of one message arrive.
    fn arrive(&mut self, keys: Vec<Key>) {
        let arrival = self.arrival(&keys);
        for key in keys {
            self.vertices.get_mut(&key).expect("it was found before").is_loaded = true;
        }
        self.send_to_core(Event::Arrived(Box::new(arrival)));
    }

    fn arrival(&self, keys: &[Key]) -> Arrival {
        let groups: Vec<Group> = keys
            .iter()
            .map(|key| Group {
                channel: self.session.channel.as_bytes().into(),
                host: key.1.as_bytes().into(),
                offsets: self.vertices[key].pending.iter().rev().copied().collect(),
            })
            .collect();
        let (modified, name) =
            (START - self.circumstances.age, self.vertices[&keys[0]].name.clone());
        Arrival { name, ..arrival(keys[0].0, groups, modified, START) }
    }

    /// Sends a line of the agent, and checks that the core wrote nothing before.
    fn answer_quietly(&mut self, answer: &Answer) -> Result<(), Difference> {
        self.world.pass_to(answer.at);
        self.expect("")?;
        if let Line::Report(report) = Line::parse(&answer.line) {
            let is_final = report.status.tag() != Tag::Pending;
            for ((number, _), vertex) in &mut self.vertices {
                if is_final && *number == report.number && vertex.pending.remove(&report.offset) {
                    vertex.is_loaded &= !vertex.pending.is_empty();
                }
            }
        }
        self.send_to_core(Event::AgentSaid { agent: self.agent(), line: &answer.line });
        Ok(())
    }

    /// Returns the only agent.
    fn agent(&self) -> AgentId {
        let agents: Vec<(&AgentId, &str)> =
            self.world.agents.iter().map(|(agent, told)| (agent, told.channel.as_str())).collect();
        let [(agent, channel)] = agents[..] else { panic!("{}: {agents:?}", self.session.name) };
        assert_eq!(channel, self.session.channel);
        *agent
    }

    /// Sends an event. If the core reads a control file again, that has the remaining recipients.
    fn send_to_core(&mut self, event: Event<'_>) {
        self.world.handle(event);
        while let Some(name) = self.world.take_done(requested_read) {
            let number = name.number();
            let loaded = self.vertices.iter().filter(|(key, _)| key.0 == number);
            let loaded = loaded.filter(|(_, vertex)| vertex.is_loaded);
            let keys: Vec<Key> = loaded.map(|(key, _)| key.clone()).collect();
            let outcome = RereadResult::Read(Box::new(self.arrival(&keys)));
            self.world.handle(Event::ReadAgain { number, outcome });
        }
    }

    /// Compares the core's output since the last call.
    fn expect(&mut self, expected: &str) -> Result<(), Difference> {
        let told = self.world.take_input(self.agent());
        if told != expected {
            let since = self.world.now.since(START).as_secs_f64();
            return Err(format!("at {since:.4}: {told:?} instead of {expected:?}"));
        }
        self.told.push_str(&told);
        Ok(())
    }
}

/// Returns a session's clause: one agent, and no timer but that of idle agents.
fn clause(session: &Session, circumstances: SessionSettings) -> String {
    let host = if session.host.is_some() { " $host" } else { "" };
    let idle = |is_last: bool| {
        let times = idle_times(session).filter(|(_, next)| next.is_for_idleness() == is_last);
        times.map(|(idle, _)| idle.as_secs()).max()
    };
    assert!(idle(true).is_none_or(|last| Some(last) > idle(false)), "{}", session.name);
    let idle_max = idle(true).map_or("30d".to_string(), |seconds| format!("{seconds}s"));
    let SessionSettings { overfeed, keywords, .. } = circumstances;
    format!(
        "{}/*\n\tmaxring=1 overfeed={overfeed} interval=30d retries=1 {keywords}\n\
         \tidlemax={idle_max} agent-timeout=30d command=\"agent{host}\"\n",
        session.channel
    )
}

/// Returns the agent's idle times, each with the step that followed.
fn idle_times(session: &Session) -> impl Iterator<Item = (Duration, &Step)> {
    session.steps.windows(2).filter_map(|pair| match pair[0].what {
        StepKind::Idle { hungry: Some(hungry) } => Some((pair[1].at - hungry, &pair[1])),
        _ => None,
    })
}

/// Returns the mail that ZMailer had at the beginning of a run, given its bursts.
///
/// It is the first job, which is always alone, the next burst, and each burst that follows one of
/// maximum length.
fn known_at_first(bursts: &[Vec<Key>], longest: usize) -> Vec<Key> {
    let mut known = bursts[0].clone();
    for (index, burst) in bursts.iter().enumerate().skip(1) {
        if index > 1 && bursts[index - 1].len() < longest {
            break;
        }
        known.extend_from_slice(burst);
    }
    known
}

/// The control file that the core asks for.
fn requested_read(action: &Action) -> Option<SpoolName> {
    match action {
        Action::ReadAgain(name) => Some(name.clone()),
        _ => None,
    }
}
