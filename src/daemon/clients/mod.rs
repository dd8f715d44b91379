//! Connections of clients: of MAILQ in both versions, and of the control socket.
//!
//! What a client is sent is written into a bounded buffer, and on from there only as it reads. A
//! client that takes nothing for a while loses its connection, as does one that takes for ever, does not
//! log in, or talks where nobody listens. Nothing it does is waited for. Where the queue is so large that
//! dumps and answers cost much memory, so many are written at a time as fit into some; those that come later
//! wait in line. Short answers never do ([`turn`]).

mod client;
mod logins;
#[cfg(test)]
mod tests;
mod turn;

use super::accounts::Accounts;
use super::listen::{Audience, Stream};
use super::seldom::Seldom;
use super::timeouts::Timeouts;
use super::worker;
use client::{BUFFERED, Client, Conversation, Task};
use logins::Logins;
use mio::{Registry, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::{Duration, Instant};
use turn::{Class, Slots};
use zsched_core::intake::elsewhere::Elsewhere;
use zsched_core::{Effect, OrderTicket, Scheduler};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::scram::Secret;
use zsched_mailq_server::login::Challenge;
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::events::Watch;
use zsched_mailq_server::v2::{
    Demand, Findings, GREETING, NO_ACCESS, Process, Remark, Session, Surroundings, Tally,
};
use zsched_sys as sys;
use zsched_sys::users;

/// How many clients there may be. The C client opens a needless connection for each address.
const MOST_CLIENTS: usize = 200;
/// How many more there may be over the control socket: its owner gets in when all the others are taken.
const MORE_FOR_CONTROL: usize = 20;
/// Why other hosts are told nothing.
const NEEDS_TRUST: &str = "version 1 has no logins (PARAMauthfile, or PARAMmailq-trust-network=1)";
/// For sessions that need none: nobody logs in.
const NO_SECRET: Secret = [0; 32];

/// Maximum time that an order waits for a message that is read for it.
const TIME_TO_FETCH: Duration = Duration::from_secs(10);
/// How often it is found out how many there may be.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// What all clients get.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// When the scheduler was started.
    pub started: Timestamp,
    /// Whether version 1 shows single vertices.
    pub with_vertices: bool,
    /// Whether version 2 is spoken, which demands a login.
    pub speak_version_2: bool,
    /// When clients lose their connections.
    pub timeouts: Timeouts,
}

/// All connected clients.
pub struct Clients {
    settings: ClientSettings,
    accounts: Accounts,
    clients: BTreeMap<usize, Client>,
    next: usize,
    /// The client of each class that is served first in the next turn, so that all get their share.
    first: [usize; Class::ALL.len()],
    /// How many long answers may be written at a time, and when that was found out.
    most_slots: Option<(Slots, Instant)>,
    tally: Tally,
    process: Process,
    /// Known to nobody else; made for the first one who needs it.
    secret: Option<Secret>,
    watch: Rc<Watch>,
    /// Challenges that were given.
    challenges: u64,
    /// What sessions want, by the number of the client.
    demands: Vec<(usize, Demand)>,
    /// Orders that are not obeyed yet, and whose they are.
    orders: BTreeMap<OrderTicket, usize>,
    last_order: OrderTicket,
    /// Messages that are read for clients, and how long these wait.
    fetches: BTreeMap<usize, (u64, Instant)>,
    remarks: Vec<Remark>,
    /// Clients from where nobody may log in.
    refused: Seldom,
    /// Logins that have failed.
    logins: Logins,
}

impl Clients {
    /// No clients.
    pub fn new(settings: ClientSettings, accounts: Accounts, watch: Rc<Watch>) -> Clients {
        let (started, pid) = (settings.started, std::process::id());
        Clients {
            process: Process { started, pid, is_loading: true },
            secret: None,
            watch,
            settings,
            accounts,
            clients: BTreeMap::new(),
            next: 0,
            first: [0; Class::ALL.len()],
            most_slots: None,
            tally: Tally::default(),
            challenges: 0,
            demands: Vec::new(),
            orders: BTreeMap::new(),
            last_order: 0,
            fetches: BTreeMap::new(),
            remarks: Vec::new(),
            refused: Seldom::default(),
            logins: Logins::default(),
        }
    }

    /// What was there at the start is loaded.
    pub fn end_loading(&mut self) {
        self.process.is_loading = false;
    }

    /// From now on version 2 is spoken, which demands a login.
    pub fn speak_version_2(&mut self) {
        self.settings.speak_version_2 = true;
    }

    /// Whether it is.
    pub fn speaks_version_2(&self) -> bool {
        self.settings.speak_version_2
    }

    /// What to know of where other hosts can connect.
    pub fn warning_to_others(&self) -> &'static str {
        match (self.settings.speak_version_2, self.accounts.trusts_network()) {
            (true, true) => {
                "other hosts can connect: whoever listens on the way can find out weak passwords"
            }
            (true, false) => "other hosts can connect, with passwords of which a hash is kept",
            (false, true) => "other hosts can connect, and see the queue without a login",
            (false, false) => {
                "other hosts can connect, and are turned away: version 1 has no logins"
            }
        }
    }

    /// The accounts.
    pub fn accounts(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Takes in a client. `token` makes a token of a client's number.
    pub fn welcome(
        &mut self,
        mut stream: Stream,
        audience: Audience,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<()> {
        self.tally.connects += u64::from(self.settings.speak_version_2);
        self.make_room(audience)?;
        let (task, greeting) = match audience {
            Audience::Control => open_control(&stream)?,
            Audience::Mailq if self.settings.speak_version_2 => self.open_session(&stream)?,
            Audience::Mailq => self.open_dump(&stream)?,
        };
        stream.register(registry, token(self.next))?;
        let is_privileged = audience == Audience::Control;
        self.clients.insert(self.next, Client::new(stream, task, &greeting, is_privileged));
        self.next += 1;
        Ok(())
    }

    /// Sees to it that there is room for one more. A client that has not logged in makes way.
    fn make_room(&mut self, audience: Audience) -> io::Result<()> {
        let more = if audience == Audience::Control { MORE_FOR_CONTROL } else { 0 };
        if self.clients.len() < MOST_CLIENTS + more {
            return Ok(());
        }
        let mut strangers = self.clients.iter().filter(|(_, client)| client.is_stranger());
        let Some(oldest) = strangers.next().map(|(number, _)| *number) else {
            return Err(io::Error::new(ErrorKind::QuotaExceeded, "too many MAILQ clients"));
        };
        self.remove(oldest);
        self.tally.timed_out += 1;
        Ok(())
    }

    /// Version 1 shows the queue without a login: not to other hosts, unless the network is trusted.
    fn open_dump(&mut self, stream: &Stream) -> io::Result<(Task, String)> {
        let peer = stream.peer()?;
        if peer.is_near() || self.accounts.trusts_network() {
            return Ok((Task::Line, String::new()));
        }
        let text = format!("MAILQ: {peer} is turned away: {NEEDS_TRUST}");
        self.remarks.push(Remark::Refused(text));
        Ok((Task::Done, format!("{GREETING}{NO_ACCESS}")))
    }

    fn open_session(&mut self, stream: &Stream) -> io::Result<(Task, String)> {
        let peer = stream.peer()?;
        if self.secret.is_none() {
            self.secret = Some(secret()?);
        }
        self.challenges += 1;
        let challenge = Challenge::new(Timestamp::now(), sys::random_number()?, self.challenges);
        let (session, greeting) = Session::open(peer, challenge, &self.accounts.current());
        if session.is_over() {
            self.tally.refused_logins += 1;
            let text = format!("MAILQ: {peer} is turned away: nobody may log in from there");
            self.remarks.push(Remark::Refused(text));
            return Ok((Task::Done, greeting));
        }
        Ok((Task::Session(Box::new(Conversation::new(session))), greeting))
    }

    /// A client may have said something, taken something, or gone. Tells whether it may have said more.
    pub fn listen(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(&number) else {
            return false;
        };
        match client.listen() {
            Ok(more) => more,
            Err(_) => {
                self.remove(number);
                false
            }
        }
    }

    fn remove(&mut self, number: usize) {
        self.fetches.remove(&number);
        if let Some(mut client) = self.clients.remove(&number) {
            self.remarks.extend(client.abandon());
        }
    }

    /// Gives a client up: what it has asked for cannot be found out.
    pub fn disconnect(&mut self, number: usize) {
        self.remove(number);
    }

    /// What was found out for a client.
    pub fn learn(&mut self, number: usize, findings: Findings) {
        let client = self.clients.get_mut(&number);
        if let Some(conversation) = client.and_then(Client::conversation) {
            conversation.session.learn(findings);
        }
    }

    /// Something was done for a client; `Err` says why not.
    pub fn done(&mut self, number: usize, outcome: Result<(), String>) {
        let client = self.clients.get_mut(&number);
        if let Some(conversation) = client.and_then(Client::conversation) {
            conversation.session.done(outcome);
        }
    }

    /// A message is being read for a client, whose session waits for it.
    pub fn await_message(&mut self, client: usize, number: u64) {
        self.fetches.insert(client, (number, Instant::now() + TIME_TO_FETCH));
    }

    /// Lets sessions go on whose messages are there, will not come, or take too long.
    fn end_fetches(&mut self, scheduler: &Scheduler, elsewhere: &dyn Elsewhere) {
        if self.fetches.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_over = |(number, until): &(u64, Instant)| {
            let is_there = scheduler.spool_id(*number).is_some();
            is_there || *until <= now || elsewhere.whereabouts(*number).is_none()
        };
        let fetches = self.fetches.iter().filter(|(_, fetch)| is_over(fetch));
        for client in fetches.map(|(client, _)| *client).collect::<Vec<usize>>() {
            self.fetches.remove(&client);
            self.done(client, Ok(()));
        }
    }

    /// Names an order of a client.
    pub fn order(&mut self, number: usize) -> OrderTicket {
        self.last_order += 1;
        self.orders.insert(self.last_order, number);
        self.last_order
    }

    /// An order has been obeyed.
    pub fn obeyed(&mut self, ticket: OrderTicket, effect: &Effect) {
        let number = self.orders.remove(&ticket);
        let client = number.and_then(|number| self.clients.get_mut(&number));
        if let Some(conversation) = client.and_then(Client::conversation) {
            conversation.session.obeyed(effect);
        }
    }

    /// What sessions want, by the number of the client.
    pub fn take_demands(&mut self) -> Vec<(usize, Demand)> {
        std::mem::take(&mut self.demands)
    }

    /// How many dumps and long answers may be begun.
    fn slots(&mut self, scheduler: &Scheduler) -> Slots {
        let mut under_way = Slots::default();
        for client in self.clients.values().filter(|client| client.is_writing_long()) {
            *under_way.of(client.kind()) += 1;
        }
        self.most_slots(scheduler).left(under_way)
    }

    /// Begins dumps for those in line, and lets long answers begin, as far as there may be more.
    fn admit(&mut self, scheduler: &Scheduler) {
        if !self.clients.values().any(Client::is_in_line) {
            return;
        }
        let mut slots = self.slots(scheduler);
        for client in self.clients.values_mut().filter(|client| client.is_in_line()) {
            let left = slots.of(client.kind());
            if *left == 0 {
                continue;
            }
            *left -= 1;
            match &mut client.task {
                Task::Session(conversation) => conversation.session.line_up(false),
                _ => client.begin_dump(&self.settings),
            }
        }
    }

    fn most_slots(&mut self, scheduler: &Scheduler) -> Slots {
        if let Some((most, counted)) = self.most_slots
            && counted.elapsed() < COUNT_AGAIN
        {
            return most;
        }
        let most = Slots::of_memory(Dump::memory(&scheduler.totals()) + 2 * BUFFERED);
        self.most_slots = Some((most, Instant::now()));
        most
    }

    /// The timeouts of now: a stalled client has less time while others wait in line.
    fn timeouts(&self) -> Timeouts {
        let mut timeouts = self.settings.timeouts;
        if self.clients.values().any(Client::is_in_line) {
            timeouts.stalled_client = timeouts.stalled_client_in_demand;
        }
        timeouts
    }

    /// Writes on for all clients that have room, within the shares of one turn.
    pub fn serve(&mut self, scheduler: &Scheduler, elsewhere: &dyn Elsewhere, now: Timestamp) {
        self.end_fetches(scheduler, elsewhere);
        self.write_on(scheduler, elsewhere, now);
        // Some may have made room.
        self.admit(scheduler);
        self.log_remarks();
    }

    fn log_remarks(&mut self) {
        let now = Instant::now();
        for remark in self.remarks.drain(..) {
            match remark {
                Remark::LoggedIn(text) => log::debug!("{text}"),
                Remark::Notable(text) => log::info!("{text}"),
                Remark::Refused(text) => {
                    if let Some(more) = self.refused.occasion(now) {
                        log::warn!("{text}{more}");
                    }
                }
                Remark::LoginFailed(peer, text) => {
                    self.logins
                        .failed(&peer, text, now)
                        .iter()
                        .for_each(|text| log::warn!("{text}"));
                }
            }
        }
        self.logins.reports(now).iter().for_each(|line| log::warn!("{line}"));
    }

    fn write_on(&mut self, scheduler: &Scheduler, elsewhere: &dyn Elsewhere, now: Timestamp) {
        if self.clients.is_empty() {
            return;
        }
        let is_session = |client: &&Client| matches!(client.task, Task::Session(_));
        self.tally.parallel = self.clients.values().filter(is_session).count() as u64;
        let timeouts = self.timeouts();
        let mut slots = self.slots(scheduler);
        for (class, place) in Class::ALL.into_iter().zip(0..) {
            let (share, begun) = (class.share(), Instant::now());
            let mut left = share.bytes;
            for number in self.of_class(class, self.first[place]) {
                self.first[place] = number;
                if left == 0 || begun.elapsed() > share.time {
                    break;
                }
                let (written, is_over) = self.serve_one(
                    number,
                    (scheduler, elsewhere),
                    (now, begun),
                    &timeouts,
                    &mut slots,
                );
                left = left.saturating_sub(written);
                if is_over {
                    self.remove(number);
                }
            }
        }
    }

    /// The clients of a class in the order in which they are served, from one of them on.
    fn of_class(&self, class: Class, first: usize) -> Vec<usize> {
        let all = self.clients.range(first..).chain(self.clients.range(..first));
        all.filter(|(_, client)| client.class() == class).map(|(number, _)| *number).collect()
    }

    /// Writes on for one client. Tells how many bytes, and whether its connection is to be closed.
    fn serve_one(
        &mut self,
        number: usize,
        (scheduler, elsewhere): (&Scheduler, &dyn Elsewhere),
        (now, turn): (Timestamp, Instant),
        timeouts: &Timeouts,
        slots: &mut Slots,
    ) -> (usize, bool) {
        let client = self.clients.get_mut(&number).expect("it was there a moment ago");
        // No event tells of little room. One that takes a little at a time gets its due at the last moment.
        if !client.can_go_on(turn) && !client.time_left(timeouts, turn).is_zero() {
            return (0, false);
        }
        let accounts = &mut self.accounts;
        let mut around = Surroundings {
            scheduler,
            now,
            process: self.process,
            elsewhere,
            secret: self.secret.as_ref().unwrap_or(&NO_SECRET),
            watch: &self.watch,
            accounts: &mut || accounts.current(),
            tally: &mut self.tally,
            remarks: &mut self.remarks,
        };
        let (was_long, left) = (client.is_writing_long(), slots.of(client.kind()));
        // A panic while an answer is put together costs that client only.
        let logins = &mut self.logins;
        let served = worker::attempt(|| client.serve(&mut around, *left, logins));
        match (was_long, client.is_writing_long()) {
            (false, true) => *left = left.saturating_sub(1),
            (true, false) => *left += 1,
            _ => {}
        }
        let Some(Ok((written, demand))) = served else {
            return (0, true);
        };
        self.demands.extend(demand.map(|demand| (number, demand)));
        let is_late = client.time_left(timeouts, turn).is_zero();
        if is_late && client.conversation().is_some() {
            self.tally.timed_out += 1;
        }
        (written, is_late)
    }

    /// Whether more can be written for somebody at once.
    pub fn have_room(&self) -> bool {
        let now = Instant::now();
        self.clients.values().any(|client| client.can_go_on(now))
    }

    /// How long until a client has run out of time, or has waited long enough.
    pub fn until_timeout(&self) -> Option<Duration> {
        let (timeouts, now) = (self.timeouts(), Instant::now());
        let until = |at: Instant| at.saturating_duration_since(now);
        let left = self.clients.values().map(|client| {
            let log_in_at = client.log_in_at().map_or(Duration::MAX, until);
            client.time_left(&timeouts, now).min(log_in_at)
        });
        let fetches = self.fetches.values().map(|(_, end)| until(*end));
        left.chain(fetches).chain(self.logins.until_report(now)).min()
    }
}

fn secret() -> io::Result<Secret> {
    let mut secret = NO_SECRET;
    for part in secret.chunks_exact_mut(8) {
        part.copy_from_slice(&sys::random_number()?.to_ne_bytes());
    }
    Ok(secret)
}

/// A client of the control socket. Its mode keeps others out; should it have been changed, we do.
fn open_control(stream: &Stream) -> io::Result<(Task, String)> {
    let peer = stream.peer()?;
    let (session, greeting) = Session::privileged(peer);
    match peer.user() {
        Some(user) if user == 0 || user == users::effective_user() => {
            Ok((Task::Session(Box::new(Conversation::new(session))), greeting))
        }
        _ => Ok((Task::Done, format!("{greeting}{NO_ACCESS}"))),
    }
}
