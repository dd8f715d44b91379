//! A service of another program that is asked about clients, and that may hang: the policy service,
//! or Dovecot.
//!
//! Workers of its own ask it, so that nothing else waits for it. Each question is answered in time,
//! whatever service and workers do: when the time is over, the loop refuses. After some failures
//! the service is not asked for a while, and what comes is refused at once.

use super::requests::Ticket;
use super::workers;
use crate::session::Answer;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use zsched_service::worker;

/// Number of workers of a service: questions that it gets at the same time.
const WORKERS: usize = 16;
/// Number of failures in a row after which a service is not asked for a while.
const MAX_FAILURES: u32 = 5;
/// Time for which it is not asked. Then one question shows if it works.
const PAUSE: Duration = Duration::from_secs(10);

/// Asks the service, and is over at the given time.
pub(super) type Question = Box<dyn FnOnce(Instant) -> io::Result<Answer> + Send>;

/// What a worker does.
struct Job {
    ticket: Ticket,
    question: Question,
    end: Instant,
    /// Questions of former generations are answered.
    generation: u64,
}

/// The loop's side of a service.
pub(super) struct ExternalService {
    /// What it is, for the log.
    name: &'static str,
    /// Maximum time of an answer.
    max_time: Duration,
    /// The answer to what the service has not answered.
    refusal: fn() -> Answer,
    jobs: Sender<Job>,
    /// Questions without an answer, with their ends, in their order.
    pending: BTreeMap<u64, (Ticket, Instant)>,
    generation: Arc<AtomicU64>,
    health: Health,
}

/// Answers for connections.
pub(super) type Answers = Vec<(Ticket, Answer)>;

impl ExternalService {
    /// Starts its workers. `done` takes the results, which belong to [`take`](Self::take).
    pub(super) fn start(
        name: &'static str,
        max_time: Duration,
        refusal: fn() -> Answer,
        done: impl Fn(Ticket, io::Result<Answer>) + Clone + Send + 'static,
    ) -> io::Result<ExternalService> {
        let generation = Arc::new(AtomicU64::new(0));
        let current = generation.clone();
        let jobs = workers::start(name, WORKERS, move |job: Job| {
            if job.generation == current.load(Ordering::Relaxed) && Instant::now() < job.end {
                let result = worker::catch_panic(|| (job.question)(job.end));
                done(job.ticket, result.unwrap_or_else(|| Err(io::Error::other("a fault"))));
            }
        })?;
        let health = Health::Working { failures: 0 };
        let pending = BTreeMap::new();
        Ok(ExternalService { name, max_time, refusal, jobs, pending, generation, health })
    }

    /// Asks the service. Returns the refusal if it is not to be asked now.
    pub(super) fn ask(
        &mut self,
        ticket: Ticket,
        question: Question,
        now: Instant,
    ) -> Option<Answer> {
        if !self.health.permits(now) {
            return Some((self.refusal)());
        }
        let (end, generation) = (now + self.max_time, self.generation.load(Ordering::Relaxed));
        self.pending.insert(ticket.number, (ticket, end));
        // The workers never end before the loop.
        self.jobs.send(Job { ticket, question, end, generation }).ok();
        None
    }

    /// Takes a result. One that comes too late has no effect.
    pub(super) fn take(
        &mut self,
        ticket: Ticket,
        result: io::Result<Answer>,
        now: Instant,
    ) -> Answers {
        if self.pending.remove(&ticket.number).is_none() {
            return Vec::new();
        }
        match result {
            Ok(answer) => {
                if self.health.succeed() {
                    log::info!("{} answers again", self.name);
                }
                vec![(ticket, answer)]
            }
            Err(error) => self.fail(ticket, &error, now),
        }
    }

    /// Refuses what has waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> Answers {
        let mut refused = Vec::new();
        while let Some((_, (ticket, end))) = self.pending.first_key_value()
            && *end <= now
        {
            let ticket = *ticket;
            self.pending.remove(&ticket.number);
            refused.append(&mut self.fail(ticket, &ErrorKind::TimedOut.into(), now));
        }
        refused
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.pending.first_key_value().map(|(_, (_, end))| *end)
    }

    /// Refuses a question that has failed. After too many failures, refuses all others.
    fn fail(&mut self, ticket: Ticket, error: &io::Error, now: Instant) -> Answers {
        let mut refused = vec![ticket];
        match self.health.fail(now) {
            true => {
                self.generation.fetch_add(1, Ordering::Relaxed);
                let pending = std::mem::take(&mut self.pending);
                refused.extend(pending.into_values().map(|(ticket, _)| ticket));
                let pause = PAUSE.as_secs();
                log::error!("{}: {error}; it is not asked for {pause} s", self.name);
            }
            false => log::error!("{}: {error}", self.name),
        }
        refused.into_iter().map(|ticket| (ticket, (self.refusal)())).collect()
    }
}

/// Whether a service is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Working {
        /// In a row.
        failures: u32,
    },
    /// It is not asked before.
    Paused(Instant),
    /// One question shows if it works.
    OnTrial,
}

impl Health {
    /// Returns true if the service may be asked. After a pause, that is so for one question.
    fn permits(&mut self, now: Instant) -> bool {
        match self {
            Health::Working { .. } => true,
            Health::Paused(end) if now >= *end => {
                *self = Health::OnTrial;
                true
            }
            Health::Paused(_) | Health::OnTrial => false,
        }
    }

    /// Notes an answer. Returns true if the service had not worked.
    fn succeed(&mut self) -> bool {
        let before = std::mem::replace(self, Health::Working { failures: 0 });
        !matches!(before, Health::Working { .. })
    }

    /// Notes a failure. Returns true if a pause begins.
    fn fail(&mut self, now: Instant) -> bool {
        match self {
            Health::Working { failures } if *failures + 1 < MAX_FAILURES => {
                *failures += 1;
                false
            }
            Health::Working { .. } | Health::OnTrial => {
                *self = Health::Paused(now + PAUSE);
                true
            }
            Health::Paused(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Reply;
    use std::sync::mpsc::{Receiver, channel};

    type Results = Receiver<(Ticket, io::Result<Answer>)>;

    fn service() -> (ExternalService, Results) {
        let (sender, results) = channel();
        let done = move |ticket, result| drop(sender.send((ticket, result)));
        let refusal = || Answer::Reply(Reply::new(451, "4.3.5", "Refused"));
        let service = ExternalService::start("the test", Duration::from_secs(20), refusal, done);
        (service.expect("workers"), results)
    }

    fn ticket(number: u64) -> Ticket {
        Ticket { connection: number as usize, number }
    }

    fn codes(answers: Answers) -> Vec<(u64, u16)> {
        let code = |(ticket, answer): (Ticket, Answer)| match answer {
            Answer::Reply(reply) => (ticket.number, reply.code),
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(code).collect()
    }

    #[test]
    fn service_that_hangs_is_not_asked_for_a_while() {
        let ((mut service, results), start) = (service(), Instant::now());
        let (release, gate) = channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let hang = || -> Question {
            let gate = gate.clone();
            Box::new(move |_| {
                gate.lock().expect("not poisoned").recv().ok();
                Ok(Answer::Reply(Reply::new(250, "", "late")))
            })
        };
        // More than there are workers.
        for number in 1..=100 {
            assert!(service.ask(ticket(number), hang(), start).is_none());
        }
        assert_eq!(service.next_end(), Some(start + Duration::from_secs(20)));
        assert_eq!(codes(service.expire(start + Duration::from_secs(19))), []);
        let refused = codes(service.expire(start + Duration::from_secs(20)));
        assert_eq!(refused, (1..=100).map(|number| (number, 451)).collect::<Vec<_>>());
        let soon = start + Duration::from_secs(21);
        assert!(service.ask(ticket(101), hang(), soon).is_some(), "at once");
        // Then one shows that the service works again.
        let later = start + Duration::from_secs(31);
        let good = || -> Question { Box::new(|_| Ok(Answer::Reply(Reply::new(250, "", "Ok")))) };
        assert!(service.ask(ticket(102), good(), later).is_none());
        assert!(service.ask(ticket(103), good(), later).is_some(), "one is asked");
        drop(release);
        let mut answered = Vec::new();
        while answered.is_empty() {
            let (ticket, result) = results.recv().expect("an answer");
            answered = codes(service.take(ticket, result, later));
        }
        assert_eq!(answered, [(102, 250)], "late answers have no effect");
        assert!(service.ask(ticket(104), good(), later).is_none());
    }

    #[test]
    fn single_failures_change_nothing() {
        let (mut health, now) = (Health::Working { failures: 0 }, Instant::now());
        for _ in 0..10 {
            assert_eq!((0..MAX_FAILURES - 1).find(|_| health.fail(now)), None);
            assert!(health.permits(now) && !health.succeed());
        }
        (1..MAX_FAILURES).for_each(|_| assert!(!health.fail(now)));
        assert!(health.fail(now) && !health.permits(now), "too many in a row");
        assert!(health.permits(now + PAUSE) && health.fail(now + PAUSE), "it still fails");
        assert!(!health.permits(now + PAUSE), "another pause");
        assert!(health.permits(now + PAUSE * 2) && health.succeed());
    }
}
