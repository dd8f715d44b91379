//! Renders recorded server answers. Used by tests and fuzz targets.

use crate::classic::ClassicOutput;
use crate::classic::queue::QueuedThread;
use crate::classic::v1;
use crate::connect::credentials::Credentials;
use crate::connect::lines::{LIMITS, LineSource, Lines};
use crate::connect::server::Server;
use crate::connect::session::Session;
use crate::failure::Failure;
use crate::options::MailqOptions;
use crate::screen::Screen;
use crate::warnings::Warnings;
use std::io::Write;
use zsched_mailq_protocol::port;
use zsched_spool::Spool;

/// Shows a recorded version 1 answer, from the line after its greeting.
///
/// Returns the number of warnings about it.
pub fn show_answer(
    options: &MailqOptions,
    spool: &Spool,
    answer: &[u8],
    out: impl Write,
) -> Result<u64, Failure> {
    let mut show = ClassicOutput::new(&options.classic, spool)?;
    let (mut lines, mut screen) = (Lines::recorded(answer, LIMITS), Screen::new(out));
    show.dump(&mut lines, &mut screen)?;
    screen.flush()?;
    Ok(show.count_warnings())
}

/// Shows recorded version 2 answers, from the challenge on.
///
/// The answers are the same whatever is asked. Returns the number of warnings about them.
pub fn show_answers(
    options: &MailqOptions,
    spool: &Spool,
    answers: &[u8],
    out: impl Write,
) -> Result<u64, Failure> {
    let mut show = ClassicOutput::new(&options.classic, spool)?;
    let (lines, mut screen) = (Lines::recorded(answers, LIMITS), Screen::new(out));
    let server = Server::Tcp { host: "localhost".to_string(), port: port::DEFAULT_PORT };
    let mut session = Session::log_in(lines, &server, &Credentials::default())?;
    show.session(&mut session, &mut screen)?;
    screen.flush()?;
    Ok(show.count_warnings())
}

/// Reads a recorded version 1 answer: the queue and the report lines.
///
/// The answer begins after its greeting. A single warning about it is an error.
pub fn read_answer(answer: &[u8]) -> Result<(Vec<QueuedThread>, Vec<Vec<u8>>), Failure> {
    let (mut lines, mut warnings) = (Lines::recorded(answer, LIMITS), Warnings::default());
    let queue = v1::read(&mut lines, &mut warnings)?;
    warnings.verdict()?;
    let mut report = Vec::new();
    while let Some(line) = lines.next()? {
        report.push(line.to_vec());
    }
    Ok((queue, report))
}
