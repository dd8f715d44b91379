//! The router: decides where new mail goes, and gives it to the scheduler.
//!
//! ```text
//! router/N ──submission──► envelope, headers ──expand──► recipients of agents ──message──► control file
//!                                        │
//!                    routes: which line of router.cf decides about an address
//!                    directory: virtual addresses, aliases, users
//! ```
//!
//! This crate decides which addresses exist, what they stand for, which agent gets them, and which
//! headers a message lacks. How files get into the queue safely is the spool's matter
//! ([`zsched_spool::accept`]). It must not know when mail is delivered.
//!
//! Begin with [`Routes::route`], which is pure: no file, no clock. Then read [`Expansion`], which
//! looks up aliases and users, and [`message::route`].

#![warn(unreachable_pub)]

// Addresses, and the rules about them.
mod address;
mod config;
mod refusal;
mod routes;

// What addresses stand for.
mod alias_table;
mod directory;
mod dsn;
mod expand;
mod recipients;

// Messages.
mod envelope;
mod headers;
pub mod message;
mod submission;

// The program.
mod config_file;
mod daemon;
mod options;
mod show;

pub use address::{AddressError, MailAddress};
pub use config::{KEYWORDS, RouterConfig, UserSource};
pub use config_file::load_directory;
pub use directory::Directory;
pub use envelope::{Envelope, EnvelopeRecipient, EnvelopeSender};
pub use expand::{ExpandError, Expansion, MAX_RECIPIENTS, Step};
pub use headers::MAX_RECEIVED;
pub use options::RouterOptions;
pub use recipients::{RecipientSet, RoutedEnd, RoutedRecipient};
pub use refusal::RecipientRefusal;
pub use routes::{Decision, RoutedTo, Routes};
pub use submission::{MAX_HEADERS_SIZE, Submission, SubmissionError};

use config_file::Installation;
use zsched_format::printable::{self, print_to_stderr as say};

/// Exit status for errors, which may be temporary.
const EXIT_FAILURE: i32 = 1;

/// Runs the program. Returns the exit status.
pub fn main(options: &RouterOptions) -> i32 {
    run(options).unwrap_or_else(|error| {
        printable::print_error("router", error);
        EXIT_FAILURE
    })
}

fn run(options: &RouterOptions) -> std::io::Result<i32> {
    let mut installation = Installation::find(options)?;
    let directory = match installation.load() {
        Ok((directory, warnings)) => {
            warnings.iter().for_each(say);
            if options.check {
                show::print_verdict(&installation, &directory, warnings.len());
                return Ok(0);
            }
            directory
        }
        Err(errors) => {
            errors.iter().for_each(say);
            printable::print_error(
                "router",
                format_args!("{} cannot be used", installation.config_name()),
            );
            return Ok(EXIT_FAILURE);
        }
    };
    if !options.addresses.is_empty() {
        return Ok(show::try_addresses(&directory, &options.addresses));
    }
    installation.set_directory(directory);
    daemon::run(installation, options)
}
