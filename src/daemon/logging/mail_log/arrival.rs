//! Lines about arrivals, which the reader composes: it has just parsed the control file.

use super::message_facts::SharedFacts;
use super::text::{push_address, push_all, push_number};
use crate::logging::Stamp;
use log::Level;
use zsched_format::control_file;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;
use zsched_spool::load::LoadedFile;

/// Composer of lines about arrivals. Each thread that reads control files has one.
#[derive(Clone)]
pub(crate) struct ArrivalLines {
    /// Last sign of life of the former scheduler on this spool.
    ///
    /// It has logged what came before.
    former_end: Option<Timestamp>,
    /// Where the facts about messages are kept; `None` if no log needs them.
    facts: Option<SharedFacts>,
    stamp: Stamp,
}

impl ArrivalLines {
    pub(super) fn new(former_end: Option<Timestamp>, facts: Option<SharedFacts>) -> ArrivalLines {
        ArrivalLines { former_end, facts, stamp: Stamp::default() }
    }

    /// Keeps what later lines about a message need.
    pub(crate) fn keep_facts(&self, loaded: &LoadedFile<'_>) {
        if let Some(facts) = self.facts.as_ref().filter(|_| !loaded.is_part) {
            facts.add(&loaded.arrival.name, loaded.arrival.modified, loaded.file);
        }
    }

    /// Composes the line of a message that may be new; none at a level that leaves it out.
    ///
    /// A message that the former scheduler had is not new, nor is one with finished recipients.
    pub(crate) fn compose(&mut self, loaded: &LoadedFile<'_>) -> Vec<u8> {
        let LoadedFile { file, arrival, made, message_size, is_part, .. } = *loaded;
        let came_before = self.former_end.is_some_and(|end| made <= end);
        let is_untouched = arrival.pending() == arrival.recipients as usize;
        if came_before || !is_untouched || Level::Info > log::max_level() {
            return Vec::new();
        }
        let id = SpoolId { number: arrival.name.number(), modified: arrival.modified }.to_string();
        let mut line = Vec::with_capacity(256);
        let now = self.stamp.of(Timestamp::now());
        push_all(&mut line, &[now, " ", &id, ": arrived, message-id="]);
        let message_id = control_file::message_id(file);
        push_address(&mut line, message_id.as_ref().map(|id| id.as_bytes()));
        push_all(&mut line, &[", from="]);
        let sender = file.recipients.first().and_then(|one| file.sender_address(one));
        push_address(&mut line, sender);
        push_all(&mut line, &[", size="]);
        push_number(&mut line, message_size);
        push_all(&mut line, &[", nrcpt="]);
        push_number(&mut line, arrival.recipients.into());
        // More recipients follow in parts that are not read yet.
        push_all(&mut line, &[if is_part { "+\n" } else { "\n" }]);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zsched_format::control_file::parse;
    use zsched_spool::{Arrival, HashFolder, SpoolName};

    const CAME: Timestamp = Timestamp::from_parts(1_795_255_449, 852_000_000);

    /// Returns the line without its time stamp.
    fn line(text: &str, former_end: Option<Timestamp>) -> String {
        log::set_max_level(log::LevelFilter::Info);
        let file = parse(text.as_bytes().to_vec()).expect("a good control file");
        let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
        let arrival = &Arrival::new(name, &file, CAME, CAME);
        let (file, made) = (&file, CAME);
        let (message_size, owner, is_part) = (2048, 0, false);
        let loaded = LoadedFile { file, arrival, made, message_size, owner, is_part };
        let line = ArrivalLines::new(former_end, None).compose(&loaded);
        let line = String::from_utf8(line).expect("text");
        line.split_once(' ').map(|(_, line)| line.to_string()).unwrap_or_default()
    }

    #[test]
    fn arrival_line_has_all_fields_in_order() {
        let control = "@ 7\ni 4711\nl <1@x>\ns local - alice@x 0\n\
            r           smtp h bob@h 0\nr           smtp h carol@h 0\nm\nSubject: x\n\n";
        let expected = "S4711AbmKUKEJuuHwA: arrived, message-id=<1@x>, from=<alice@x>, size=2048, \
            nrcpt=2\n";
        assert_eq!(line(control, None), expected);
        assert_eq!(line(control, Some(CAME - Duration::from_secs(1))), expected);
        assert_eq!(line(control, Some(CAME)), "", "the former scheduler had it");
        assert_eq!(
            line(&control.replace("r           smtp h bob", "r+          smtp h bob"), None),
            ""
        );
    }
}
