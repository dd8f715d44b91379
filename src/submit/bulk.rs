//! `submit --bulk`: one message for very many recipients, as a bulk job.

use crate::message::Message;
use crate::options::SubmitOptions;
use crate::{EXIT_FAILURE, Failure, print_error};
use clap::Args;
use jiff::Timestamp;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use zsched_bulk::draft::{self, AddError, JobDraft, NOTICE, SubmittedJob};
use zsched_bulk::recipient::MAX_LINE_LEN;
use zsched_bulk::{BulkParameters, MAX_SHARE};
use zsched_command_line::sysexits::{EX_DATAERR, EX_USAGE};
use zsched_format::time::Timestamp as Now;
use zsched_spool::submit::notify;
use zsched_spool::{Spool, describe_folder_error};
use zsched_sys as sys;

/// Default of `--packet-size`.
const DEFAULT_PACKET_SIZE: u32 = 100;
/// Default of `--keep`, in seconds: a week.
const DEFAULT_KEEP: u32 = 7 * 86_400;
/// The name of standard input.
const STANDARD_INPUT: &str = "-";

/// Options of bulk jobs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bulk jobs")]
pub(crate) struct BulkOptions {
    /// Submit a job for the recipients in a file, one a line; - for standard input
    #[arg(long = "bulk", value_name = "FILE", conflicts_with_all = ["recipients", "recipients_in_headers"])]
    bulk: Option<PathBuf>,

    /// The message; by default standard input
    #[arg(long = "message", value_name = "FILE", requires = "bulk")]
    message: Option<PathBuf>,

    /// A text that names the job: a second submission with the same key changes nothing
    #[arg(long = "key", value_name = "TEXT", requires = "bulk")]
    pub(crate) key: Option<String>,

    /// The name of the list, for people
    #[arg(long = "list", value_name = "NAME", requires = "bulk")]
    pub(crate) list: Option<String>,

    /// Maximum number of recipients in a packet, which one agent delivers
    #[arg(long = "packet-size", value_name = "N", requires = "bulk", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    packet_size: Option<u32>,

    /// Maximum part of the agents of a destination, in percent
    #[arg(long = "share", value_name = "PERCENT", requires = "bulk", value_parser = clap::value_parser!(u8).range(1..=100))]
    share: Option<u8>,

    /// Put the address of each recipient into the sender's: list+bob=example.net@example.org
    #[arg(long = "verp", requires = "bulk")]
    verp: bool,

    /// Number of days for which the finished job and its result are kept
    #[arg(long = "keep", value_name = "DAYS", requires = "bulk", value_parser = clap::value_parser!(u32).range(0..=3650))]
    keep: Option<u32>,
}

impl BulkOptions {
    /// Returns true if a bulk job is to be submitted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.bulk.is_some()
    }

    fn inputs(&self) -> Result<(Input, Input), Failure> {
        let recipients = self.bulk.as_deref().unwrap_or(Path::new(STANDARD_INPUT));
        let message = self.message.as_deref().unwrap_or(Path::new(STANDARD_INPUT));
        let is_standard = |path: &Path| path == Path::new(STANDARD_INPUT);
        if is_standard(recipients) && is_standard(message) {
            let reason = "standard input has either the recipients or the message: name a file \
                with --message";
            return Err(Failure::new(EX_USAGE, reason));
        }
        Ok((Input::open(recipients)?, Input::open(message)?))
    }
}

/// A file, or standard input.
struct Input {
    shown: String,
    reader: Box<dyn Read>,
}

impl Input {
    fn open(path: &Path) -> Result<Input, Failure> {
        if path == Path::new(STANDARD_INPUT) {
            let shown = "standard input".to_string();
            return Ok(Input { shown, reader: Box::new(io::stdin().lock()) });
        }
        let shown = path.display().to_string();
        let missing = |error| Failure::new(EXIT_FAILURE, format!("{shown}: {error}"));
        let file = File::open(path).map_err(missing)?;
        Ok(Input { shown, reader: Box::new(file) })
    }
}

/// Submits a job, notifies the scheduler of it, and prints its name.
pub(crate) fn submit(spool: &Spool, socket: &Path, options: &SubmitOptions) -> Result<(), Failure> {
    let usage = |reason| Failure::new(EX_USAGE, reason);
    if options.times.window.is_some() {
        return Err(usage("--window is not possible with --bulk".to_string()));
    }
    let (not_before, deadline) = options.times.instants(Now::now()).map_err(usage)?;
    let (recipients, mut message) = options.bulk.inputs()?;
    let key = match &options.bulk.key {
        Some(key) if key.is_empty() => return Err(Failure::new(EX_USAGE, "the key is empty")),
        Some(key) => key.clone(),
        None => format!("{:016x}-{}", sys::random_number()?, std::process::id()),
    };
    let in_spool = |error: io::Error| match error.kind() {
        ErrorKind::InvalidInput => Failure::new(EX_DATAERR, error.to_string()),
        _ => Failure::new(EXIT_FAILURE, describe_folder_error(&spool.bulk(), &error)),
    };
    if let Some(id) = draft::find(spool, &key).map_err(in_spool)? {
        print_error(&format!("there is a job with this key: {id}"));
        return print_name(&id.to_string());
    }
    let mut text = Vec::new();
    let unreadable = |error| Failure::new(EXIT_FAILURE, format!("{}: {error}", message.shown));
    message.reader.read_to_end(&mut text).map_err(unreadable)?;
    let message = Message::new(&text, options)
        .map_err(|reason| Failure::new(EX_DATAERR, reason.to_string()))?;
    let headers = message.headers();
    // The folder of a spool is not made here: it may be the wrong one.
    let transport =
        |error| Failure::new(EXIT_FAILURE, describe_folder_error(spool.transport(), &error));
    std::fs::metadata(spool.transport()).map_err(transport)?;
    let mut job = JobDraft::new(spool, &headers).map_err(in_spool)?;
    add_recipients(&mut job, recipients, options)?;
    let parameters = BulkParameters {
        key,
        list: options.bulk.list.clone(),
        sender: options.sender().map(str::to_string),
        privilege: i64::from(sys::users::real_user()),
        log_id: message.id(),
        body_offset: headers.len() as u64 + 1,
        priority: options.priority,
        packet_size: options.bulk.packet_size.unwrap_or(DEFAULT_PACKET_SIZE),
        share: options.bulk.share.unwrap_or(MAX_SHARE),
        not_before: not_before.map(Now::seconds),
        deadline: deadline.map(Now::seconds),
        verp: options.bulk.verp,
        notify: options.notify.as_ref().map(|when| when.to_uppercase()),
        keep: options.bulk.keep.map_or(DEFAULT_KEEP, |days| days * 86_400),
        submitted: Timestamp::now().as_second(),
        ..BulkParameters::default()
    };
    let submitted = job.commit(&message.text(), parameters).map_err(in_spool)?;
    // The job is in the spool. Errors from here on must not make the caller submit it again.
    announce(socket, &submitted)
}

/// Adds the recipients as they come.
fn add_recipients(
    job: &mut JobDraft,
    input: Input,
    options: &SubmitOptions,
) -> Result<(), Failure> {
    let host = match options.channel.as_str() {
        "local" => Some(options.host.as_deref().unwrap_or_default()),
        _ => options.host.as_deref(),
    };
    let mut reader = BufReader::with_capacity(1 << 18, input.reader);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        // A longer line is refused as a whole, but not read as a whole.
        let limit = MAX_LINE_LEN as u64 + 2;
        let count = reader.by_ref().take(limit).read_until(b'\n', &mut line);
        let count = count
            .map_err(|error| Failure::new(EXIT_FAILURE, format!("{}: {error}", input.shown)))?;
        if count == 0 {
            return Ok(());
        }
        line.pop_if(|last| *last == b'\n');
        line.pop_if(|last| *last == b'\r');
        if line.is_empty() {
            continue;
        }
        match job.add(&options.channel, host, &line) {
            Ok(()) => {}
            Err(AddError::Spool(error)) => return Err(error.into()),
            Err(error) => {
                let place = match &error {
                    AddError::Line(error) => format!("{number}:{}", error.at + 1),
                    _ => number.to_string(),
                };
                let text = format!("{}:{place}: {error}; no job was submitted", input.shown);
                return Err(Failure::new(EX_DATAERR, text));
            }
        }
    }
    Ok(())
}

/// Notifies the scheduler, and prints the name of the job for the caller.
fn announce(socket: &Path, job: &SubmittedJob) -> Result<(), Failure> {
    // Without a notice, the scheduler finds the job by its next scan.
    notify(socket, NOTICE).ok();
    let SubmittedJob { id, repeated, is_new, .. } = job;
    match (is_new, repeated) {
        (false, _) => print_error(&format!("there is a job with this key: {id}")),
        (true, 0) => {}
        (true, _) => print_error(&format!("{repeated} recipients were given more than once")),
    }
    print_name(&id.to_string())
}

fn print_name(name: &str) -> Result<(), Failure> {
    let mut output = io::stdout();
    if let Err(error) = writeln!(output, "{name}").and_then(|()| output.flush()) {
        print_error(&format!("job {name} is submitted, but its name cannot be printed: {error}"));
    }
    Ok(())
}
