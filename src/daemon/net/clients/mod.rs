//! Connections of clients: of MAILQ in both versions, and of the control socket.
//!
//! Output for a client is composed into a bounded buffer and sent as the client reads it. A client
//! is disconnected if it accepts nothing for a while, takes too long for an answer, does not log
//! in, or sends too much where no input is expected. The loop never waits for a client.
//!
//! Where the queue is so large that dumps and long answers need much memory, the number composed at
//! a time is limited. Later ones wait. Short answers never wait ([`shares`]).

mod client;
mod login_limiter;
mod shares;
#[cfg(test)]
mod tests;

use crate::net::accounts::Accounts;
use crate::net::listen::{Connection, ListenerKind};
use crate::timeouts::Timeouts;
use client::{Client, ClientTask, Conversation, MAX_BUFFERED_OUTPUT};
use login_limiter::LoginLimiter;
use mio::{Interest, Registry, Token};
use shares::{AnswerSlots, ServiceClass, TurnShare};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::{Duration, Instant};
use zsched_core::intake::backlog_view::BacklogView;
use zsched_core::{Effect, OrderTicket, Scheduler};
use zsched_format::log_limiter::LogLimiter;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::scram::Secret;
use zsched_mailq_server::acl::Peer;
use zsched_mailq_server::login::Challenge;
use zsched_mailq_server::v1::Dump;
use zsched_mailq_server::v2::events::Subscribers;
use zsched_mailq_server::v2::{
    Answer, ClientLog, Demand, GREETING, NO_ACCESS, Process, RequestCounters, Session,
    SessionContext,
};
use zsched_service::worker;
use zsched_sys as sys;
use zsched_sys::users;

/// Maximum number of clients. The C client opens a needless connection for each address.
const MAX_CLIENTS: usize = 200;
/// Maximum number of further clients over the control socket.
///
/// They let the scheduler's user and root connect when all other places are taken.
const MAX_EXTRA_CONTROL_CLIENTS: usize = 20;
/// Reason for turning other hosts away.
const UNTRUSTED_NETWORK_REASON: &str =
    "version 1 has no logins (PARAMauthfile, or PARAMmailq-trust-network=1)";
/// Secret for sessions without a login.
const NO_SECRET: Secret = [0; 32];

/// Maximum time that an order waits for its message to be read.
const MAX_FETCH_WAIT: Duration = Duration::from_secs(10);
/// Interval at which the maximum number of long answers is computed again.
const SLOT_COUNT_INTERVAL: Duration = Duration::from_secs(1);

/// Settings common to all clients.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// Start of the scheduler.
    pub started: Timestamp,
    /// Name of the user that this process runs as.
    pub user_name: String,
    /// True if version 1 shows single vertices.
    pub with_vertices: bool,
    /// True if version 2 is spoken, which demands a login.
    pub uses_version_2: bool,
    /// Timeouts of clients.
    pub timeouts: Timeouts,
}

/// All connected clients.
pub(crate) struct Clients {
    pub settings: ClientSettings,
    /// Accounts of MAILQ version 2.
    pub accounts: Accounts,
    clients: BTreeMap<usize, Client>,
    next: usize,
    /// Client of each class to serve first in the next turn.
    ///
    /// It changes from turn to turn, so that all are served.
    first: [usize; ServiceClass::ALL.len()],
    /// Share of each class in a turn.
    shares: [TurnShare; ServiceClass::ALL.len()],
    /// Maximum number of long answers at a time, and when it was computed.
    max_slots: Option<(AnswerSlots, Instant)>,
    request_counters: RequestCounters,
    pub process: Process,
    /// Random key of this process, created for the first session that needs it.
    secret: Option<Secret>,
    watch: Rc<Subscribers>,
    /// Number of challenges sent.
    challenges: u64,
    /// Demands of sessions, by the number of the client.
    demands: Vec<(usize, Demand)>,
    /// Orders under way, with their client.
    orders: BTreeMap<OrderTicket, usize>,
    last_order: OrderTicket,
    /// Messages being read for clients, and the end of the wait.
    fetches: BTreeMap<usize, (u64, Instant)>,
    log_lines: Vec<ClientLog>,
    /// Limiter for log lines about clients that may not log in.
    refused_log: LogLimiter,
    /// Failed logins.
    logins: LoginLimiter,
}

impl Clients {
    /// Creates the table, without clients.
    pub(crate) fn new(
        settings: ClientSettings,
        accounts: Accounts,
        watch: Rc<Subscribers>,
    ) -> Clients {
        let (started, pid) = (settings.started, std::process::id());
        Clients {
            process: Process {
                started,
                pid,
                is_loading: true,
                clock_step: None,
                longest_loop_turn: Duration::ZERO,
                set_log_level: None,
            },
            secret: None,
            watch,
            settings,
            accounts,
            clients: BTreeMap::new(),
            next: 0,
            first: [0; ServiceClass::ALL.len()],
            shares: ServiceClass::ALL.map(ServiceClass::share),
            max_slots: None,
            request_counters: RequestCounters::default(),
            challenges: 0,
            demands: Vec::new(),
            orders: BTreeMap::new(),
            last_order: 0,
            fetches: BTreeMap::new(),
            log_lines: Vec::new(),
            refused_log: LogLimiter::default(),
            logins: LoginLimiter::default(),
        }
    }

    /// Warning to log for an address that other hosts can connect to.
    pub(crate) fn open_address_warning(&self) -> &'static str {
        match (self.settings.uses_version_2, self.accounts.trusts_network) {
            (true, true) => "other hosts can connect: weak passwords can be found by eavesdropping",
            (true, false) => "other hosts can connect, but only with hashed passwords",
            (false, true) => "other hosts can connect, and see the queue without a login",
            (false, false) => "other hosts can connect, and are rejected: version 1 has no logins",
        }
    }

    /// Adds a client. `token` returns the token for a client's number.
    pub(crate) fn add(
        &mut self,
        mut stream: Box<dyn Connection>,
        listener_kind: ListenerKind,
        registry: &Registry,
        token: impl Fn(usize) -> Token,
    ) -> io::Result<()> {
        self.request_counters.connects += u64::from(self.settings.uses_version_2);
        self.make_room(listener_kind)?;
        let (task, greeting) = match listener_kind {
            ListenerKind::Control => open_control(stream.peer()?, &self.settings.user_name),
            ListenerKind::Mailq if self.settings.uses_version_2 => {
                self.open_session(stream.peer()?)?
            }
            ListenerKind::Mailq => self.open_dump(stream.peer()?),
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token(self.next), interest)?;
        let is_privileged = listener_kind == ListenerKind::Control;
        self.clients.insert(self.next, Client::new(stream, task, &greeting, is_privileged));
        self.next += 1;
        Ok(())
    }

    /// Ensures a place for one more client. The oldest session without a login is removed if
    /// necessary.
    fn make_room(&mut self, listener_kind: ListenerKind) -> io::Result<()> {
        let more =
            if listener_kind == ListenerKind::Control { MAX_EXTRA_CONTROL_CLIENTS } else { 0 };
        if self.clients.len() < MAX_CLIENTS + more {
            return Ok(());
        }
        let mut strangers = self.clients.iter().filter(|(_, client)| client.is_unauthenticated());
        let Some(oldest) = strangers.next().map(|(number, _)| *number) else {
            return Err(io::Error::new(ErrorKind::QuotaExceeded, "too many MAILQ clients"));
        };
        self.remove(oldest);
        self.request_counters.timed_out += 1;
        Ok(())
    }

    /// Opens a version 1 connection.
    ///
    /// Version 1 shows the queue without a login. Other hosts are turned away unless the
    /// configuration trusts the network.
    fn open_dump(&mut self, peer: Peer) -> (ClientTask, String) {
        if peer.is_local() || self.accounts.trusts_network {
            return (ClientTask::WaitingForDump, String::new());
        }
        let text = format!("MAILQ: {peer} is rejected: {UNTRUSTED_NETWORK_REASON}");
        self.log_lines.push(ClientLog::Refused(text));
        (ClientTask::Finished, format!("{GREETING}{NO_ACCESS}"))
    }

    fn open_session(&mut self, peer: Peer) -> io::Result<(ClientTask, String)> {
        if self.secret.is_none() {
            self.secret = Some(secret()?);
        }
        self.challenges += 1;
        let challenge = Challenge::new(Timestamp::now(), sys::random_number()?, self.challenges);
        let (session, greeting) = Session::open(peer, challenge, &self.accounts.current());
        if session.is_over() {
            self.request_counters.refused_logins += 1;
            let text = format!("MAILQ: {peer} is rejected: no user may log in from there");
            self.log_lines.push(ClientLog::Refused(text));
            return Ok((ClientTask::Finished, greeting));
        }
        Ok((ClientTask::Session(Box::new(Conversation::new(session))), greeting))
    }

    /// Handles readiness of a client's socket. Returns true if there may be more input.
    pub(crate) fn listen(&mut self, number: usize) -> bool {
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

    /// Disconnects a client.
    pub(crate) fn remove(&mut self, number: usize) {
        self.fetches.remove(&number);
        if let Some(mut client) = self.clients.remove(&number) {
            self.log_lines.extend(client.close());
        }
    }

    /// Passes the answer to a demand to the session of a client.
    pub(crate) fn take_answer(&mut self, number: usize, answer: Answer) {
        let client = self.clients.get_mut(&number);
        if let Some(conversation) = client.and_then(Client::conversation) {
            conversation.session.take_answer(answer);
        }
    }

    /// Records that a session waits for a message that is being read.
    pub(crate) fn wait_for_message(&mut self, client: usize, number: u64) {
        self.fetches.insert(client, (number, Instant::now() + MAX_FETCH_WAIT));
    }

    /// Resumes sessions whose message has arrived, will not come, or takes too long.
    fn end_fetches(&mut self, scheduler: &Scheduler, backlog: &dyn BacklogView) {
        if self.fetches.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_over = |(number, until): &(u64, Instant)| {
            let is_there = scheduler.view().message(*number).is_some();
            is_there || *until <= now || backlog.location(*number).is_none()
        };
        let fetches = self.fetches.iter().filter(|(_, fetch)| is_over(fetch));
        for client in fetches.map(|(client, _)| *client).collect::<Vec<usize>>() {
            self.fetches.remove(&client);
            self.take_answer(client, Answer::Admin(Ok(String::new())));
        }
    }

    /// Assigns a ticket to an order of a client.
    pub(crate) fn add_order(&mut self, number: usize) -> OrderTicket {
        let ticket = self.next_order();
        self.orders.insert(ticket, number);
        ticket
    }

    /// Returns the ticket of an order that no client waits for.
    pub(crate) fn next_order(&mut self) -> OrderTicket {
        self.last_order += 1;
        self.last_order
    }

    /// Passes the effect of an order to its session.
    pub(crate) fn order_done(&mut self, ticket: OrderTicket, effect: Effect) {
        if let Some(number) = self.orders.remove(&ticket) {
            self.take_answer(number, Answer::Order(effect));
        }
    }

    /// Removes and returns the demands of sessions, with the number of the client.
    pub(crate) fn take_demands(&mut self) -> Vec<(usize, Demand)> {
        std::mem::take(&mut self.demands)
    }

    /// Number of dumps and long answers that may be started.
    fn slots(&mut self, scheduler: &Scheduler) -> AnswerSlots {
        let mut under_way = AnswerSlots::default();
        for client in self.clients.values().filter(|client| client.is_writing_long()) {
            *client.slots_of(&mut under_way) += 1;
        }
        self.max_slots(scheduler).left(under_way)
    }

    /// Starts waiting dumps and long answers, as far as the limits allow.
    fn start_waiting_answers(&mut self, scheduler: &Scheduler) {
        if !self.clients.values().any(Client::waits_for_slot) {
            return;
        }
        let mut slots = self.slots(scheduler);
        for client in self.clients.values_mut().filter(|client| client.waits_for_slot()) {
            let left = client.slots_of(&mut slots);
            if *left == 0 {
                continue;
            }
            *left -= 1;
            match &mut client.task {
                ClientTask::Session(conversation) => conversation.session.set_must_queue(false),
                _ => client.start_dump(&self.settings),
            }
        }
    }

    fn max_slots(&mut self, scheduler: &Scheduler) -> AnswerSlots {
        if let Some((slots, counted)) = self.max_slots
            && counted.elapsed() < SLOT_COUNT_INTERVAL
        {
            return slots;
        }
        let slots = AnswerSlots::of_memory(
            Dump::memory(&scheduler.view().totals()) + 2 * MAX_BUFFERED_OUTPUT,
        );
        self.max_slots = Some((slots, Instant::now()));
        slots
    }

    /// Timeouts in force now. A stalled client has less time while others wait.
    fn timeouts(&self) -> Timeouts {
        let mut timeouts = self.settings.timeouts;
        if self.clients.values().any(Client::waits_for_slot) {
            timeouts.stalled_client = timeouts.stalled_client_in_demand;
        }
        timeouts
    }

    /// Continues the output of all clients, within the shares of one turn.
    pub(crate) fn serve(
        &mut self,
        scheduler: &Scheduler,
        backlog: &dyn BacklogView,
        now: Timestamp,
    ) {
        self.end_fetches(scheduler, backlog);
        self.continue_answers(scheduler, backlog, now);
        // Long answers that have ended leave room for others.
        self.start_waiting_answers(scheduler);
        self.write_log_lines();
    }

    fn write_log_lines(&mut self) {
        let now = Instant::now();
        for line in self.log_lines.drain(..) {
            match line {
                ClientLog::Change(text) => log::info!("{text}"),
                ClientLog::Refused(text) => {
                    if let Some(more) = self.refused_log.permit(now) {
                        log::warn!("{text}{more}");
                    }
                }
                ClientLog::LoginFailed(peer, text) => {
                    self.logins
                        .failed(&peer, text, now)
                        .iter()
                        .for_each(|text| log::warn!("{text}"));
                }
            }
        }
        self.logins.reports(now).iter().for_each(|line| log::warn!("{line}"));
    }

    fn continue_answers(
        &mut self,
        scheduler: &Scheduler,
        backlog: &dyn BacklogView,
        now: Timestamp,
    ) {
        if self.clients.is_empty() {
            return;
        }
        let is_session = |client: &&Client| matches!(client.task, ClientTask::Session(_));
        self.request_counters.parallel = self.clients.values().filter(is_session).count() as u64;
        let timeouts = self.timeouts();
        let mut slots = self.slots(scheduler);
        for (class, place) in ServiceClass::ALL.into_iter().zip(0..) {
            let (share, begun) = (self.shares[place], Instant::now());
            let mut left = share.bytes;
            for number in self.of_class(class, self.first[place]) {
                self.first[place] = number;
                if left == 0 || begun.elapsed() > share.time {
                    break;
                }
                let (written, is_over) = self.serve_one(
                    number,
                    (scheduler, backlog),
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

    /// Clients of a class in the order of service, beginning with `first`.
    fn of_class(&self, class: ServiceClass, first: usize) -> Vec<usize> {
        let all = self.clients.range(first..).chain(self.clients.range(..first));
        all.filter(|(_, client)| client.class() == class).map(|(number, _)| *number).collect()
    }

    /// Continues the output of one client.
    ///
    /// Returns the number of bytes composed, and true if its connection is to be closed.
    fn serve_one(
        &mut self,
        number: usize,
        (scheduler, backlog): (&Scheduler, &dyn BacklogView),
        (now, turn): (Timestamp, Instant),
        timeouts: &Timeouts,
        slots: &mut AnswerSlots,
    ) -> (usize, bool) {
        let client = self.clients.get_mut(&number).expect("it was there a moment ago");
        // A socket with little room causes no event. A slow reader gets one more attempt when its
        // time is over.
        if !client.can_continue(turn) && !client.time_left(timeouts, turn).is_zero() {
            return (0, false);
        }
        let accounts = &mut self.accounts;
        let mut context = SessionContext {
            scheduler,
            now,
            process: self.process,
            backlog,
            secret: self.secret.as_ref().unwrap_or(&NO_SECRET),
            subscribers: &self.watch,
            accounts: &mut || accounts.current(),
            request_counters: &mut self.request_counters,
            log_lines: &mut self.log_lines,
        };
        let (was_long, left) = (client.is_writing_long(), client.slots_of(slots));
        // A panic while an answer is composed disconnects only this client.
        let logins = &mut self.logins;
        let served = worker::catch_panic(|| client.serve(&mut context, *left, logins));
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
            self.request_counters.timed_out += 1;
        }
        (written, is_late)
    }

    /// Returns true if output can be composed or sent for a client at once.
    pub(crate) fn have_output(&self) -> bool {
        let now = Instant::now();
        self.clients.values().any(|client| client.can_continue(now))
    }

    /// Time until a client times out, or until a wait of a client is over.
    pub(crate) fn until_timeout(&self) -> Option<Duration> {
        let (timeouts, now) = (self.timeouts(), Instant::now());
        let until = |at: Instant| at.saturating_duration_since(now);
        let left = self.clients.values().map(|client| {
            let login_check_at = client.login_check_at().map_or(Duration::MAX, until);
            client.time_left(&timeouts, now).min(login_check_at)
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

/// Opens a session of the control socket.
///
/// The mode of the socket keeps other users out. The user is checked here, too, in case the mode
/// was changed.
fn open_control(peer: Peer, own_name: &str) -> (ClientTask, String) {
    let name = match peer.user() {
        Some(0) => Some("root"),
        Some(user) if user == users::effective_user() => Some(own_name),
        _ => None,
    };
    let (session, greeting) = Session::privileged(peer, name.unwrap_or_default());
    match name {
        Some(_) => (ClientTask::Session(Box::new(Conversation::new(session))), greeting),
        None => (ClientTask::Finished, format!("{greeting}{NO_ACCESS}")),
    }
}
