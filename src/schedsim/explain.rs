//! `schedsim explain`: the timeline of one message, as a table or as JSON.

use super::Trouble;
use super::life::{Life, Moment, Wanted};
use std::io::{self, Write};
use std::path::PathBuf;
use zsched_format::printable;
use zsched_recorder::{Recording, Replay, format_time};

/// The command line of `schedsim explain`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Recordings, the oldest first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The message: its spool id, or its number
    #[arg(long = "spoolid", value_name = "ID", value_parser = parse_message)]
    message: Wanted,

    /// Print JSON, one object a line
    #[arg(long = "json")]
    json: bool,
}

fn parse_message(text: &str) -> Result<Wanted, String> {
    Wanted::parse(text).ok_or_else(|| "it is neither a spool id nor a number".to_string())
}

/// Prints the timeline of the message.
pub fn run(options: &Options, out: &mut impl Write) -> Result<(), Trouble> {
    let mut life = Life::new(options.message.clone());
    let mut trouble = None;
    for file in &options.files {
        let at = |problem: &dyn std::fmt::Display| {
            Trouble::Other(format!("{}: {problem}", file.display()))
        };
        let recording = Recording::open(file).map_err(|error| at(&error))?;
        let begun = recording.header.started;
        let mut replay = Replay::new(recording).map_err(|error| at(&error))?;
        life.begin(begun, replay.core());
        // The part of the timeline up to the failure is printed, too.
        if let Err(failure) = replay.run(&mut life) {
            trouble = Some(at(&failure));
            break;
        }
    }
    if options.json {
        life.moments.iter().try_for_each(|moment| write_json(moment, out))?;
    } else {
        write_table(&life.moments, out)?;
    }
    match trouble {
        Some(trouble) => Err(trouble),
        None if life.moments.is_empty() => {
            Err(Trouble::Other("there is no such message in these recordings".to_string()))
        }
        None => Ok(()),
    }
}

fn write_table(moments: &[Moment], out: &mut impl Write) -> io::Result<()> {
    let since: Vec<String> = moments.iter().map(|moment| format!("+{:.3}", age(moment))).collect();
    let width = since.iter().map(String::len).max().unwrap_or_default();
    for (moment, since) in moments.iter().zip(since) {
        let subject = subject(moment);
        let colon = if subject.is_empty() || moment.text.is_empty() { "" } else { ": " };
        let (time, what, text) = (format_time(moment.time), moment.what, &moment.text);
        writeln!(out, "{time}  {since:>width$}  {what:<9}  {subject}{colon}{text}")?;
    }
    Ok(())
}

/// Destination, recipients and agent of an entry.
fn subject(moment: &Moment) -> String {
    let offsets: Vec<String> = moment.offsets.iter().map(u32::to_string).collect();
    let pid = moment.pid.map(|pid| format!("agent {pid}"));
    let parts = [moment.destination.clone(), Some(offsets.join(",")), pid];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Seconds since the arrival of the message.
fn age(moment: &Moment) -> f64 {
    moment.time.since(moment.arrived).as_secs_f64()
}

fn write_json(moment: &Moment, out: &mut impl Write) -> io::Result<()> {
    let value = serde_json::json!({
        "time": format_time(moment.time),
        "since_arrival": age(moment),
        "what": moment.what,
        "destination": moment.destination,
        "offsets": moment.offsets,
        "pid": moment.pid,
        "text": moment.text,
    });
    writeln!(out, "{}", printable::json(&value.to_string()))
}
