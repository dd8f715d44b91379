//! `submit --bulk`: one message for very many recipients, as a bulk job.
//!
//! [`job`] submits one, from wherever its message and [`recipients`] come: files, standard input,
//! or the client of a socket ([`server`]).

mod job;
mod recipients;
pub(crate) mod server;

use crate::options::SubmitOptions;
use crate::{EXIT_FAILURE, Failure, print_error};
use clap::Args;
use job::JobRequest;
use recipients::RecipientInput;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use zsched_bulk::draft::SubmittedJob;
use zsched_command_line::sysexits::EX_USAGE;
use zsched_spool::Spool;
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

    /// Serve programs that submit jobs over a UNIX socket: see bulk-submission(5)
    #[arg(long = "listen", value_name = "SOCKET", conflicts_with_all = ["bulk", "recipients", "recipients_in_headers"])]
    pub(crate) listen: Option<PathBuf>,

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

    /// Deliver to the first recipients while others still come; needs --key
    #[arg(long = "stream", requires = "bulk", requires = "key")]
    stream: bool,

    /// Replace {{NAME}} in the body, too; the agents do so, and must be those of zsched
    #[arg(long = "merge-body", requires = "bulk")]
    merge_body: bool,

    /// Number of days for which the finished job and its result are kept
    #[arg(long = "keep", value_name = "DAYS", requires = "bulk", value_parser = clap::value_parser!(u32).range(0..=3650))]
    keep: Option<u32>,
}

impl BulkOptions {
    /// Returns true if a bulk job is to be submitted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.bulk.is_some()
    }

    fn inputs(&self) -> Result<(RecipientInput, Input), Failure> {
        let recipients = self.bulk.as_deref().unwrap_or(Path::new(STANDARD_INPUT));
        let message = self.message.as_deref().unwrap_or(Path::new(STANDARD_INPUT));
        let is_standard = |path: &Path| path == Path::new(STANDARD_INPUT);
        if is_standard(recipients) && is_standard(message) {
            let reason = "standard input has either the recipients or the message: name a file \
                with --message";
            return Err(Failure::new(EX_USAGE, reason));
        }
        let Input { shown, file } = Input::open(recipients)?;
        Ok((RecipientInput::of_file(shown, file), Input::open(message)?))
    }
}

/// A file, or standard input.
struct Input {
    shown: String,
    file: File,
}

impl Input {
    fn open(path: &Path) -> Result<Input, Failure> {
        if path == Path::new(STANDARD_INPUT) {
            let file = io::stdin().as_fd().try_clone_to_owned()?.into();
            return Ok(Input { shown: "standard input".to_string(), file });
        }
        let shown = path.display().to_string();
        let missing = |error| Failure::new(EXIT_FAILURE, format!("{shown}: {error}"));
        let file = File::open(path).map_err(missing)?;
        Ok(Input { shown, file })
    }
}

/// Submits a job, notifies the scheduler of it, and prints its name.
pub(crate) fn submit(spool: &Spool, socket: &Path, options: &SubmitOptions) -> Result<(), Failure> {
    let (recipients, mut message) = options.bulk.inputs()?;
    let mut text = Vec::new();
    let unreadable = |error| Failure::new(EXIT_FAILURE, format!("{}: {error}", message.shown));
    message.file.read_to_end(&mut text).map_err(unreadable)?;
    let request = JobRequest { spool, socket, options, user: sys::users::real_user() };
    let SubmittedJob { id, repeated, is_new, .. } =
        request.submit(&text, recipients, &mut |_| Ok(()))?;
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
