//! Asks a MAILQ version 2 scheduler for its threads and their recipients.
//!
//! ```text
//! SHOW QUEUE THREADS2     one line for each thread, parts separated by TAB:
//!                         smtp  funet.fi  N=2  R=3  A=1  W=60s  QA=1d18h
//! SHOW THREAD smtp funet.fi
//!                         "#smtp/funet.fi/0  N=2   R=3   A=1  ..." (from 2023 on), then a line for
//!                         each recipient, which is read here as a [`RecipientRecord`]
//! ```

use super::queue::{DeliveryState, QueuedThread, Vertex};
use super::report_reader;
use crate::connect::lines::LineSource;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::screen::quote;
use crate::warnings::Warnings;
use memchr::memmem;
use zsched_format::selection::Selection;

/// Maximum number of requests sent ahead of their answers.
///
/// More would not be much faster, and all of them must fit into the buffers of the connection while
/// the server does not read.
const MAX_PIPELINED_REQUESTS: usize = 8;

/// Maximum number of recipients of a message that are gathered before they are passed on.
const MAX_GATHERED_RECIPIENTS: usize = 10_000;

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
    /// What it waits for: `retry in 1m3s`, `held`, or an agent.
    ///
    /// For an agent it is empty, `channel` or `thread`. `thread` also stands for an agent at work.
    pub pending: Vec<u8>,
    /// Last text of an agent.
    pub text: Vec<u8>,
}

/// Lists the selected threads, without their vertices.
///
/// A selection of both channel and host needs no request.
pub(super) fn threads(
    session: &mut Session,
    selection: &Selection,
    warnings: &mut Warnings,
) -> Result<Vec<QueuedThread>, Failure> {
    let thread = |channel: &[u8], host: &[u8], age: Option<&[u8]>| QueuedThread {
        channel: channel.to_vec(),
        host: host.to_vec(),
        vertices: Vec::new(),
        age: age.map(<[u8]>::to_vec),
    };
    if let Selection { channel: Some(channel), host: Some(host) } = selection {
        return Ok(vec![thread(channel, host, None)]);
    }
    let (mut threads, max) = (Vec::new(), session.entries());
    let mut lines = session.ask_for_text(Request::new("SHOW QUEUE THREADS2", "TT"))?;
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
            return Failure::protocol(format!("there are more than {max} destinations"));
        }
        threads.push(thread(channel, host, parts.next().and_then(report_reader::age)));
    }
    Ok(threads)
}

/// Reads the contents of these threads.
///
/// `take` gets the index of a thread, true if an agent works on it, and the recipients of one of
/// its messages. Those of a very large message come in several parts. A thread that is gone
/// meanwhile is empty.
pub(super) fn read(
    session: &mut Session,
    threads: &[QueuedThread],
    warnings: &mut Warnings,
    mut take: impl FnMut(usize, bool, &[RecipientRecord]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut to_ask = threads.iter();
    for _ in 0..MAX_PIPELINED_REQUESTS {
        ask_next(session, &mut to_ask)?;
    }
    for thread in 0..threads.len() {
        let mut lines = session.text()?;
        let mut is_running = false;
        let mut message: Vec<RecipientRecord> = Vec::new();
        while let Some(line) = lines.next()? {
            if let Some(head) = line.strip_prefix(b"#") {
                // It lists the agents at work.
                is_running = memmem::find(head, b" P={").is_some();
                continue;
            }
            let record = match RecipientRecord::parse(line) {
                Ok(record) => record,
                Err(problem) => {
                    warnings.add(|| format!("{problem} in {}", quote(line)));
                    continue;
                }
            };
            let continues = record.index > 0 && message.len() < MAX_GATHERED_RECIPIENTS;
            if message.last().is_some_and(|last| !continues || last.file != record.file) {
                take(thread, is_running, &message)?;
                message.clear();
            }
            message.push(record);
        }
        if !message.is_empty() {
            take(thread, is_running, &message)?;
        }
        ask_next(session, &mut to_ask)?;
    }
    Ok(())
}

/// Reads the vertices of these threads, for output that needs all of them at once.
pub(super) fn read_vertices(
    session: &mut Session,
    threads: &mut [QueuedThread],
    warnings: &mut Warnings,
) -> Result<(), Failure> {
    let (max, mut count) = (session.entries(), 0);
    let mut all: Vec<Vec<Vertex>> = threads.iter().map(|_| Vec::new()).collect();
    read(session, threads, warnings, |thread, is_running, message| {
        let (vertices, first) = (&mut all[thread], &message[0]);
        let offsets = message.iter().map(|record| record.offset);
        match vertices.last_mut() {
            Some(last) if first.index > 0 && last.file == first.file => {
                last.recipients += message.len() as u64;
                last.offsets.extend(offsets);
            }
            _ if count == max => {
                return Failure::protocol(format!("there are more than {max} messages"));
            }
            _ => {
                count += 1;
                vertices.push(Vertex {
                    file: first.file.clone(),
                    recipients: message.len() as u64,
                    offsets: offsets.collect(),
                    text: Some(first.text.clone()),
                    state: Some(first.state(is_running)),
                });
            }
        }
        Ok(())
    })?;
    threads.iter_mut().zip(all).for_each(|(thread, vertices)| thread.vertices = vertices);
    Ok(())
}

fn ask_next<'a>(
    session: &mut Session,
    threads: &mut impl Iterator<Item = &'a QueuedThread>,
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

    /// Returns true if an operator holds it.
    pub(super) fn is_held(&self) -> bool {
        self.pending == b"held"
    }

    /// Delivery state, given whether an agent works on the thread.
    fn state(&self, is_running: bool) -> DeliveryState {
        match is_running {
            _ if self.pending.starts_with(b"retry in ") => DeliveryState::Retry,
            _ if self.is_held() => DeliveryState::Waiting,
            true => DeliveryState::Running,
            false => DeliveryState::Waiting,
        }
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
