//! `schedsim explain`: the timeline of a message or a destination, as a table or as JSON.

use super::SchedsimError;
use super::timeline::{Timeline, TimelineEntry, TimelineFilter};
use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use zsched_core::{Event, Scheduler};
use zsched_format::agent_protocol::AgentLine;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;
use zsched_format::printable;
use zsched_format::time::{Timestamp, format_time};
use zsched_mailq_protocol::subject::Subject;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_spool::SpoolId;

/// Maximum number of messages for an address.
const MAX_MESSAGES: usize = 100;

/// The command line of `schedsim explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct ExplainOptions {
    /// A destination, such as smtp/mx.test; a host alone; the id of a message; or an address
    ///
    /// An id is a spool id, a number, or the name of a control file. An address is that of a
    /// recipient. A recording has only those that agents have reported.
    #[arg(value_name = "SUBJECT", value_parser = parse)]
    subject: ExplainSubject,

    /// Recordings, the oldest first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print JSON, one object a line
    #[arg(long = "json")]
    json: bool,
}

/// What is explained.
#[derive(Clone, Debug)]
enum ExplainSubject {
    /// A message, or destinations.
    Mail(TimelineFilter),
    /// The messages with this recipient.
    Address(String),
}

fn parse(text: &str) -> Result<ExplainSubject, String> {
    let bare = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    if bare.is_some() || text.contains('@') {
        return Ok(ExplainSubject::Address(bare.unwrap_or(text).to_string()));
    }
    let filter = match Subject::parse(text) {
        Some(Subject::Message(number, id)) => TimelineFilter::Message { number, id },
        Some(Subject::Thread(channel, host)) => {
            TimelineFilter::Destinations { channel: Some(channel), host }
        }
        _ if text.is_empty() || text.contains('/') => {
            return Err("not a destination, host, id of a message, or address".to_string());
        }
        _ => {
            let host = text.to_ascii_lowercase().into_bytes();
            TimelineFilter::Destinations { channel: None, host }
        }
    };
    Ok(ExplainSubject::Mail(filter))
}

/// Prints the timeline of the subject.
pub fn run(options: &ExplainOptions, out: &mut impl Write) -> Result<(), SchedsimError> {
    let (entries, result) = match &options.subject {
        ExplainSubject::Mail(filter) => {
            let (entries, result) = timelines(options, vec![filter.clone()]);
            match filter {
                // Addresses of local users are words like names of hosts.
                TimelineFilter::Destinations { channel: None, host }
                    if entries.is_empty() && result.is_ok() =>
                {
                    explain_address(&String::from_utf8_lossy(host), options)?
                }
                _ => (entries, result),
            }
        }
        ExplainSubject::Address(address) => explain_address(address, options)?,
    };
    // The part of the timeline up to a failure is printed, too.
    if options.json {
        entries.iter().try_for_each(|entry| write_json(entry, out))?;
    } else {
        let of_destinations =
            matches!(&options.subject, ExplainSubject::Mail(TimelineFilter::Destinations { .. }));
        write_table(&entries, of_destinations, out)?;
    }
    match entries.is_empty() {
        true => result.and(Err(SchedsimError::Other("no such mail in these recordings".into()))),
        false => result,
    }
}

/// The timelines of these filters, one after the other, up to a failure.
fn timelines(
    options: &ExplainOptions,
    filters: Vec<TimelineFilter>,
) -> (Vec<TimelineEntry>, Result<(), SchedsimError>) {
    let mut timelines: Vec<Timeline> = filters.into_iter().map(Timeline::new).collect();
    let played = play_all(options, &mut timelines, |timelines, now, core| {
        timelines.iter_mut().for_each(|timeline| timeline.begin(now, core));
    });
    (timelines.into_iter().flat_map(|timeline| timeline.entries).collect(), played)
}

/// Replays all recordings. `begin` shows the observer the state at the beginning of each.
fn play_all<O: ReplayObserver>(
    options: &ExplainOptions,
    observer: &mut O,
    begin: fn(&mut O, Timestamp, &Scheduler),
) -> Result<(), SchedsimError> {
    for file in &options.files {
        let mut replay = super::open(file)?;
        begin(observer, replay.recording().header.started, replay.core());
        super::play(file, &mut replay, &mut *observer)?;
    }
    Ok(())
}

/// Finds the messages whose recipients agents have reported with an address.
struct AddressSearch<'a> {
    address: &'a str,
    /// The messages, in the order of their first reports.
    found: Vec<SpoolId>,
    known: HashSet<SpoolId>,
}

impl ReplayObserver for AddressSearch<'_> {
    fn before(&mut self, _: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        let Event::AgentSaid { line, .. } = event else { return };
        let AgentLine::Report(report) = AgentLine::parse(line) else { return };
        let address = report.notary.split(|byte| *byte == NOTARY_SEPARATOR).next();
        if !address.is_some_and(|known| known.eq_ignore_ascii_case(self.address.as_bytes())) {
            return;
        }
        let id = core.view().message(report.number).map(|message| message.spool_id());
        self.found.extend(id.filter(|id| self.known.insert(*id)));
    }
}

/// The timelines of the messages for an address, one after the other.
fn explain_address(
    address: &str,
    options: &ExplainOptions,
) -> Result<(Vec<TimelineEntry>, Result<(), SchedsimError>), SchedsimError> {
    let mut search = AddressSearch { address, found: Vec::new(), known: HashSet::new() };
    let searched = play_all(options, &mut search, |_, _, _| {});
    let AddressSearch { mut found, .. } = search;
    if found.is_empty() {
        searched?;
        return Err(SchedsimError::Other(format!(
            "{address} is no host in these recordings, and no address that an agent has reported; \
             they have no other addresses and no Message-IDs, but `mailq trace {address}` prints the \
             spool ids of its messages"
        )));
    }
    if found.len() > MAX_MESSAGES {
        printable::print_error(
            "schedsim",
            format_args!("{address}: only the last {MAX_MESSAGES} of {} messages", found.len()),
        );
        found.drain(..found.len() - MAX_MESSAGES);
    }
    let filter =
        |id: SpoolId| TimelineFilter::Message { number: id.number, id: Some(id.to_string()) };
    Ok(timelines(options, found.into_iter().map(filter).collect()))
}

fn write_table(
    entries: &[TimelineEntry],
    has_messages: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let since: Vec<String> = entries.iter().map(|entry| format!("+{:.3}", age(entry))).collect();
    let width = since.iter().map(String::len).max().unwrap_or_default();
    for (entry, since) in entries.iter().zip(since) {
        let subject = subject(entry, has_messages);
        let colon = if subject.is_empty() || entry.text.is_empty() { "" } else { ": " };
        let (time, what, text) = (format_time(entry.time), entry.what, &entry.text);
        writeln!(out, "{time}  {since:>width$}  {what:<9}  {subject}{colon}{text}")?;
    }
    Ok(())
}

/// Destination, message, recipients and agent of an entry.
fn subject(entry: &TimelineEntry, has_messages: bool) -> String {
    let offsets: Vec<String> = entry.offsets.iter().map(u32::to_string).collect();
    let message = entry.message.filter(|_| has_messages).map(|id| id.to_string());
    let pid = entry.pid.map(|pid| format!("agent {pid}"));
    let parts = [entry.destination.clone(), message, Some(offsets.join(",")), pid];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Seconds since the arrival of the message, or the beginning of the timeline.
fn age(entry: &TimelineEntry) -> f64 {
    entry.time.since(entry.arrived).as_secs_f64()
}

fn write_json(entry: &TimelineEntry, out: &mut impl Write) -> io::Result<()> {
    let value = serde_json::json!({
        "time": format_time(entry.time),
        "since_arrival": age(entry),
        "what": entry.what,
        "spoolid": entry.message.map(|id| id.to_string()),
        "destination": entry.destination,
        "offsets": entry.offsets,
        "pid": entry.pid,
        "text": entry.text,
    });
    writeln!(out, "{}", printable::json(&value.to_string()))
}
