//! What clients and logins do in an hour, and the alarms about it: a password may be stolen.

use crate::config::Limits;
use crate::network::Network;
use crate::rates::{RateVerdict, Rates};
use crate::session::{RecipientQuestion, Reply};
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Instant;
use zsched_format::printable;

/// Maximum number of failed logins of a client in an hour.
const MAX_FAILED_LOGINS: u64 = 30;

/// Counts of the present hours.
#[derive(Default)]
pub(super) struct Usage {
    clients: Rates<Network>,
    logins: Rates<String>,
    failed_logins: Rates<Network>,
    /// Number of connections of each login.
    login_connections: HashMap<String, usize>,
    refused_logins: Rates<String>,
    refused_clients: Rates<Network>,
    /// Alarms since they were taken.
    new_alarms: Vec<String>,
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

    /// Counts a recipient for its login or its client. Returns the reply if there are too many.
    pub(super) fn count_recipient(
        &mut self,
        question: &RecipientQuestion,
        client: Network,
        limits: &Limits,
        now: Instant,
    ) -> Option<Reply> {
        let (verdict, subject, limit) = match &question.login {
            Some(login) => {
                let limit = limits.max_recipients_per_login;
                let verdict = self.logins.count(login.clone(), limit, now);
                (verdict, format!("the login {login} of {client}"), limit)
            }
            None if question.may_relay => return None,
            None => {
                let limit = limits.max_recipients_per_client;
                (self.clients.count(client, limit, now), format!("the client {client}"), limit)
            }
        };
        if verdict == RateVerdict::ReachedNow {
            self.raise(format!(
                "{subject} has named {} in an hour; more are deferred until the hour is over",
                printable::count(limit, "recipient"),
            ));
        }
        let reply = Reply::new(450, "4.7.1", "Too many recipients in this hour, try again later");
        (verdict != RateVerdict::Good).then_some(reply)
    }

    /// Counts a connection of a login. Returns the reply if there are too many.
    ///
    /// Otherwise [`end_login`](Usage::end_login) follows when the connection ends.
    pub(super) fn begin_login(
        &mut self,
        login: &str,
        client: Network,
        limits: &Limits,
        now: Instant,
    ) -> Result<(), Reply> {
        let limit = limits.max_connections_per_login;
        let count = self.login_connections.get(login).copied().unwrap_or(0);
        if count < limit {
            self.login_connections.insert(login.to_string(), count + 1);
            return Ok(());
        }
        if self.refused_logins.count(login.to_string(), 0, now) == RateVerdict::ReachedNow {
            self.raise(format!(
                "the login {login} has {}, and {client} wants another one; more are refused until one ends",
                printable::count(limit as u64, "connection"),
            ));
        }
        Err(Reply::new(454, "4.7.0", "Too many connections of this login, try again later"))
    }

    /// Ends a connection of a login.
    pub(super) fn end_login(&mut self, login: &str) {
        if let Some(count) = self.login_connections.get_mut(login) {
            *count -= 1;
            if *count == 0 {
                self.login_connections.remove(login);
            }
        }
    }

    /// Counts a connection that was refused because its client has `limit` others.
    pub(super) fn refuse_client(&mut self, client: Network, limit: usize, now: Instant) {
        if self.refused_clients.count(client, 0, now) == RateVerdict::ReachedNow {
            self.raise(format!(
                "the client {client} has {} and wants another one; more are refused until one ends",
                printable::count(limit as u64, "connection"),
            ));
        }
    }

    pub(super) fn count_failed_login(&mut self, client: Network, now: Instant) {
        if self.failed_logins.count(client, MAX_FAILED_LOGINS, now) == RateVerdict::ReachedNow {
            self.raise(format!(
                "{MAX_FAILED_LOGINS} failed logins in an hour from {client}; more are refused until the hour is over"
            ));
        }
    }

    /// Returns true if a client may not log in now. That counts as a failed login.
    pub(super) fn refuses_login(&mut self, client: Network, now: Instant) -> bool {
        let is_refused = self.failed_logins.is_reached(&client, MAX_FAILED_LOGINS, now);
        if is_refused {
            self.count_failed_login(client, now);
        }
        is_refused
    }

    /// The alarms that are in force, for people; empty if there are none.
    pub(super) fn alarms(&self, now: Instant) -> String {
        let logins = list("logins", self.logins.over_limit(now));
        let clients = list("clients", self.clients.over_limit(now));
        let alarms: Vec<String> = logins.into_iter().chain(clients).collect();
        match alarms.is_empty() {
            true => String::new(),
            false => format!("alarm: {} at the limit of recipients", alarms.join(", ")),
        }
    }

    /// Ends hours that are over, and logs what was refused in them.
    pub(super) fn end_hours(&mut self, now: Instant) {
        log_end("login", self.logins.end_windows(now));
        log_end("client", self.clients.end_windows(now));
        self.failed_logins.end_windows(now);
        self.refused_logins.end_windows(now);
        self.refused_clients.end_windows(now);
    }
}

/// Maximum number of names in a line.
const MAX_NAMES: usize = 5;

/// Names of those that have reached a limit, such as `logins alice bob`.
fn list<K: Display>(what: &str, keys: impl Iterator<Item = K>) -> Option<String> {
    let mut names: Vec<String> = keys.map(|key| key.to_string()).collect();
    names.sort();
    let surplus = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    if surplus > 0 {
        names.push(format!("and {surplus} more"));
    }
    (!names.is_empty()).then(|| format!("{what} {}", names.join(" ")))
}

fn log_end<K: Display + Eq + Hash>(what: &str, ended: Vec<(K, u64)>) {
    for (key, refused) in ended {
        log::warn!(
            "alarm: the hour of the {what} {key} is over; recipients deferred in it: {refused}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn alarm_lasts_until_its_hour_is_over() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        let limits = Limits { max_recipients_per_login: 2, ..Limits::default() };
        let client = Network::of_client([192, 0, 2, 1].into());
        let question = RecipientQuestion { login: Some("alice".into()), ..question() };
        let mut count = |at| usage.count_recipient(&question, client, &limits, at).is_none();
        assert_eq!([count(start), count(start), count(start)], [true, true, false]);
        usage.end_hours(start + Duration::from_secs(3599));
        assert_eq!(usage.alarms(start), "alarm: logins alice at the limit of recipients");
        usage.end_hours(start + Duration::from_secs(3600));
        assert_eq!(usage.alarms(start), "");
    }

    #[test]
    fn connections_of_a_login_are_limited() {
        let (mut usage, now) = (Usage::default(), Instant::now());
        let limits = Limits { max_connections_per_login: 2, ..Limits::default() };
        let client = Network::of_client([192, 0, 2, 1].into());
        let begin = |usage: &mut Usage, login| {
            usage.begin_login(login, client, &limits, now).map_err(|reply| reply.to_string())
        };
        assert_eq!([begin(&mut usage, "alice"), begin(&mut usage, "alice")], [Ok(()), Ok(())]);
        let refused = "454 4.7.0 Too many connections of this login, try again later";
        assert_eq!(begin(&mut usage, "alice"), Err(refused.into()));
        assert_eq!(begin(&mut usage, "alice"), Err(refused.into()));
        assert_eq!(usage.take_alarms().len(), 1, "one in an hour");
        assert_eq!(begin(&mut usage, "bob"), Ok(()));
        usage.end_login("alice");
        assert_eq!(begin(&mut usage, "alice"), Ok(()));
        ["alice", "alice", "bob"].into_iter().for_each(|login| usage.end_login(login));
        assert!(usage.login_connections.is_empty());
    }

    fn question() -> RecipientQuestion {
        RecipientQuestion { may_relay: true, ..RecipientQuestion::default() }
    }
}
