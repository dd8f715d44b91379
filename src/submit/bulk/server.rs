//! `submit --listen`: jobs of programs, over a UNIX socket.
//!
//! A client sends options of `submit`, a line each; a line `message LENGTH` and the message; the
//! recipients, a line each; and a line with a dot. The answer is a line. `bulk-submission(5)` has
//! the details. Each client has a thread: nothing that one does, or does not do, concerns others.

use super::job::JobRequest;
use super::recipients::{MAX_PAUSE, READ_SIZE, RecipientInput};
use crate::options::SubmitOptions;
use crate::{EXIT_FAILURE, Failure, print_error};
use clap::Parser;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use zsched_bulk::draft::SubmittedJob;
use zsched_command_line::sysexits::{EX_DATAERR, EX_TEMPFAIL, EX_UNAVAILABLE, EX_USAGE};
use zsched_format::printable;
use zsched_service::{bind_socket, is_single_connection_error, worker};
use zsched_spool::Spool;
use zsched_sys as sys;

/// Mode of the socket: its owner and its group may submit jobs.
const SOCKET_MODE: u32 = 0o660;
/// Maximum number of clients at a time.
const MAX_CLIENTS: usize = 32;
/// Maximum time for which a client may send or take nothing.
const MAX_IDLE_TIME: Duration = Duration::from_secs(600);
/// Maximum length of the options of a job, in bytes.
const MAX_OPTIONS_LEN: u64 = 64 * 1024;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE_LEN: u64 = 64 << 20;
/// Time before connections are accepted again after an error.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The line after the last recipient.
const END: &[u8] = b".";
/// The line before the message.
const MESSAGE: &str = "message ";
/// The options that a client may send.
///
/// Those that name files are not among them: the server has other rights than the client.
const OPTIONS: [&str; 17] = [
    "from",
    "full-name",
    "channel",
    "next-host",
    "notify",
    "priority",
    "not-before",
    "window",
    "deadline",
    "key",
    "list",
    "packet-size",
    "share",
    "verp",
    "keep",
    "stream",
    "merge-body",
];

/// Serves clients until the process ends.
///
/// The error is that of a socket that cannot be bound.
pub(crate) fn serve(path: &Path, spool: &Spool, notify: &Path) -> Result<(), Failure> {
    let unusable = |error| Failure::new(EXIT_FAILURE, format!("{}: {error}", path.display()));
    if UnixStream::connect(path).is_ok() {
        let text = format!("{}: another program serves this socket", path.display());
        return Err(Failure::new(EX_UNAVAILABLE, text));
    }
    let listener =
        bind_socket(path, SOCKET_MODE, |path| UnixListener::bind(path)).map_err(unusable)?;
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        match client {
            Ok(client) => begin(client, &clients, spool, notify),
            Err(error) if is_single_connection_error(&error) => {}
            Err(error) => {
                print_error(&format!("{}: {error}", path.display()));
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
    Ok(())
}

/// Starts the thread of a client, if there is room for one.
fn begin(mut client: UnixStream, clients: &Arc<AtomicUsize>, spool: &Spool, notify: &Path) {
    let turn_away = |client: &mut UnixStream, why: &str| {
        // It may be gone.
        writeln!(client, "error {EX_TEMPFAIL} {why}").ok();
    };
    if clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
        return turn_away(&mut client, "too many clients; try again later");
    }
    let (clients, spool) = (Arc::clone(clients), spool.clone());
    let notify = notify.to_path_buf();
    clients.fetch_add(1, Ordering::Relaxed);
    let started = thread::Builder::new().name("client".to_string()).spawn({
        let clients = Arc::clone(&clients);
        move || {
            worker::catch_panic(|| answer(&client, &spool, &notify));
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    });
    if let Err(error) = started {
        clients.fetch_sub(1, Ordering::Relaxed);
        print_error(&format!("a client cannot be served: {error}"));
    }
}

/// Takes the job of a client, and answers.
fn answer(client: &UnixStream, spool: &Spool, notify: &Path) {
    let outcome = take_job(client, spool, notify);
    let line = match &outcome {
        Ok(SubmittedJob { id, repeated, is_new, .. }) => {
            let word = if *is_new { "ok" } else { "known" };
            format!("{word} {id} {repeated}")
        }
        Err(Failure { status, reason }) => {
            format!("error {status} {}", printable::line(reason))
        }
    };
    let mut out = client;
    // The job is in the spool, or not, whether the client hears it or not.
    writeln!(out, "{line}").ok();
}

fn take_job(client: &UnixStream, spool: &Spool, notify: &Path) -> Result<SubmittedJob, Failure> {
    client.set_read_timeout(Some(MAX_IDLE_TIME))?;
    client.set_write_timeout(Some(MAX_IDLE_TIME))?;
    let user = sys::peer_user(client)?;
    let mut input = BufReader::with_capacity(READ_SIZE, client.try_clone()?);
    let (options, length) = read_options(&mut input)?;
    let mut message = Vec::new();
    let read = input.by_ref().take(length).read_to_end(&mut message)?;
    if (read as u64) < length {
        return Err(Failure::new(EX_DATAERR, "the input has ended in the message"));
    }
    client.set_read_timeout(Some(MAX_PAUSE))?;
    let shown = "the list of recipients".to_string();
    let recipients = RecipientInput::until_line(shown, Box::new(input), END, MAX_IDLE_TIME);
    let request = JobRequest { spool, socket: notify, options: &options, user };
    let mut out = client;
    request.submit(&message, recipients, &mut |lines| writeln!(out, "synced {lines}"))
}

/// Reads the options of a job, and the length of its message.
fn read_options(input: &mut impl BufRead) -> Result<(SubmitOptions, u64), Failure> {
    let usage = |text: String| Failure::new(EX_USAGE, text);
    let mut arguments = vec!["submit".to_string(), "--bulk=-".to_string()];
    let mut limited = input.take(MAX_OPTIONS_LEN);
    let length = loop {
        let mut line = String::new();
        limited.read_line(&mut line).map_err(|error| usage(error.to_string()))?;
        let Some(text) = line.strip_suffix('\n') else {
            return Err(usage("the options end without a line `message LENGTH`".to_string()));
        };
        if let Some(length) = text.strip_prefix(MESSAGE) {
            break length.parse().map_err(|_| usage(format!("{text:?}: expected a number")))?;
        }
        let name = text.strip_prefix("--").and_then(|text| text.split('=').next());
        if !name.is_some_and(|name| OPTIONS.contains(&name)) {
            return Err(usage(format!("{text:?} is not an option of a job")));
        }
        arguments.push(text.to_string());
    };
    if length > MAX_MESSAGE_LEN {
        let text = format!("the message has more than {MAX_MESSAGE_LEN} bytes");
        return Err(Failure::new(EX_DATAERR, text));
    }
    let options = SubmitOptions::try_parse_from(arguments).map_err(|error| {
        let text = error.to_string();
        usage(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string())
    })?;
    options.check().map_err(usage)?;
    Ok((options, length))
}
