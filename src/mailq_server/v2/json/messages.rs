//! `SHOW JSON MESSAGES`: one object for each message and destination.

use super::{AT_A_TIME, ago, line, seconds, text};
use crate::v2::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::v2::search::{Found, Search};
use crate::v2::selection::Selection;
use crate::v2::words::{Words, Wrong};
use serde::Serialize;
use std::vec;
use zsched_core::select::Selected;
use zsched_core::vertex_rows::VertexRow;
use zsched_format::time::Timestamp;

/// Maximum number of steps without a match per turn.
const IN_VAIN_A_TURN: usize = 20;

/// A message and one of its destinations.
#[derive(Serialize)]
pub struct Message {
    /// Its spool id.
    id: String,
    /// The name of its control file.
    name: String,
    channel: String,
    host: String,
    /// Recipients that are not finished.
    recipients: u32,
    /// Seconds since the message file was modified.
    age: i64,
    attempts: u32,
    /// `due`, `with-agent`, `waiting` or `held`.
    place: &'static str,
    /// When it expires.
    expires: Option<f64>,
    /// Text of the last report about it.
    text: Option<String>,
}

impl Message {
    fn new(entry: &VertexRow<'_>, now: Timestamp) -> Message {
        Message {
            id: entry.id.to_string(),
            name: entry.name.to_string(),
            channel: text(entry.destination.channel()),
            host: text(entry.destination.host()),
            recipients: entry.recipients,
            age: ago(now, entry.id.modified),
            attempts: entry.attempts,
            place: entry.place,
            expires: entry.expires.map(seconds),
            text: entry.text.map(text),
        }
    }
}

/// Answers the request.
pub fn answer(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    match parse(rest) {
        Ok((selection, limit)) => Reply::Text(Box::new(MessagesText {
            search: Search::new(selection, around.now, false),
            left: limit.unwrap_or(usize::MAX),
            found: Vec::new().into_iter(),
            in_vain: 0,
        })),
        Err(wrong) => Reply::Wrong(wrong),
    }
}

fn parse(rest: &[u8]) -> Result<(Selection, Option<usize>), Wrong> {
    let mut words = Words::parse(rest)?;
    let limit = super::threads::limit(&mut words)?;
    let selection = Selection::take(&mut words)?;
    words.end()?;
    if selection.is_empty() {
        return Err(Wrong::new(rest.len(), "which messages? */* is all of them"));
    }
    Ok((selection, limit))
}

struct MessagesText {
    search: Search,
    /// How many more may be shown.
    left: usize,
    /// Entries found and not shown yet.
    found: vec::IntoIter<Selected>,
    /// Steps without a match in this turn.
    in_vain: usize,
}

impl MessagesText {
    /// Writes found entries in their current state, except those that are gone.
    fn write_found(&mut self, around: &Surroundings<'_>, out: &mut Vec<u8>) {
        for found in self.found.by_ref().take(AT_A_TIME.min(self.left)) {
            let entry =
                found.vertex.and_then(|vertex| around.scheduler.entry(found.id.number, vertex));
            if let Some(entry) = entry.filter(|entry| {
                entry.id == found.id && Some(entry.destination) == found.target.destination.as_ref()
            }) {
                line(out, &Message::new(&entry, around.now));
                self.left -= 1;
            }
        }
    }
}

impl Text for MessagesText {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        if self.left == 0 {
            return Step::Over;
        }
        if self.found.len() > 0 {
            self.write_found(around, out);
            return Step::More;
        }
        match self.search.next(around) {
            Found::Some(found) => self.found = found.into_iter(),
            Found::Needs(inquiry) => return Step::Needs(inquiry),
            Found::Over => return Step::Over,
            Found::More => self.in_vain += 1,
        }
        if self.in_vain < IN_VAIN_A_TURN {
            return Step::More;
        }
        self.in_vain = 0;
        Step::Pause
    }

    fn learn(&mut self, findings: Findings) {
        self.search.learn(findings);
    }

    fn is_long(&self) -> bool {
        true
    }
}
