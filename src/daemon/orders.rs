//! The file of the orders in force: `.scheduler.orders` in POSTOFFICE, one JSON object a line.
//!
//! ```text
//! {"zsched-orders":1}
//! {"hold":{"scope":{"destinations":"smtp/*.test"},"author":{"name":"root","since":...},"reason":"..."}}
//! {"limit":{"scope":{"ring":"smtp/*"},"limit":"maxring","value":5,"until":null,"author":{...}}}
//! {"ending":{"message":[4711,...],"fate":"delete","author":{...}}}
//! {"end":3}
//! ```
//!
//! It is replaced as a whole whenever an order comes or goes, by the writer; orders that come while it is at
//! it are stored with the next ones. If it cannot be read at the start, nobody knows what was held: then
//! everything is, until an operator has looked at it.

use super::files::{Files, WriteRequest};
use crate::scheduler::standing::{Author, Destinations, Hold, Scope, Standing};
use crate::scheduler::{OrderTicket, Scheduler};
use crate::spool::replace::replace;
use crate::time::Timestamp;
use serde_json::json;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The version of the format.
const FORMAT: u64 = 1;
/// Whose orders those are that nobody gave.
const NOBODY: &str = "the scheduler";

/// The file, and who waits for it.
pub struct OrdersFile {
    path: PathBuf,
    /// For whom it is to be stored; `None` is for nobody in particular.
    wanted: Vec<Option<OrderTicket>>,
    /// For whom it is being stored.
    under_way: Option<Vec<Option<OrderTicket>>>,
}

impl OrdersFile {
    /// Nothing is to be stored yet.
    pub fn new(path: PathBuf) -> OrdersFile {
        OrdersFile { path, wanted: Vec::new(), under_way: None }
    }

    /// The orders that the former scheduler has left.
    pub fn read(&self, now: Timestamp) -> Vec<Standing> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
            other => other,
        };
        let orders = text.map_err(|error| error.to_string()).and_then(|text| parse(&text));
        orders.unwrap_or_else(|error| {
            let path = self.path.display();
            log::error!("{path}: {error}; everything is held until somebody releases it");
            self.put_aside();
            vec![hold_everything(now, format!("{path}: {error}"))]
        })
    }

    /// A file that cannot be read may still tell a person what was held.
    fn put_aside(&self) {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".damaged");
        if let Err(error) = fs::copy(&self.path, &aside) {
            log::error!("{}: cannot be copied: {error}", self.path.display());
        }
    }

    /// The orders in force are to be stored.
    pub fn keep(&mut self, ticket: Option<OrderTicket>) {
        self.wanted.push(ticket);
    }

    /// Asks the writer to store them, unless it is at it.
    pub fn write_on(&mut self, core: &Scheduler, files: &mut Files) {
        if self.under_way.is_none() && !self.wanted.is_empty() {
            self.under_way = Some(std::mem::take(&mut self.wanted));
            let orders = core.standing_orders().iter().collect();
            files.write(WriteRequest::KeepOrders(self.path.clone(), orders));
        }
    }

    /// The writer is done; returns who waits for that.
    pub fn kept(&mut self) -> Vec<Option<OrderTicket>> {
        self.under_way.take().unwrap_or_default()
    }
}

fn hold_everything(now: Timestamp, reason: String) -> Standing {
    let everything = Destinations::parse("*/*").expect("a pattern");
    let author = Author { name: NOBODY.to_string(), since: now };
    Standing::Hold(Hold { scope: Scope::Destinations(everything), author, reason })
}

/// Puts orders in the place of those that are stored.
pub fn write(path: &Path, orders: &[Standing]) -> io::Result<()> {
    replace(path, |out| {
        writeln!(out, "{}", json!({ "zsched-orders": FORMAT }))?;
        for order in orders {
            serde_json::to_writer(&mut *out, order)?;
            writeln!(out)?;
        }
        writeln!(out, "{}", json!({ "end": orders.len() }))
    })
}

fn parse(text: &[u8]) -> Result<Vec<Standing>, String> {
    let mut lines = text.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.is_empty());
    let value = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).ok();
    let first = lines.next().and_then(|(line, _)| value(line));
    if first != Some(json!({ "zsched-orders": FORMAT })) {
        return Err(format!("line 1 is not {}", json!({ "zsched-orders": FORMAT })));
    }
    let mut orders = Vec::new();
    for (line, number) in lines {
        if value(line) == Some(json!({ "end": orders.len() })) {
            return Ok(orders);
        }
        let order = serde_json::from_slice(line);
        orders.push(order.map_err(|error| format!("line {number}: {error}"))?);
    }
    Err("it has no end".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("orders");
        let now = Timestamp::from_seconds(1_795_259_643);
        let orders = vec![hold_everything(now, "a\nreason".to_string())];
        write(&path, &orders).expect("stored");
        assert_eq!(OrdersFile::new(path).read(now), orders);
    }

    #[test]
    fn a_damaged_file_holds_everything() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("orders");
        let now = Timestamp::from_seconds(1_795_259_643);
        write(&path, &[]).expect("stored");
        let whole = fs::read(&path).expect("read");
        for cut in 0..whole.len() - 1 {
            fs::write(&path, &whole[..cut]).expect("written");
            let orders = OrdersFile::new(path.clone()).read(now);
            let [Standing::Hold(hold)] = &orders[..] else {
                panic!("{cut}: {orders:?}");
            };
            assert_eq!(hold.scope.to_string(), "*/*");
        }
    }
}
