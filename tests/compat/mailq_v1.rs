//! The queue that MAILQ version 1 shows. Tests reproduce the states behind recorded dumps, and our
//! dump has to be equal, except for a list of differences.

use crate::core_world::arrival;
use crate::mailq_lines::{check_dump, dump};
use crate::recording::{Answer, End, StepKind, run};
use crate::support::{START, data, files_under, spool_name};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::Duration;
use zsched_core::{AgentEnd, AgentId, Event, Settings};
use zsched_format::control_file::parse;
use zsched_format::selection::Selection;
use zsched_mailq_server::v1::Dump;
use zsched_spool::{Arrival, Group};

fn dumped(world: &World, with_vertices: bool) -> String {
    let mut out = Vec::new();
    let mut dump = Dump::new(START, with_vertices);
    dump.write(&world.core, world.now, &mut out, usize::MAX);
    assert!(dump.is_over());
    String::from_utf8(out).expect("all names are text")
}

/// Start of a line, its recorded part, our part in that place, and the reason.
///
/// Numbers that cannot be equal are a `#`.
type Difference = (&'static str, &'static str, &'static str, &'static str);

/// Compares a dump of ours with a recorded one.
fn check(name: &str, ours: &str, differences: &[Difference]) {
    assert_eq!(check_dump(ours), Ok(()), "{ours}");
    compare(name, ours, &dump(name), differences);
}

/// Compares the queue report at the end of our dump with a recorded one.
fn check_report(name: &str, world: &World, differences: &[Difference]) {
    let ours = dumped(world, false);
    assert_eq!(check_dump(&ours), Ok(()), "{ours}");
    let recorded = String::from_utf8(data(&format!("mailq-v1/reports/{name}.txt"))).expect("text");
    let recorded = format!("version zmailer 1.0\nVertices:\nEnd:\n{recorded}");
    compare(name, &ours, &recorded, differences);
}

fn compare(name: &str, ours: &str, recorded: &str, differences: &[Difference]) {
    let mut expected = comparable(recorded);
    for (start, recorded, ours, _) in differences {
        let line = expected.iter_mut().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{start:?} was not recorded"));
        assert_eq!(line.matches(recorded).count(), 1, "{recorded:?} in {line:?}");
        *line = line.replace(recorded, ours);
    }
    let ours = comparable(ours);
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected, "{name}");
    }
    assert_eq!(ours.len(), expected.len(), "{name}");
}

/// Returns the lines of a dump in a form that can be compared.
///
/// A number that cannot be equal is a `#`, and parts without an order are sorted. The format was
/// checked before.
fn comparable(dump: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // The lines of a group stay together.
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut part = "";
    for line in dump.lines() {
        match line {
            "Vertices:" | "Channels:" | "Hosts:" | "End:" => part = line,
            _ if line.starts_with("Kids: ") => {
                part = line;
                groups.sort();
                lines.extend(groups.concat());
            }
            _ => {}
        }
        match part {
            "End:" if line.starts_with("    ") => {
                groups.last_mut().expect("a head").push(blanked(line))
            }
            "End:" if line.starts_with('\t') => {
                let group = groups.last_mut().expect("a head");
                group[1..].sort();
                group.push(blanked(line));
            }
            "End:" if line != part => groups.push(vec![line.to_string()]),
            "Channels:" | "Hosts:" if line != part => lines.push(sorted_web(line)),
            _ => lines.push(blanked(line)),
        }
    }
    let is_web = |line: &String| line.contains(":\t>");
    for webs in lines.chunk_by_mut(|a, b| is_web(a) && is_web(b)) {
        webs.sort();
    }
    lines
}

fn sorted_web(line: &str) -> String {
    let (name, keys) = line.rsplit_once(":\t").expect("a web line");
    let mut keys: Vec<u32> =
        keys[1..].split('>').map(|key| key.parse().expect("a number")).collect();
    keys.sort_unstable();
    let keys: String = keys.iter().map(|key| format!(">{key}")).collect();
    format!("{name}:\t{keys}")
}

/// Returns a line with its pids and durations replaced by `#`.
fn blanked(line: &str) -> String {
    let mut line = line.to_string();
    for label in
        ["(retry in ", "expires in ", "pid=", "P={", "HA={", "FA={", " W=", " QA=", "Uptime: "]
    {
        if let Some(at) = line.find(label) {
            let from = at + label.len();
            let is_part = |c: char| c.is_ascii_digit() || "dhms-,".contains(c);
            // A comma is a part of a number list only between braces.
            let is_end = |c: char| !is_part(c) || (c == ',' && !label.ends_with('{'));
            let end = line[from..].find(is_end).map_or(line.len(), |length| from + length);
            line.replace_range(from..end, "#");
        }
    }
    line
}

/// Returns a message with recipients at these offsets for these destinations.
fn message(name: &str, groups: &[(&str, &[u32])]) -> Arrival {
    let groups: Vec<Group> = groups
        .iter()
        .map(|(destination, offsets)| {
            let (channel, host) = destination.split_once('/').expect("channel/host");
            Group::new(channel.as_bytes(), host.as_bytes(), offsets)
        })
        .collect();
    Arrival { name: spool_name(name), ..arrival(0, groups, START, START) }
}

#[test]
fn dump_without_expiry_equals_recording() {
    let mut world =
        World::with_disk("c/*\n\tinterval=5s retries=3 overfeed=0 expiry=0\n\tcommand=x\n");
    let groups: [(&str, &[u32]); 3] =
        [("c/a.test", &[67]), ("c/b.test", &[98]), ("c/b2.test", &[130, 159])];
    world.handle(Event::Arrived(Box::new(message("1", &groups))));
    world.handle(Event::Arrived(Box::new(message("2", &[("c/b2.test", &[67])]))));
    world.handle(Event::Arrived(Box::new(message("3", &[("c/b2.test", &[67])]))));
    let agents: Vec<AgentId> = world.agents.keys().copied().collect();
    for agent in agents {
        world.agent_writes(agent, b"#hungry");
        let answer = match world.take_input(agent).as_str() {
            "1\ta.test\n" => "1/67\t\tdeferred later please",
            "1\tb.test\n" => "1/98\t\tdeferred",
            "1\tb2.test\n" => continue,
            other => panic!("{other:?}"),
        };
        world.agent_writes(agent, answer.as_bytes());
        world.agent_writes(agent, b"#hungry");
        assert_eq!(world.take_input(agent), "#idle\n");
        world.agent_writes(agent, b"#hungry");
    }
    world.pass_to(Duration::from_secs(4));
    check(
        "no-expiry",
        &dumped(&world, true),
        &[("\tThreads", "Plim: 19970", "Plim: 1000", "as many agents as the process may have")],
    );
}

/// Creates a world with two agents for many threads, after a deferral and a delivery.
fn full_ring() -> World {
    let mut world = World::with_disk(
        "c/*\n\tinterval=5s retries=2 overfeed=0 expiry=1h maxring=2\n\tcommand=x\n",
    );
    for (name, groups) in [
        ("101", &[("c/g1.test", &[101][..]), ("c/h1.test", &[71])][..]),
        ("102", &[("c/h0.test", &[130]), ("c/g2.test", &[99]), ("c/h2.test", &[71])]),
        ("100", &[("c/g0.test", &[101]), ("c/h0.test", &[71])]),
        ("90", &[("c/h0.test", &[69])]),
        ("103", &[("c/g3.test", &[104]), ("c/h3.test", &[71])]),
    ] {
        world.handle(Event::Arrived(Box::new(message(name, groups))));
    }
    let agents: Vec<AgentId> = world.agents.keys().copied().collect();
    let [first, second] = agents[..] else { panic!("{agents:?}") };
    for (agent, answer, job) in [
        (first, "", "101\tg1.test\n"),
        (first, "101/101\t\tdeferred later please", "102\th0.test\n"),
        (second, "", "101\th1.test\n"),
        (first, "102/130\t\tok3 done", "100\th0.test\n"),
    ] {
        if !answer.is_empty() {
            world.agent_writes(agent, answer.as_bytes());
        }
        world.agent_writes(agent, b"#hungry");
        assert_eq!(world.take_input(agent), job);
    }
    world.pass_to(Duration::from_secs(5));
    world
}

#[test]
fn dump_with_full_ring_equals_recording() {
    let world = full_ring();
    for name in ["tcp", "unix"] {
        check(name, &dumped(&world, true), &[]);
    }
}

#[test]
fn dump_without_vertices_equals_recording() {
    check("optionQ", &dumped(&full_ring(), false), &[]);
}

/// Makes these messages arrive: `c/h1 d/h1 | c/h2`.
fn load(world: &mut World, messages: &str) {
    for (number, destinations) in (1..).zip(messages.split('|')) {
        let hosts = destinations.split_ascii_whitespace().map(|name| format!("{name}.test"));
        let hosts: Vec<String> = hosts.collect();
        let groups: Vec<(&str, &[u32])> =
            hosts.iter().map(|destination| (destination.as_str(), &[67][..])).collect();
        world.handle(Event::Arrived(Box::new(message(&format!("{number}"), &groups))));
    }
}

/// Makes all agents ask for work, and passes time.
fn begin_work(world: &mut World) {
    world.pass_to(Duration::from_secs(2));
    let agents: Vec<AgentId> = world.agents.keys().copied().collect();
    agents.into_iter().for_each(|agent| world.agent_writes(agent, b"#hungry"));
    world.pass_to(Duration::from_secs(5));
}

fn busy_under(clauses: &str, messages: &str) -> World {
    let mut world = World::with_disk(&format!("*/* overfeed=0 maxring=20\n{clauses}"));
    load(&mut world, messages);
    begin_work(&mut world);
    world
}

#[test]
fn reports_of_limited_threads_equal_recordings() {
    let world = busy_under("c/* maxring=2 command=x\n", "c/h1|c/h4|c/h6|c/h2|c/h5|c/h3");
    check_report("limit-maxring-2", &world, &[]);

    let world = busy_under(
        "c/a* command=x\nc/* maxchannel=3 command=x\n",
        "c/a1 c/h1 | c/a4 c/h4 | c/a2 c/h2 | c/a3 c/h3",
    );
    check_report("limit-maxchannel-3", &world, &[]);

    let world = busy_under(
        "c/* maxta=2 command=x\nd/* command=x\n",
        "c/h1 d/h1 | c/h4 d/h4 | c/h2 d/h2 | c/h3 d/h3",
    );
    check_report("limit-maxta-2", &world, &[]);
}

#[test]
fn report_of_threads_with_several_agents_equals_recording() {
    let world = busy_under(
        "c/* maxthr=3 command=x\nd/* maxthr=2 maxring=3 command=x\n",
        &["c/h d/g d/h"; 6].join("|"),
    );
    check_report("limit-maxthr", &world, &[]);
    // The newest agent comes first.
    assert!(dumped(&world, false).contains(" P={5006,5004,5001} "), "{}", dumped(&world, false));
}

#[test]
fn report_of_selected_thread_equals_recording() {
    let settings = Settings { selection: Selection::parse("c/h3.test"), ..Settings::default() };
    let mut world = World::with_disk_and(settings, "c/* overfeed=0 maxring=20 command=x\n");
    load(&mut world, "c/h1|c/h4|c/h2|c/h5|c/h3");
    begin_work(&mut world);
    check_report("option-p-procsel", &world, &[]);
}

#[test]
fn report_of_odd_commands_equals_recording() {
    let mut world = World::with_disk(
        "*/* overfeed=0 maxring=20\nc/* command=\"x $host\"\nd/* command=\"x ${host}\"\n\
         e/* interval=5s\nf/* command=\"no-such-program\"\n",
    );
    load(&mut world, "c/h1 d/h1 e/e f/f | c/h2 d/h2 e/e f/f | c/h3 d/h3 e/e f/f");
    let agent = world.agents.iter().find(|(_, told)| told.channel == "f").map(|(agent, _)| *agent);
    world.dies(agent.expect("it was started"), AgentEnd::Exited(1));
    begin_work(&mut world);
    check_report(
        "withhost-nocommand-badcommand",
        &world,
        &[("    f/f.test/", " QA", " W=# QA", "a thread whose agent cannot be started waits")],
    );
}

/// The column of the details depends on the length of the name.
#[test]
fn long_names_shift_details() {
    let hosts: Vec<String> = (1..60).map(|length| format!("c/{}", "h".repeat(length))).collect();
    let world = busy_under("c/* command=x\n", &hosts.join("|"));
    assert_eq!(check_dump(&dumped(&world, true)), Ok(()));
}

/// The second run, with its real control files and its agents' reports.
struct SecondRun {
    world: World,
    /// Answers of agents to each job, in the order of its tries.
    answers: BTreeMap<String, Vec<RecordedAnswer>>,
    /// Jobs that agents have not finished.
    open: BTreeMap<AgentId, RecordedAnswer>,
}

/// Answers of an agent to a job, and its death during the job.
#[derive(Clone)]
struct RecordedAnswer {
    /// Time at which the job was fed.
    fed: Duration,
    answers: Vec<Answer>,
    end: Option<AgentEnd>,
}

impl SecondRun {
    fn new() -> SecondRun {
        let clause = |channel: &str, max_ring: u32| {
            format!("{channel}/*\n\tmaxring={max_ring} overfeed=150 command=x\n")
        };
        let limits = [("smtp-sim", 3), ("smtpx", 5), ("local", 5)];
        let others = ["uucp", "hold", "error", "bitbucket"].map(|channel| (channel, 20));
        let clauses = limits.into_iter().chain(others).map(|(channel, n)| clause(channel, n));
        let clauses: String = clauses.collect();
        let world = World::with_disk(&format!("*/*\n\tinterval=1h retries=1 expiry=1h\n{clauses}"));
        let mut second_run = SecondRun { world, answers: BTreeMap::new(), open: BTreeMap::new() };
        second_run.read_answers();
        second_run.load();
        second_run
    }

    fn read_answers(&mut self) {
        for session in run("run2") {
            let pid = session.name.rsplit('.').next().and_then(|pid| pid.parse().ok());
            let began = match pid.expect("it is in the name") {
                8050..8100 => Duration::ZERO,
                8173..=8175 => Duration::from_secs(40),
                // These belong to another scheduler.
                8253u32.. => continue,
                other => panic!("{other} is not known"),
            };
            let end = match session.end {
                End::Exited(status) => Some(AgentEnd::Exited(status)),
                End::Signalled(signal) => Some(AgentEnd::Signalled(signal)),
                End::SchedulerGone | End::Open => None,
            };
            for step in session.steps {
                let StepKind::Jobs(jobs) = step.what else { continue };
                for job in jobs {
                    let end = if job.is_over() { None } else { end.clone() };
                    let mut answers = job.answers;
                    answers.iter_mut().for_each(|answer| answer.at += began);
                    // This test does not concern the lock of a dead agent.
                    if !answers.iter().any(|answer| answer.line.starts_with(b"#resync")) {
                        let answered = RecordedAnswer { fed: began + step.at, answers, end };
                        self.answers.entry(job.line).or_default().push(answered);
                    }
                }
            }
        }
        self.answers.values_mut().for_each(|all| all.sort_by_key(|answered| answered.fed));
    }

    fn load(&mut self) {
        let files = files_under("control-files").into_iter();
        let of_run = files.filter(|file| file.contains("/transport.") && !file.starts_with("21-"));
        // The order is reversed, because the first arrival is fed first, and the recorded answers
        // for the busiest thread are in this order.
        for file in of_run.rev() {
            let control = parse(data(&format!("control-files/{file}"))).expect("it is good");
            let (_, name) = file.rsplit_once('.').expect("its number comes last");
            let arrival = Arrival::new(spool_name(name), &control, START, START);
            self.world.handle(Event::Arrived(Box::new(arrival)));
        }
        let agents: Vec<AgentId> = self.world.agents.keys().copied().collect();
        agents.into_iter().for_each(|agent| self.world.agent_writes(agent, b"#hungry"));
        self.work(Duration::from_secs(14));
    }

    /// Makes the agents work until nothing is left, or until a time in the recording.
    fn work(&mut self, until: Duration) {
        loop {
            let told = self.world.agents.iter().find(|(_, told)| !told.input.is_empty());
            let Some(agent) = told.map(|(agent, _)| *agent) else {
                return;
            };
            for line in self.world.take_input(agent).lines() {
                if line == "#idle" {
                    self.world.agent_writes(agent, b"#hungry");
                } else {
                    let answered = self.answers.get_mut(line).expect("a recorded job").remove(0);
                    self.open.insert(agent, answered);
                    self.answer(agent, until);
                }
            }
        }
    }

    /// Sends an agent's recorded answers about its job, up to a time.
    fn answer(&mut self, agent: AgentId, until: Duration) {
        let mut answered = self.open.remove(&agent).expect("it has a job");
        while answered.answers.first().is_some_and(|answer| answer.at <= until) {
            let answer = answered.answers.remove(0);
            self.world.agent_writes(agent, &answer.line);
        }
        match answered.end.take() {
            Some(end) => {
                let before = self.world.agents.len();
                self.world.dies(agent, end);
                // The core has started another agent in its place.
                if self.world.agents.len() == before {
                    let newest = *self.world.agents.keys().next_back().expect("it is there");
                    self.world.agent_writes(newest, b"#hungry");
                }
            }
            None if !answered.answers.is_empty() => {
                self.open.insert(agent, answered);
            }
            None => {}
        }
    }

    /// Makes agents continue their jobs.
    fn go_on(&mut self, until: Duration) {
        let busy: Vec<AgentId> = self.open.keys().copied().collect();
        busy.into_iter().for_each(|agent| self.answer(agent, until));
        self.work(until);
    }

    /// Makes threads due by ETRN.
    fn turn(&mut self, hosts: &[&str], until: Duration) {
        for host in hosts {
            let before = self.world.agents.len();
            self.world.handle(Event::Etrn(host.as_bytes()));
            if self.world.agents.len() > before {
                let newest = *self.world.agents.keys().next_back().expect("it is there");
                self.world.agent_writes(newest, b"#hungry");
            }
            self.work(until);
        }
    }

    /// Ends the scripted agents without a job; the recorded ones had died.
    fn end_idle_scripted_agents(&mut self) {
        let of_channel = self.world.agents.iter().filter(|(_, told)| told.channel == "smtp-sim");
        let idle =
            of_channel.map(|(agent, _)| *agent).filter(|agent| !self.open.contains_key(agent));
        for agent in idle.collect::<Vec<AgentId>>() {
            self.world.dies(agent, AgentEnd::Exited(0));
        }
    }
}

/// Reasons for differences.
const DEATH_IS_AN_ATTEMPT: &str = "the death of an agent is an attempt, and is shown";
const SERVED_AT_ONCE: &str =
    "a thread that is due has its agent; the original comes round to it later";
const STATE_NOT_RECORDED: &str =
    "two reports were about 10101208, whose first state was not recorded";
const COUNTED_TWICE: &str = "the original counts much of what comes in twice";

/// Our text about dead agents; ZMailer has none.
const DIED_WITH_1: &str = "the transport agent ended with status 1 while it had this job \
                           (retry in #, expires in #, tries=1";
const DIED_WITH_3: &str = "the transport agent ended with status 3 while it had this job \
                           (retry in #, expires in #, tries=1";
const KILLED: &str = "the transport agent was ended by signal 9 while it had this job \
                      (retry in #, expires in #, tries=1";

#[test]
fn dumps_of_second_run_equal_recordings() {
    let mut second_run = SecondRun::new();
    second_run.world.pass_to(Duration::from_secs(10));
    let hosts = ["timeout:2100000000", "[127.0.0.66]", "[127.0.0.67]"];
    second_run.turn(&hosts, Duration::from_secs(14));
    second_run.end_idle_scripted_agents();
    second_run.world.pass_to(Duration::from_secs(14));
    check(
        "full",
        &dumped(&second_run.world, true),
        &[
            ("4:", "(retry in #, expires in #, tries=0", DIED_WITH_1, DEATH_IS_AN_ATTEMPT),
            ("5:", "(retry in #, expires in #, tries=0", DIED_WITH_3, DEATH_IS_AN_ATTEMPT),
            ("10:", "(retry in #, expires in #, tries=0", KILLED, DEATH_IS_AN_ATTEMPT),
            ("    smtpx/[127.0.0.1]/", "A=5 ", "A=3 ", STATE_NOT_RECORDED),
            ("Msgs in", "in 78 out 38", "in 25 out 14", COUNTED_TWICE),
            ("Msgs in", "in 540 out 477", "in 249 out 231", COUNTED_TWICE),
        ],
    );

    let end = Duration::from_secs(50);
    second_run.go_on(end);
    let hosts = ["da.ta.test", "db.ta.test", "re.ta.test", "mix.ta.test", "host5.ta.test"];
    second_run.turn(&hosts, end);
    let hosts = ["timeout:2100000000", "[127.0.0.1]", "[127.0.0.66]", "[127.0.0.67]"];
    second_run.turn(&hosts, end);
    second_run.end_idle_scripted_agents();
    second_run.world.pass_to(end);
    let inactive = "activation pending, thread inactive";
    check(
        "sigusr2",
        &dumped(&second_run.world, true),
        &[
            ("3:", inactive, "retry in #", SERVED_AT_ONCE),
            ("4:", "(retry in #, expires in #, tries=0", DIED_WITH_1, DEATH_IS_AN_ATTEMPT),
            ("5:", "(retry in #, expires in #, tries=0", DIED_WITH_3, DEATH_IS_AN_ATTEMPT),
            ("6:", inactive, "retry in #", SERVED_AT_ONCE),
            ("7:", inactive, "retry in #", SERVED_AT_ONCE),
            ("10:", inactive, "retry in #", SERVED_AT_ONCE),
            ("10:", "(retry in #, expires in #, tries=0", KILLED, DEATH_IS_AN_ATTEMPT),
            ("    smtp-sim/da.ta.test/", " QA", " W=# QA", SERVED_AT_ONCE),
            ("    smtp-sim/db.ta.test/", " QA", " W=# QA", SERVED_AT_ONCE),
            ("    smtp-sim/host5.ta.test/", " QA", " W=# QA", SERVED_AT_ONCE),
            ("    smtp-sim/kill.ta.test/", "pend=>MaxRing", "W=#", SERVED_AT_ONCE),
            ("    smtpx/[127.0.0.1]/", "A=6 ", "A=4 ", STATE_NOT_RECORDED),
            ("Msgs in", "in 78 out 38", "in 25 out 14", COUNTED_TWICE),
            ("Msgs in", "in 544 out 478", "in 249 out 232", COUNTED_TWICE),
        ],
    );
}
