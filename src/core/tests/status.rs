//! Records for the status log.

use super::*;

const ONE: &str = "c/*\n\tmaxring=1 interval=60s expiry=3d\n\tcommand=x\n";

fn world() -> World {
    World::with(Settings { record_attempts: true, seed: 1, ..Settings::default() }, ONE)
}

/// `number:offsets verdict began..time others text` for each record since the last call.
fn told(world: &mut World) -> Vec<String> {
    let told = std::mem::take(&mut world.done).into_iter().filter_map(|action| match action {
        Action::Status(record) => Some(*record),
        _ => None,
    });
    let show = |record: StatusRecord| {
        let seconds = |time: Timestamp| time.seconds_since(START);
        let began = record.attempt.map(|attempt| seconds(attempt.began));
        format!(
            "{}:{:?} {:?} {began:?}..{} {} {}",
            record.name,
            record.offsets,
            record.verdict,
            seconds(record.time),
            record.others,
            String::from_utf8_lossy(&record.text)
        )
    };
    told.map(show).collect()
}

#[test]
fn no_records_without_status_log_or_subscriber() {
    let mut world = World::new(ONE);
    world.message(1, &["c/a.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tok3 fine");
    world.hungry(agent);
    assert_eq!(told(&mut world), [""; 0]);
}

#[test]
fn each_job_of_burst_has_own_start_time() {
    let mut world = world();
    world.messages(1..=3, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    let wait = |world: &mut World| world.now += Duration::from_secs(10);
    // Jobs that take longer are fed one at a time.
    world.now += Duration::from_secs(1);
    world.agent_line(agent, "1/100\t\tok3 fine");
    world.now += Duration::from_secs(1);
    world.hungry(agent);
    wait(&mut world);
    world.agent_line(agent, "2/100\tnotary\tretryat 120 later");
    world.hungry(agent);
    wait(&mut world);
    world.hungry(agent);
    let told = told(&mut world);
    assert_eq!(told[0], "1:[100] Report(Ok3) Some(0)..1 0 fine");
    assert_eq!(told[1], "2:[100] Report(RetryAt) Some(2)..12 0 later");
    assert_eq!(
        told[2],
        "3:[100] Unreported Some(12)..22 0 the agent ended the job without a word about this recipient"
    );
}

#[test]
fn deferall_record_counts_deferred_others() {
    let mut world = world();
    world.messages(1..=300, "c/a.test");
    let (agent, _) = world.hungry_new_agent();
    world.agent_line(agent, "1/100\t\tdeferall it is down");
    assert_eq!(told(&mut world), ["1:[100] Report(DeferAll) Some(0)..0 299 it is down"]);
}

#[test]
fn records_without_attempt_precede_removal() {
    let mut world = world();
    world.message(1, &["c/a.test", "c/b.test"]);
    let (agent, _) = world.hungry_new_agent();
    world.handle(Event::AgentEnded { agent, end: AgentEnd::Signalled(9) });
    let expected = "the transport agent was ended by signal 9 while it had this job";
    assert_eq!(told(&mut world), [format!("1:[100] Unreported Some(0)..0 0 {expected}")]);
    world.now += Duration::from_secs(5 * 86_400);
    world.handle(Event::Tick);
    let at = |what: fn(&Action) -> bool, world: &World| world.done.iter().position(what);
    let first_told = at(|action| matches!(action, Action::Status(_)), &world);
    let first_noted = at(|action| matches!(action, Action::Note(_)), &world);
    assert!(first_told.is_some() && first_told < first_noted, "{:?}", world.done);
    let told = told(&mut world);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|line| line.contains(" Expired None..432000 0 ")), "{told:?}");
}
