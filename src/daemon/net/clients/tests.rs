//! Tests of clients over socket pairs, without a network.

use super::client::{MAX_DISCARDED_INPUT, MAX_DISCARDED_PER_TURN};
use super::*;
use mio::Poll;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use zsched_config::{Config, ConfigContext, Parameters, Zenv};
use zsched_core::intake::backlog_view::{BacklogCounts, FileLocation};
use zsched_core::{Event, Order, Settings, Target};
use zsched_mailq_server::v2::AdminCommand;
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

struct World {
    poll: Poll,
    core: Scheduler,
    clients: Clients,
}

impl World {
    /// Creates a world with a limit of dumps at a time.
    fn new(max_dumps: usize) -> World {
        let context = ConfigContext::unprivileged(Zenv::default());
        let text = b"c/*\n\tcommand=x\n";
        let config = Config::parse(Path::new("scheduler.cf"), text, &context);
        let config = Rc::new(config.unwrap_or_else(|errors| panic!("{errors:?}")).config);
        let settings = ClientSettings {
            started: NOW,
            user_name: "operator".to_string(),
            with_vertices: true,
            uses_version_2: false,
            timeouts: Timeouts::default(),
        };
        let mut clients =
            Clients::new(settings, Accounts::new(&Parameters::default()), Rc::default());
        let max_slots =
            AnswerSlots { control: max_dumps, long: max_dumps, anonymous: max_dumps.div_ceil(2) };
        clients.max_slots = Some((max_slots, Instant::now() + Duration::from_secs(3600)));
        // One turn serves all clients, on a busy machine, too.
        clients.shares.iter_mut().for_each(|share| share.time = Duration::MAX);
        let core = Scheduler::new(Settings::default(), config);
        World { poll: Poll::new().expect("a poll"), core, clients }
    }

    /// Creates a world in which version 2 is spoken, with an auth file.
    fn with_accounts(max_dumps: usize, accounts: &str) -> (World, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        std::fs::write(&path, accounts).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
        let mut world = World::new(max_dumps);
        let parameters = Parameters { auth_file: Some(path), ..Parameters::default() };
        world.clients.accounts = Accounts::new(&parameters);
        world.clients.settings.uses_version_2 = true;
        (world, folder)
    }

    /// Connects a client and logs in with a password.
    fn log_in(&mut self, password: &str) -> UnixStream {
        let mut theirs = self.connect();
        self.serve();
        let greeting = heard(&mut theirs);
        let line = greeting.lines().nth(1).expect("a challenge");
        let digest = format!("{:x}", md5::compute(format!("{line}{password}")));
        assert_eq!(self.ask(&mut theirs, &format!("AUTH root {digest}\n")), "+OK\n");
        theirs
    }

    /// Sends text for a client and returns the immediate answer.
    fn ask(&mut self, theirs: &mut UnixStream, text: &str) -> String {
        theirs.write_all(text.as_bytes()).expect("said");
        let numbers: Vec<usize> = self.clients.clients.keys().copied().collect();
        for number in numbers {
            assert!(!self.clients.listen(number), "sessions are heard when they are served");
        }
        self.serve();
        heard(theirs)
    }

    fn connect(&mut self) -> UnixStream {
        self.connect_as(ListenerKind::Mailq)
    }

    fn connect_as(&mut self, audience: ListenerKind) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("set");
        theirs.set_nonblocking(true).expect("set");
        let stream = Box::new(mio::net::UnixStream::from_std(ours));
        let registry = self.poll.registry();
        let welcomed = self.clients.add(stream, audience, registry, Token);
        welcomed.expect("there is room");
        theirs
    }

    fn serve(&mut self) {
        self.clients.serve(&self.core, &(), NOW);
    }

    /// Sets when delayed logins are checked.
    fn set_login_checks(&mut self, time: Instant) {
        for client in self.clients.clients.values_mut() {
            if let Some(conversation) = client.conversation()
                && conversation.login_check_at.is_some()
            {
                conversation.login_check_at = Some(time);
            }
        }
    }
}

fn heard(stream: &mut UnixStream) -> String {
    let mut all = vec![0; 1 << 20];
    let count = stream.read(&mut all).unwrap_or_default();
    String::from_utf8_lossy(&all[..count]).into_owned()
}

fn has_something(stream: &mut UnixStream) -> bool {
    stream.read(&mut [0; 65536]).is_ok()
}

#[test]
fn dumps_of_large_queue_wait_for_slots() {
    let all = |memory| AnswerSlots::of_memory(memory).long;
    assert_eq!(all(2 * MAX_BUFFERED_OUTPUT), MAX_CLIENTS + MAX_EXTRA_CONTROL_CLIENTS);
    assert_eq!(all(4_000_000 + 2 * MAX_BUFFERED_OUTPUT), 16, "a million vertices for a few hosts");
    assert_eq!(all(usize::MAX / 2), 4);
    let anonymous = |memory| AnswerSlots::of_memory(memory).anonymous;
    let found = [2 * MAX_BUFFERED_OUTPUT, 2_000_000, usize::MAX / 2].map(anonymous);
    assert_eq!(found, [128, 8, 2], "a quarter of the memory");

    let mut world = World::new(1);
    let (mut first, mut second) = (world.connect(), world.connect());
    world.serve();
    assert_eq!(world.clients.timeouts().stalled_client, Duration::from_secs(10));
    assert!(world.clients.have_output(), "the first one's dump has been begun");
    world.serve();
    assert!(has_something(&mut first) && !has_something(&mut second));
    world.serve();
    assert_eq!(world.clients.timeouts().stalled_client, Duration::from_secs(60));
    assert!(has_something(&mut second), "and the second one's when that was over");
}

#[test]
fn client_stalled_is_skipped_until_it_reads() {
    let mut world = World::new(1);
    let _theirs = world.connect();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    client.write_buffer.push(&[b'x'; 4_000_000]);
    world.serve();
    assert!(world.clients.clients[&0].is_write_blocked && !world.clients.have_output());
    world.clients.listen(0);
    assert!(world.clients.have_output());
}

#[test]
fn client_reading_slowly_stays_connected() {
    let mut world = World::new(1);
    let mut theirs = world.connect();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    client.write_buffer.push(&[b'x'; 4_000_000]);
    // More than the socket takes.
    (0..4).for_each(|_| world.serve());
    for (taken, is_kept) in [(70_000, true), (0, false)] {
        theirs.read_exact(&mut vec![0; taken]).expect("so much is there");
        let client = world.clients.clients.get_mut(&0).expect("it is there");
        client.progress =
            client.progress.checked_sub(Duration::from_secs(60)).expect("a minute ago");
        (0..4).for_each(|_| world.serve());
        assert_eq!(world.clients.clients.contains_key(&0), is_kept, "after {taken} bytes");
    }
}

#[test]
fn dump_beyond_answer_timeout_is_ended() {
    let mut world = World::new(1);
    let _theirs = world.connect();
    world.serve();
    let timeouts = world.clients.timeouts();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    assert!(!client.time_left(&timeouts, Instant::now()).is_zero());
    client.answer_started =
        client.answer_started.and_then(|begun| begun.checked_sub(timeouts.answer));
    assert!(client.time_left(&timeouts, Instant::now()).is_zero());
}

#[test]
fn client_sending_too_much_is_read_in_shares_then_closed() {
    let mut world = World::new(1);
    let mut theirs = world.connect();
    assert!(!world.clients.listen(0));
    let mut turns = 0;
    while !world.clients.clients.is_empty() {
        while theirs.write(&[b'x'; 4096]).is_ok() {}
        assert!(world.clients.listen(0) || world.clients.clients.is_empty());
        turns += 1;
    }
    assert_eq!(turns, MAX_DISCARDED_INPUT / MAX_DISCARDED_PER_TURN + 1);
}

#[test]
fn session_logs_in_and_gets_answers() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut theirs = world.log_in("sekret");
    let answer = world.ask(&mut theirs, "SHOW SNMP\n");
    assert!(
        answer.starts_with("+OK until LF.LF\nKids: 0  ") && answer.ends_with("\n.\n"),
        "{answer}"
    );
    assert_eq!(world.ask(&mut theirs, "QUIT\n"), "+Bye bye\n");
    assert_eq!(
        (world.clients.request_counters.connects, world.clients.request_counters.quit),
        (1, 1)
    );
}

/// Challenges must be unique and unpredictable.
#[test]
fn challenges_of_sessions_differ() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut chances = std::collections::BTreeSet::new();
    for number in 1..=20 {
        let mut theirs = world.connect();
        world.serve();
        let greeting = heard(&mut theirs);
        let line = greeting.strip_prefix("version zmailer 2.0\n220 MAILQ-V2-CHALLENGE: ");
        let numbers: Vec<u64> = line
            .and_then(|line| line.strip_suffix("\n"))
            .expect("a challenge")
            .split('.')
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert_eq!((numbers.len(), numbers[2]), (3, number));
        chances.insert(numbers[1]);
    }
    assert_eq!(chances.len(), 20);
}

#[test]
fn client_of_refused_address_gets_no_access_and_is_closed() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:[127.0.0.1]\n");
    let mut theirs = world.connect();
    world.serve();
    assert_eq!(heard(&mut theirs), "version zmailer 2.0\n550 NO ACCESS FOR YOU\n");
    assert_eq!(theirs.read(&mut [0; 10]).expect("closed"), 0);
    assert_eq!(world.clients.request_counters.refused_logins, 1);
}

#[test]
fn unauthenticated_sessions_time_out_early_and_are_removed_first() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut first = world.log_in("sekret");
    let mut strangers: Vec<UnixStream> = (1..MAX_CLIENTS).map(|_| world.connect()).collect();
    world.serve();
    let _late = world.connect();
    world.serve();
    heard(&mut strangers[0]);
    assert_eq!(strangers[0].read(&mut [0; 10]).expect("closed"), 0, "the oldest has made way");
    assert!(!heard(&mut strangers[1]).is_empty());
    assert!(world.ask(&mut first, "SHOW SNMP\n").starts_with("+OK"), "who has logged in stays");
    let timeouts = world.clients.timeouts();
    let left = |number: usize| world.clients.clients[&number].time_left(&timeouts, Instant::now());
    assert!(left(2) <= timeouts.login && left(2) > timeouts.login / 2);
    assert!(left(0) > timeouts.login, "and has more time");
}

/// A client that does not read delays other long answers a little.
///
/// Short answers are not delayed at all.
#[test]
fn long_answers_wait_for_slots_and_short_ones_do_not() {
    let (mut world, _folder) = World::with_accounts(1, "root:sekret:ALL:\n");
    let (mut first, mut second) = (world.log_in("sekret"), world.log_in("sekret"));
    // The answer needs a lookup first: addresses of this message.
    world.core.handle(NOW, Event::Arrived(Box::new(arrival(7))));
    assert!(world.ask(&mut first, "SHOW THREAD c h\n").starts_with("+OK until LF.LF\n"));
    assert_eq!(world.clients.take_demands().len(), 1);
    let begun = world.ask(&mut second, "SHOW QUEUE THREADS\n");
    assert_eq!(begun, "+OK until LF.LF\n", "the text itself is in line");
    assert_eq!(world.clients.timeouts().stalled_client, Duration::from_secs(10));
    assert!(!world.clients.have_output(), "no client can go on, and none is tried over and over");
    let mut third = world.log_in("sekret");
    let answer = world.ask(&mut third, "SHOW SNMP\n");
    assert!(answer.starts_with("+OK until LF.LF\nKids: "), "{answer}");
    world.clients.remove(0);
    world.serve();
    assert!(world.clients.have_output());
    world.serve();
    assert!(heard(&mut second).ends_with("\n.\n"));
    assert!(!world.clients.have_output());
}

/// Requests over the control socket are answered, whatever dumps other clients have stalled.
#[test]
fn control_socket_does_not_wait_for_dumps() {
    let mut world = World::new(4);
    (1..=2000).for_each(|number| world.core.handle(NOW, Event::Arrived(Box::new(arrival(number)))));
    let mut readers: Vec<UnixStream> = (0..MAX_CLIENTS - 1).map(|_| world.connect()).collect();
    // Their dumps start, and they read nothing.
    (0..20).for_each(|_| world.serve());
    let dumps = world.clients.clients.values().filter(|client| client.is_writing_answer()).count();
    assert_eq!(dumps, 2, "of all that are in line");
    let mut operator = world.connect_as(ListenerKind::Control);
    let answer = world.ask(&mut operator, "SHOW SNMP\n");
    assert!(answer.contains("\nKids: "), "{answer}");
    let answer = world.ask(&mut operator, "SHOW QUEUE THREADS\n");
    assert!(answer.starts_with("+OK until LF.LF\n"), "{answer}");
    // The amount written per turn depends on the time it takes.
    let is_served = (0..1000).any(|_| {
        world.serve();
        !world.clients.clients.values().last().expect("it is there").waits_for_slot()
    });
    assert!(is_served, "it waits for those that take nothing");
    // A dump that is read to its end makes room for the next.
    let is_over = |heard: &str| heard.contains("Kids: ");
    let mut all = String::new();
    while !is_over(&all) {
        let new = heard(&mut readers[0]);
        all += &new;
        world.clients.listen(0);
        world.serve();
    }
}

#[test]
fn turn_shares_favor_prompt_clients() {
    assert_eq!(
        ServiceClass::ALL,
        [ServiceClass::Prompt, ServiceClass::Long, ServiceClass::Anonymous]
    );
    let bytes: usize = ServiceClass::ALL.iter().map(|class| class.share().bytes).sum();
    let time: Duration = ServiceClass::ALL.iter().map(|class| class.share().time).sum();
    assert_eq!((bytes, time), (256 * 1024, Duration::from_millis(10)));
    let anonymous = ServiceClass::Anonymous.share();
    assert!(8 * anonymous.bytes <= bytes && 8 * anonymous.time <= time);
    let slots = |control, long, anonymous| AnswerSlots { control, long, anonymous };
    for (under_way, left) in [
        (slots(0, 0, 0), slots(16, 16, 4)),
        (slots(0, 0, 4), slots(16, 12, 0)),
        (slots(20, 14, 0), slots(0, 2, 2)),
        (slots(1, 12, 4), slots(15, 0, 0)),
    ] {
        assert_eq!(slots(16, 16, 4).left(under_way), left, "{under_way:?}");
    }
}

/// Guesses from one address are delayed and counted; the log has few lines about them.
#[test]
fn failed_logins_are_delayed_and_counted() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let digest = "0".repeat(32);
    let mut answered = 0;
    let mut guessers: Vec<UnixStream> = (0..20).map(|_| world.connect()).collect();
    for theirs in &mut guessers {
        world.serve();
        heard(theirs);
        if !world.ask(theirs, &format!("AUTH root {digest}\n")).is_empty() {
            answered += 1;
        }
    }
    // Three attempts are free, the fourth is checked at once, and a fifth is delayed. Attempts that
    // would be delayed too long are refused.
    assert!((4..20).contains(&answered), "{answered}");
    assert!(world.clients.clients.values().any(|client| client.login_check_at().is_some()));
    // The first delays may be over on a slow machine.
    world.set_login_checks(Instant::now() + Timeouts::default().login / 2);
    world.serve();
    assert!(!world.clients.have_output(), "no client is tried over and over");
    assert!(world.clients.until_timeout().expect("there are clients") < Timeouts::default().login);
    assert!(world.clients.request_counters.refused_logins >= answered);
    // The delays are over.
    world.set_login_checks(Instant::now());
    while world.clients.have_output() {
        world.serve();
    }
    assert_eq!(world.clients.request_counters.refused_logins, 20);
}

/// The session waits without keeping the loop busy.
#[test]
fn order_about_message_being_read_waits_for_it() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut theirs = world.log_in("sekret");
    let elsewhere = OnDisk(Some(FileLocation::Loading));
    theirs.write_all(b"KILL MSG 7\n").expect("said");
    world.clients.listen(0);
    world.clients.serve(&world.core, &elsewhere, NOW);
    let by = "root from local user 0".to_string();
    let demand = Demand::Admin { by, command: AdminCommand::Load(7) };
    assert_eq!(world.clients.take_demands(), [(0, demand)]);
    world.clients.wait_for_message(0, 7);
    for _ in 0..3 {
        world.clients.serve(&world.core, &elsewhere, NOW);
        assert!(!world.clients.have_output(), "it waits");
    }
    assert!(world.clients.until_timeout().expect("a client") <= MAX_FETCH_WAIT);
    world.core.handle(NOW, Event::Arrived(Box::new(arrival(7))));
    world.clients.serve(&world.core, &OnDisk(None), NOW);
    let demands = world.clients.take_demands();
    let [(0, Demand::Order { order, .. })] = &demands[..] else { panic!("{demands:?}") };
    assert_eq!(*order, Order::Delete(vec![Target::whole(7)]));
}

/// View of the backlog in which all messages are in the same state.
struct OnDisk(Option<FileLocation>);

impl BacklogView for OnDisk {
    fn waiting(&self) -> BacklogCounts {
        BacklogCounts::default()
    }

    fn location(&self, _number: u64) -> Option<FileLocation> {
        self.0
    }
}

fn arrival(number: u64) -> Arrival {
    let group = Group::new(b"c", b"h", &[100]);
    Arrival::of_groups(SpoolName::plain(HashFolder::TOP, number), NOW, NOW, vec![group])
}

/// Requests sent together are answered in order, whatever each has to wait for.
#[test]
fn requests_behind_an_order_are_answered_in_order() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut theirs = world.log_in("sekret");
    assert_eq!(world.ask(&mut theirs, "ETRN a.test\nFOO\nQUIT\n"), "");
    let demands = world.clients.take_demands();
    let [(0, Demand::Order { by, .. })] = &demands[..] else { panic!("{demands:?}") };
    assert!(by.starts_with("root from local user "), "{by}");
    assert!(!world.clients.have_output());
    let ticket = world.clients.add_order(0);
    world.clients.order_done(ticket, Effect { started: true, ..Effect::default() });
    // One request a turn.
    (0..3).for_each(|_| world.serve());
    let answers = heard(&mut theirs);
    assert!(answers.starts_with("+OK; an ETRN started something.\n-MAILQ2 Unknown"), "{answers}");
    assert!(answers.ends_with("+Bye bye\n"), "{answers}");
    world.clients.order_done(ticket, Effect::default());
}
