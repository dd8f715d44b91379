//! Work on jobs: recipients become transactions, and transactions become outcomes.

use crate::client::Client;
use crate::connection::Lost;
use crate::content::Content;
use crate::diagnosis;
use crate::dialer::Session;
use crate::reply_patterns;
use crate::session::{
    DeliverBy, Envelope, EnvelopeRecipient, Protocol, RecipientState, Transaction,
    TransactionOptions, is_safe_address,
};
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
    /// Lines for the scheduler's log.
    notes: Vec<String>,
}

/// What one transaction has told about its recipients.
struct Answers {
    /// Outcomes; `None` for recipients of the next transaction.
    outcomes: Vec<Option<Outcome>>,
    /// The outcome of all other recipients of the job, if the host takes no more.
    halt: Option<Outcome>,
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
            notes: Vec::new(),
        };
        let result = job.try_deliver_groups(
            |group, next| group.len() < max && joins(&group[0], next),
            |group| self.deliver(group, &mut state),
        );
        for note in state.notes {
            job.log(&note);
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
        loop {
            let todo: Vec<usize> = (0..group.len()).filter(|at| outcomes[*at].is_none()).collect();
            if todo.is_empty() {
                return Ok(outcomes.into_iter().flatten().collect());
            }
            let outcome = match state.halted.clone() {
                Some(outcome) => outcome,
                None if Instant::now() >= state.end => diagnosis::of_long_job(),
                None => match self.transact(&host, group, &todo, &content, state) {
                    Ok(answers) => {
                        let (asked, answers) = answers;
                        for (at, outcome) in asked.into_iter().zip(answers.outcomes) {
                            outcomes[at] = outcome;
                        }
                        state.halted = answers.halt;
                        continue;
                    }
                    Err(outcome) => *outcome,
                },
            };
            // Those that are left have the same outcome.
            state.halted = Some(outcome.clone());
            for at in todo {
                outcomes[at] = Some(outcome.clone());
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
        loop {
            let session = self.client.session(host, state.end, &state.stop)?;
            let is_reused = session.is_reused();
            let asked = fitting(session, group, todo);
            let envelope = envelope(group, &asked, content);
            if let Err(refusal) =
                envelope.check(&session.capabilities, session.is_verified(), session.sends_8bit)
            {
                let outcome = session.remote.complete(diagnosis::of_refusal(&refusal));
                let outcomes = vec![Some(outcome); asked.len()];
                return Ok((asked, Answers { outcomes, halt: None }));
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
            let answers = self.judge(host, &transaction, lost.as_ref(), asked.len(), state);
            match (is_dead, &lost) {
                (true, None) if transaction.closed_by().is_none() => self.client.quit(),
                (true, _) => self.client.close(),
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
        let Some(session) = self.client.current() else {
            return Answers { outcomes: vec![None; count], halt: None };
        };
        let is_final = session.protocol == Protocol::Lmtp;
        let accepted = diagnosis::accepted(is_final, session.capabilities.offers.dsn);
        let remote = session.remote.clone();
        let is_dead = lost.is_some() || transaction.must_close();
        let mut answers = Answers { outcomes: Vec::with_capacity(count), halt: None };
        let mut pause: Option<Duration> = None;
        for index in 0..count {
            let recipient = transaction.state(index);
            if let RecipientState::Refused(reply) = recipient
                && diagnosis::means_too_many(reply)
                && transaction.has_accepted_recipient()
                && !is_dead
            {
                answers.outcomes.push(None);
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
            let patterns = &self.client.configuration().reply_patterns;
            let found = match reply.is_empty() {
                true => None,
                false => reply_patterns::apply(patterns, [host, &remote.name], reply, &outcome),
            };
            let Some(effect) = found else {
                answers.outcomes.push(Some(outcome));
                continue;
            };
            let count = effect.pattern.count();
            state.notes.push(format!("reply pattern {} ({count}): {reply}", effect.pattern.name));
            if effect.ends_job {
                // Without the dialogue about this recipient.
                let (reply, name) = (reply.replace('\n', "\r->> "), &effect.pattern.name);
                let text = format!("->> {reply}\r(reply pattern {name})");
                answers.halt = Some(effect.outcome.clone().with_text(text));
            }
            pause = pause.max(effect.pause);
            answers.outcomes.push(Some(effect.outcome));
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
