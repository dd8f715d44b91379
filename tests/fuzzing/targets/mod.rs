//! Fuzz targets: a function for each language that other programs write, and one for the order of
//! events in the core.
//!
//! A target accepts any bytes and panics if an invariant is violated. It does not depend on the
//! source of the bytes: the saved corpus and some mutation under `cargo test`, libFuzzer under
//! `fuzz/run`.

mod agent_line;
mod agent_output;
mod auth_file;
mod byte_source;
mod configuration;
mod control_file;
mod control_request;
mod events;
mod mailq_answer;
mod session_with_core;
mod smtp_replies;
mod smtp_session;
mod spool_name;
mod submission;
mod v2_request;
mod zenv;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of its folder in the corpus, and of its libFuzzer program.
    pub name: &'static str,
    /// Runs with these bytes. Panics if an invariant is violated.
    pub run: fn(&[u8]),
    /// Number of mutated inputs under `cargo test`, which take about half a second.
    pub rounds: u32,
}

/// All targets.
pub const TARGETS: [Target; 14] = [
    Target { name: "configuration", run: configuration::run, rounds: 250 },
    Target { name: "zenv", run: zenv::run, rounds: 4000 },
    Target { name: "control_file", run: control_file::run, rounds: 1000 },
    Target { name: "agent_line", run: agent_line::run, rounds: 8000 },
    Target { name: "agent_output", run: agent_output::run, rounds: 600 },
    Target { name: "mailq_answer", run: mailq_answer::run, rounds: 800 },
    Target { name: "control_request", run: control_request::run, rounds: 2000 },
    Target { name: "v2_request", run: v2_request::run, rounds: 2000 },
    Target { name: "auth_file", run: auth_file::run, rounds: 4000 },
    Target { name: "spool_name", run: spool_name::run, rounds: 15000 },
    Target { name: "submission", run: submission::run, rounds: 1000 },
    Target { name: "smtp_session", run: smtp_session::run, rounds: 2000 },
    Target { name: "smtp_replies", run: smtp_replies::run, rounds: 2000 },
    Target { name: "events", run: events::run, rounds: 400 },
];

/// Returns the target of a name.
pub fn find(name: &str) -> Target {
    *TARGETS.iter().find(|target| target.name == name).expect("a target of this name")
}
