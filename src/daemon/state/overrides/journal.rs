//! File of overrides: a journal of one JSON value per line.
//!
//! ```text
//! {"zsched-orders":2}
//! {"hold":{"scope":{"destinations":"smtp/*.test"},"author":{"name":"root",...},"reason":"..."}}
//! {"stored":1}
//! {"limit":{"scope":{"ring":"smtp/*"},"limit":"maxring","value":5,"until":null,"author":{...}}}
//! {"released":{"destinations":"smtp/*.test"}}
//! {"stored":2}
//! ```
//!
//! Changes are appended together and followed by a line with their number. An order is answered
//! when that line is on disk. Changes at the end without such a line were never answered: the
//! scheduler was killed while it wrote them. They are ignored. Any other damage makes the file
//! unusable.
//!
//! When the number of appended changes exceeds the number of overrides in force, the whole file is
//! rewritten. A file of version 1, which had no changes and ended in `{"end":n}`, is rewritten at
//! the first change.

use crate::state::json_lines::{append, number_in, number_line, open_to_append, write_line};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use zsched_core::overrides::{Author, DestinationPattern, Hold, OverrideChange, Overrides, Scope};
use zsched_format::time::Timestamp;
use zsched_spool::atomic_write::write_atomically;
use zsched_sys as sys;

/// Name in the first line.
const NAME: &str = "zsched-orders";
/// Name in the line that ends a group of changes.
const STORED: &str = "stored";
/// Version of the format.
const FORMAT: u64 = 2;
/// Previous version, which can still be read.
const PREVIOUS_FORMAT: u64 = 1;
/// Minimum number of changes appended before the file is rewritten.
const MIN_CHANGES_TO_REWRITE: usize = 1000;
/// Author of overrides that no operator has made.
const SYSTEM_AUTHOR: &str = "the scheduler";

/// The journal, with its contents.
pub(crate) struct OverridesJournal {
    path: PathBuf,
    /// Overrides in force, including changes that could not be stored yet.
    orders: Overrides,
    /// File open for appending; `None` if it must be rewritten first.
    file: Option<File>,
    /// Number of changes appended since the file was rewritten.
    appended: usize,
}

impl OverridesJournal {
    /// Reads the overrides of the former scheduler.
    ///
    /// Damage is logged. An unusable file is copied aside, and everything is held.
    pub(crate) fn open(path: PathBuf, now: Timestamp) -> OverridesJournal {
        let orders = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Overrides::default()),
            Err(error) => Err(error.to_string()),
            Ok(text) => parse(&text).map(|(orders, cut_off)| {
                if cut_off > 0 {
                    log::warn!(
                        "{}: ignoring {cut_off} bytes of an incomplete change at its end",
                        path.display()
                    );
                }
                orders
            }),
        };
        let orders = orders.unwrap_or_else(|error| {
            let shown = path.display();
            log::error!("{shown}: {error}; all mail is held until an operator releases it");
            copy_aside(&path);
            let mut orders = Overrides::default();
            orders.apply(hold_everything(now, format!("{shown}: {error}")));
            orders
        });
        OverridesJournal { path, orders, file: None, appended: 0 }
    }

    /// Overrides in force.
    pub(crate) fn orders(&self) -> Vec<OverrideChange> {
        self.orders.iter().collect()
    }

    /// Stores changes, with earlier ones that could not be stored. On return they are on disk.
    pub(crate) fn store(&mut self, changes: Vec<OverrideChange>) -> io::Result<()> {
        let mut lines = Vec::new();
        let count = changes.len();
        for change in changes {
            write_line(&mut lines, &change)?;
            self.orders.apply(change);
        }
        let is_due = self.appended + count > self.orders.len().max(MIN_CHANGES_TO_REWRITE);
        // After an error the file may have part of a change, so it is rewritten.
        match self.file.take() {
            Some(file) if !is_due && sys::leads_to(&self.path, &file).unwrap_or(false) => {
                if count > 0 {
                    write_line(&mut lines, &number_line(STORED, count as u64))?;
                    append(&file, &lines)?;
                    self.appended += count;
                }
                self.file = Some(file);
                Ok(())
            }
            _ => self.rewrite(),
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        write_atomically(&self.path, |out| {
            write_line(out, &number_line(NAME, FORMAT))?;
            for order in self.orders.iter() {
                write_line(out, &order)?;
            }
            write_line(out, &number_line(STORED, self.orders.len() as u64))
        })?;
        self.file = Some(open_to_append(&self.path)?);
        self.appended = 0;
        Ok(())
    }
}

/// Copies an unusable file: it may still show an operator what was held.
fn copy_aside(path: &Path) {
    if let Err(error) = fs::copy(path, sys::with_suffix(path, ".damaged")) {
        log::error!("{}: cannot be copied: {error}", path.display());
    }
}

fn hold_everything(now: Timestamp, reason: String) -> OverrideChange {
    let everything = DestinationPattern::parse("*/*").expect("a pattern");
    let author = Author { name: SYSTEM_AUTHOR.to_string(), since: now };
    OverrideChange::Hold(Hold { scope: Scope::Destinations(everything), author, reason })
}

/// Parses a file: the overrides in force, and the number of bytes cut off at the end.
fn parse(text: &[u8]) -> Result<(Overrides, usize), String> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let rest = text.get(first.len() + 1..).unwrap_or_default();
    match number_in(first, NAME) {
        Some(FORMAT) => parse_changes(rest),
        Some(PREVIOUS_FORMAT) => parse_former(rest).map(|orders| (orders, 0)),
        _ => Err(format!("line 1 is not {}", number_line(NAME, FORMAT))),
    }
}

fn parse_changes(text: &[u8]) -> Result<(Overrides, usize), String> {
    // After a power failure the file may have its new length, with zeros at the end.
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut orders = Overrides::default();
    let (mut open, mut stored) = (Vec::new(), None);
    let mut place = 0;
    for (line, number) in text[..end].split_inclusive(|byte| *byte == b'\n').zip(2..) {
        place += line.len();
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        if number_in(line, STORED) == Some(open.len() as u64) {
            open.drain(..).for_each(|change| orders.apply(change));
            stored = Some(place);
        } else {
            let change = serde_json::from_slice::<OverrideChange>(line);
            open.push(change.map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    let stored = stored.ok_or("it has no end")?;
    Ok((orders, text.len() - stored))
}

/// Parses the body of a file of version 1.
fn parse_former(text: &[u8]) -> Result<Overrides, String> {
    let mut orders = Overrides::default();
    let lines = text.split(|byte| *byte == b'\n').zip(2..).filter(|(line, _)| !line.is_empty());
    for ((line, number), read) in lines.zip(0..) {
        if number_in(line, "end") == Some(read) {
            return Ok(orders);
        }
        let order = serde_json::from_slice::<OverrideChange>(line);
        orders.apply(order.map_err(|error| format!("line {number}: {error}"))?);
    }
    Err("it has no end".to_string())
}

#[cfg(test)]
mod tests;
