//! A library for transport agents, which deliver mail of zsched or ZMailer.
//!
//! An agent is a function that works on one [`Job`]: some recipients of one message, for one
//! channel and host. [`serve`] does the rest. It implements the protocol with the scheduler, opens
//! and checks control files, locks recipients, and writes tags and `d` lines. It also ends the
//! agent when the scheduler or a signal requests it.
//!
//! This crate decides how a job is read, and in which order an outcome is recorded. It must not
//! know the queue, the schedule, or how mail is delivered. Begin with the example, then with
//! [`Job`].
//!
//! ```
//! use std::process::ExitCode;
//! use zsched_agent::testing::TestJob;
//! use zsched_agent::{Halt, Job, Outcome, Scope, Verdict};
//!
//! /// Delivers to the mailbox of each recipient, unless it is full.
//! fn deliver(job: &mut Job<'_>) -> Result<(), Halt> {
//!     let message = job.message()?; // all recipients fail if it is gone
//!     job.deliver_each(|delivery| match delivery.user() {
//!         b"bob" => Outcome::new(Verdict::Deferred, "4.2.2", 452, "mailbox full"),
//!         user => match store(user, delivery.headers(), delivery.body(&message)) {
//!             Ok(()) => Outcome::new(Verdict::Delivered, "2.0.0", 250, "delivered"),
//!             Err(error) => Outcome::system_error("cannot write the mailbox", &error),
//!         },
//!     })
//! }
//! # fn store(_: &[u8], _: &[u8], mut body: impl std::io::Read) -> std::io::Result<()> {
//! #     std::io::copy(&mut body, &mut std::io::sink()).map(drop)
//! # }
//!
//! // The program: the scheduler starts it with `command="my-agent"`.
//! fn main_of_agent() -> ExitCode {
//!     zsched_agent::serve("my-agent", &Scope::channel("local"), deliver)
//! }
//!
//! // The test: the same function, on a control file as a router writes it.
//! let control_file = "\
//! @ 0x00000007
//! i 4711
//! o 0
//! s local - alice@example.org 1001
//! r           local - ann 1001
//! r           local - bob 1001
//! m
//! From: alice@example.org
//!
//! ";
//! let run = TestJob::new(control_file).with_body("Hello\n").run(&Scope::channel("local"), deliver);
//! assert_eq!(run.report("ann").status, "ok3");
//! assert_eq!((run.tag("ann"), run.tag("bob")), ('+', ' '));
//! assert_eq!(run.report("bob").notary[2], "4.2.2 (mailbox full)");
//! ```
//!
//! # What to return
//!
//! Each recipient gets an [`Outcome`]: a [`Verdict`] with codes and text. [`Job::deliver_each`] is
//! the simplest way; [`Job::lock`] with [`Job::report`] is for agents that work on several
//! recipients at once, as SMTP and LMTP agents do. [`Job::deliver_groups`] is for those that serve
//! several recipients with one copy of the message, [`Job::report_together`] for work that cannot
//! be done twice. An agent that cannot go on ends the job with a [`Halt`], often by `?`:
//!
//! ```
//! use zsched_agent::{Halt, Job, Outcome, Verdict};
//! # fn connect() -> std::io::Result<()> { Ok(()) }
//! fn deliver(job: &mut Job<'_>) -> Result<(), Halt> {
//!     let connection = connect()
//!         .map_err(|_| Outcome::new(Verdict::DeferAll, "4.4.1", 421, "connection refused"))?;
//! #   drop(connection);
//!     Ok(())
//! }
//! ```
//!
//! Replies of SMTP and LMTP servers and exit statuses of programs become outcomes by
//! [`Outcome::from_smtp_reply`] and [`Outcome::from_exit_status`].
//!
//! # What a crash leaves
//!
//! The outcome of a recipient is made known in this order: the `d` line is on disk, the report is
//! sent, the tag is written. So a recipient of an agent that is killed stays locked, or is tried
//! again, but is never forgotten. [`Job::deliver_each`] locks each recipient just before its
//! delivery, so only one may be delivered twice after a kill. The manual page `transport-agent(7)`
//! of zsched describes the protocol in full, `control-file(5)` the files.
//!
//! An agent that is stopped by a signal finishes the current recipient, reports nothing about the
//! others, and exits with status 0. A wait during a delivery should end when
//! [`Delivery::is_stopping`] returns true.
//!
//! # Features
//!
//! - `clap`: the options `-c CHANNEL` and `-h HOST` for the command line of an agent
//!   (`ScopeOptions`). Off by default.

#![warn(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
mod session;

mod delivery;
mod job;
mod message;

mod halt;
mod outcome;

mod job_file;
mod recipient_log;
mod reply_writer;
mod stop_flag;

#[cfg(feature = "clap")]
mod scope_options;

pub mod testing;

pub use agent::{Agent, serve, serve_with_idle, serve_with_pauses};
pub use delivery::Delivery;
pub use halt::Halt;
pub use job::Job;
pub use message::Message;
pub use outcome::{Outcome, Verdict};
#[cfg(feature = "clap")]
#[cfg_attr(docsrs, doc(cfg(feature = "clap")))]
pub use scope_options::ScopeOptions;
pub use stop_flag::StopFlag;
#[doc(inline)]
pub use zsched_format::control_file::notify::{DeliverBy, Events, Notify};
#[doc(inline)]
pub use zsched_format::job_recipients::Scope;
#[doc(inline)]
pub use zsched_format::spool_id::SpoolId;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
