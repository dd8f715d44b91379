//! Random worlds: configurations, hosts, faults of agents, and mail.

use fastrand::Rng;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_bulk::{BulkParameters, JobId};
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::Settings;
use zsched_format::control_file;
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_format::selection::Selection;
use zsched_format::time::Timestamp;
use zsched_simulation::faults::AgentFaults;
use zsched_simulation::hosts::{HostBehaviour, Hosts, Outage};
use zsched_simulation::jobs::{JobFiles, JobRecipients};
use zsched_simulation::{Delays, SimulationSetup};
use zsched_spool::{HashFolder, HashLevel};

pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

/// Channels and hosts of the mail.
pub const CHANNELS: [&str; 4] = ["smtp", "smtp", "local", "later"];
pub const HOSTS: [&str; 8] = ["a.x", "b.x", "c.x", "down.x", "busy.x", "picky.x", "-", ON_REQUEST];
/// The host of the channel `later`, which is tried on request only.
pub const ON_REQUEST: &str = "later.x";

pub fn setup(seed: u64, random: &mut Rng) -> SimulationSetup {
    let is_fast = random.u8(0..4) == 0;
    SimulationSetup {
        seed,
        start: START,
        settings: settings(random),
        // Not seven digits: a lock has room for six, so a dead agent's lock would hold while any
        // process with the same six lives.
        first_pid: [1000, 600_000][random.usize(0..2)],
        level: [HashLevel::Flat, HashLevel::Once, HashLevel::Twice][random.usize(0..3)],
        delays: if is_fast { Delays::default() } else { slow(random) },
        agent_faults: AgentFaults::default(),
        multi_event_turns: if random.bool() { 0.3 } else { 0.0 },
        pieces: !is_fast && random.bool(),
        scans: true,
    }
}

/// Returns random options of the command line, drawn anew for each start.
pub fn settings(random: &mut Rng) -> Settings {
    let selection = (random.u8(0..6) == 0).then(|| {
        let mut part = |of: &[&str]| match random.bool() {
            true => of[random.usize(0..of.len())].to_string(),
            false => "*".to_string(),
        };
        format!("{}/{}", part(&CHANNELS), part(&HOSTS))
    });
    Settings {
        frozen: random.u8(0..16) == 0,
        selection: selection.and_then(|text| Selection::parse(&text)),
        fork_rate: [1, 5, 30][random.usize(0..3)],
        max_agents: [3, 10, 1000][random.usize(0..3)],
        wait_for_initial_scan: random.bool(),
        log_finished_messages: random.bool(),
        // Small steps, so that other events happen while a reload is in progress.
        reload_step: [1, 3, 1000][random.usize(0..3)],
        ..Settings::default()
    }
}

/// Returns options that serve all mail. With others, mail may stay in the queue indefinitely.
pub fn open_settings(random: &mut Rng) -> Settings {
    Settings { frozen: false, selection: None, ..settings(random) }
}

fn slow(random: &mut Rng) -> Delays {
    let mut delay = || Duration::from_micros(1 << random.u32(0..22));
    Delays {
        notice: delay(),
        read: delay(),
        write: delay(),
        pipe: delay(),
        turn: delay(),
        start: delay(),
        reap: delay(),
    }
}

pub fn faults(random: &mut Rng) -> AgentFaults {
    if random.u8(0..3) == 0 {
        return AgentFaults::default();
    }
    let choice = random.usize(0..3);
    let mut part = || if random.bool() { 0.0 } else { random.f64() * 0.1 };
    AgentFaults {
        start_fails: part(),
        dies_at_start: part(),
        dies: part(),
        stops: part(),
        stalls: part(),
        reports_others: part(),
        repeats: part(),
        writes_garbage: part(),
        extra_hungry: part(),
        resyncs: part(),
        silent: part(),
        retry_at: part(),
        defers_all: part(),
        only_deferred: [0.0, 0.5, 1.0][choice],
        stall: Duration::from_secs(random.u64(1..4000)),
    }
}

pub fn hosts(random: &mut Rng) -> Hosts {
    let outage = |from: u64, length: u64, timeout| Outage {
        from: START + Duration::from_secs(from),
        until: START + Duration::from_secs(from + length),
        timeout: Duration::from_secs(timeout),
    };
    let latency = Duration::from_millis(1 << random.u32(0..14));
    let usual = HostBehaviour { latency, spread: latency, ..HostBehaviour::default() };
    let down = HostBehaviour {
        outages: (0..4).map(|n| outage(n * 3000, random.u64(60..2500), n * 10)).collect(),
        ..usual.clone()
    };
    let busy = HostBehaviour { connections: random.usize(1..3), ..usual.clone() };
    let picky = HostBehaviour {
        defer_rate: 0.2,
        fail_rate: 0.1,
        outages: (0..40).map(|n| outage(n * 300, random.u64(1..100), 0)).collect(),
        ..usual.clone()
    };
    let rules = [("down.x", down), ("busy.x", busy), ("picky.x", picky)];
    let rules = rules.map(|(name, nature)| (glob::Pattern::new(name).expect("a name"), nature));
    Hosts::new(rules.into(), HostBehaviour { fail_rate: 0.01, ..usual })
}

/// Returns parameters that limit memory; in half of all worlds the limits are very low.
pub fn memory(random: &mut Rng) -> String {
    match random.bool() {
        true => format!(
            "PARAMmessage-active-limit={}\nPARAMmessage-recipient-limit={}\n\
             PARAMmessage-recipient-minimum={}\n",
            1 << random.u32(0..6),
            1 << random.u32(0..8),
            1 << random.u32(0..4)
        ),
        false => String::new(),
    }
}

/// Returns a configuration whose limits are reached.
pub fn config(memory: &str, random: &mut Rng) -> Rc<Config> {
    let text = memory.to_string() + &config_text(random);
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    Rc::new(loaded.unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).config)
}

fn config_text(random: &mut Rng) -> String {
    let mut text = String::new();
    let mut patterns = vec!["smtp/a.x", "smtp/*.x", "smtp/*", "local/*"];
    random.shuffle(&mut patterns);
    for pattern in patterns.into_iter().take(random.usize(0..4)) {
        text += &clause(pattern, "", random);
    }
    text += &match random.bool() {
        true => clause("later/*", " queueonly", random),
        false => "later/*\n\tqueueonly command=\"y\"\n".to_string(),
    };
    text + &clause("*/*", "", random)
}

fn clause(pattern: &str, more: &str, random: &mut Rng) -> String {
    let mut one_of = |values: &[&str]| values[random.usize(0..values.len())].to_string();
    let command = one_of(&["x $channel", "x -h $host", "y"]);
    let settings = [
        one_of(&["interval=10s", "interval=1m", "interval=2m"]),
        one_of(&["retries=\"1 2 3 5\"", "retries=1", "retries=\"1 1 2 8 34\""]),
        one_of(&["expiry=20m", "expiry=2h", "expiry=3d", ""]),
        one_of(&["expiry2=10m", ""]),
        one_of(&["reporttimes=\"5m 1h\"", "reporttimes=10m", "", ""]),
        one_of(&["maxta=1", "maxta=4", "", ""]),
        one_of(&["maxchannel=1", "maxchannel=3", "", ""]),
        one_of(&["maxring=1", "maxring=2", "maxring=5", ""]),
        one_of(&["maxthr=1", "maxthr=2", "maxthr=4"]),
        one_of(&["overfeed=0", "overfeed=1", "overfeed=20", ""]),
        one_of(&["idlemax=5s", "idlemax=1m", "idlemax=10m idle-ping=7s", ""]),
        one_of(&["agent-jobs=1", "agent-jobs=7", "", "", ""]),
        one_of(&["agent-timeout=1m", "agent-timeout=10m"]),
        one_of(&["skew=1", ""]),
        one_of(&["ageorder", "", ""]),
        one_of(&["wakeuprestartonly", "", "", ""]),
        one_of(&["recipient-limit=0", "recipient-limit=10", "recipient-limit=100", ""]),
        one_of(&["refill-limit=1", "refill-limit=20", ""]),
        one_of(&["refill-delay=0", "refill-delay=1s", ""]),
        one_of(&["initial-concurrency=1", "initial-concurrency=3", "", "", ""]),
        one_of(&[
            "positive-feedback=1/concurrency negative-feedback=1/concurrency",
            "positive-feedback=0.5 negative-feedback=1/sqrt(concurrency) feedback-debug",
            "negative-feedback=1",
            "",
            "",
            "",
        ]),
        one_of(&["failed-cohort-limit=1", "failed-cohort-limit=3", "", ""]),
        one_of(&["rate=60/1m", "rate=1000/1s", "delivery-delay=1s", "", "", "", ""]),
        one_of(&["window-key=mx", "window-key=\"*.x=all\"", "", "", ""]),
        one_of(&["packet=1", "packet=3", "packet=50", "", ""]),
        one_of(&[
            "slot-cost=1",
            "slot-cost=2",
            "slot-cost=5",
            "job-order",
            "job-order=random",
            "",
            "",
            "",
            "",
        ]),
        one_of(&["minimum-slots=0", "slot-loan=0 slot-discount=0", "", ""]),
        one_of(&["mail-priority=0", "mail-priority=9", "", ""]),
        one_of(&["extra-recipient-limit=0", "extra-recipient-limit=5", "extra-recipient-limit=50"]),
    ];
    format!("{pattern}\n\t{}{more}\n\tcommand=\"{command}\"\n", settings.join(" "))
}

/// Returns the folder in which a router puts a message; it may be the wrong one.
pub fn folder(number: u64, level: HashLevel, random: &mut Rng) -> HashFolder {
    match random.u8(0..10) {
        0..=3 => HashFolder::TOP,
        4 => HashFolder::of(random.u64(..), level),
        _ => HashFolder::of(number, level),
    }
}

/// Returns a control file with some recipients, and whether it is usable.
pub fn mail(number: u64, random: &mut Rng) -> (Vec<u8>, bool) {
    let count = if random.u8(0..100) == 0 { random.usize(50..200) } else { random.usize(1..6) };
    let recipient = |_| {
        let channel = CHANNELS[random.usize(0..CHANNELS.len())];
        let host = match channel {
            "later" => ON_REQUEST,
            _ => HOSTS[random.usize(0..HOSTS.len())],
        };
        let notify = [
            "",
            "",
            "",
            "",
            "NOTIFY=NEVER",
            "NOTIFY=SUCCESS,FAILURE",
            "NOTIFY=FAILURE",
            "NOTIFY=FAILURE,DELAY",
            "NOTIFY=NEVER BY=600;N",
            "NOTIFY=FAILURE BY=900;N",
            "BY=1800;R",
        ];
        Recipient {
            address: Address::new(channel, host, "user", 65534),
            notify: notify[random.usize(0..notify.len())].to_string(),
            end: None,
        }
    };
    let mut recipients: Vec<Recipient> = (0..count).map(recipient).collect();
    if random.u8(0..10) == 0 {
        // The life begins at 10:00.
        let times = ["HOLDFOR=90", "HOLDFOR=2000", "WINDOW=11:00-10:20", "WINDOW=10:10-10:05;UTC"];
        let words = format!("{} {}", recipients[0].notify, times[random.usize(0..times.len())]);
        recipients[0].notify = words.trim().to_string();
    }
    let group = Group {
        sender: Address::new("local", "", "sender", 0),
        recipients,
        headers: b"Subject: simulated\n".to_vec(),
        ..Group::default()
    };
    let draft = ControlFileDraft {
        name: number.to_string(),
        body_offset: 100,
        priority: (random.u8(0..4) == 0).then(|| random.u8(0..10)),
        log_id: format!("<{number}@x>"),
        groups: vec![group],
        ..ControlFileDraft::default()
    };
    let text = draft.to_text().expect("a good draft");
    let text = if random.u8(0..6) == 0 { with_alternatives(text, random) } else { text };
    match random.u8(0..60) {
        0 => (damaged(text, random), false),
        _ => (text, true),
    }
}

/// Returns a bulk job that is submitted at this time.
pub fn job(number: u32, now: Timestamp, random: &mut Rng) -> (JobId, JobFiles) {
    let mut destinations = Vec::new();
    for (index, host) in HOSTS.into_iter().enumerate() {
        if host != ON_REQUEST && (index == 0 || random.bool()) {
            let channel = if random.u8(0..4) == 0 { "local" } else { "smtp" };
            let most = if random.bool() { 4 } else { 40 };
            let count = random.usize(1..most);
            let address = |n| format!("user{n}@d{index}.x");
            let addresses = (0..count).map(address).collect();
            let (channel, host) = (channel.to_string(), host.to_string());
            destinations.push(JobRecipients { channel, host, addresses });
        }
    }
    let after = |random: &mut Rng, most: i64| now.seconds() + random.i64(1..most);
    let some = |random: &mut Rng| random.u8(0..6) == 0;
    // The life begins at 10:00.
    let windows = ["11:00-10:20", "10:10-10:05;UTC", "10:15-22:00"];
    let parameters = BulkParameters {
        key: format!("job {number}"),
        sender: random.bool().then(|| "list@x".to_string()),
        log_id: format!("<job{number}@x>"),
        priority: some(random).then(|| random.u8(0..10)),
        packet_size: [1, 3, 10, 100][random.usize(0..4)],
        share: [100, 100, 50, 20][random.usize(0..4)],
        not_before: some(random).then(|| after(random, 3000)),
        deadline: some(random).then(|| after(random, 9000)),
        window: some(random).then(|| windows[random.usize(0..windows.len())].to_string()),
        verp: random.u8(0..4) == 0,
        submitted: now.seconds(),
        recipients: destinations.iter().map(|one| one.addresses.len() as u32).sum(),
        ..BulkParameters::default()
    };
    let headers = b"Subject: simulated\n\n".to_vec();
    let files = JobFiles::new(parameters, headers, &destinations);
    (JobId::of_key(&format!("job {number}"), 0), files)
}

/// Adds classes of alternatives, of one to four lines.
fn with_alternatives(mut text: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    let mut lines = String::new();
    for class in 0..random.u32(1..4) {
        for n in 0..random.u32(1..5) {
            let channel = ["smtp", "local"][random.usize(0..2)];
            let host = ["picky.x", HOSTS[random.usize(0..HOSTS.len())]][random.usize(0..2)];
            lines += &format!("X {class} {channel} {host} user{n} 65534\n");
            lines += ["", "N NOTIFY=SUCCESS,FAILURE\n", "N NOTIFY=NEVER\n"][random.usize(0..3)];
        }
    }
    let at = text.windows(3).position(|it| it == b"\nm\n").expect("headers") + 1;
    text.splice(at..at, lines.into_bytes());
    text
}

/// Returns a damaged copy of a control file.
fn damaged(text: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    match random.u8(0..4) {
        0 => Vec::new(),
        1 => b"i 99999999999\nthis is nothing\n".to_vec(),
        2 => [&b"@ 0xffff\n"[..], &text].concat(),
        _ => {
            let text: Vec<u8> = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
            // Random bytes may form a request for a host's mail (a `T` line), which is a valid
            // file.
            if control_file::parse(text.clone()).is_ok() { Vec::new() } else { text }
        }
    }
}
