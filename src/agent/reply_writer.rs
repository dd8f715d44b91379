//! The agent's side of the protocol: lines are collected, then sent.

use std::io::Write;
use zsched_format::agent_protocol::{HUNGRY, RESYNC, RecipientReport, TLS_RESULT};

/// Writes lines to the scheduler.
///
/// The control file holds the state of a recipient, so no work depends on a running scheduler. A
/// failure to send is therefore remembered instead of returned. The current job is finished, and
/// then the agent ends.
pub(crate) struct ReplyWriter<W: ?Sized = dyn Write> {
    program: String,
    buffer: Vec<u8>,
    broken: bool,
    output: W,
}

impl<W: Write> ReplyWriter<W> {
    /// Creates the writer for `program`, which sends to `output`.
    pub(crate) fn new(program: &str, output: W) -> ReplyWriter<W> {
        ReplyWriter { program: program.to_string(), buffer: Vec::new(), broken: false, output }
    }
}

impl<W: Write + ?Sized> ReplyWriter<W> {
    /// Adds the report about a recipient.
    pub(crate) fn report(&mut self, report: &RecipientReport<'_>) {
        report.write_to(&mut self.buffer);
    }

    /// Adds the request for a job.
    pub(crate) fn hungry(&mut self) {
        self.line(&[HUNGRY.as_bytes()]);
    }

    /// Adds the notice that the agent has nothing to do in this file.
    pub(crate) fn resync(&mut self, path: &[u8]) {
        self.line(&[RESYNC.as_bytes(), b" ", path]);
    }

    /// Adds a line for the scheduler's log.
    pub(crate) fn warn(&mut self, text: &str) {
        let text = text.replace('\n', "\r");
        let line = format!("# {}:{}: {text}", self.program, std::process::id());
        self.line(&[line.as_bytes()]);
    }

    /// Adds the result of a TLS session, a JSON object, for the status log.
    pub(crate) fn tls_result(&mut self, json: &str) {
        self.line(&[TLS_RESULT.as_bytes(), b" ", json.replace('\n', " ").as_bytes()]);
    }

    fn line(&mut self, parts: &[&[u8]]) {
        self.buffer.extend(parts.concat());
        self.buffer.push(b'\n');
    }

    /// Sends all collected lines in one write.
    pub(crate) fn flush(&mut self) {
        let sent = self.output.write_all(&self.buffer).and_then(|()| self.output.flush());
        self.broken |= sent.is_err();
        self.buffer.clear();
    }

    /// Returns true if sending has failed, because the scheduler has ended.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}
