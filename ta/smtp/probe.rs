//! `smtp --probe HOST`: what a delivery would meet, step by step.

use crate::client::Client;
use std::process::ExitCode;

/// Connects to each address of a host, shows the dialogue, and sends no mail.
///
/// The exit code is a failure if no address takes mail.
pub fn probe(client: &mut Client, host: &str) -> ExitCode {
    match client.dialer().probe(host) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
