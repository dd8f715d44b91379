//! The result of a job: a line for each recipient.
//!
//! ```text
//! delivered<TAB>bob@example.net<TAB>
//! failed<TAB>eve@example.net<TAB>550 no such user
//! ```
//!
//! A summary is written before it: the number of recipients with each outcome.

use super::counts::RecipientCounts;
use super::cut::{count, for_each_line};
use super::job_folder;
use super::parameters::{Lines, put};
use super::recipient::{RecipientLine, Status};
use super::sorter::{LineSorter, SortedLines};
use super::store::Store;
use super::stream::StreamProgress;
use super::{
    BulkOrders, BulkParameters, FAILURES, INDEX, JobId, MESSAGE, ORDERS, PROGRESS, RECIPIENTS,
    RESULT, SUMMARY, draft,
};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use zsched_spool::Spool;
use zsched_spool::atomic_write::write_atomically;
use zsched_sys::if_exists;

/// Maximum length of the text about a failure in the result, in bytes.
const MAX_TEXT_LEN: usize = 1000;
/// Maximum size of the texts that are sorted in memory, in bytes.
const MAX_SORTED: usize = 4 << 20;

/// A finished job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct FinishedJob {
    /// Its name.
    pub id: JobId,
    /// The name of the list.
    pub list: Option<String>,
    /// Its recipients.
    pub counts: RecipientCounts,
    /// When it was submitted, in seconds since the epoch.
    pub submitted: i64,
    /// When it was finished, in seconds since the epoch.
    pub finished: i64,
}

/// What has become of a job that may be finished.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum Ended {
    /// Recipients are not final. Nothing was written.
    NotYet(RecipientCounts),
    /// The result is written.
    Finished(FinishedJob),
    /// It was cancelled before anything was sent, and is removed: as if it had never been.
    Removed(RecipientCounts),
}

/// Writes the result of a job, and removes what is no longer needed.
///
/// `now` is in seconds since the epoch. Can be called again after a kill.
pub fn write(spool: &Spool, job: JobId, now: i64) -> io::Result<Ended> {
    let folder = job_folder(spool, job);
    let parameters = BulkParameters::read(spool, job)?;
    let orders = BulkOrders::read(spool, job)?;
    let recipients = File::open(folder.join(RECIPIENTS))?;
    let end = StreamProgress::read(spool, job, &parameters)?.recipient_bytes;
    let (counts, _) = count(&recipients, end)?;
    let ended = end_of(job, parameters, &orders, counts, now);
    match &ended {
        Ended::NotYet(_) => {}
        Ended::Removed(_) => draft::remove(spool, job)?,
        Ended::Finished(finished) => {
            write_atomically(&folder.join(SUMMARY), |out| write_summary(finished, out))?;
            let failures = if_exists(File::open(folder.join(FAILURES)))?;
            write_atomically(&folder.join(RESULT), |out| {
                write_lines(&recipients, counts.all, failures, &folder, out)
            })?;
            clean_up(spool, job)?;
        }
    }
    Ok(ended)
}

/// What becomes of a job with these recipients.
pub fn end_of(
    id: JobId,
    parameters: BulkParameters,
    orders: &BulkOrders,
    counts: RecipientCounts,
    now: i64,
) -> Ended {
    if orders.is_cancelled && counts.cancelled == counts.all {
        return Ended::Removed(counts);
    }
    if counts.pending + counts.lost > 0 {
        return Ended::NotYet(counts);
    }
    let BulkParameters { list, submitted, .. } = parameters;
    Ended::Finished(FinishedJob { id, list, counts, submitted, finished: now })
}

/// Writes the lines of the result, from all recipients and the file of failures.
///
/// `folder` gets temporary files if there are very many failures.
pub fn write_lines<S: Store>(
    recipients: &S,
    all: u32,
    failures: Option<impl Read>,
    folder: &Path,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut texts = Failures::sorted(failures, folder)?;
    for_each_line(recipients, 0, all, |at, line| {
        write_line(out, line, &texts.text_of(at)?)?;
        Ok(true)
    })
}

/// Writes the line of the result about a recipient, from its line in `recipients`.
pub fn write_line(out: &mut impl Write, line: &[u8], text: &str) -> io::Result<()> {
    let (status, rest) = line.split_first().unwrap_or((&b' ', b""));
    let status = Status::of_byte(*status).unwrap_or(Status::Pending);
    let address = match RecipientLine::parse(rest) {
        Ok(line) => line.address.to_string(),
        Err(_) => String::from_utf8_lossy(rest).into_owned(),
    };
    let text = if status == Status::Failed { text } else { "" };
    writeln!(out, "{status}\t{address}\t{text}")
}

/// Removes the files that a finished job no longer needs.
pub fn clean_up(spool: &Spool, job: JobId) -> io::Result<()> {
    let folder = job_folder(spool, job);
    for file in [FAILURES, ORDERS, INDEX, MESSAGE, PROGRESS, RECIPIENTS] {
        if_exists(fs::remove_file(folder.join(file)))?;
    }
    Ok(())
}

fn write_summary(job: &FinishedJob, out: &mut impl Write) -> io::Result<()> {
    put(out, "finished", Some(job.finished))?;
    put(out, "recipients", Some(job.counts.all))?;
    for status in Status::all().filter(|status| status.is_final()) {
        put(out, &status.to_string(), Some(job.counts.of(status)))?;
    }
    Ok(())
}

/// Reads the summary of a finished job.
pub fn summary(spool: &Spool, job: JobId) -> io::Result<FinishedJob> {
    let BulkParameters { list, submitted, .. } = BulkParameters::read(spool, job)?;
    let lines = Lines::read(spool, job, SUMMARY)?;
    let mut counts = RecipientCounts::default();
    for status in Status::all().filter(|status| status.is_final()) {
        counts.add_many(status, lines.required(&status.to_string())?);
    }
    Ok(FinishedJob { id: job, list, counts, submitted, finished: lines.required("finished")? })
}

/// The texts of failures, in the order of the recipients.
struct Failures {
    lines: Option<SortedLines>,
    /// Offset of a recipient and text of the next line.
    next: Option<(u32, String)>,
}

impl Failures {
    fn sorted(failures: Option<impl Read>, folder: &Path) -> io::Result<Failures> {
        let Some(file) = failures else {
            return Ok(Failures { lines: None, next: None });
        };
        let mut sorter = LineSorter::with_buffer(folder.join("sorted-"), MAX_SORTED);
        let (mut reader, mut line, mut number) = (BufReader::new(file), Vec::new(), 0u64);
        // A line that a kill has cut short is repeated.
        while reader.read_until(b'\n', &mut line)? > 0 && line.pop() == Some(b'\n') {
            let text = String::from_utf8_lossy(&line);
            if let Some((offset, text)) = text.split_once(' ')
                && let Ok(offset) = offset.parse::<u32>()
            {
                let mut end = text.len().min(MAX_TEXT_LEN);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                let text = text[..end].replace('\t', " ");
                // The last text about a recipient counts.
                sorter.push(format!("{offset:010} {number:020} {text}").as_bytes())?;
            }
            number += 1;
            line.clear();
        }
        let mut failures = Failures { lines: Some(sorter.into_lines()?), next: None };
        failures.read_next()?;
        Ok(failures)
    }

    fn read_next(&mut self) -> io::Result<()> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        self.next = lines.next()?.and_then(|line| {
            let text = String::from_utf8_lossy(&line).into_owned();
            let mut words = text.splitn(3, ' ');
            let (offset, _) = (words.next()?.parse().ok()?, words.next()?);
            Some((offset, words.next()?.to_string()))
        });
        Ok(())
    }

    /// The last text about a recipient. Offsets must ascend from call to call.
    fn text_of(&mut self, offset: u32) -> io::Result<String> {
        let mut found = String::new();
        while let Some((at, text)) = self.next.as_mut().filter(|(at, _)| *at <= offset) {
            if *at == offset {
                found = std::mem::take(text);
            }
            self.read_next()?;
        }
        Ok(found)
    }
}
