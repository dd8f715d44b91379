//! The servers that a job may still try.

use std::collections::VecDeque;
use std::rc::Rc;
use zsched_mail_exchanger::{Endpoint, Exchanger, NextHop, Route, Source};

/// The servers of a host that a job has not tried, in the order to try.
pub struct Servers {
    host: String,
    source: Source,
    /// Destinations without a route yet: that of the host, then its fallbacks.
    candidates: VecDeque<Candidate>,
    /// The route in use.
    route: Option<Rc<Route>>,
    /// What is left of its exchangers.
    exchangers: VecDeque<Exchanger>,
    /// Number of sessions with its servers; those that fail before MAIL are not counted.
    sessions: usize,
    /// The server that the job has tried with the session of an earlier one.
    tried: Option<Endpoint>,
}

/// A next hop that has no route yet.
pub struct Candidate {
    /// The next hop.
    pub next_hop: NextHop,
    /// True if it stands for another one, whose servers take no mail.
    pub is_fallback: bool,
}

impl Servers {
    /// Creates the list for a host.
    pub fn new(host: &str, source: Source, next_hop: NextHop, fallbacks: &[NextHop]) -> Servers {
        let fallback = |to: &NextHop| Candidate { next_hop: to.clone(), is_fallback: true };
        let first = Candidate { next_hop, is_fallback: false };
        Servers {
            host: host.to_string(),
            source,
            candidates: std::iter::once(first).chain(fallbacks.iter().map(fallback)).collect(),
            route: None,
            exchangers: VecDeque::new(),
            sessions: 0,
            tried: None,
        }
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The addresses from which connections come.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Leaves out a server, and counts it as the first of the route.
    pub fn leave_out(&mut self, endpoint: Endpoint) {
        self.tried = Some(endpoint);
    }

    /// Returns true if no server of the route is left.
    pub fn are_used_up(&self) -> bool {
        !self.may_go_on() || self.exchangers.is_empty()
    }

    /// Takes the next hop that has to have a route.
    pub fn take_candidate(&mut self) -> Option<Candidate> {
        self.candidates.pop_front()
    }

    /// Begins with a route.
    pub fn begin(&mut self, route: Route) {
        self.exchangers = route.exchangers.iter().cloned().collect();
        self.sessions = 0;
        if let Some(tried) = self.tried.take() {
            for exchanger in &mut self.exchangers {
                exchanger.endpoints.retain(|endpoint| *endpoint != tried);
            }
            self.exchangers.retain(|exchanger| !exchanger.endpoints.is_empty());
            self.sessions = 1;
        }
        self.route = Some(Rc::new(route));
    }

    /// Takes the exchanger to try next out of the route. Returns the route, too.
    pub fn take(&mut self) -> Option<(Rc<Route>, Exchanger)> {
        let route = self.route.as_ref().filter(|_| self.may_go_on())?;
        Some((Rc::clone(route), self.exchangers.pop_front()?))
    }

    /// Puts back an exchanger with the endpoints that were not tried.
    pub fn put_back(&mut self, exchanger: Exchanger, has_session: bool) {
        self.sessions += usize::from(has_session);
        if !exchanger.endpoints.is_empty() {
            self.exchangers.push_front(exchanger);
        }
    }

    fn may_go_on(&self) -> bool {
        self.route.as_ref().is_some_and(|route| self.sessions < route.max_sessions)
    }
}
