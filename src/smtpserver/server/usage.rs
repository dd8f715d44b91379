//! What clients and logins do in an hour, and the alarms about it: a password may be stolen.

use crate::config::{Limits, SubjectLimits};
use crate::network::Network;
use crate::rates::{RateVerdict, Rates};
use crate::session::Reply;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;
use zsched_format::printable;

/// Maximum number of names in the line about alarms.
const MAX_NAMES: usize = 5;

/// Whose connections, messages and recipients are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A client outside `relay`.
    Client(Network),
    /// A client of `relay`.
    Relay(Network),
    /// A login, whatever its clients are.
    Login(String),
}

/// What is counted in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Connection,
    Message,
    Recipient,
}

/// Stands for a name with which a client wants to log in. The client may have made it up.
type LoginKey = u64;

/// Counts of the present hours.
#[derive(Default)]
pub(super) struct Usage {
    connections: Rates<Subject>,
    messages: Rates<Subject>,
    recipients: Rates<Subject>,
    /// Number of connections at present.
    open: HashMap<Subject, u64>,
    /// Subjects that wanted more connections at a time.
    crowded: Rates<Subject>,
    failed_attempts: Rates<(Network, LoginKey)>,
    failures_of_clients: Rates<Network>,
    failures_of_logins: Rates<LoginKey>,
    successes: Rates<(Network, LoginKey)>,
    login_keys: RandomState,
    /// Alarms since they were taken.
    new_alarms: Vec<String>,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Client(client) => write!(f, "client {client}"),
            Subject::Relay(client) => write!(f, "relay client {client}"),
            Subject::Login(login) => write!(f, "login {login}"),
        }
    }
}

impl Subject {
    fn limits<'l>(&self, limits: &'l Limits) -> &'l SubjectLimits {
        match self {
            Subject::Client(_) => &limits.client,
            Subject::Relay(_) => &limits.relay,
            Subject::Login(_) => &limits.login,
        }
    }

    /// The reply code where a connection, or the login of one, is too much.
    fn code_of_connections(&self) -> u16 {
        if matches!(self, Subject::Login(_)) { 454 } else { 421 }
    }
}

impl Event {
    const ALL: [Event; 3] = [Event::Connection, Event::Message, Event::Recipient];

    /// Its name in replies and alarms.
    fn name(self) -> &'static str {
        match self {
            Event::Connection => "connection",
            Event::Message => "message",
            Event::Recipient => "recipient",
        }
    }

    fn limit(self, limits: &SubjectLimits) -> Option<u64> {
        match self {
            Event::Connection => limits.connections,
            Event::Message => limits.messages,
            Event::Recipient => limits.recipients,
        }
    }
}

impl Usage {
    fn raise(&mut self, alarm: String) {
        log::error!("alarm: {alarm}");
        self.new_alarms.push(alarm);
    }

    /// Takes the alarms since the last call.
    pub(super) fn take_alarms(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_alarms)
    }

    fn rates(&mut self, event: Event) -> &mut Rates<Subject> {
        match event {
            Event::Connection => &mut self.connections,
            Event::Message => &mut self.messages,
            Event::Recipient => &mut self.recipients,
        }
    }

    /// Counts an event of this hour. Returns the reply if there are too many.
    pub(super) fn count(
        &mut self,
        event: Event,
        subject: &Subject,
        client: Network,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), Reply> {
        let Some(limit) = event.limit(subject.limits(limits)) else { return Ok(()) };
        let verdict = self.rates(event).count(subject.clone(), limit, now);
        if verdict == RateVerdict::ReachedNow {
            self.raise(format!(
                "the {subject}{} has reached the limit of {} in an hour; \
                 more are deferred until the hour is over",
                of_client(subject, client),
                printable::count(limit, event.name()),
            ));
        }
        if verdict == RateVerdict::Good {
            return Ok(());
        }
        let text = format!("Too many {}s in this hour, try again later", event.name());
        Err(match event {
            Event::Connection => Reply::new(subject.code_of_connections(), "4.7.0", text),
            Event::Message | Event::Recipient => Reply::new(450, "4.7.1", text),
        })
    }

    /// Counts a connection. Returns the reply if there are too many, now or in this hour.
    ///
    /// Otherwise [`end_connection`](Usage::end_connection) follows when it ends.
    pub(super) fn begin_connection(
        &mut self,
        subject: &Subject,
        client: Network,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), Reply> {
        let open = self.open.get(subject).copied().unwrap_or(0);
        if let Some(limit) = subject.limits(limits).open.filter(|limit| open >= *limit) {
            if self.crowded.count(subject.clone(), 0, now) == RateVerdict::ReachedNow {
                self.raise(format!(
                    "the {subject}{} has {} and wants another one; \
                     more are refused until one ends",
                    of_client(subject, client),
                    printable::count(limit, "connection"),
                ));
            }
            let text = "Too many connections at a time, try again later";
            return Err(Reply::new(subject.code_of_connections(), "4.7.0", text));
        }
        self.count(Event::Connection, subject, client, limits, now)?;
        self.open.insert(subject.clone(), open + 1);
        Ok(())
    }

    /// Ends a connection.
    pub(super) fn end_connection(&mut self, subject: &Subject) {
        if let Some(open) = self.open.get_mut(subject) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(subject);
            }
        }
    }

    /// Counts a failed login.
    pub(super) fn fail_login(
        &mut self,
        client: Network,
        login: &str,
        limits: &Limits,
        now: Instant,
    ) {
        let key = self.key(login);
        if let Some(limit) = limits.failed_logins {
            self.failed_attempts.count_up_to((client, key), limit, now);
        }
        if let Some(limit) = limits.client_failed_logins {
            self.failures_of_clients.count_up_to(client, limit, now);
        }
        if let Some(limit) = limits.login_failed_logins {
            self.failures_of_logins.count_up_to(key, limit, now);
        }
    }

    fn key(&self, login: &str) -> LoginKey {
        self.login_keys.hash_one(login.to_lowercase())
    }

    /// Notes a login whose password was right. Former failures of its client do not count.
    pub(super) fn succeed_login(&mut self, client: Network, login: &str, now: Instant) {
        let attempt = (client, self.key(login));
        self.failed_attempts.forget(&attempt);
        self.successes.count(attempt, u64::MAX, now);
    }

    /// Decides if a client may try to log in. Returns the reply if it may not.
    ///
    /// Too many failures of a login from all clients stop those that had no success in this hour.
    pub(super) fn permit_login(
        &mut self,
        client: Network,
        is_relay: bool,
        login: &str,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), Reply> {
        let key = self.key(login);
        let attempt = (client, key);
        let mut alarm = None;
        let mut is_refused = false;
        if let Some(limit) = limits.failed_logins
            && self.failed_attempts.is_reached(&attempt, limit, now)
        {
            is_refused = true;
            if self.failed_attempts.count(attempt, limit, now) == RateVerdict::ReachedNow {
                log::warn!("{limit} failed logins as {login} from {client} in an hour; {REFUSED}");
            }
        }
        if let Some(limit) = limits.client_failed_logins
            && !is_relay
            && self.failures_of_clients.is_reached(&client, limit, now)
        {
            is_refused = true;
            if self.failures_of_clients.count(client, limit, now) == RateVerdict::ReachedNow {
                alarm = Some(format!("{limit} failed logins from {client} in an hour; {REFUSED}"));
            }
        }
        if let Some(limit) = limits.login_failed_logins
            && !self.successes.contains(&attempt, now)
            && self.failures_of_logins.is_reached(&key, limit, now)
        {
            is_refused = true;
            if self.failures_of_logins.count(key, limit, now) == RateVerdict::ReachedNow {
                alarm = Some(format!(
                    "{limit} failed logins as {login} in an hour; more are refused until the hour \
                     is over, but for clients that have logged in so within an hour"
                ));
            }
        }
        if let Some(alarm) = alarm {
            self.raise(alarm);
        }
        let text = "Too many failed logins, try again later";
        if is_refused { Err(Reply::new(454, "4.7.0", text)) } else { Ok(()) }
    }

    /// Forgets failed logins, so that nobody is refused for them.
    pub(super) fn forget_failed_logins(&mut self) {
        self.failed_attempts.clear();
        self.failures_of_clients.clear();
        self.failures_of_logins.clear();
    }

    /// The limits that are reached in the present hours, for people; empty if there are none.
    pub(super) fn alarms(&mut self, now: Instant) -> String {
        let parts: Vec<String> = Event::ALL
            .into_iter()
            .filter_map(|event| {
                let names = names(self.rates(event).over_limit(now))?;
                Some(format!("{names} at the limit of {}s", event.name()))
            })
            .collect();
        match parts.is_empty() {
            true => String::new(),
            false => format!("alarm: {}", parts.join("; ")),
        }
    }

    /// Ends hours that are over, and logs what was refused in them.
    pub(super) fn end_hours(&mut self, now: Instant) {
        for event in Event::ALL {
            for (subject, refused) in self.rates(event).end_windows(now) {
                let name = event.name();
                log::warn!(
                    "alarm: the hour of the {subject} is over; {name}s refused in it: {refused}"
                );
            }
        }
        self.crowded.end_windows(now);
        self.failed_attempts.end_windows(now);
        self.failures_of_clients.end_windows(now);
        self.failures_of_logins.end_windows(now);
        self.successes.end_windows(now);
    }
}

/// What follows in the lines about failed logins.
const REFUSED: &str = "more are refused until the hour is over";

/// The client whose event has reached a limit, if the subject does not name it.
fn of_client(subject: &Subject, client: Network) -> String {
    match subject {
        Subject::Login(_) => format!(" of {client}"),
        _ => String::new(),
    }
}

/// Names of subjects, such as `login alice, login bob and 3 more`.
fn names<'s>(subjects: impl Iterator<Item = &'s Subject>) -> Option<String> {
    let mut names: Vec<String> = subjects.map(Subject::to_string).collect();
    names.sort();
    let surplus = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let more = if surplus > 0 { format!(" and {surplus} more") } else { String::new() };
    (!names.is_empty()).then(|| names.join(", ") + &more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn client(number: u8) -> Network {
        Network::of_client([192, 0, 2, number].into())
    }

    #[test]
    fn alarm_lasts_until_its_hour_is_over() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        let mut limits = Limits::default();
        limits.login.recipients = Some(2);
        let alice = Subject::Login("alice".into());
        let mut count = |subject: &Subject| {
            let counted = usage.count(Event::Recipient, subject, client(1), &limits, start);
            counted.map_err(|reply| reply.to_string())
        };
        let refused = "450 4.7.1 Too many recipients in this hour, try again later";
        let counted = [count(&alice), count(&alice), count(&alice)];
        assert_eq!(counted, [Ok(()), Ok(()), Err(refused.into())]);
        assert_eq!(count(&Subject::Relay(client(1))), Ok(()), "without a limit");
        usage.end_hours(start + Duration::from_secs(3599));
        assert_eq!(usage.alarms(start), "alarm: login alice at the limit of recipients");
        usage.end_hours(start + Duration::from_secs(3600));
        assert_eq!(usage.alarms(start), "");
    }

    #[test]
    fn connections_are_limited_at_a_time_and_in_an_hour() {
        let (mut usage, now) = (Usage::default(), Instant::now());
        let mut limits = Limits::default();
        (limits.login.open, limits.login.connections) = (Some(2), Some(4));
        let begin = |usage: &mut Usage, login: &str| {
            let subject = Subject::Login(login.into());
            let begun = usage.begin_connection(&subject, client(1), &limits, now);
            begun.map_err(|reply| reply.to_string())
        };
        let end = |usage: &mut Usage| usage.end_connection(&Subject::Login("alice".into()));
        assert_eq!([begin(&mut usage, "alice"), begin(&mut usage, "alice")], [Ok(()), Ok(())]);
        let refused = "454 4.7.0 Too many connections at a time, try again later";
        assert_eq!(begin(&mut usage, "alice"), Err(refused.into()));
        assert_eq!(begin(&mut usage, "alice"), Err(refused.into()));
        assert_eq!(usage.take_alarms().len(), 1, "one in an hour");
        assert_eq!(begin(&mut usage, "bob"), Ok(()));
        for _ in 0..2 {
            end(&mut usage);
            assert_eq!(begin(&mut usage, "alice"), Ok(()));
        }
        end(&mut usage);
        let refused = "454 4.7.0 Too many connections in this hour, try again later";
        assert_eq!(begin(&mut usage, "alice"), Err(refused.into()));
        end(&mut usage);
        usage.end_connection(&Subject::Login("bob".into()));
        assert!(usage.open.is_empty());
    }

    #[test]
    fn guessed_passwords_lock_out_as_little_as_possible() {
        let (mut usage, now) = (Usage::default(), Instant::now());
        let limits = Limits {
            failed_logins: Some(3),
            client_failed_logins: Some(5),
            login_failed_logins: Some(20),
            ..Limits::default()
        };
        let may = |usage: &mut Usage, number: u8, is_relay: bool, login: &str| {
            usage.permit_login(client(number), is_relay, login, &limits, now).is_ok()
        };
        let fail = |usage: &mut Usage, number: u8, login: &str| {
            usage.fail_login(client(number), login, &limits, now);
        };
        (0..3).for_each(|_| fail(&mut usage, 1, "Alice"));
        assert!(!may(&mut usage, 1, false, "alice"), "this login from here");
        assert!(may(&mut usage, 1, false, "bob") && may(&mut usage, 2, false, "alice"));
        (0..2).for_each(|_| fail(&mut usage, 1, "bob"));
        assert!(!may(&mut usage, 1, false, "carol"), "any login from here");
        assert!(may(&mut usage, 1, true, "carol"), "a host that may relay has many users");
        assert_eq!(usage.take_alarms().len(), 1);
        // Guesses from everywhere stop guesses, and not the user.
        usage.succeed_login(client(9), "dave", now);
        (10..30).for_each(|number| fail(&mut usage, number, "dave"));
        assert!(!may(&mut usage, 31, false, "dave") && may(&mut usage, 9, false, "dave"));
        assert_eq!(usage.take_alarms().len(), 1);
        // A success ends the count of its client.
        (0..2).for_each(|_| fail(&mut usage, 40, "erin"));
        usage.succeed_login(client(40), "erin", now);
        (0..2).for_each(|_| fail(&mut usage, 40, "erin"));
        assert!(may(&mut usage, 40, false, "erin"));
        usage.forget_failed_logins();
        assert!(may(&mut usage, 1, false, "alice") && may(&mut usage, 31, false, "dave"));
    }
}
