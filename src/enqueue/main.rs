//! `enqueue`: the program behind `|` in an alias of a list.
//!
//! It reads a message from standard input, puts it into the drop folder, syncs it, and pokes the
//! scheduler, which moves it into the queue ([`drop_file`]). A mail system starts it for each
//! message, many at once, so it does nothing else: it has no configuration library, no user
//! lookups and no locks.
//!
//! It is set-group-id, because no user may write to the drop folder, and its callers are not to be
//! trusted. What they name is opened with their own rights ([`rights`]); of the environment nothing
//! is used but `ZCONFIG`, and that only without set-group-id. It must not know the spool's other
//! folders, the scheduler or its configuration.
//!
//! Begin with `run`, then [`drop_file`].

mod drop_file;
mod error;
mod input;
mod options;
mod rights;
mod zenv;

use drop_file::DropFile;
use error::EnqueueError;
use input::Message;
use options::Options;
use rights::Rights;
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::ExitCode;
use zenv::Settings;

/// Name of the socket in POSTOFFICE that wakes the scheduler.
const POKE_SOCKET: &str = ".scheduler.poke";
/// Size of the buffer for the message, in bytes.
const BUFFER_SIZE: usize = 16 * 1024;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the status says the same.
            drop(writeln!(std::io::stderr(), "enqueue: {error}"));
            ExitCode::from(error.status())
        }
    }
}

fn run() -> Result<(), EnqueueError> {
    let rights = Rights::take_back()?;
    let options = match Options::parse(std::env::args_os().skip(1))? {
        Some(options) => options,
        None => return print_version(),
    };
    let settings = Settings::read(options.zenv.as_deref(), rights.are_lent())?;
    rights.lend()?;
    queue(&options, &settings, &rights)?;
    // The message is on disk: nothing that fails from here on is an error.
    poke(&settings.postoffice);
    Ok(())
}

fn print_version() -> Result<(), EnqueueError> {
    drop(writeln!(std::io::stdout(), "enqueue {}", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// Puts the message of standard input into the drop folder.
fn queue(options: &Options, settings: &Settings, rights: &Rights) -> Result<(), EnqueueError> {
    let mut message = Message::begin(std::io::stdin())?;
    let sender = match &options.sender {
        Some(sender) => sender,
        None => message.sender(),
    };
    let head = format!("host {}\nfrom {sender}\n\n", options.host);
    let mut file = DropFile::create(&settings.postoffice, rights)?;
    file.write(head.as_bytes())?;
    let mut buffer = [0; BUFFER_SIZE];
    let mut size = 0;
    loop {
        let count = message.read(&mut buffer).map_err(EnqueueError::Input)?;
        if count == 0 {
            break;
        }
        size += count as u64;
        if settings.max_size.is_some_and(|max_size| size > max_size) {
            return Err(EnqueueError::LargeMessage(settings.max_size.unwrap_or_default()));
        }
        file.write(&buffer[..count])?;
    }
    if size == 0 {
        return Err(EnqueueError::EmptyMessage);
    }
    file.publish()
}

/// Wakes the scheduler, or the service manager that starts it, without waiting.
///
/// Where nothing listens the message stays in the drop folder until a scheduler is started. If the
/// socket is full, it has not read the last pokes yet, so it will find this message, too.
fn poke(postoffice: &Path) {
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(b"poke", postoffice.join(POKE_SOCKET))
    });
    drop(sent);
}
