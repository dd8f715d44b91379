//! The SMTP server: takes mail from other programs and hosts, for the router.
//!
//! ```text
//! socket ──server──► TLS ──► session ──► verdict: the router's rules, relaying, policy
//!                              │
//!                              ▼ store: written, synced, renamed, then 250
//!                    public/… ──► router/<inode> ──► datagram "NEW router <inode>"
//! ```
//!
//! This crate decides which clients may send what, and the replies to them. It must not know where
//! mail goes, which is the router's matter, or when. Begin with [`session`], which is pure: no
//! socket, no file, no clock. One event loop serves all connections; workers do what may wait
//! ([`store`], [`verdict`]).

#![warn(unreachable_pub)]

// What a client may do, and the replies to it.
pub mod session;

// What is decided about it.
mod accounts;
mod config;
mod dovecot;
mod network;
mod policy;
mod rates;
mod service_stream;
mod verdict;

// Where messages go.
mod store;

// What others see of it.
mod status_line;
mod traffic;

// The program.
mod installation;
mod options;
mod sandbox;
mod server;
mod stdio;
mod tls;

pub use config::{KEYWORDS, Limits, Listener, LoginSource, ServerConfig, SubjectLimits};
pub use options::SmtpServerOptions;
pub use service_stream::ServiceAddress;

use installation::Installation;
use zsched_format::printable::{self, print_to_stderr as say};

/// Exit status for errors, which may be temporary.
const EXIT_FAILURE: i32 = 1;

/// Runs the program. Returns the exit status.
pub fn main(options: &SmtpServerOptions) -> i32 {
    run(options).unwrap_or_else(|error| {
        printable::print_error("smtpserver", error);
        EXIT_FAILURE
    })
}

fn run(options: &SmtpServerOptions) -> std::io::Result<i32> {
    if options.stdio {
        return stdio::run(options);
    }
    let installation = Installation::find(options)?;
    match installation.load() {
        Ok((loaded, warnings)) => {
            warnings.iter().for_each(say);
            if !options.check {
                return server::run(installation, loaded, options);
            }
            if let Some(obstacle) = sandbox::obstacle() {
                say(format_args!("smtpserver: warning: {obstacle}"));
            }
            let ports = printable::count(loaded.config.listeners.len() as u64, "port");
            printable::print_error(
                "smtpserver",
                format_args!("{} is usable, {ports}", installation.config_name()),
            );
            Ok(0)
        }
        Err(errors) => {
            errors.iter().for_each(say);
            printable::print_error(
                "smtpserver",
                format_args!("{} cannot be used", installation.config_name()),
            );
            Ok(EXIT_FAILURE)
        }
    }
}
