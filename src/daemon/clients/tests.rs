//! Clients without a network: pairs of sockets.

use super::client::{HEARD_A_TURN, MOST_SAID, TIME_FOR_ANSWER, TIME_TO_LOG_IN};
use super::*;
use crate::config::{Config, Context, Parameters, Zenv};
use crate::scheduler::Settings;
use mio::Poll;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

const NOW: Timestamp = Timestamp::from_seconds(1_795_259_643);

struct World {
    poll: Poll,
    core: Scheduler,
    clients: Clients,
}

impl World {
    /// One in which so many dumps may be written at a time.
    fn new(most_dumps: usize) -> World {
        let context = Context::without_rights(Zenv::default());
        let text = b"c/*\n\tcommand=x\n";
        let config = Config::parse(Path::new("scheduler.cf"), text, &context);
        let config = Rc::new(config.unwrap_or_else(|errors| panic!("{errors:?}")).config);
        let settings = ClientSettings { started: NOW, with_vertices: true, speak_version_2: false };
        let mut clients =
            Clients::new(settings, Accounts::new(&Parameters::default()), Rc::default());
        clients.most_dumps = Some((most_dumps, Instant::now() + Duration::from_secs(3600)));
        let core = Scheduler::new(Settings::default(), config);
        World { poll: Poll::new().expect("a poll"), core, clients }
    }

    /// One in which version 2 is spoken, with an auth file.
    fn with_accounts(most_dumps: usize, accounts: &str) -> (World, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        std::fs::write(&path, accounts).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
        let mut world = World::new(most_dumps);
        let parameters = Parameters { auth_file: Some(path), ..Parameters::default() };
        world.clients.accounts = Accounts::new(&parameters);
        world.clients.speak_version_2();
        (world, folder)
    }

    /// Somebody connects, and logs in with this password.
    fn log_in(&mut self, password: &str) -> UnixStream {
        let mut theirs = self.connect();
        self.serve();
        let greeting = heard(&mut theirs);
        let line = greeting.lines().nth(1).expect("a challenge");
        let digest = format!("{:x}", md5::compute(format!("{line}{password}")));
        assert_eq!(self.ask(&mut theirs, &format!("AUTH root {digest}\n")), "+OK\n");
        theirs
    }

    /// Says something for the client that came last, and returns what it is answered at once.
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
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("set");
        theirs.set_nonblocking(true).expect("set");
        let stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
        let registry = self.poll.registry();
        let welcomed = self.clients.welcome(stream, Audience::Mailq, registry, Token);
        welcomed.expect("there is room");
        theirs
    }

    fn serve(&mut self) {
        self.clients.serve(&self.core, &(), NOW);
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
fn dumps_of_a_large_queue_are_written_some_at_a_time() {
    assert_eq!(most_dumps(0), MOST_CLIENTS + MORE_FOR_CONTROL);
    assert_eq!(most_dumps(4_000_000), 16, "a million vertices for a few hosts");
    assert_eq!(most_dumps(usize::MAX / 2), FEWEST_DUMPS);

    let mut world = World::new(1);
    let (mut first, mut second) = (world.connect(), world.connect());
    world.serve();
    assert_eq!(world.clients.patience(), PATIENCE_IN_DEMAND);
    assert!(world.clients.have_room(), "the first one's dump has been begun");
    world.serve();
    assert!(has_something(&mut first) && !has_something(&mut second));
    world.serve();
    assert_eq!(world.clients.patience(), PATIENCE);
    assert!(has_something(&mut second), "and the second one's when that was over");
}

#[test]
fn a_client_that_stalls_is_left_alone_until_it_takes_something() {
    let mut world = World::new(1);
    let _theirs = world.connect();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    client.outbox.push(&[b'x'; 4_000_000]);
    world.serve();
    assert!(world.clients.clients[&0].is_stalled && !world.clients.have_room());
    world.clients.listen(0);
    assert!(world.clients.have_room());
}

#[test]
fn a_client_that_takes_little_at_a_time_keeps_its_connection() {
    let mut world = World::new(1);
    let mut theirs = world.connect();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    client.outbox.push(&[b'x'; 4_000_000]);
    world.serve();
    for (taken, is_kept) in [(70_000, true), (0, false)] {
        theirs.read_exact(&mut vec![0; taken]).expect("so much is there");
        let client = world.clients.clients.get_mut(&0).expect("it is there");
        client.progress = client.progress.checked_sub(PATIENCE).expect("a minute ago");
        world.serve();
        assert_eq!(world.clients.clients.contains_key(&0), is_kept, "after {taken} bytes");
    }
}

#[test]
fn no_dump_takes_for_ever() {
    let mut world = World::new(1);
    let _theirs = world.connect();
    world.serve();
    let client = world.clients.clients.get_mut(&0).expect("it has just come");
    assert!(!client.time_left(PATIENCE, Instant::now()).is_zero());
    client.begun = client.begun.and_then(|begun| begun.checked_sub(TIME_FOR_ANSWER));
    assert!(client.time_left(PATIENCE, Instant::now()).is_zero());
}

#[test]
fn a_client_that_talks_on_is_heard_in_shares_and_then_closed() {
    let mut world = World::new(1);
    let mut theirs = world.connect();
    assert!(!world.clients.listen(0));
    let mut turns = 0;
    while !world.clients.clients.is_empty() {
        while theirs.write(&[b'x'; 4096]).is_ok() {}
        assert!(world.clients.listen(0) || world.clients.clients.is_empty());
        turns += 1;
    }
    assert_eq!(turns, MOST_SAID / HEARD_A_TURN + 1);
}

#[test]
fn sessions_log_in_and_ask() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut theirs = world.log_in("sekret");
    let answer = world.ask(&mut theirs, "SHOW SNMP\n");
    assert!(
        answer.starts_with("+OK until LF.LF\nKids: 0  ") && answer.ends_with("\n.\n"),
        "{answer}"
    );
    assert_eq!(world.ask(&mut theirs, "QUIT\n"), "+Bye bye\n");
    assert_eq!((world.clients.tally.connects, world.clients.tally.quit), (1, 1));
}

/// Two clients never get the same challenge, nor one that could be foreseen.
#[test]
fn challenges_are_different() {
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
fn whoever_may_not_log_in_from_there_is_told_so_and_closed() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:[127.0.0.1]\n");
    let mut theirs = world.connect();
    world.serve();
    assert_eq!(heard(&mut theirs), "version zmailer 2.0\n550 NO ACCESS FOR YOU\n");
    assert_eq!(theirs.read(&mut [0; 10]).expect("closed"), 0);
    assert_eq!(world.clients.tally.refused_logins, 1);
}

#[test]
fn strangers_have_little_time_and_make_way() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut first = world.log_in("sekret");
    let mut strangers: Vec<UnixStream> = (1..MOST_CLIENTS).map(|_| world.connect()).collect();
    world.serve();
    let _late = world.connect();
    world.serve();
    heard(&mut strangers[0]);
    assert_eq!(strangers[0].read(&mut [0; 10]).expect("closed"), 0, "the oldest has made way");
    assert!(!heard(&mut strangers[1]).is_empty());
    assert!(world.ask(&mut first, "SHOW SNMP\n").starts_with("+OK"), "who has logged in stays");
    let left = |world: &World, number: usize| {
        world.clients.clients[&number].time_left(PATIENCE, Instant::now())
    };
    assert!(left(&world, 2) <= TIME_TO_LOG_IN && left(&world, 2) > TIME_TO_LOG_IN / 2);
    assert!(left(&world, 0) > TIME_TO_LOG_IN, "and has more time");
}

/// Who has begun an answer that it does not take holds up others for a short time only, and costs no more
/// than its share.
#[test]
fn long_answers_are_written_some_at_a_time() {
    let (mut world, _folder) = World::with_accounts(1, "root:sekret:ALL:\n");
    let (mut first, mut second) = (world.log_in("sekret"), world.log_in("sekret"));
    // Something is to be found out before there is an answer.
    assert_eq!(world.ask(&mut first, "SHOW COUNTERS\n"), "+OK until LF.LF\n");
    assert_eq!(world.clients.take_demands().len(), 1);
    assert_eq!(world.ask(&mut second, "SHOW SNMP\n"), "", "it is in line");
    assert_eq!(world.clients.patience(), PATIENCE_IN_DEMAND);
    assert!(!world.clients.have_room(), "nobody can go on, and nobody is tried over and over");
    world.clients.learn(0, Findings::Host(Default::default()));
    assert!(world.clients.have_room());
    world.serve();
    assert!(heard(&mut first).ends_with("\n.\n"));
    world.serve();
    assert!(heard(&mut second).starts_with("+OK until LF.LF\nKids: "));
    assert!(!world.clients.have_room());
}

/// Requests that are sent together are answered in order, whatever has to be waited for.
#[test]
fn requests_queue_behind_an_order() {
    let (mut world, _folder) = World::with_accounts(4, "root:sekret:ALL:\n");
    let mut theirs = world.log_in("sekret");
    assert_eq!(world.ask(&mut theirs, "ETRN a.test\nFOO\nQUIT\n"), "");
    let demands = world.clients.take_demands();
    let [(0, Demand::Obey { by, .. })] = &demands[..] else { panic!("{demands:?}") };
    assert!(by.starts_with("root from user "), "{by}");
    assert!(!world.clients.have_room());
    let ticket = world.clients.order(0);
    world.clients.obeyed(ticket, &Effect { started: true, ..Effect::default() });
    // One request a turn.
    (0..3).for_each(|_| world.serve());
    let answers = heard(&mut theirs);
    assert!(answers.starts_with("+OK; an ETRN started something.\n-MAILQ2 Unknown"), "{answers}");
    assert!(answers.ends_with("+Bye bye\n"), "{answers}");
    world.clients.obeyed(ticket, &Effect::default());
}
