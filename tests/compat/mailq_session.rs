//! A session of MAILQ version 2 with only the scheduler's core behind it.

use crate::support::START;
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_core::{Action, Event};
use zsched_format::time::Timestamp;
use zsched_mailq_server::acl::Peer;
use zsched_mailq_server::auth_file::AuthFile;
use zsched_mailq_server::login::Challenge;
use zsched_mailq_server::v2::events::Subscribers;
use zsched_mailq_server::v2::{
    Answer, Demand, HostFacts, Lookup, LookupResult, Process, RequestCounters, Session,
    SessionContext,
};

/// The accounts of the recorded scheduler.
pub const ACCOUNTS: &str = "nobody:nobody:SNMP QQ TT ETRN:[127.0.0.0]/8\n\
     snmponly:pw:SNMP:[127.0.0.0]/8\nroot:sekret:ALL:[127.0.0.0]/8\n";

pub struct MailqSession {
    pub session: Session,
    accounts: Rc<AuthFile>,
    pub request_counters: RequestCounters,
    pub watch: Subscribers,
    /// Error addresses of messages, by their names.
    pub addresses: BTreeMap<String, &'static str>,
    pub log_lines: Vec<String>,
    pub host: HostFacts,
    tickets: u64,
}

impl MailqSession {
    /// Opens a session from 127.0.0.1. Returns it and the greeting.
    pub fn open(accounts: &str, challenge: Challenge) -> (MailqSession, String) {
        let (accounts, _) = AuthFile::parse(accounts.as_bytes());
        let peer = Peer::at([127, 0, 0, 1].into());
        let (session, greeting) = Session::open(peer, challenge, &accounts);
        let talk = MailqSession {
            session,
            accounts: Rc::new(accounts),
            request_counters: RequestCounters::default(),
            watch: Subscribers::default(),
            addresses: BTreeMap::new(),
            log_lines: Vec::new(),
            host: HostFacts::default(),
            tickets: 0,
        };
        (talk, greeting)
    }

    /// Opens a session and logs in.
    pub fn as_user(user: &str, password: &str) -> MailqSession {
        let challenge = Challenge::new(START, 4711, 1);
        let answer = challenge.answer(password.as_bytes());
        let (mut talk, greeting) = MailqSession::open(ACCOUNTS, challenge);
        assert!(greeting.starts_with("version zmailer 2.0\n220 MAILQ-V2-CHALLENGE: "));
        let mut world = World::with_disk("c/* command=x\n");
        assert_eq!(talk.say(&mut world, format!("AUTH {user} {answer}\n")), "+OK\n");
        talk
    }

    /// Sends text. Returns the answer.
    pub fn say(&mut self, world: &mut World, text: impl AsRef<[u8]>) -> String {
        let (mut said, mut out) = (text.as_ref(), Vec::new());
        loop {
            let count = said.len().min(self.session.room());
            self.session.push_input(&said[..count]);
            said = &said[count..];
            let demand = self.proceed(world, &mut out);
            let is_settled = demand.is_none() && !self.session.has_request();
            if let Some(demand) = demand {
                self.serve_demand(world, demand);
            } else if self.session.is_over() || (said.is_empty() && is_settled) {
                return String::from_utf8(out).expect("answers are text");
            }
        }
    }

    fn proceed(&mut self, world: &World, out: &mut Vec<u8>) -> Option<Demand> {
        let mut log_lines = Vec::new();
        let mut around = SessionContext {
            scheduler: &world.core,
            now: world.now,
            process: Process {
                started: START,
                pid: 4711,
                is_loading: false,
                clock_step: None,
                longest_loop_turn: Duration::ZERO,
                set_log_level: None,
            },
            backlog: &(),
            secret: &[7; 32],
            subscribers: &self.watch,
            accounts: &mut || self.accounts.clone(),
            request_counters: &mut self.request_counters,
            log_lines: &mut log_lines,
        };
        // Answers are written in small steps.
        let enough = out.len() + 1;
        let demand = self.session.proceed(&mut around, out, enough);
        self.log_lines.extend(log_lines.iter().map(|remark| format!("{remark:?}")));
        if demand.is_none() && self.session.is_answering() && !self.session.is_waiting() {
            return self.proceed(world, out);
        }
        demand
    }

    fn serve_demand(&mut self, world: &mut World, demand: Demand) {
        match demand {
            Demand::Lookup(Lookup::Host) => {
                self.session.take_answer(Answer::Lookup(LookupResult::Host(self.host.clone())));
            }
            Demand::Lookup(Lookup::ErrorAddresses(names)) => {
                let address =
                    |name: &str| self.addresses.get(name).map(|text| text.as_bytes().into());
                let addresses = names.iter().map(|name| address(&name.to_string())).collect();
                let found = LookupResult::ErrorAddresses(addresses);
                self.session.take_answer(Answer::Lookup(found));
            }
            Demand::Order { by, order } => {
                self.tickets += 1;
                world.handle(Event::Ordered { ticket: self.tickets, by, order });
                let effect = world.take_done(|action| match action {
                    Action::OrderDone { ticket, effect } if *ticket == self.tickets => {
                        Some(*effect)
                    }
                    _ => None,
                });
                let effect = effect.expect("it is obeyed at once here");
                self.session.take_answer(Answer::Order(effect));
            }
            other => panic!("the original has no request for {other:?}"),
        }
    }
}

/// Returns the challenge of a recorded line.
pub fn challenge(line: &str) -> Challenge {
    let numbers = line.strip_prefix("220 MAILQ-V2-CHALLENGE: ").expect("a challenge");
    let numbers: Vec<u64> = numbers.split('.').map(|n| n.parse().expect("a number")).collect();
    let [seconds, micros, count] = numbers[..] else { panic!("{line}") };
    Challenge::new(Timestamp::from_seconds(seconds as i64), micros, count)
}
