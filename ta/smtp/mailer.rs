//! Work on jobs: recipients become transactions, and transactions become outcomes.

use crate::client::Client;
use crate::connection::Lost;
use crate::content::Content;
use crate::diagnosis;
use crate::dialer::Session;
use crate::reply_patterns;
use crate::servers::Servers;
use crate::session::{
    DeliverBy, Envelope, EnvelopeRecipient, Protocol, RecipientState, Refusal, Transaction,
    TransactionOptions, is_safe_address,
};
use crate::warnings;
use std::time::{Duration, Instant};
use zsched_agent::{Delivery, Events, Halt, Job, Message, Outcome, StopFlag};
use zsched_format::time::Timestamp;

/// Works on jobs.
pub struct Mailer {
    client: Client,
}

/// What one job has in common.
struct JobState<'a> {
    message: &'a Message,
    /// When the job has to be over.
    end: Instant,
    stop: StopFlag,
    /// The outcome of all recipients that are left, once the host takes no more.
    halted: Option<Outcome>,
    /// The servers that are left after one that takes no mail now.
    servers: Option<Servers>,
    /// Lines for the scheduler's log.
    notes: Vec<String>,
}

/// What one transaction has told about its recipients.
struct Answers {
    /// One for each recipient.
    recipients: Vec<Answer>,
    /// The outcome of all other recipients of the job, if the host takes no more.
    halt: Option<Outcome>,
}

/// What a transaction has told about a recipient.
enum Answer {
    /// The outcome.
    Final(Outcome),
    /// It goes on in the next transaction.
    NextTransaction,
    /// It goes on with the next server. Without one, this is the outcome.
    NextServer(Outcome),
}

impl Mailer {
    /// Creates the agent.
    pub fn new(client: Client) -> Mailer {
        Mailer { client }
    }

    /// Ends the session, because there is no job.
    pub fn pause(&mut self) {
        self.client.quit();
    }

    /// Delivers to the recipients of a job.
    ///
    /// # Errors
    ///
    /// The job ended before all of them had outcomes.
    pub fn work(&mut self, job: &mut Job<'_>) -> Result<(), Halt> {
        let message = job.message()?;
        if let Some(first) = job.deliveries().next() {
            self.client.log().begin_message(job.number(), first.host());
        }
        let settings = &self.client.configuration().session;
        let (max, limit) = (settings.recipients.max(1), settings.timeouts.job);
        let mut state = JobState {
            message: &message,
            end: Instant::now() + limit,
            stop: job.stop_flag(),
            halted: None,
            servers: None,
            notes: Vec::new(),
        };
        let result = job.try_deliver_groups(
            |group, next| group.len() < max && joins(&group[0], next),
            |group| self.deliver(group, &mut state),
        );
        let notes = self.client.dialer().take_notes();
        for note in notes.into_iter().chain(state.notes).chain(warnings::take()) {
            job.log(&note);
        }
        for result in self.client.dialer().take_tls_results() {
            job.log_tls_result(&result);
        }
        result
    }

    /// Delivers to recipients that get the same message. Returns their outcomes.
    fn deliver(
        &mut self,
        group: &[Delivery<'_>],
        state: &mut JobState<'_>,
    ) -> Result<Vec<Outcome>, Halt> {
        if let Some(outcome) = &state.halted {
            return Err(Halt::report_rest(outcome.clone()));
        }
        let host = self.client.next_host(group[0].host());
        let content = match Content::new(&group[0], state.message) {
            Ok(content) => content,
            Err(error) => {
                let outcome = Outcome::system_error("cannot read the message", &error);
                return Ok(vec![outcome; group.len()]);
            }
        };
        let mut outcomes: Vec<Option<Outcome>> = group.iter().map(refuse_address).collect();
        // What the last server has said to those that go on with the next one.
        let mut so_far: Vec<Option<Outcome>> = vec![None; group.len()];
        let mut halt_so_far = None;
        loop {
            let todo: Vec<usize> = (0..group.len()).filter(|at| outcomes[*at].is_none()).collect();
            if todo.is_empty() {
                return Ok(outcomes.into_iter().flatten().collect());
            }
            let outcome = match state.halted.clone() {
                Some(outcome) => outcome,
                None if Instant::now() >= state.end => diagnosis::of_long_job(),
                None => match self.transact(&host, group, &todo, &content, state) {
                    Ok((asked, answers)) => {
                        let mut moves = false;
                        for (at, answer) in asked.into_iter().zip(answers.recipients) {
                            match answer {
                                Answer::Final(outcome) => outcomes[at] = Some(outcome),
                                Answer::NextTransaction => {}
                                Answer::NextServer(outcome) => {
                                    so_far[at] = Some(outcome);
                                    moves = true;
                                }
                            }
                        }
                        match moves {
                            true => halt_so_far = answers.halt,
                            false => state.halted = answers.halt,
                        }
                        continue;
                    }
                    // No other server takes mail: what the last one has said is the answer.
                    Err(_) if todo.iter().any(|at| so_far[*at].is_some()) => {
                        for at in todo {
                            outcomes[at] = so_far[at].take();
                        }
                        state.halted = halt_so_far.take();
                        state.servers = None;
                        continue;
                    }
                    Err(outcome) => *outcome,
                },
            };
            // Those that are left have the same outcome, unless it is about REQUIRETLS.
            match group[0].notify().require_tls && !state.stop.is_requested() {
                true => state.servers = None,
                false => state.halted = Some(outcome.clone()),
            }
            for at in todo {
                outcomes[at] = Some(so_far[at].take().unwrap_or_else(|| outcome.clone()));
            }
        }
    }

    /// Does one transaction with as many recipients as the server takes.
    ///
    /// Returns the recipients that were in it. The error is the outcome of all recipients.
    fn transact(
        &mut self,
        host: &str,
        group: &[Delivery<'_>],
        todo: &[usize],
        content: &Content<'_>,
        state: &mut JobState<'_>,
    ) -> Result<(Vec<usize>, Answers), Box<Outcome>> {
        let requires_tls = group[0].notify().require_tls;
        loop {
            let (servers, end, stop) = (&mut state.servers, state.end, &state.stop);
            let session = self.client.session(host, servers, requires_tls, end, stop)?;
            let is_reused = session.is_reused();
            let asked = fitting(session, group, todo);
            let mut envelope = envelope(group, &asked, content);
            if let Some((refused, refusal)) = refused(session, &mut envelope, &asked) {
                let outcome = session.remote.complete(diagnosis::of_refusal(&refusal));
                let count = refused.len();
                state.servers = None;
                return Ok((refused, Answers::all(outcome, count)));
            }
            let options = TransactionOptions {
                protocol: session.protocol,
                resets: session.needs_reset,
                sends_8bit: session.sends_8bit,
            };
            let mut transaction = Transaction::new(&envelope, &session.capabilities, options);
            let lost = session.connection.run(&mut transaction, Some(content)).err();
            session.transactions += 1;
            session.needs_reset = transaction.needs_reset();
            let endpoint = session.endpoint.clone();
            let is_dead = lost.is_some() || transaction.must_close();
            // The server has ended the session before it has seen the message.
            let is_stale = is_reused
                && transaction.is_unanswered()
                && matches!(lost, None | Some(Lost::Closed(_) | Lost::Failed(..)))
                && is_dead;
            if is_stale {
                self.client.close();
                continue;
            }
            let mut answers = self.judge(host, &transaction, lost.as_ref(), asked.len(), state);
            let (servers, end) = (&mut state.servers, state.end);
            let moves = answers.wants_next_server()
                && self.client.has_other_server(host, endpoint, servers, end);
            if !moves {
                answers.stay();
                state.servers = None;
            }
            match (is_dead, &lost) {
                (true, None) if transaction.closed_by().is_none() => self.client.quit(),
                (true, _) => self.client.close(),
                (false, _) if moves => self.client.quit(),
                (false, _) => {}
            }
            return Ok((asked, answers));
        }
    }

    /// Turns the end of a transaction into outcomes.
    fn judge(
        &mut self,
        host: &str,
        transaction: &Transaction,
        lost: Option<&Lost>,
        count: usize,
        state: &mut JobState<'_>,
    ) -> Answers {
        let mut answers = Answers { recipients: Vec::with_capacity(count), halt: None };
        let Some(session) = self.client.current() else {
            answers.recipients.resize_with(count, || Answer::NextTransaction);
            return answers;
        };
        let is_final = session.protocol == Protocol::Lmtp;
        let accepted = diagnosis::accepted(is_final, session.capabilities.offers.dsn);
        let remote = session.remote.clone();
        let is_dead = lost.is_some() || transaction.must_close();
        let (mut pause, mut is_decided): (Option<Duration>, bool) = (None, false);
        // The last reply about the message as a whole.
        let mut of_message = "";
        for index in 0..count {
            let recipient = transaction.state(index);
            if let RecipientState::Refused(reply) = recipient
                && diagnosis::means_too_many(reply)
                && transaction.has_accepted_recipient()
                && !is_dead
            {
                answers.recipients.push(Answer::NextTransaction);
                continue;
            }
            let outcome = diagnosis::of_recipient(transaction, index, accepted, lost);
            let outcome = remote.complete(outcome);
            let reply = match recipient {
                RecipientState::Refused(reply)
                | RecipientState::MessageRefused(reply)
                | RecipientState::Closed(reply) => reply.text(),
                RecipientState::Accepted(_) | RecipientState::Unanswered => "",
            };
            let is_of_recipient =
                matches!(recipient, RecipientState::Refused(_)) || transaction.has_reply_each();
            let is_new = is_of_recipient || reply != of_message;
            of_message = if is_of_recipient { of_message } else { reply };
            let patterns = &self.client.configuration().reply_patterns;
            let names = [host, remote.name.as_str()];
            let found = match reply.is_empty() {
                true => None,
                false => reply_patterns::apply(patterns, names, reply, is_new, &outcome),
            };
            let moves = diagnosis::is_for_next_server(transaction, index, lost);
            let Some(effect) = found else {
                let answer = if moves { Answer::NextServer } else { Answer::Final };
                answers.recipients.push(answer(outcome));
                continue;
            };
            let is_decision = effect.is_decision();
            state.notes.extend(effect.note);
            is_decided |= effect.ends_job;
            if effect.ends_job {
                // Without the dialogue about this recipient.
                let (reply, name) = (reply.replace('\n', "\r->> "), &effect.pattern.name);
                let text = format!("->> {reply}\r(reply pattern {name})");
                answers.halt = Some(effect.outcome.clone().with_text(text));
            }
            pause = pause.max(effect.pause);
            let answer = if moves && !is_decision { Answer::NextServer } else { Answer::Final };
            answers.recipients.push(answer(effect.outcome));
        }
        if is_decided {
            answers.stay();
        }
        let end = match (transaction.closed_by(), lost) {
            (Some(reply), _) => Some(diagnosis::of_closed(reply)),
            (None, Some(Lost::Message(_))) => None,
            (None, lost) => lost.map(diagnosis::of_lost),
        };
        answers.halt = answers.halt.or(end.map(|outcome| remote.complete(outcome)));
        if let Some(time) = pause {
            self.client.pause(host, time);
        }
        answers
    }
}

impl Answers {
    /// The same outcome for some recipients.
    fn all(outcome: Outcome, count: usize) -> Answers {
        let recipients = (0..count).map(|_| Answer::Final(outcome.clone())).collect();
        Answers { recipients, halt: None }
    }

    fn wants_next_server(&self) -> bool {
        self.recipients.iter().any(|answer| matches!(answer, Answer::NextServer(_)))
    }

    /// No other server is tried.
    fn stay(&mut self) {
        for answer in &mut self.recipients {
            let last = std::mem::replace(answer, Answer::NextTransaction);
            *answer = match last {
                Answer::NextServer(outcome) => Answer::Final(outcome),
                other => other,
            };
        }
    }
}

/// Returns true if two recipients can be in one transaction.
fn joins(first: &Delivery<'_>, next: &Delivery<'_>) -> bool {
    let (one, other) = (first.notify(), next.notify());
    first.has_same_message(next)
        && first.host().eq_ignore_ascii_case(next.host())
        && one.deliver_by == other.deliver_by
        && one.sender_suffix == other.sender_suffix
        && one.require_tls == other.require_tls
}

/// The outcome of a recipient whose address, or whose sender, cannot be sent.
fn refuse_address(delivery: &Delivery<'_>) -> Option<Outcome> {
    let is_sender_safe = is_safe_address(&sender(delivery));
    let is_safe = !delivery.user().is_empty() && is_safe_address(delivery.user());
    match (is_sender_safe, is_safe) {
        (true, true) => None,
        (false, _) => Some(diagnosis::of_unsafe_address(true)),
        (true, false) => Some(diagnosis::of_unsafe_address(false)),
    }
}

/// The envelope sender, with the suffix that the recipient's line asks for (`EZMLM=`).
fn sender(delivery: &Delivery<'_>) -> Vec<u8> {
    let sender = delivery.sender().unwrap_or_default();
    match (delivery.notify().sender_suffix, sender.iter().rposition(|byte| *byte == b'@')) {
        (Some(suffix), Some(at)) => [&sender[..at], suffix, &sender[at..]].concat(),
        _ => sender.to_vec(),
    }
}

/// The recipients that the server takes in one transaction (`LIMITS`, RFC 9422).
fn fitting(session: &Session, group: &[Delivery<'_>], todo: &[usize]) -> Vec<usize> {
    let domain = |at: usize| group[at].user().rsplit(|byte| *byte == b'@').next();
    let max_domains = session.capabilities.limits.domains.unwrap_or(usize::MAX);
    let (mut asked, mut domains) = (Vec::new(), Vec::new());
    for &at in todo.iter().take(session.max_recipients) {
        let domain = domain(at).map(<[u8]>::to_ascii_lowercase);
        if !domains.contains(&domain) {
            if domains.len() == max_domains {
                continue;
            }
            domains.push(domain);
        }
        asked.push(at);
    }
    asked
}

/// The recipients that cannot be sent to the server, and why. Others may be left.
///
/// Domains are converted for a server without SMTPUTF8.
fn refused(
    session: &Session,
    envelope: &mut Envelope,
    asked: &[usize],
) -> Option<(Vec<usize>, Refusal)> {
    let server = &session.capabilities;
    if !server.offers.utf8 {
        envelope.convert_domains();
    }
    if let Err(refusal) = envelope.check(server, session.is_for_required_tls, session.sends_8bit) {
        return Some((asked.to_vec(), refusal));
    }
    let is_refused = |at: &usize| !envelope.recipients[*at].address.is_ascii();
    let refused = (0..asked.len()).filter(|_| !server.offers.utf8).filter(is_refused);
    let refused: Vec<usize> = refused.map(|at| asked[at]).collect();
    (!refused.is_empty()).then(|| (refused, Refusal::of_utf8()))
}

fn envelope(group: &[Delivery<'_>], asked: &[usize], content: &Content<'_>) -> Envelope {
    let first = &group[0];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let priority = content.header("MT-Priority").and_then(|value| value.trim().parse().ok());
    let recipient = |at: &usize| {
        let notify = group[*at].notify();
        EnvelopeRecipient {
            address: group[*at].user().to_vec(),
            notify: (notify.events != Events::default()).then(|| events(notify.events)),
            original: notify.original_recipient.map(text),
        }
    };
    Envelope {
        sender: sender(first),
        recipients: asked.iter().map(recipient).collect(),
        size: content.size,
        is_8bit: content.is_8bit,
        has_utf8_headers: content.has_utf8_headers(),
        return_mode: first.return_mode().map(text),
        envelope_id: first.envelope_id().map(text),
        deliver_by: first.notify().deliver_by.map(|by| DeliverBy {
            seconds: by.seconds.saturating_sub(content.age(Timestamp::now())),
            return_after: by.return_after,
            trace: by.trace,
        }),
        priority: priority.filter(|priority| (-9..=9).contains(priority)),
        require_tls: first.notify().require_tls,
    }
}

/// The value of NOTIFY (RFC 3461, 4.1).
fn events(events: Events) -> String {
    let named = [(events.success, "SUCCESS"), (events.failure, "FAILURE"), (events.delay, "DELAY")];
    let words: Vec<&str> =
        named.iter().filter(|(is_on, _)| *is_on).map(|(_, word)| *word).collect();
    if words.is_empty() { "NEVER".to_string() } else { words.join(",") }
}
