//! Asks a MAILQ version 2 scheduler for its threads and their recipients.
//!
//! ```text
//! SHOW QUEUE THREADS2     one line for each thread, parts separated by TAB:
//!                         smtp  funet.fi  N=2  R=3  A=1  W=60s  QA=1d18h
//! SHOW THREAD smtp funet.fi
//!                         "#smtp/funet.fi/0  N=2   R=3   A=1  ..." (from 2023 on), then a line for
//!                         each recipient, which is read here as a [`RecipientRecord`]
//! ```

use super::report;
use crate::connect::lines::LineSource;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::screen::quote;
use crate::warnings::Warnings;
use zsched_format::selection::Selection;

/// Maximum number of requests sent ahead of their answers.
///
/// More would not be much faster, and all of them must fit into the buffers of the connection while
/// the server does not read.
const MAX_PIPELINED_REQUESTS: usize = 8;

/// A thread, from the list of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedThread {
    /// The channel.
    pub channel: Vec<u8>,
    /// The host.
    pub host: Vec<u8>,
    /// Age of the oldest message, if given.
    pub age: Option<Vec<u8>>,
}

/// A recipient that is queued in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecipientRecord {
    /// The control file, below `transport/`.
    pub file: Vec<u8>,
    /// Index among the message's recipients in the thread, from 0.
    pub index: u64,
    /// Address for errors of the message.
    pub sender: Vec<u8>,
    /// Offset of the recipient's line in the control file.
    pub offset: u32,
    /// Expiry, in seconds since 1970; 0 is never.
    pub expiry: i64,
    /// Number of agent reports.
    pub tries: u64,
    /// What it waits for: `retry in 1m3s`, or an agent.
    ///
    /// For an agent it is empty, `channel` or `thread`. `thread` also stands for an agent at work.
    pub pending: Vec<u8>,
    /// Last text of an agent.
    pub text: Vec<u8>,
}

/// A receiver of the contents of threads.
pub(crate) trait RecordSink {
    /// Begins a thread. `is_running` is true if an agent works on it.
    fn begin(&mut self, thread: &ListedThread, is_running: bool);

    /// Takes a recipient of the thread.
    fn take(&mut self, record: RecipientRecord) -> Result<(), Failure>;

    /// Ends the thread.
    fn end(&mut self) -> Result<(), Failure>;
}

/// Lists the selected threads.
///
/// A selection of both channel and host needs no request.
pub(crate) fn threads(
    session: &mut Session,
    selection: &Selection,
    warnings: &mut Warnings,
) -> Result<Vec<ListedThread>, Failure> {
    if let Selection { channel: Some(channel), host: Some(host) } = selection {
        return Ok(vec![ListedThread {
            channel: channel.to_vec(),
            host: host.to_vec(),
            age: None,
        }]);
    }
    let mut threads = Vec::new();
    let mut lines = session.ask_for_text(Request::new("SHOW QUEUE THREADS2", "TT"))?;
    let max = lines.limit();
    while let Some(line) = lines.next()? {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        let (Some(channel), Some(host)) = (parts.next(), parts.next()) else {
            warnings.add(|| format!("no destination in {}", quote(line)));
            continue;
        };
        if !selection.matches(channel, host) {
            continue;
        }
        if threads.len() == max {
            return Err(Failure::Protocol(format!("there are more than {max} destinations")));
        }
        let age = parts.next().and_then(report::age).map(<[u8]>::to_vec);
        threads.push(ListedThread { channel: channel.to_vec(), host: host.to_vec(), age });
    }
    Ok(threads)
}

/// Reads the contents of these threads.
///
/// A thread that is gone meanwhile is empty.
pub(crate) fn read(
    session: &mut Session,
    threads: &[ListedThread],
    reader: &mut impl RecordSink,
    warnings: &mut Warnings,
) -> Result<(), Failure> {
    let mut to_ask = threads.iter();
    for _ in 0..MAX_PIPELINED_REQUESTS {
        ask_next(session, &mut to_ask)?;
    }
    for thread in threads {
        let mut lines = session.text()?;
        let mut is_first = true;
        while let Some(line) = lines.next()? {
            let head = line.strip_prefix(b"#");
            if is_first {
                reader.begin(thread, head.is_some_and(is_running));
                is_first = false;
            }
            if head.is_some() {
                continue;
            }
            match RecipientRecord::parse(line) {
                Ok(record) => reader.take(record)?,
                Err(problem) => warnings.add(|| format!("{problem} in {}", quote(line))),
            }
        }
        if !is_first {
            reader.end()?;
        }
        ask_next(session, &mut to_ask)?;
    }
    Ok(())
}

fn ask_next<'a>(
    session: &mut Session,
    threads: &mut impl Iterator<Item = &'a ListedThread>,
) -> Result<(), Failure> {
    let Some(thread) = threads.next() else {
        return Ok(());
    };
    let name = [b"SHOW THREAD ", thread.channel.as_slice(), b" ", &thread.host].concat();
    let line = String::from_utf8(name).map_err(|error| {
        let shown = quote(error.as_bytes());
        Failure::Protocol(format!("the name of a destination is not UTF-8: {shown}"))
    })?;
    session.send(Request::new(line, "TT"))
}

/// Returns true if the head of a thread lists agents at work.
fn is_running(head: &[u8]) -> bool {
    memchr::memmem::find(head, b" P={").is_some()
}

impl RecipientRecord {
    /// Parses a line of ten parts, or of nine without an index.
    ///
    /// Older servers send no index.
    pub(crate) fn parse(line: &[u8]) -> Result<RecipientRecord, &'static str> {
        let mut parts = line.splitn(10, |byte| *byte == b'\t');
        let mut part = || parts.next().ok_or("incomplete line of a recipient");
        let file = part()?.to_vec();
        let second = part()?;
        let (index, sender) = match second.first().is_some_and(u8::is_ascii_digit) {
            true => (number(second)?, part()?.to_vec()),
            false => (0, second.to_vec()),
        };
        let offset = number(part()?)?;
        let (expiry, _wakeup, _fed) = (number(part()?)?, part()?, part()?);
        let tries = number(part()?)?;
        let (pending, text) = (part()?.to_vec(), part()?.to_vec());
        Ok(RecipientRecord { file, index, sender, offset, expiry, tries, pending, text })
    }
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Result<N, &'static str> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or("a number is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_parse_reads_old_and_new_lines() {
        let new = b"B/Q/3-7\t1\tjoe@example.com\t151\t1700250000\t0\t0\t6\tretry in 31m\ta\rb\tc";
        let record = RecipientRecord {
            file: b"B/Q/3-7".to_vec(),
            index: 1,
            sender: b"joe@example.com".to_vec(),
            offset: 151,
            expiry: 1_700_250_000,
            tries: 6,
            pending: b"retry in 31m".to_vec(),
            text: b"a\rb\tc".to_vec(),
        };
        assert_eq!(RecipientRecord::parse(new), Ok(record.clone()));
        let old = b"B/Q/3-7\tjoe@example.com\t151\t1700250000\t0\t0\t6\tretry in 31m\ta\rb";
        let old_record = RecipientRecord { index: 0, text: b"a\rb".to_vec(), ..record };
        assert_eq!(RecipientRecord::parse(old), Ok(old_record));
        for wrong in
            ["", "x", "1\t0\ta\t1\t2\t3\t4\t5\tx", "1\t0\ta\tx\t2\t3\t4\t5\tx\ty", "a\tb\t\t"]
        {
            assert!(RecipientRecord::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
