//! What a transport agent is built from.
//!
//! An agent is a function that works on one [`Job`]: some recipients of one message, for one channel
//! and host. [`serve`] does the rest: it speaks the protocol with the scheduler, opens and checks
//! control files, locks recipients, writes tags and `d` lines, and ends when it is told to. An agent
//! never learns the queue, and never hears of the scheduler's schedule.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use zsched_agent::{Outcome, Scope, Verdict};
//!
//! /// An agent for the channel `busy`, where nobody ever has time.
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
//! The order in which things are made known about a recipient is: `d` line on disk, report sent, tag
//! written. So an agent that is killed leaves a recipient locked, or one that is tried again, but
//! never one that is forgotten. [`Job::each`] locks a recipient when its turn comes: only one is in
//! doubt after a kill. `man/transport-agent.7` has the protocol in full.
//!
//! An agent that a signal tells to stop finishes the recipient at hand, reports nothing of the others,
//! and exits with status 0. A wait during a delivery ends when [`Delivery::is_stopping`] says so.

mod delivery;
mod job;
mod job_file;
mod message;
mod options;
mod outcome;
pub mod parsed;
mod replies;
pub mod resubmit;
pub mod scope;
mod session;
mod stop;

pub use delivery::Delivery;
pub use job::{Halt, Job};
pub use message::Message;
pub use options::ScopeOptions;
pub use outcome::{Outcome, Verdict, reason};
pub use scope::Scope;

use job_file::Place;
use replies::Replies;
use session::Session;
use std::io;
use std::process::ExitCode;
use stop::Stop;

/// Runs an agent: does `work` on one job after the other until the scheduler, or a signal, ends it.
/// `program` names the agent in the scheduler's log; `scope` tells its recipients from others'.
pub fn serve(
    program: &str,
    scope: &Scope,
    work: impl FnMut(&mut Job<'_>) -> Result<(), Halt>,
) -> ExitCode {
    let mut replies = Replies::new(program, Box::new(io::stdout().lock()));
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => {
            replies.warn(&format!("cannot listen to signals: {}", reason(&error)));
            replies.flush();
            return ExitCode::FAILURE;
        }
    };
    let orders = io::stdin().lock();
    let place = Place::default();
    Session { orders, replies, stop, place, scope, kept: None }.run(work);
    ExitCode::SUCCESS
}
