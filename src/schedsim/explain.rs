//! `schedsim explain`: the timeline of one message, as a table or as JSON.

use super::SchedsimError;
use super::timeline::{MessageFilter, Timeline, TimelineEntry};
use std::io::{self, Write};
use std::path::PathBuf;
use zsched_format::printable;
use zsched_format::time::format_time;

/// The command line of `schedsim explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct ExplainOptions {
    /// Recordings, the oldest first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The message: its spool id, or its number
    #[arg(long = "spoolid", value_name = "ID", value_parser = parse_message)]
    message: MessageFilter,

    /// Print JSON, one object a line
    #[arg(long = "json")]
    json: bool,
}

fn parse_message(text: &str) -> Result<MessageFilter, String> {
    MessageFilter::parse(text).ok_or_else(|| "not a spool id or number".to_string())
}

/// Prints the timeline of the message.
pub fn run(options: &ExplainOptions, out: &mut impl Write) -> Result<(), SchedsimError> {
    let mut timeline = Timeline::new(options.message.clone());
    let mut trouble = None;
    for file in &options.files {
        let mut replay = super::open(file)?;
        timeline.begin(replay.recording().header.started, replay.core());
        // The part of the timeline up to the failure is printed, too.
        if let Err(failure) = replay.run(&mut timeline) {
            trouble = Some(SchedsimError::of(file, failure));
            break;
        }
    }
    if options.json {
        timeline.entries.iter().try_for_each(|entry| write_json(entry, out))?;
    } else {
        write_table(&timeline.entries, out)?;
    }
    match trouble {
        Some(trouble) => Err(trouble),
        None if timeline.entries.is_empty() => {
            Err(SchedsimError::Other("no such message in these recordings".to_string()))
        }
        None => Ok(()),
    }
}

fn write_table(entries: &[TimelineEntry], out: &mut impl Write) -> io::Result<()> {
    let since: Vec<String> = entries.iter().map(|entry| format!("+{:.3}", age(entry))).collect();
    let width = since.iter().map(String::len).max().unwrap_or_default();
    for (entry, since) in entries.iter().zip(since) {
        let subject = subject(entry);
        let colon = if subject.is_empty() || entry.text.is_empty() { "" } else { ": " };
        let (time, what, text) = (self::format_time(entry.time), entry.what, &entry.text);
        writeln!(out, "{time}  {since:>width$}  {what:<9}  {subject}{colon}{text}")?;
    }
    Ok(())
}

/// Destination, recipients and agent of an entry.
fn subject(entry: &TimelineEntry) -> String {
    let offsets: Vec<String> = entry.offsets.iter().map(u32::to_string).collect();
    let pid = entry.pid.map(|pid| format!("agent {pid}"));
    let parts = [entry.destination.clone(), Some(offsets.join(",")), pid];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Seconds since the arrival of the message.
fn age(entry: &TimelineEntry) -> f64 {
    entry.time.since(entry.arrived).as_secs_f64()
}

fn write_json(entry: &TimelineEntry, out: &mut impl Write) -> io::Result<()> {
    let value = serde_json::json!({
        "time": self::format_time(entry.time),
        "since_arrival": age(entry),
        "what": entry.what,
        "destination": entry.destination,
        "offsets": entry.offsets,
        "pid": entry.pid,
        "text": entry.text,
    });
    writeln!(out, "{}", printable::json(&value.to_string()))
}
