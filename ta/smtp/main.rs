//! `smtp`: delivers mail by SMTP and LMTP. The library beside it does the work.

use std::cell::RefCell;
use std::process::ExitCode;
use zsched_format::printable;
use zsched_smtp::mailer::Mailer;
use zsched_smtp::options::{SmtpOptions, StartError};
use zsched_smtp::probe::probe;

/// Exit status for invalid options (`EX_USAGE` of `sysexits.h`).
const EX_USAGE: u8 = 64;
/// Exit status for a configuration with errors (`EX_CONFIG`).
const EX_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let options: SmtpOptions = zsched_command_line::parse();
    zsched_smtp::warnings::keep();
    let mut client = match options.client() {
        Ok(client) => client,
        Err(error) => {
            printable::print_error("smtp", &error);
            return ExitCode::from(match error {
                StartError::SmtpOptions(_) => EX_USAGE,
                StartError::Configuration(_) => EX_CONFIG,
            });
        }
    };
    if options.check {
        return ExitCode::SUCCESS;
    }
    if let Some(host) = options.host_to_probe() {
        return probe(&mut client, host);
    }
    let idle_time = client.configuration().session.idle_time;
    let mailer = RefCell::new(Mailer::new(client));
    zsched_agent::serve_with_pauses(
        "smtp",
        &options.scope(),
        idle_time,
        || mailer.borrow_mut().pause(),
        |job| mailer.borrow_mut().work(job),
    )
}
