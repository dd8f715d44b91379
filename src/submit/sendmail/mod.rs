//! The program `sendmail`, which writes a submission for the router.
//!
//! It has no rights of its own: the folders `public/` and `router/` take files of all users
//! ([`SubmissionFile`]). Exit status 0 means that the message is on disk, and that the router
//! finds it.
//!
//! ```text
//! standard input ──► message_reader ──► headers ──► envelope
//!                          │ body, piece by piece       │
//!                          ▼                            ▼
//!                    public/<host>:<pid>:<n> ──► router/<inode> ──► datagram "NEW router <inode>"
//! ```

mod options;

mod message_reader;
mod envelope;
mod submitter;
mod scratch_guard;

mod other_program;

mod error;

pub use options::SendmailOptions;

use crate::message::is_hidden;
use envelope::Envelope;
use error::SendmailError;
use message_reader::{MessageHead, MessageReader};
use other_program::{list_queue, serve_smtp, try_addresses};
use scratch_guard::{ScratchGuard, catch_signals};
use signal_hook::consts::SIGXFSZ;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use zsched_command_line::parse;
use zsched_config::Zenv;
use zsched_format::header::Field;
use zsched_format::printable::{self, print_error};
use zsched_spool::{
    DEFAULT_POSTOFFICE, HashLevel, Spool, SpoolName, SubmissionFile, submit::notify,
};
use zsched_sys as sys;

/// Maximum length of the headers without Bcc, in bytes, as in the router.
const MAX_SENT_HEADERS_LEN: usize = 1 << 20;
/// Size of the buffer for the body, in bytes.
const BUFFER_SIZE: usize = 64 << 10;
/// What `newaliases` prints.
const ALIASES_NOTE: &str =
    "The router reads its files of aliases itself; there is nothing to build.";

/// Runs the program with the arguments of this process. Returns the exit status.
pub fn main() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(error) => {
            print_error("sendmail", &error);
            error.status()
        }
    }
}

fn run() -> Result<(), SendmailError> {
    // A program with rights of its own must not lend them to its callers. The submission
    // belongs to the real user.
    sys::users::become_real_user().map_err(SendmailError::Rights)?;
    let mut arguments = std::env::args_os();
    let own_name = arguments.next().map(PathBuf::from);
    match own_name.as_deref().and_then(Path::file_name).and_then(OsStr::to_str) {
        Some("mailq") => return Err(list_queue(arguments)),
        Some("newaliases") => return print(ALIASES_NOTE),
        _ => {}
    }
    let options: SendmailOptions = parse();
    match options.mode.as_deref() {
        None | Some("m") => {}
        Some("s") => return Err(serve_smtp(options.zenv.as_deref())),
        Some("p") => return Err(list_queue(std::iter::empty())),
        Some("v") => {
            envelope::check(&options)?;
            return Err(try_addresses(&options.recipients));
        }
        Some("i") => return print(ALIASES_NOTE),
        Some(mode) => return Err(SendmailError::Usage(refusal_of_mode(mode))),
    }
    match (options.build_aliases, options.is_queue_run()) {
        (true, _) => print(ALIASES_NOTE),
        (_, true) => Ok(()),
        _ => send(&options),
    }
}

/// Why a value of `-b` cannot be used.
fn refusal_of_mode(mode: &str) -> String {
    match mode {
        "d" | "D" => format!("-b{mode}: this program is no daemon; the scheduler delivers mail"),
        mode => format!("-b{mode}: the modes are -bm, -bp, -bs, -bv and -bi"),
    }
}

fn print(text: &str) -> Result<(), SendmailError> {
    // Nothing is lost if standard output is closed.
    drop(writeln!(io::stdout(), "{}", printable::line(text)));
    Ok(())
}

/// Takes the message from standard input.
fn send(options: &SendmailOptions) -> Result<(), SendmailError> {
    envelope::check(options)?;
    let installation = Installation::find(options)?;
    let mut reader = MessageReader::new(io::stdin().lock(), options.dot_ends_message());
    let MessageHead { mut fields, body } = reader.read_head()?;
    let envelope = Envelope::new(options, &fields)?;
    // The router adds headers that are missing.
    fields.retain(|field| !is_hidden(field));
    let mut beginning: Vec<u8> = fields.iter().flat_map(Field::lines).copied().collect();
    if beginning.len() > MAX_SENT_HEADERS_LEN {
        return Err(SendmailError::LongHeaders(MAX_SENT_HEADERS_LEN));
    }
    beginning.extend([&b"\n"[..], &body].concat());
    let name = installation.queue(&envelope, beginning, &mut reader)?;
    // The message is queued, so nothing that fails from here on is an error.
    installation.notify_router(&name);
    if options.is_verbose() {
        let recipients = printable::count(envelope.recipients.len() as u64, "recipient");
        return print(&format!("{name}: queued for {recipients}"));
    }
    Ok(())
}

/// The spool, and what the ZENV file says about it.
struct Installation {
    spool: Spool,
    level: HashLevel,
    router_socket: PathBuf,
    /// Maximum size of a message, in bytes.
    max_size: Option<u64>,
}

impl Installation {
    fn find(options: &SendmailOptions) -> Result<Installation, SendmailError> {
        let zenv = Zenv::find(options.zenv.as_deref());
        let zenv = zenv.map_err(|error| SendmailError::Config(error.to_string()))?;
        let zenv = zenv.unwrap_or_default();
        let spool = Spool::new(zenv.get("POSTOFFICE").unwrap_or(DEFAULT_POSTOFFICE));
        Ok(Installation {
            level: HashLevel::of_router(zenv.get("ROUTERDIRHASH")),
            router_socket: spool.router_socket(zenv.get("ROUTERNOTIFY")),
            max_size: max_size(&zenv)?,
            spool,
        })
    }

    /// Writes the message to the spool: first `beginning`, then the rest of its body.
    fn queue(
        &self,
        envelope: &Envelope,
        beginning: Vec<u8>,
        reader: &mut MessageReader<impl BufRead>,
    ) -> Result<SpoolName, SendmailError> {
        // The error names the folder.
        let in_public = |error| SendmailError::Spool(self.spool.public(), error);
        // A limit on the size of files is then an error instead of the end.
        sys::ignore_signal(SIGXFSZ).map_err(in_public)?;
        let signals = catch_signals().map_err(in_public)?;
        let file = SubmissionFile::create(&self.spool).map_err(in_public)?;
        let guard = ScratchGuard::new(signals, file.path().to_path_buf()).map_err(in_public)?;
        let mut writer = BufWriter::with_capacity(BUFFER_SIZE, file);
        writer.write_all(envelope.to_text().as_bytes()).map_err(in_public)?;
        let (mut piece, mut size) = (beginning, 0);
        loop {
            size += piece.len() as u64;
            if let Some(max_size) = self.max_size.filter(|max_size| size > *max_size) {
                return Err(SendmailError::LargeMessage(max_size));
            }
            writer.write_all(&piece).map_err(in_public)?;
            if !reader.read_piece(&mut piece).map_err(SendmailError::Input)? {
                break;
            }
        }
        let file = writer.into_inner().map_err(|error| in_public(error.into_error()))?;
        guard.disarm();
        file.publish(self.level).map_err(|error| SendmailError::Spool(self.spool.router(), error))
    }

    /// Notifies the router of the mail. Without that its next scan finds it.
    fn notify_router(&self, name: &SpoolName) {
        notify(&self.router_socket, &format!("NEW router {name}")).ok();
    }
}

/// The value of `MAXMESSAGESIZE`; 0 is no limit.
fn max_size(zenv: &Zenv) -> Result<Option<u64>, SendmailError> {
    let Some(text) = zenv.get("MAXMESSAGESIZE") else { return Ok(None) };
    let wrong = |_| SendmailError::Config(format!("MAXMESSAGESIZE={text}: not a number of bytes"));
    let bytes: u64 = text.trim().parse().map_err(wrong)?;
    Ok(Some(bytes).filter(|bytes| *bytes > 0))
}
