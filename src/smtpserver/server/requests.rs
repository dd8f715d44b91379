//! What sessions ask for, who does it, and the way of the answers back.
//!
//! What may wait is done by workers; the loop itself answers all else at once.

use super::external_service::{Answers, ExternalService};
use super::store_workers::StoreJob;
use super::usage::{Event, Subject};
use super::{Server, workers};
use crate::installation::LoginService;
use crate::session::{Answer, Credentials, LoginAnswer, RecipientQuestion, Reply, Request};
use crate::verdict::check_recipient;
use crate::{dovecot, policy};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::time::Instant;
use zsched_service::worker;
use zsched_spool::SubmissionFile;

/// Number of workers for recipients, which may wait for the user database.
const LOOKUP_WORKERS: usize = 8;
/// Number of workers for passwords, each of which takes some ten milliseconds of a processor.
const PASSWORD_WORKERS: usize = 4;

/// Which request of which connection is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) connection: usize,
    /// Grows with each request.
    pub(super) number: u64,
}

/// What a worker has done.
pub(super) enum Done {
    /// An answer, and the submission if more of it is to come.
    Answer { ticket: Ticket, answer: Answer, file: Option<SubmissionFile> },
    /// There is no objection to a recipient, so that the policy service is to be asked.
    Checked(Ticket, Box<RecipientQuestion>),
    /// What the policy service says.
    Policy(Ticket, io::Result<Answer>),
    /// What Dovecot says.
    Dovecot(Ticket, io::Result<Answer>),
}

/// Work that ends soon, unless the system is slow.
type Task = Box<dyn FnOnce() -> Done + Send>;

/// The workers for requests.
pub(super) struct RequestWorkers {
    lookups: Sender<(Ticket, Task)>,
    passwords: Sender<(Ticket, Task)>,
    policy: ExternalService,
    dovecot: ExternalService,
}

impl RequestWorkers {
    pub(super) fn start(
        done: impl Fn(Done) + Clone + Send + 'static,
    ) -> io::Result<RequestWorkers> {
        let give = done.clone();
        let work = move |(ticket, task): (Ticket, Task)| {
            let failed = || Done::Answer { ticket, answer: Answer::Failed, file: None };
            give(worker::catch_panic(task).unwrap_or_else(failed));
        };
        let (give_policy, give_dovecot) = (done.clone(), done);
        Ok(RequestWorkers {
            lookups: workers::start("lookups", LOOKUP_WORKERS, work.clone())?,
            passwords: workers::start("passwords", PASSWORD_WORKERS, work)?,
            policy: ExternalService::start(
                "the policy service",
                policy::MAX_TIME,
                policy::unavailable,
                move |ticket, result| give_policy(Done::Policy(ticket, result)),
            )?,
            dovecot: ExternalService::start(
                "Dovecot's authentication service",
                dovecot::MAX_TIME,
                dovecot::unavailable,
                move |ticket, result| give_dovecot(Done::Dovecot(ticket, result)),
            )?,
        })
    }

    /// When an external service has not answered in time.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.policy.next_end().into_iter().chain(self.dovecot.next_end()).min()
    }

    // The workers never end before the loop.
    fn look_up(&self, ticket: Ticket, task: impl FnOnce() -> Done + Send + 'static) {
        self.lookups.send((ticket, Box::new(task))).ok();
    }
}

impl Server {
    /// Takes what workers have done, and refuses what waits too long.
    pub(super) fn take_done(&mut self) {
        while let Ok(done) = self.done.try_recv() {
            let now = Instant::now();
            match done {
                Done::Answer { ticket, answer, file } => self.answer(ticket, answer, file),
                Done::Checked(ticket, question) => self.ask_policy(ticket, question, now),
                Done::Policy(ticket, result) => {
                    let answers = self.workers.policy.take(ticket, result, now);
                    self.answer_all(answers);
                }
                Done::Dovecot(ticket, result) => {
                    let answers = self.workers.dovecot.take(ticket, result, now);
                    self.answer_all(answers);
                }
            }
        }
        let now = Instant::now();
        for answers in [self.workers.policy.expire(now), self.workers.dovecot.expire(now)] {
            self.answer_all(answers);
        }
    }

    fn answer_all(&mut self, answers: Answers) {
        answers.into_iter().for_each(|(ticket, answer)| self.answer(ticket, answer, None));
    }

    /// Hands an answer to its session, unless that is gone.
    fn answer(&mut self, ticket: Ticket, answer: Answer, file: Option<SubmissionFile>) {
        let index = ticket.connection;
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        // A second answer to the same request has no effect.
        if connection.ticket.take_if(|number| *number == ticket.number).is_none() {
            return;
        }
        connection.file = file;
        if worker::catch_panic(|| connection.session.answer(answer)).is_none() {
            return self.close_faulty(index);
        }
        self.ready.push_back(index);
    }

    /// Carries out what a session asks for.
    pub(super) fn carry_out(&mut self, index: usize) {
        loop {
            let Some(connection) = &mut self.connections[index] else { return };
            let Some(request) = connection.session.take_request() else { return };
            match request {
                Request::Discard => connection.file = None,
                Request::StartTls => match &self.loaded.tls {
                    Some(tls) => connection.next_tls = Some(tls.clone()),
                    // The certificate was taken away since the session began.
                    None => connection.session.shut_down(),
                },
                Request::Append(bytes) => self.store_part(index, bytes, false),
                Request::Commit(bytes) => self.store_part(index, bytes, true),
                Request::AdmitMessage => self.admit_message(index),
                Request::CheckRecipient(question) => self.check_recipient(index, question),
                Request::Login(credentials) => self.check_login(index, credentials),
                Request::AdmitLogin(login) => self.admit_login(index, login),
                Request::StartQueue(host) => self.start_queue(index, host),
            }
        }
    }

    /// A ticket for the request that a connection waits for.
    fn ticket(&mut self, index: usize) -> Ticket {
        self.last_ticket += 1;
        if let Some(connection) = &mut self.connections[index] {
            connection.ticket = Some(self.last_ticket);
        }
        Ticket { connection: index, number: self.last_ticket }
    }

    /// Answers a request at once.
    fn reply(&mut self, index: usize, answer: Answer) {
        if let Some(connection) = &mut self.connections[index] {
            connection.session.answer(answer);
        }
    }

    fn store_part(&mut self, index: usize, bytes: Vec<u8>, is_last: bool) {
        let ticket = self.ticket(index);
        let Some(connection) = &mut self.connections[index] else { return };
        let file = connection.file.take();
        // The workers never end before the loop.
        self.store_jobs.send(StoreJob { ticket, file, bytes, is_last }).ok();
    }

    /// Counts an event for the login of a connection, else for its client.
    fn count(&mut self, index: usize, event: Event) -> Result<(), Reply> {
        let Some(connection) = &self.connections[index] else { return Ok(()) };
        let limits = &self.loaded.config.limits;
        let subject = match connection.session.login() {
            Some(login) => &Subject::Login(login.into()),
            None => &connection.subject,
        };
        self.usage.count(event, subject, connection.client, limits, Instant::now())
    }

    fn admit_message(&mut self, index: usize) {
        let counted = self.count(index, Event::Message);
        self.reply(index, Answer::Reply(counted.err().unwrap_or_else(Reply::sender_ok)));
    }

    fn check_recipient(&mut self, index: usize, question: Box<RecipientQuestion>) {
        if let Err(reply) = self.count(index, Event::Recipient) {
            return self.reply(index, Answer::Reply(reply));
        }
        let (ticket, loaded) = (self.ticket(index), self.loaded.clone());
        self.workers.look_up(ticket, move || {
            let reply = check_recipient(&question, &loaded.config, &loaded.directory);
            match loaded.config.policy.is_some() && !reply.is_error() {
                true => Done::Checked(ticket, question),
                false => Done::Answer { ticket, answer: Answer::Reply(reply), file: None },
            }
        });
    }

    fn ask_policy(&mut self, ticket: Ticket, question: Box<RecipientQuestion>, now: Instant) {
        let refusal = match self.loaded.config.policy.clone() {
            Some(service) => {
                let ask = move |end| policy::ask(&service, &question, end);
                self.workers.policy.ask(ticket, Box::new(ask), now)
            }
            // It was taken out of the configuration meanwhile.
            None => Some(Answer::Reply(Reply::recipient_ok())),
        };
        if let Some(answer) = refusal {
            self.answer(ticket, answer, None);
        }
    }

    fn check_login(&mut self, index: usize, credentials: Credentials) {
        let Some(connection) = &self.connections[index] else { return };
        let client = connection.session.client();
        let permitted = self.usage.permit_login(
            connection.client,
            client.may_relay,
            connection.session.claimed_login(),
            &self.loaded.config.limits,
            Instant::now(),
        );
        if let Err(reply) = permitted {
            return self.reply(index, Answer::Login(LoginAnswer::Refused(reply)));
        }
        let peer = client.ip.map(|ip| SocketAddr::new(ip, client.port));
        let (ticket, loaded) = (self.ticket(index), self.loaded.clone());
        match (&self.loaded.logins, credentials) {
            (Some(LoginService::Dovecot(socket)), Credentials::Password { user, password }) => {
                let socket = socket.clone();
                let ask = move |end| dovecot::check(&socket, &user, &password, peer, end);
                let refusal = self.workers.dovecot.ask(ticket, Box::new(ask), Instant::now());
                if let Some(answer) = refusal {
                    self.answer(ticket, answer, None);
                }
            }
            (_, credentials) => {
                let check = move || {
                    let answer = Answer::Login(match &loaded.logins {
                        Some(LoginService::File(accounts)) => accounts.check(&credentials),
                        // SCRAM is not offered with Dovecot.
                        Some(LoginService::Dovecot(_)) => LoginAnswer::Malformed,
                        None => LoginAnswer::Wrong,
                    });
                    Done::Answer { ticket, answer, file: None }
                };
                self.workers.passwords.send((ticket, Box::new(check))).ok();
            }
        }
    }

    /// Counts the connection for its login, unless that has too many.
    fn admit_login(&mut self, index: usize, login: String) {
        let Some(connection) = &mut self.connections[index] else { return };
        let (client, limits, now) = (connection.client, &self.loaded.config.limits, Instant::now());
        self.usage.succeed_login(client, connection.session.claimed_login(), now);
        // A session may log in again after STARTTLS.
        connection.login.take().iter().for_each(|former| self.usage.end_connection(former));
        let login = Subject::Login(login);
        let reply = match self.usage.begin_connection(&login, client, limits, now) {
            Ok(()) => {
                connection.login = Some(login);
                Reply::new(235, "2.7.0", "Logged in")
            }
            Err(reply) => reply,
        };
        self.reply(index, Answer::Reply(reply));
    }

    /// Asks for a host: any one for a client that may relay, else those this host is a backup for.
    fn start_queue(&mut self, index: usize, host: String) {
        let Some(connection) = &self.connections[index] else { return };
        let (session, config) = (&connection.session, &self.loaded.config);
        let client = session.client_name();
        if !session.client().may_relay && !config.is_relay_domain(&host) {
            log::info!("{client}: ETRN {host} refused");
            // RFC 1985, 5.3.
            let reply = Reply::new(459, "4.7.1", format!("Node {host} not allowed"));
            return self.reply(index, Answer::Reply(reply));
        }
        let (ticket, requests) = (self.ticket(index), self.queue_requests.clone());
        self.workers.look_up(ticket, move || {
            let answer = Answer::Reply(requests.start(&host, &client));
            Done::Answer { ticket, answer, file: None }
        });
    }
}
