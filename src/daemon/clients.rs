//! Connections of clients: of MAILQ, and of the control socket.
//!
//! What a client is sent is written into a bounded buffer, and on from there only as it reads. A
//! client that takes nothing for a while loses its connection, as does one that takes for ever, or talks
//! where nobody listens. Nothing it does is waited for. Where the queue is so large that dumps cost much
//! memory, so many are written at a time as fit into some; who comes later waits in line.

use super::listen::{Audience, Stream};
use super::outbox::Outbox;
use crate::mailq::control::{self, Conversation};
use crate::mailq::v1::Dump;
use crate::scheduler::Scheduler;
use crate::time::Timestamp;
use mio::{Registry, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// How much may wait for one client, in bytes; one step of a dump may go beyond it.
const BUFFERED: usize = 64 * 1024;
/// How long a client may take nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a client may take nothing while others wait in line.
const PATIENCE_IN_DEMAND: Duration = Duration::from_secs(10);
/// How long a whole dump may take.
const TIME_FOR_DUMP: Duration = Duration::from_secs(600);
/// How long a client may take to close its end when it has everything.
const TIME_TO_CLOSE: Duration = Duration::from_secs(5);
/// How many clients there may be. The C client opens a needless connection for each address.
const MOST_CLIENTS: usize = 200;
/// How much is written for all clients in one turn of the loop, in bytes.
const SHARE_OF_TURN: usize = 256 * 1024;

/// How much a client of MAILQ version 1 may say, which knows no requests, in bytes.
const MOST_SAID: usize = 64 * 1024;
/// How much of it is read in one turn of the loop, in bytes.
const HEARD_A_TURN: usize = 16 * 1024;
/// How much memory the dumps that are being written may take together, in bytes.
const MEMORY_FOR_DUMPS: usize = 64 * 1024 * 1024;
/// So many dumps are written at a time, whatever they take.
const FEWEST_DUMPS: usize = 4;
/// How often it is found out how many there may be.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// What all clients get.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// When the scheduler was started.
    pub started: Timestamp,
    /// Whether single vertices are shown.
    pub with_vertices: bool,
    /// Nobody is let in: version 2 was asked for, which needs logins that we do not have yet.
    pub refuse: bool,
}

/// What a client that is not let in is told (MAILQ version 2).
const REFUSAL: &[u8] = b"version zmailer 2.0\n550 NO ACCESS FOR YOU\n";

/// All connected clients.
pub struct Clients {
    settings: ClientSettings,
    clients: BTreeMap<usize, Client>,
    next: usize,
    /// Who is served first in the next turn, so that all get their share.
    first: usize,
    /// How many dumps may be written at a time, and when that was found out.
    most_dumps: Option<(usize, Instant)>,
}

struct Client {
    stream: Stream,
    outbox: Outbox,
    /// It takes nothing more for now; an event will tell when it does.
    is_stalled: bool,
    /// How many bytes it has said that nobody listens to.
    said: usize,
    /// What else it is to be sent.
    task: Task,
    /// When it last took or said something, or came.
    progress: Instant,
    /// When its dump was begun.
    begun: Option<Instant>,
    /// It has everything, and is expected to close its end.
    is_served: bool,
}

/// What a client came for.
enum Task {
    /// To wait for a dump.
    Line,
    /// A dump of the queue.
    Dump(Box<Dump>),
    /// To ask, and be answered.
    Conversation {
        conversation: Conversation,
        /// It may have said something that was not read yet.
        speaks: bool,
    },
    /// Nothing any more.
    Done,
}

impl Clients {
    /// No clients.
    pub fn new(settings: ClientSettings) -> Clients {
        Clients { settings, clients: BTreeMap::new(), next: 0, first: 0, most_dumps: None }
    }

    /// Takes in a client. `token` makes a token of a client's number.
    pub fn welcome(
        &mut self,
        mut stream: Stream,
        audience: Audience,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<()> {
        if self.clients.len() >= MOST_CLIENTS {
            return Err(io::Error::new(ErrorKind::QuotaExceeded, "too many MAILQ clients"));
        }
        stream.register(registry, token(self.next))?;
        let mut outbox = Outbox::default();
        let task = match audience {
            Audience::Control => {
                outbox.push(control::GREETING.as_bytes());
                Task::Conversation { conversation: Conversation::default(), speaks: true }
            }
            Audience::Mailq if self.settings.refuse => {
                outbox.push(REFUSAL);
                Task::Done
            }
            Audience::Mailq => Task::Line,
        };
        let client = Client {
            stream,
            outbox,
            is_stalled: false,
            said: 0,
            task,
            progress: Instant::now(),
            begun: None,
            is_served: false,
        };
        self.clients.insert(self.next, client);
        self.next += 1;
        Ok(())
    }

    /// A client may have said something, taken something, or gone. Tells whether it may have said more.
    pub fn listen(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(&number) else {
            return false;
        };
        client.is_stalled = false;
        match client.listen() {
            Ok(more) => more,
            Err(_) => {
                self.clients.remove(&number);
                false
            }
        }
    }

    /// Begins dumps for those in line, as far as there may be more.
    fn admit(&mut self, scheduler: &Scheduler) {
        let waits = |client: &Client| matches!(client.task, Task::Line);
        if !self.clients.values().any(waits) {
            return;
        }
        let most = self.most_dumps(scheduler);
        let dumps = self.clients.values().filter(|client| matches!(client.task, Task::Dump(_)));
        let room = most.saturating_sub(dumps.count());
        let ClientSettings { started, with_vertices, .. } = self.settings;
        for client in self.clients.values_mut().filter(|client| waits(client)).take(room) {
            client.task = Task::Dump(Box::new(Dump::new(started, with_vertices)));
            client.progress = Instant::now();
            client.begun = Some(client.progress);
        }
    }

    fn most_dumps(&mut self, scheduler: &Scheduler) -> usize {
        if let Some((most, counted)) = self.most_dumps
            && counted.elapsed() < COUNT_AGAIN
        {
            return most;
        }
        let most = most_dumps(Dump::memory(&scheduler.totals()));
        self.most_dumps = Some((most, Instant::now()));
        most
    }

    /// How long a client that is being served may take nothing.
    fn patience(&self) -> Duration {
        let is_line = self.clients.values().any(|client| matches!(client.task, Task::Line));
        if is_line { PATIENCE_IN_DEMAND } else { PATIENCE }
    }

    /// Writes on for all clients that have room, within the share of one turn.
    pub fn serve(&mut self, scheduler: &Scheduler, now: Timestamp) {
        self.write_on(scheduler, now);
        // Some may have made room.
        self.admit(scheduler);
    }

    fn write_on(&mut self, scheduler: &Scheduler, now: Timestamp) {
        let patience = self.patience();
        let mut left = SHARE_OF_TURN;
        let later = self.clients.range(self.first..);
        let order: Vec<usize> =
            later.chain(self.clients.range(..self.first)).map(|(number, _)| *number).collect();
        for number in order {
            self.first = number;
            if left == 0 {
                return;
            }
            let client = self.clients.get_mut(&number).expect("it was there a moment ago");
            // No event tells of little room. One that takes a little at a time gets its due at the last moment.
            let is_tried = client.can_go_on() || client.time_left(patience).is_zero();
            let served = if is_tried { client.serve(scheduler, now) } else { Ok(0) };
            let is_over = served.is_err() || client.time_left(patience).is_zero();
            left = left.saturating_sub(served.unwrap_or_default());
            if is_over {
                self.clients.remove(&number);
            }
        }
    }

    /// Whether more can be written for somebody at once.
    pub fn have_room(&self) -> bool {
        self.clients.values().any(Client::can_go_on)
    }

    /// How long until a client has run out of time.
    pub fn until_timeout(&self) -> Option<Duration> {
        let patience = self.patience();
        self.clients.values().map(|client| client.time_left(patience)).min()
    }
}

/// How many dumps that take so much memory may be written at a time.
fn most_dumps(memory: usize) -> usize {
    (MEMORY_FOR_DUMPS / (memory + 2 * BUFFERED)).clamp(FEWEST_DUMPS, MOST_CLIENTS)
}

impl Client {
    /// Listens to what it says, as far as anybody wants to know. Tells whether it may have said more. An
    /// error means that nothing is to be expected of it.
    fn listen(&mut self) -> io::Result<bool> {
        if let Task::Conversation { speaks, .. } = &mut self.task {
            // It is read when there is room for it.
            *speaks = true;
            return Ok(false);
        }
        // Version 1 has no requests: what they say is passed over.
        let mut unheard = [0; 4096];
        let before = self.said;
        while self.said < before + HEARD_A_TURN {
            match self.stream.read(&mut unheard) {
                Ok(0) if self.is_served => return Err(ErrorKind::UnexpectedEof.into()),
                // It has closed its sending end only, for all we know.
                Ok(0) => return Ok(false),
                Ok(count) => self.said += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.said > MOST_SAID { Err(ErrorKind::InvalidData.into()) } else { Ok(true) }
    }

    /// Fills the outbox and sends what is in it. Returns how many bytes were written into it.
    fn serve(&mut self, scheduler: &Scheduler, now: Timestamp) -> io::Result<usize> {
        let before = self.outbox.len();
        self.work(scheduler, now)?;
        let written = self.outbox.len() - before;
        if self.outbox.flush(&mut self.stream)? > 0 {
            self.progress = Instant::now();
        }
        self.is_stalled = !self.outbox.is_empty();
        let is_done = matches!(self.task, Task::Done);
        if self.outbox.is_empty() && is_done && !self.is_served {
            self.is_served = true;
            self.progress = Instant::now();
            self.stream.close_sending()?;
        }
        Ok(written)
    }

    /// Goes on with what it came for, as far as there is room in the outbox.
    fn work(&mut self, scheduler: &Scheduler, now: Timestamp) -> io::Result<()> {
        let before = self.outbox.len();
        let buffer = self.outbox.buffer();
        let enough = buffer.len() + BUFFERED.saturating_sub(before);
        let is_over = match &mut self.task {
            Task::Dump(dump) => {
                dump.write(scheduler, now, buffer, enough);
                dump.is_over()
            }
            Task::Conversation { conversation, speaks } => {
                if *speaks {
                    *speaks = hear(&mut self.stream, conversation)?;
                    self.progress = Instant::now();
                }
                while buffer.len() < enough && conversation.has_request() {
                    conversation.answer(scheduler, now, buffer);
                }
                conversation.is_over()
            }
            Task::Line | Task::Done => false,
        };
        if is_over {
            self.task = Task::Done;
        }
        Ok(())
    }

    /// Whether there is something to be written for it, or sent, that it may take.
    fn can_go_on(&self) -> bool {
        let has_more = match &self.task {
            Task::Dump(_) => true,
            Task::Conversation { conversation, speaks } => *speaks || conversation.has_request(),
            Task::Done => !self.is_served,
            Task::Line => false,
        };
        !self.is_stalled && (has_more || !self.outbox.is_empty())
    }

    /// How long it may go on like this, if one that is being served may take nothing for `patience`.
    fn time_left(&self, patience: Duration) -> Duration {
        let patience = match self.task {
            // It is not for it to do anything.
            Task::Line => return Duration::MAX,
            Task::Done if self.is_served => TIME_TO_CLOSE,
            _ => patience,
        };
        let left = patience.saturating_sub(self.progress.elapsed());
        let for_dump = self.begun.map(|begun| TIME_FOR_DUMP.saturating_sub(begun.elapsed()));
        for_dump.map_or(left, |for_dump| left.min(for_dump))
    }
}

/// Hears what a client says, as far as there is room for it. Tells whether there may be more.
fn hear(stream: &mut Stream, conversation: &mut Conversation) -> io::Result<bool> {
    let mut said = [0; 4096];
    while conversation.room() > 0 {
        let room = conversation.room().min(said.len());
        match stream.read(&mut said[..room]) {
            Ok(0) => {
                conversation.end();
                return Ok(false);
            }
            Ok(count) => conversation.take_in(&said[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Context, Zenv};
    use crate::scheduler::Settings;
    use mio::Poll;
    use std::io::Write;
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
            let settings = ClientSettings { started: NOW, with_vertices: true, refuse: false };
            let mut clients = Clients::new(settings);
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
        client.begun = client.begun.and_then(|begun| begun.checked_sub(TIME_FOR_DUMP));
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
}
