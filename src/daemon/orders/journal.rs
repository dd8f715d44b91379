//! The file of the orders in force: a journal, one JSON value a line.
//!
//! ```text
//! {"zsched-orders":2}
//! {"hold":{"scope":{"destinations":"smtp/*.test"},"author":{"name":"root","since":...},"reason":"..."}}
//! {"stored":1}
//! {"limit":{"scope":{"ring":"smtp/*"},"limit":"maxring","value":5,"until":null,"author":{...}}}
//! {"released":{"destinations":"smtp/*.test"}}
//! {"stored":2}
//! ```
//!
//! Changes are appended together and closed by a line that counts them; an order is answered when that line is
//! on disk. Changes at the end that no such line closes were never answered: the scheduler was killed while it
//! wrote them, and they do not count. Anything else that is wrong makes the file unusable.
//!
//! When more has been appended than is in force, the file is written anew as a whole. So is one of version 1,
//! which had no changes and ended in `{"end":n}`, at the first change.

use serde_json::json;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use zsched_core::change::Change;
use zsched_core::standing::{Author, Destinations, Hold, Scope, Standing, StandingOrders};
use zsched_format::time::Timestamp;
use zsched_spool::replace::replace;
use zsched_sys as sys;

/// The version of the format.
const FORMAT: u64 = 2;
/// The version before, which is still read.
const FORMER_FORMAT: u64 = 1;
/// Minimum number of changes that are appended before the file is written anew.
const MIN_APPENDED: usize = 1000;
/// The author of orders that no operator gave.
const NOBODY: &str = "the scheduler";

/// The file, and what is in it.
pub struct Journal {
    path: PathBuf,
    /// The orders in force, with the changes that could not be stored.
    orders: StandingOrders,
    /// Open for appending; `None` if the file must be written anew first.
    file: Option<File>,
    /// Changes that were appended since it was written anew.
    appended: usize,
}

impl Journal {
    /// Reads what the former scheduler has left. What is wrong is logged.
    pub fn open(path: PathBuf, now: Timestamp) -> Journal {
        let orders = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(StandingOrders::default()),
            Err(error) => Err(error.to_string()),
            Ok(text) => parse(&text).map(|(orders, cut_off)| {
                if cut_off > 0 {
                    log::warn!("{}: its last {cut_off} bytes are no whole order", path.display());
                }
                orders
            }),
        };
        let orders = orders.unwrap_or_else(|error| {
            let shown = path.display();
            log::error!("{shown}: {error}; everything is held until somebody releases it");
            put_aside(&path);
            let mut orders = StandingOrders::default();
            orders.apply(hold_everything(now, format!("{shown}: {error}")).into());
            orders
        });
        Journal { path, orders, file: None, appended: 0 }
    }

    /// The orders in force.
    pub fn orders(&self) -> Vec<Standing> {
        self.orders.iter().collect()
    }

    /// Stores changes, and those that could not be stored before. They are on disk when it returns.
    pub fn store(&mut self, changes: Vec<Change>) -> io::Result<()> {
        let mut lines = Vec::new();
        let count = changes.len();
        for change in changes {
            write_line(&mut lines, &change)?;
            self.orders.apply(change);
        }
        let is_due = self.appended + count > self.orders.len().max(MIN_APPENDED);
        // After an error it is not known how much of a change is in the file.
        match self.file.take() {
            Some(file) if !is_due && sys::leads_to(&self.path, &file).unwrap_or(false) => {
                if count > 0 {
                    write_line(&mut lines, &json!({ "stored": count }))?;
                    append(&file, &lines)?;
                    self.appended += count;
                }
                self.file = Some(file);
                Ok(())
            }
            _ => self.write_anew(),
        }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        replace(&self.path, |out| {
            write_line(out, &json!({ "zsched-orders": FORMAT }))?;
            for order in self.orders.iter() {
                write_line(out, &order)?;
            }
            write_line(out, &json!({ "stored": self.orders.len() }))
        })?;
        self.file = Some(File::options().append(true).open(&self.path)?);
        self.appended = 0;
        Ok(())
    }
}

fn append(mut file: &File, lines: &[u8]) -> io::Result<()> {
    file.write_all(lines)?;
    file.sync_data()
}

fn write_line(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// A file that cannot be read may still tell a person what was held.
fn put_aside(path: &Path) {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    if let Err(error) = fs::copy(path, &aside) {
        log::error!("{}: cannot be copied: {error}", path.display());
    }
}

fn hold_everything(now: Timestamp, reason: String) -> Standing {
    let everything = Destinations::parse("*/*").expect("a pattern");
    let author = Author { name: NOBODY.to_string(), since: now };
    Standing::Hold(Hold { scope: Scope::Destinations(everything), author, reason })
}

/// Reads a file: the orders in force, and the number of bytes at the end that were cut off by a kill.
fn parse(text: &[u8]) -> Result<(StandingOrders, usize), String> {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let rest = text.get(first.len() + 1..).unwrap_or_default();
    match serde_json::from_slice::<serde_json::Value>(first) {
        Ok(value) if value == json!({ "zsched-orders": FORMAT }) => parse_changes(rest),
        Ok(value) if value == json!({ "zsched-orders": FORMER_FORMAT }) => {
            parse_former(rest).map(|orders| (orders, 0))
        }
        _ => Err(format!("line 1 is not {}", json!({ "zsched-orders": FORMAT }))),
    }
}

fn parse_changes(text: &[u8]) -> Result<(StandingOrders, usize), String> {
    // After a power failure what was being appended may be there in length, and empty.
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut orders = StandingOrders::default();
    let (mut open, mut stored) = (Vec::new(), None);
    let mut place = 0;
    for (line, number) in text[..end].split_inclusive(|byte| *byte == b'\n').zip(2..) {
        place += line.len();
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        if count(line, "stored") == Some(open.len()) {
            open.drain(..).for_each(|change| orders.apply(change));
            stored = Some(place);
        } else {
            let change = serde_json::from_slice::<Change>(line);
            open.push(change.map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    let stored = stored.ok_or("it has no end")?;
    Ok((orders, text.len() - stored))
}

/// Version 1: the orders in force, and their number.
fn parse_former(text: &[u8]) -> Result<StandingOrders, String> {
    let mut orders = StandingOrders::default();
    let lines = text.split(|byte| *byte == b'\n').zip(2..).filter(|(line, _)| !line.is_empty());
    for ((line, number), read) in lines.zip(0..) {
        if count(line, "end") == Some(read) {
            return Ok(orders);
        }
        let order = serde_json::from_slice::<Standing>(line);
        orders.apply(order.map_err(|error| format!("line {number}: {error}"))?.into());
    }
    Err("it has no end".to_string())
}

/// The number of a line that has nothing but this name and a number.
fn count(line: &[u8], name: &str) -> Option<usize> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let count = value.get(name)?.as_u64().and_then(|count| usize::try_from(count).ok())?;
    (value == json!({ name: count })).then_some(count)
}

#[cfg(test)]
mod tests;
