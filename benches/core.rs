//! Processor time and memory of the core alone: no processes, no files, no clock.
//!
//! ```text
//! cargo bench --bench core -- [--most N] [--rounds N] [--pauses]
//! ```
//!
//! It prints the processor time for each recipient, at several lengths of the queue (the best of
//! some rounds), and the memory of queued mail. It also prints for how long events that concern the
//! whole queue stop delivery; with --pauses it prints only that.
//!
//! All times are processor time, so other programs have no effect.

mod arguments;

use arguments::Arguments;
use cpu_time::ThreadTime;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::overrides::{DestinationPattern, LimitName, Scope};
use zsched_core::select::{Cursor, MailFilter, Selected};
use zsched_core::{Action, AgentId, Event, Order, Scheduler, Settings};
use zsched_format::time::{ClockStep, Timestamp};
use zsched_mailq_server::acl::Peer;
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::events::Subscribers;
use zsched_mailq_server::v2::{Process, RequestCounters, Session, SessionContext};
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

const CONFIGURATION: &str =
    "*/*\n\tmaxta=20 maxring=20 overfeed=150 expiry=3d command=\"discard -c $channel\"\n";
const START: Timestamp = Timestamp::from_seconds(1_795_255_200);
/// Number of messages that arrive together.
const BATCH: u64 = 1000;
/// Number of the first message, which has as many digits as inode numbers.
const FIRST_NUMBER: u64 = 10_000_000;
/// Number of messages in an order, as clients' requests give them.
const MESSAGES_PER_ORDER: usize = 500;
/// Beginning of the first job: the number of the message.
const FIRST_JOB: &[u8] = b"10000000";
/// Length of the parts in which a client's dump is written, in bytes.
const DUMP_STEP: usize = 64 << 10;

/// Counts the bytes in use.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let arguments = Arguments::new();
    let most = arguments.number("--most", 1_000_000);
    if !arguments.has("--pauses") {
        times(most, arguments.number("--rounds", 3));
        memory(most);
    }
    pauses(most);
}

/// Prints the processor time for each recipient.
fn times(most: u64, rounds: u64) {
    println!("µs for each recipient  hosts    queued  handed out  removed   total   to 1,000");
    for hosts in [|_: u64| 100, |messages: u64| messages / 10] {
        let mut shortest = None;
        for messages in [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|n| *n <= most) {
            // Short runs are repeated to be precise.
            let rounds = rounds * (100_000 / messages).max(1);
            let all = (0..rounds).map(|_| Cost::of(messages, hosts(messages)));
            let best = all.min_by_key(Cost::total).expect("there is a round");
            let each = |time: Duration| time.as_secs_f64() * 1e6 / messages as f64;
            let total = each(best.total());
            let ratio = total / *shortest.get_or_insert(total);
            println!(
                "{messages:>21} {:>6}  {:8.2}  {:10.2} {:8.2} {total:7.2}  {ratio:9.2}",
                hosts(messages),
                each(best.queued),
                each(best.handed_out),
                each(best.removed),
            );
        }
    }
}

/// Total processor time of the core.
#[derive(Default)]
struct Cost {
    /// Time to queue messages.
    queued: Duration,
    /// Time to give jobs to agents and to handle their reports.
    handed_out: Duration,
    /// Time to handle removals.
    removed: Duration,
}

impl Cost {
    fn total(&self) -> Duration {
        self.queued + self.handed_out + self.removed
    }

    fn of(messages: u64, hosts: u64) -> Cost {
        let mut world = World::new(false);
        let mut cost = Cost { queued: world.queue(messages, hosts, 1), ..Cost::default() };
        while world.work() {
            cost.handed_out += world.send_lines();
            cost.removed += world.send_removals();
        }
        assert_eq!(world.core.view().totals().messages, 0, "all messages were delivered");
        cost
    }
}

/// A core, and pending events.
struct World {
    core: Scheduler,
    /// Lines of agents.
    lines: Vec<(AgentId, Vec<u8>)>,
    /// Messages that were removed from the spool.
    removals: Vec<u64>,
}

impl World {
    fn new(frozen: bool) -> World {
        World::of(frozen, CONFIGURATION)
    }

    fn of(frozen: bool, configuration: &str) -> World {
        let settings = Settings { frozen, seed: 1, fork_rate: 1000, ..Settings::default() };
        let core = Scheduler::new(settings, config(configuration));
        World { core, lines: Vec::new(), removals: Vec::new() }
    }

    /// Queues messages. Returns the core's processor time.
    fn queue(&mut self, messages: u64, hosts: u64, recipients: u32) -> Duration {
        let mut took = Duration::ZERO;
        for first in (0..messages).step_by(BATCH as usize) {
            let numbers = first..messages.min(first + BATCH);
            let batch: Vec<Arrival> =
                numbers.map(|number| arrival(number, number % hosts, recipients)).collect();
            let started = ThreadTime::now();
            for arrival in batch {
                self.core.handle(START, Event::Arrived(Box::new(arrival)));
            }
            let actions = self.actions();
            took += started.elapsed();
            self.perform(actions);
        }
        took
    }

    fn perform_all(&mut self) {
        let actions = self.actions();
        self.perform(actions);
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.core.poll()).collect()
    }

    /// Returns true if there are pending events.
    fn work(&self) -> bool {
        !self.lines.is_empty() || !self.removals.is_empty()
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::StartAgent { agent, .. } => {
                    let pid = 1000 + agent.0 as u32;
                    self.core.handle(START, Event::AgentStarted { agent, pid });
                    self.lines.push((agent, b"#hungry".to_vec()));
                }
                Action::Feed { agent, job } => {
                    let number = job.split(|byte| *byte == b'\t').next().unwrap_or_default();
                    let answer = b"/107\tn\x01relayed\x012.0.0\x01smtp; 250\tok3 250 OK";
                    self.lines.push((agent, [number, answer].concat()));
                    self.lines.push((agent, b"#hungry".to_vec()));
                }
                Action::SendIdle(agent) => self.lines.push((agent, b"#hungry".to_vec())),
                Action::Remove { name, .. } => self.removals.push(name.number()),
                _ => {}
            }
        }
    }

    fn send_lines(&mut self) -> Duration {
        let lines = std::mem::take(&mut self.lines);
        let started = ThreadTime::now();
        for (agent, line) in &lines {
            self.core.handle(START, Event::AgentSaid { agent: *agent, line });
        }
        self.core.handle(START, Event::Tick);
        let actions = self.actions();
        let took = started.elapsed();
        self.perform(actions);
        took
    }

    fn send_removals(&mut self) -> Duration {
        let removals = std::mem::take(&mut self.removals);
        let started = ThreadTime::now();
        for number in removals {
            self.core.handle(START, Event::Removed { number, outcome: Ok(()) });
        }
        started.elapsed()
    }
}

/// Prints the memory of queued mail.
fn memory(most: u64) {
    println!();
    let few = bytes_queued(most, 100, 1);
    let bytes = few as f64 / most as f64;
    println!("{bytes:8.1} bytes for each of {most} messages with one recipient");
    let threads = most / 10;
    let bytes = (bytes_queued(most, threads, 1) - few) as f64 / threads as f64;
    println!("{bytes:8.1} bytes for each of {threads} threads");
    let (messages, further) = (most / 100, 100);
    let more = bytes_queued(messages, 100, 1 + further) - bytes_queued(messages, 100, 1);
    let bytes = more as f64 / (messages * u64::from(further)) as f64;
    println!("{bytes:8.1} bytes for each further recipient of a vertex");
}

/// Returns the memory of queued messages, in bytes.
fn bytes_queued(messages: u64, hosts: u64, recipients: u32) -> usize {
    let mut world = World::new(true);
    let region = Region::new(ALLOCATOR);
    world.queue(messages, hosts, recipients);
    let change = region.change();
    black_box(&world.core);
    change.bytes_allocated - change.bytes_deallocated
}

/// Prints for how long events that concern the whole queue stop delivery.
fn pauses(most: u64) {
    let threads = most / 10;
    println!("\nms without delivery, with {most} recipients in {threads} threads");
    let mut world = World::new(false);
    world.queue(most, threads, 1);
    // Agents have jobs of some threads.
    world.send_lines();
    world.reload("reload of the same file", CONFIGURATION);
    world.reload("reload of a file with 50 clauses", &fifty_clauses("discard -c $channel"));
    world.reload("reload of another program", &fifty_clauses("discard -x -c $channel"));
    world.reload("reload with a shorter expiry", &shorter_expiry());
    let ring_each = fifty_clauses("discard -c $channel -h $host");
    world.reload("reload that makes a ring for each host", &ring_each);
    world.reload("reload of the same, with a ring for each host", &ring_each);
    world.orders();
    let (_, took) = timed(|| world.core.handle(START, Event::Etrn(b"host7.example")));
    shown("ETRN", took);
    let turns: Vec<String> =
        (0..MESSAGES_PER_ORDER).map(|host| format!("host{host}.example")).collect();
    let (_, took) = timed(|| {
        turns.iter().for_each(|host| world.core.handle(START, Event::Etrn(host.as_bytes())));
    });
    shown(&format!("{MESSAGES_PER_ORDER} control files that ask for hosts"), took);
    world.perform_all();
    let step = ClockStep::Forward(Duration::from_secs(5));
    let later = START + Duration::from_secs(5);
    world.turns_at(later, "the clock is set", Event::ClockSet(step));
    world.dump();
    world.views();
    let (length, took) =
        timed(|| postcard::to_stdvec(&world.core.checkpoint()).expect("it can be written").len());
    shown(&format!("checkpoint ({} MB)", length >> 20), took);
    let mut world = World::new(false);
    world.queue(most, 1, 1);
    world.reload("the same in one thread: reload with a shorter expiry", &shorter_expiry());
    world.host_down("the same");
    let mut world = World::of(false, &CONFIGURATION.replace("command", "slot-cost=5 command"));
    world.queue(most, 1, 1);
    world.host_down("the same with preemption");
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = ThreadTime::now();
    let result = work();
    (result, started.elapsed())
}

fn shown(what: &str, took: Duration) {
    println!("{:8.2}  {what}", took.as_secs_f64() * 1e3);
}

impl World {
    /// Prints the longest turn until a new configuration is applied everywhere.
    fn reload(&mut self, what: &str, text: &str) {
        self.turns(what, Event::Configured(config(text)));
    }

    /// Prints the longest turn that an event takes.
    fn turns(&mut self, what: &str, event: Event<'_>) {
        self.turns_at(START, what, event);
    }

    fn turns_at(&mut self, now: Timestamp, what: &str, event: Event<'_>) {
        let (_, mut longest) = timed(|| self.core.handle(now, event));
        let (mut turns, mut all) = (1, longest);
        let mut actions = self.actions();
        while self.core.next_wakeup().is_some_and(|wakeup| wakeup <= now) {
            let (_, took) = timed(|| self.core.handle(now, Event::Tick));
            longest = longest.max(took);
            all += took;
            turns += 1;
            actions.extend(self.actions());
        }
        self.perform(actions);
        let all = all.as_secs_f64() * 1e3;
        shown(&format!("{what} (longest of {turns} turns, {all:.0} ms in all)"), longest);
    }

    /// Prints for how long orders stop delivery: orders for all mail, then a batch about messages.
    fn orders(&mut self) {
        let everything =
            || Scope::Destinations(DestinationPattern::parse("*/*").expect("a pattern"));
        let hold = |scope| Order::Hold { scope, reason: String::new() };
        self.order("HOLD of everything", hold(everything()));
        self.order("RELEASE of everything", Order::Release(everything()));
        for number in 1..100 {
            let pattern = DestinationPattern::parse(&format!("smtp/*.special{number}.example"));
            let order = hold(Scope::Destinations(pattern.expect("a pattern")));
            self.core.handle(START, Event::Ordered { ticket: 1, by: "bench".into(), order });
            while self.core.next_wakeup().is_some_and(|wakeup| wakeup <= START) {
                self.core.handle(START, Event::Tick);
            }
        }
        self.order("HOLD of everything, the hundredth hold", hold(everything()));
        self.order("RELEASE ALL", Order::ReleaseAll);
        let (scope, limit) = (Scope::Ring("*/*".to_string()), LimitName::MaxRing);
        self.order("SET", Order::Set { scope, limit, value: 5, until: None });
        let mut cursor = Cursor::default();
        let (selector, mut longest) = (MailFilter::default(), Duration::ZERO);
        let mut batches: Vec<Vec<Selected>> = Vec::new();
        while !cursor.is_over() {
            let (found, took) =
                timed(|| self.core.view().select(&selector, &mut cursor, MESSAGES_PER_ORDER));
            longest = longest.max(took);
            if batches.len() < 4 {
                batches.push(found);
            }
        }
        shown(&format!("a search (longest of all steps of {MESSAGES_PER_ORDER})"), longest);
        let messages = |batch: &[Selected]| batch.iter().map(|found| found.id).collect::<Vec<_>>();
        let targets =
            |batch: &[Selected]| batch.iter().map(|f| f.target.clone()).collect::<Vec<_>>();
        let held = messages(&batches[0]);
        let order = Order::HoldMessages { messages: held.clone(), reason: String::new() };
        self.order(&format!("HOLD of {MESSAGES_PER_ORDER} messages"), order);
        self.order("RELEASE of them", Order::ReleaseMessages(held));
        // Fewer messages than four orders need.
        if batches.len() < 4 {
            return;
        }
        self.order(
            &format!("RETRY of {MESSAGES_PER_ORDER} messages"),
            Order::Retry(targets(&batches[1])),
        );
        self.order("EXPIRE of as many", Order::Expire(targets(&batches[2])));
        self.order("DELETE of as many", Order::Delete(targets(&batches[3])));
    }

    /// Prints for how long delivery stops when the only host is down.
    ///
    /// The second line is for the time when it is tried again.
    fn host_down(&mut self, whose: &str) {
        self.send_lines();
        let job = self.lines.iter().find(|(_, line)| line.starts_with(FIRST_JOB));
        let (agent, line) = job.expect("an agent has the first job").clone();
        let mark = line.iter().position(|byte| *byte == b'\t').expect("a mark behind the offset");
        let line = [&line[..mark], b"\t\tdeferall 421 too many connections"].concat();
        self.turns(&format!("{whose}: deferall"), Event::AgentSaid { agent, line: &line });
        let wakeup = self.core.next_wakeup().expect("it is tried again");
        self.turns_at(wakeup, &format!("{whose}: the next try"), Event::Tick);
    }

    fn order(&mut self, what: &str, order: Order) {
        self.turns(what, Event::Ordered { ticket: 1, by: "bench".to_string(), order });
    }

    /// Prints the longest step of a dump, written as a client reads it.
    fn dump(&self) {
        let mut dump = Dump::new(START, true);
        let (mut longest, mut steps) = (Duration::ZERO, 0);
        while !dump.is_over() {
            let mut out = Vec::new();
            let (_, took) = timed(|| dump.write(&self.core, START, &mut out, DUMP_STEP));
            longest = longest.max(took);
            steps += 1;
        }
        shown(&format!("MAILQ version 1 (longest of {steps} steps)"), longest);
    }
}

impl World {
    /// Prints the longest step of each view, written as a client reads it.
    fn views(&self) {
        for request in [
            "SHOW SNMP",
            "SHOW JSON SUMMARY",
            "SHOW JSON THREADS",
            "SHOW JSON THREADS sort=backlog limit=10",
            "SHOW JSON THREADS sort=undelivered limit=10",
            "SHOW JSON THREADS sort=oldest limit=10",
            "SHOW JSON THREADS */host7.*",
            "SHOW JSON RINGS",
            "SHOW JSON MESSAGES */*",
            "SHOW JSON MESSAGES */host7.example",
        ] {
            let (steps, longest, all) = self.view(request);
            let all = all.as_secs_f64() * 1e3;
            shown(&format!("{request} (longest of {steps} steps, {all:.0} ms in all)"), longest);
        }
    }

    fn view(&self, request: &str) -> (usize, Duration, Duration) {
        let (mut session, _) = Session::privileged(Peer::Local(Some(0)), "root");
        session.push_input(format!("{request}\n").as_bytes());
        let (mut request_counters, mut log_lines, watch) =
            (RequestCounters::default(), Vec::new(), Subscribers::default());
        let (mut steps, mut longest, mut all) = (0, Duration::ZERO, Duration::ZERO);
        while steps == 0 || session.is_answering() {
            let mut around = SessionContext {
                scheduler: &self.core,
                now: START,
                process: Process {
                    started: START,
                    pid: 1,
                    is_loading: false,
                    clock_step: None,
                    longest_loop_turn: Duration::ZERO,
                    set_log_level: None,
                },
                backlog: &(),
                accounts: &mut Rc::default,
                secret: &[0; 32],
                subscribers: &watch,
                request_counters: &mut request_counters,
                log_lines: &mut log_lines,
            };
            let mut out = Vec::new();
            let (_, took) = timed(|| session.proceed(&mut around, &mut out, DUMP_STEP));
            longest = longest.max(took);
            all += took;
            steps += 1;
        }
        (steps, longest, all)
    }
}

/// Returns clauses for other hosts, with one for everything at the end.
fn fifty_clauses(command: &str) -> String {
    let special = |n| format!("smtp/*.special{n}.example\n\tmaxring=2 expiry=2d\n");
    let rest = format!("*/*\n\tmaxta=20 maxring=20 overfeed=150 expiry=3d command=\"{command}\"\n");
    (1..50).map(special).chain([rest]).collect()
}

fn shorter_expiry() -> String {
    CONFIGURATION.replace("expiry=3d", "expiry=2d")
}

fn config(text: &str) -> Rc<Config> {
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    Rc::new(loaded.expect("a good configuration").config)
}

fn arrival(number: u64, host: u64, recipients: u32) -> Arrival {
    let name = (FIRST_NUMBER + number).to_string();
    let host = format!("host{host}.example").into_bytes().into();
    let offsets = (0..recipients).map(|n| 107 + 60 * n).collect();
    let name = SpoolName::new(HashFolder::TOP, name.as_bytes()).expect("a name");
    let groups = vec![Group { channel: b"smtp".as_slice().into(), host, offsets }];
    let (modified, created) = (START - Duration::from_millis(3), START - Duration::from_millis(1));
    Arrival::of_groups(name, modified, created, groups)
}
