//! The agent's half of the conversation: lines, collected and sent.

use std::io::Write;
use zsched_format::agent_protocol::{HUNGRY, RESYNC, Report};

/// Writes lines to the scheduler.
///
/// Nothing an agent does depends on whether the scheduler is still there to listen: the truth about
/// a recipient is in the control file. So a failure to send is remembered, not returned; the job at
/// hand is finished, and then the agent ends.
pub(super) struct Replies {
    program: String,
    output: Box<dyn Write>,
    buffer: Vec<u8>,
    broken: bool,
}

impl Replies {
    /// Lines of `program`, to be sent to `output`.
    pub(super) fn new(program: &str, output: Box<dyn Write>) -> Replies {
        Replies { program: program.to_string(), output, buffer: Vec::new(), broken: false }
    }

    /// What became of a recipient.
    pub(super) fn report(&mut self, report: &Report<'_>) {
        report.write_to(&mut self.buffer);
    }

    /// "I am ready for a job."
    pub(super) fn hungry(&mut self) {
        self.buffer.extend_from_slice(HUNGRY.as_bytes());
        self.buffer.push(b'\n');
    }

    /// "There is nothing for me in this file; look again."
    pub(super) fn resync(&mut self, path: &[u8]) {
        self.buffer.extend_from_slice(RESYNC.as_bytes());
        self.buffer.push(b' ');
        self.buffer.extend_from_slice(path);
        self.buffer.push(b'\n');
    }

    /// A line for the scheduler's log.
    pub(super) fn warn(&mut self, text: &str) {
        let prefix = format!("# {}:{}: ", self.program, std::process::id());
        self.buffer.extend_from_slice(prefix.as_bytes());
        self.buffer.extend(text.bytes().map(|byte| if byte == b'\n' { b'\r' } else { byte }));
        self.buffer.push(b'\n');
    }

    /// Sends all lines so far, in one write.
    pub(super) fn flush(&mut self) {
        let sent = self.output.write_all(&self.buffer).and_then(|()| self.output.flush());
        self.broken |= sent.is_err();
        self.buffer.clear();
    }

    /// Whether the scheduler has gone.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }
}
