//! Clients without a network: pairs of sockets.

use super::client::{HEARD_A_TURN, MOST_SAID, TIME_FOR_ANSWER};
use super::*;
use crate::config::{Config, Context, Zenv};
use crate::scheduler::Settings;
use mio::Poll;
use std::io::{Read, Write};
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
        let mut clients = Clients::new(settings, Accounts::new(None));
        clients.most_dumps = Some((most_dumps, Instant::now() + Duration::from_secs(3600)));
        let core = Scheduler::new(Settings::default(), config);
        World { poll: Poll::new().expect("a poll"), core, clients }
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
        self.clients.serve(&self.core, NOW);
    }
}

fn has_something(stream: &mut UnixStream) -> bool {
    stream.read(&mut [0; 65536]).is_ok()
}

#[test]
fn dumps_of_a_large_queue_are_written_some_at_a_time() {
    assert_eq!(most_dumps(0), MOST_CLIENTS);
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
    assert!(!client.time_left(PATIENCE).is_zero());
    client.begun = client.begun.and_then(|begun| begun.checked_sub(TIME_FOR_ANSWER));
    assert!(client.time_left(PATIENCE).is_zero());
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
