//! The library that transport agents are built from.
//!
//! An agent is a function that works on one [`Job`]: some recipients of one message, for one
//! channel and host. [`serve`] does the rest. It implements the protocol with the scheduler, opens
//! and checks control files, locks recipients, and writes tags and `d` lines. It also ends the
//! agent when the scheduler or a signal requests it. An agent never sees the queue or the schedule.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use zsched_agent::{Outcome, Scope, Verdict};
//!
//! /// An agent for the channel `busy`, which defers all mail.
//! fn main() -> ExitCode {
//!     zsched_agent::serve("busy", &Scope::channel("busy"), |job| {
//!         job.message()?; // all recipients fail if it is gone
//!         job.each(|delivery| {
//!             let user = String::from_utf8_lossy(delivery.user());
//!             Outcome::new(Verdict::Deferred, "4.2.0", 450, "busy").says(format!("{user} is busy"))
//!         })
//!     })
//! }
//! ```
//!
//! The outcome of a recipient is made known in this order: the `d` line is on disk, the report is
//! sent, the tag is written. So a recipient of an agent that is killed stays locked, or is tried
//! again, but is never forgotten. [`Job::deliver_each`] locks each recipient just before its delivery, so
//! only one may be delivered twice after a kill. `man/transport-agent.7` describes the protocol in
//! full.
//!
//! An agent that is stopped by a signal finishes the current recipient, reports nothing about the
//! others, and exits with status 0. A wait during a delivery should end when
//! [`Delivery::is_stopping`] returns true.

mod delivery;
mod job;
mod job_file;
mod message;
mod options;
mod outcome;
mod reply_writer;
pub mod resubmit;
mod session;
mod stop;

pub use delivery::Delivery;
pub use job::{Halt, Job};
pub use message::Message;
pub use options::ScopeOptions;
pub use outcome::{Outcome, Verdict, reason};
pub use zsched_format::job_recipients::Scope;

use job_file::JobFolders;
use reply_writer::ReplyWriter;
use session::Session;
use std::io;
use std::process::ExitCode;
use stop::StopFlag;

/// Runs an agent: does `work` on each job, one after the other.
///
/// The scheduler or a signal ends it.
///
/// `program` is the name of the agent in the scheduler's log. `scope` selects its recipients.
pub fn serve(
    program: &str,
    scope: &Scope,
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
) -> ExitCode {
    let mut replies = ReplyWriter::new(program, Box::new(io::stdout().lock()));
    let stop = match StopFlag::install() {
        Ok(stop) => stop,
        Err(error) => {
            replies.warn(&format!("cannot install signal handlers: {}", reason(&error)));
            replies.flush();
            return ExitCode::FAILURE;
        }
    };
    let commands = io::stdin().lock();
    let folders = JobFolders::default();
    Session { commands, replies, stop, folders, scope, kept: None }.run(work);
    ExitCode::SUCCESS
}
