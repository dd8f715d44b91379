//! The result of a job: a line for each recipient.
//!
//! ```text
//! delivered<TAB>bob@example.net<TAB>
//! failed<TAB>eve@example.net<TAB>550 no such user
//! ```

use super::cut::{RecipientCounts, count, for_each_line};
use super::recipient::{RecipientLine, Status};
use super::{FAILURES, INDEX, JobId, MESSAGE, ORDERS, RECIPIENTS, RESULT, job_folder, result_file};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use zsched_spool::Spool;
use zsched_spool::atomic_write::write_atomically;
use zsched_sys::if_exists;

/// Maximum length of the text about a failure in the result, in bytes.
const MAX_TEXT_LEN: usize = 1000;

/// Writes the result of a job, and removes what is no longer needed.
///
/// If recipients are pending, nothing is written. Can be called again after a kill.
pub fn write(spool: &Spool, job: JobId) -> io::Result<RecipientCounts> {
    let folder = job_folder(spool, job);
    let recipients = File::open(folder.join(RECIPIENTS))?;
    let counts = count(&recipients)?;
    if counts.pending > 0 {
        return Ok(counts);
    }
    let texts = Failures::read(if_exists(File::open(folder.join(FAILURES)))?)?;
    write_atomically(&folder.join(RESULT), |out| {
        for_each_line(&recipients, 0, counts.all, |at, line| {
            let status = Status::of_byte(line[0]).unwrap_or(Status::Pending);
            let address = match RecipientLine::parse(&line[1..]) {
                Ok(line) => line.address.to_string(),
                Err(_) => String::from_utf8_lossy(&line[1..]).into_owned(),
            };
            let text = if status == Status::Failed { texts.get(at)? } else { String::new() };
            writeln!(out, "{status}\t{address}\t{text}")?;
            Ok(true)
        })
    })?;
    clean_up(spool, job)?;
    Ok(counts)
}

/// Removes the files that a finished job no longer needs.
pub fn clean_up(spool: &Spool, job: JobId) -> io::Result<()> {
    let folder = job_folder(spool, job);
    for file in [FAILURES, ORDERS, INDEX, MESSAGE, RECIPIENTS] {
        if_exists(fs::remove_file(folder.join(file)))?;
    }
    Ok(())
}

/// Counts the recipients in the result of a finished job.
pub fn counts(spool: &Spool, job: JobId) -> io::Result<RecipientCounts> {
    let mut counts = RecipientCounts::default();
    for line in BufReader::new(File::open(result_file(spool, job))?).split(b'\n') {
        let line = line?;
        let word = line.split(|byte| *byte == b'\t').next().unwrap_or_default();
        if let Some(status) = Status::of_word(word) {
            counts.add(status);
        }
    }
    Ok(counts)
}

/// Where the texts of failures are.
struct Failures {
    file: Option<File>,
    /// Position of the last text about each recipient, by the recipient's offset.
    positions: HashMap<u32, u64>,
}

impl Failures {
    fn read(file: Option<File>) -> io::Result<Failures> {
        let mut positions = HashMap::new();
        if let Some(file) = &file {
            let (mut reader, mut line, mut at) = (BufReader::new(file), Vec::new(), 0);
            while reader.read_until(b'\n', &mut line)? > 0 {
                let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
                let offset = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
                positions.extend(offset.map(|offset| (offset, at + word.len() as u64 + 1)));
                at += line.len() as u64;
                line.clear();
            }
        }
        Ok(Failures { file, positions })
    }

    fn get(&self, offset: u32) -> io::Result<String> {
        let (Some(file), Some(position)) = (&self.file, self.positions.get(&offset)) else {
            return Ok(String::new());
        };
        let mut text = vec![0; MAX_TEXT_LEN];
        let length = file.read_at(&mut text, *position)?;
        text.truncate(length);
        let end = memchr::memchr(b'\n', &text).unwrap_or(length);
        Ok(String::from_utf8_lossy(&text[..end]).replace('\t', " "))
    }
}
