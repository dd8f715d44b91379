//! MAILQ version 2, the server's side: one request per line, each answered in order.
//!
//! ```text
//! server  version zmailer 2.0
//! server  220 MAILQ-V2-CHALLENGE: 1795255943.6817100324417.2
//! client  AUTH nobody 38a784a5473d5b661ad89e27f2c1fd0c
//! server  +OK
//! client  SHOW SNMP
//! server  +OK until LF.LF
//! server  Kids: 9  Idle:  9  Msgs:  11  Thrds:  14  Rcpnts:   17  Uptime: 49 sec
//! server  Msgs in 52 out 15 stored 11 Rcpnts in 272 out 232 stored 19
//! server  .
//! client  QUIT
//! server  +Bye bye
//! ```
//!
//! Over the control socket the scheduler's own user speaks the same protocol. There the first line
//! is `version zsched 1.0`, and no login is needed.
//!
//! | file | contents |
//! |---|---|
//! | [`session`] | one client: input lines, answers, login state |
//! | [`unauthenticated`] | a session before its login |
//! | [`mod@requests`] | the table of requests: words, permission, handler |
//! | [`arguments`], [`selection`], [`addresses`] | words and options of a request; selection of mail |
//! | [`task`] | kinds of answers, and the tasks that produce them step by step |
//! | [`show_queue`], [`show_why`], [`remarks`], [`counters`] | the texts |
//! | [`json`] | the views for programs |
//! | [`search`], [`rows`] | search for selected mail; a row for each thing that is found |
//! | [`operator_order`] | orders given to the core once, or about many messages, in steps |
//! | [`holds`], [`limits`], [`admin`] | HOLD and RELEASE; SET and UNSET; RETIRE, JOB, RELOAD and LOG |
//! | [`orders`] | ETRN and KILL |
//! | [`outcome`] | the answer to an order |
//! | [`events`] | the event feed and its subscribers |
//!
//! Code here has no side effects. What a session needs from a disk, and what it wants changed, it
//! returns as a [`Demand`]; the shell passes the result back to the session. A new request is a row
//! of the table and its handler.

mod session;
mod unauthenticated;

mod requests;

mod arguments;

mod selection;

mod addresses;

mod task;

mod counters;
mod show_queue;
mod show_why;
mod remarks;
pub mod json;

mod search;
mod rows;

mod operator_order;

mod holds;
mod limits;

mod admin;
mod orders;

mod outcome;

pub mod events;

pub use addresses::AddressPattern;
pub use arguments::{Arguments, SyntaxError, Word};
pub use counters::RequestCounters;

pub use requests::{Request, requests};
pub use selection::{FileCriteria, Selection};
pub use session::{MAX_REQUEST_LEN, Session};
pub use task::{
    AdminCommand, Answer, Candidate, ClientLog, Demand, DiskSpace, HostFacts, Lookup, LookupResult,
    NoticedStep, Process, SessionContext, Step,
};
pub use zsched_mailq_protocol::words::{CONTROL_GREETING, GREETING, NO_ACCESS, UNTIL_DOT};
