//! Connections of clients: of MAILQ, and of the control socket.
//!
//! What a client is sent is written into a bounded buffer, and on from there only as it reads. A
//! client that takes nothing for a while loses its connection. Nothing it does is waited for.

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
/// How long a client may take to close its end when it has everything.
const TIME_TO_CLOSE: Duration = Duration::from_secs(5);
/// How many clients there may be. The C client opens a needless connection for each address.
const MOST_CLIENTS: usize = 200;
/// How much is written for all clients in one turn of the loop, in bytes.
const SHARE_OF_TURN: usize = 256 * 1024;

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
}

struct Client {
    stream: Stream,
    outbox: Outbox,
    /// What else it is to be sent.
    task: Task,
    /// When it last took or said something, or came.
    progress: Instant,
    /// It has everything, and is expected to close its end.
    is_served: bool,
}

/// What a client came for.
enum Task {
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
        Clients { settings, clients: BTreeMap::new(), next: 0, first: 0 }
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
            Audience::Mailq => {
                let ClientSettings { started, with_vertices, .. } = self.settings;
                Task::Dump(Box::new(Dump::new(started, with_vertices)))
            }
        };
        let client = Client { stream, outbox, task, progress: Instant::now(), is_served: false };
        self.clients.insert(self.next, client);
        self.next += 1;
        Ok(())
    }

    /// A client may have said something, or gone.
    pub fn listen(&mut self, number: usize) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        if let Task::Conversation { speaks, .. } = &mut client.task {
            // It is read when there is room for it.
            *speaks = true;
            return;
        }
        // Version 1 has no requests: what they say is passed over.
        let mut unheard = [0; 4096];
        loop {
            match client.stream.read(&mut unheard) {
                Ok(0) if client.is_served => break,
                // It has closed its sending end only, for all we know.
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.clients.remove(&number);
    }

    /// Writes on for all clients that have room, within the share of one turn.
    pub fn serve(&mut self, scheduler: &Scheduler, now: Timestamp) {
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
            let served = client.serve(scheduler, now);
            let is_over = served.is_err() || client.has_run_out_of_time();
            left = left.saturating_sub(served.unwrap_or_default());
            if is_over {
                self.clients.remove(&number);
            }
        }
    }

    /// Whether more can be written for somebody at once.
    pub fn have_room(&self) -> bool {
        self.clients.values().any(Client::has_room)
    }

    /// How long until a client has run out of time.
    pub fn until_timeout(&self) -> Option<Duration> {
        let left = |client: &Client| client.patience().saturating_sub(client.progress.elapsed());
        self.clients.values().map(left).min()
    }
}

impl Client {
    /// Fills the outbox and sends what is in it. Returns how many bytes were written into it.
    fn serve(&mut self, scheduler: &Scheduler, now: Timestamp) -> io::Result<usize> {
        let before = self.outbox.len();
        self.work(scheduler, now)?;
        let written = self.outbox.len() - before;
        if self.outbox.flush(&mut self.stream)? > 0 {
            self.progress = Instant::now();
        }
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
            Task::Done => false,
        };
        if is_over {
            self.task = Task::Done;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let has_more = match &self.task {
            Task::Dump(_) => true,
            Task::Conversation { conversation, speaks } => *speaks || conversation.has_request(),
            Task::Done => false,
        };
        has_more && self.outbox.is_empty()
    }

    fn patience(&self) -> Duration {
        if self.is_served { TIME_TO_CLOSE } else { PATIENCE }
    }

    fn has_run_out_of_time(&self) -> bool {
        self.progress.elapsed() >= self.patience()
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
