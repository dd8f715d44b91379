//! A session with a core behind it that has a message.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::{Action, Effect, Event, Scheduler, Settings};
use zsched_format::control_file::parse;
use zsched_format::time::Timestamp;
use zsched_mailq_server::auth_file::AuthFile;
use zsched_mailq_server::v2::events::{EventSubject, QueueEvent, Subscribers};
use zsched_mailq_server::v2::{
    AdminCommand, Answer, Demand, HostFacts, Lookup, LookupResult, Process, RequestCounters,
    Session, SessionContext,
};
use zsched_spool::{Arrival, HashFolder, SpoolName};

/// Time of all events.
pub const NOW: Timestamp = Timestamp::from_seconds(1_795_255_200);

pub struct SessionWithCore {
    pub session: Session,
    pub core: Scheduler,
    /// The auth file.
    pub accounts: String,
}

impl SessionWithCore {
    /// Sends a client's text in pieces of this size, then closes its side. Returns the answers.
    pub fn converse(&mut self, mut said: &[u8], piece: usize) -> Vec<u8> {
        let (mut request_counters, mut log_lines, mut out) =
            (RequestCounters::default(), Vec::new(), Vec::new());
        let (accounts, _) = AuthFile::parse(self.accounts.as_bytes());
        let accounts = Rc::new(accounts);
        let watch = Subscribers::default();
        let mut steps = 0;
        while !self.session.is_over() {
            steps += 1;
            assert!(steps < 1_000_000, "it never ends");
            let enough = out.len() + 1;
            let mut around = SessionContext {
                scheduler: &self.core,
                now: NOW,
                process: Process {
                    started: NOW,
                    pid: 4711,
                    is_loading: false,
                    clock_step: None,
                    longest_loop_turn: Duration::ZERO,
                    set_log_level: None,
                },
                backlog: &(),
                secret: &[7; 32],
                subscribers: &watch,
                accounts: &mut || accounts.clone(),
                request_counters: &mut request_counters,
                log_lines: &mut log_lines,
            };
            if let Some(demand) = self.session.proceed(&mut around, &mut out, enough) {
                self.serve_demand(demand);
                continue;
            }
            if !self.session.is_waiting()
                && (self.session.is_answering() || self.session.has_request())
            {
                continue;
            }
            if self.session.is_streaming() && steps % 3 == 0 {
                watch.publish(EventSubject::default(), &QueueEvent::Reloaded { time: 1.5 });
            }
            let count = piece.min(said.len()).min(self.session.room());
            self.session.push_input(&said[..count]);
            said = &said[count..];
            if count == 0 {
                self.session.end();
            }
        }
        out
    }

    fn serve_demand(&mut self, demand: Demand) {
        match demand {
            Demand::Lookup(Lookup::Host) => {
                self.found(LookupResult::Host(HostFacts::default()));
            }
            Demand::Lookup(Lookup::ErrorAddresses(names)) => {
                let addresses = names.iter().map(|_| Some(b"a\tb\n.".as_slice().into())).collect();
                self.found(LookupResult::ErrorAddresses(addresses));
            }
            Demand::Lookup(Lookup::MatchFiles(criteria, candidates)) => {
                let file = parse(TEXT.into()).expect("a good control file");
                let wanted: Vec<&[u8]> = candidates.iter().map(|c| &*c.destination).collect();
                let matching = criteria.addresses.matches_in(&file, &wanted);
                let is_fitting = criteria.matches_size(file.text.len() as u64);
                let matching = matching.into_iter().map(|matches| matches && is_fitting);
                self.found(LookupResult::MatchFiles(matching.collect()));
            }
            Demand::Admin { command, .. } => {
                self.session.take_answer(Answer::Admin(match command {
                    AdminCommand::Reload | AdminCommand::CheckConfig => {
                        Err("line 1:\n.".to_string())
                    }
                    AdminCommand::Log(_) | AdminCommand::Load(_) => Ok("a\remark".to_string()),
                }))
            }
            Demand::Order { by, order } => {
                self.core.handle(NOW, Event::Ordered { ticket: 1, by, order });
                self.core.check_invariants();
                let effect = self.store();
                let effect = effect.expect("what is stored is answered");
                self.session.take_answer(Answer::Order(effect));
            }
        }
    }
}

impl SessionWithCore {
    /// Passes the result of a lookup to the session.
    fn found(&mut self, result: LookupResult) {
        self.session.take_answer(Answer::Lookup(result));
    }

    /// Stores what the core wants to store. Returns the effect of the order.
    fn store(&mut self) -> Option<Effect> {
        let mut found = None;
        while let Some(action) = self.core.poll() {
            match action {
                Action::Note(note) => {
                    let ticket = note.ticket;
                    self.core.handle(NOW, Event::Noted { ticket, outcome: Ok(true) });
                }
                Action::StoreOverrides { ticket, .. } => {
                    self.core.handle(NOW, Event::OverridesStored { ticket, outcome: Ok(()) });
                }
                Action::OrderDone { effect, .. } => found = Some(effect),
                _ => {}
            }
        }
        found
    }
}

/// The control file of the message.
const TEXT: &str = "i 7\ns l - a 0\nr           c .h.test u 0\nm\n\n";

/// Returns a core with a waiting message, for a host that begins with a dot.
pub fn core() -> Scheduler {
    let context = ConfigContext::unprivileged(Zenv::default());
    let config = Config::parse(Path::new("cf"), b"c/*\n\tmaxring=1\n", &context);
    let config = config.unwrap_or_else(|errors| panic!("{errors:?}")).config;
    let mut core = Scheduler::new(Settings::default(), Rc::new(config));
    let file = parse(TEXT.into()).expect("a good control file");
    let name = SpoolName::new(HashFolder::TOP, b"7").expect("a name");
    core.handle(NOW, Event::Arrived(Box::new(Arrival::new(name, &file, NOW, NOW))));
    core
}
