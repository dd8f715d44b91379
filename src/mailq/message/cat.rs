//! `mailq cat`: prints a message as it lies in the spool.
//!
//! ```text
//! spool id    S4711AbmKUKEJuveqC
//! sender      alice@here.test
//! recipient   bob@there.test by smtp/mx.test: queued
//!
//! From: alice@here.test
//! Subject: Hello
//! ```

use super::envelope::{Envelope, same_address, without_brackets};
use super::files::{for_each_name, read};
use crate::failure::{self, Failure};
use crate::screen::{Terminal, wrap};
use clap::Args;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use zsched_format::control_file::{self, ControlFile, MAX_CONTROL_FILE_SIZE, bare_message_id};
use zsched_format::printable::PrintableWriter;
use zsched_spool::{HashFolder, HashLevel, Spool, SpoolId, SpoolName};
use zsched_sys::open_regular;

/// Arguments of `mailq cat`.
#[derive(Args, Clone, Debug)]
pub struct CatOptions {
    /// A spool id, the name of a control file, a Message-ID, or an address
    ///
    /// The address is that of a recipient or of the sender.
    #[arg(value_name = "ID")]
    pub what: String,

    /// Print the envelope: sender, and recipients with their states
    #[arg(long)]
    pub envelope: bool,

    /// Print the headers that recipients get
    ///
    /// If groups of recipients get different ones, those of the first group are printed.
    #[arg(long)]
    pub headers: bool,

    /// Print the body
    #[arg(long)]
    pub body: bool,

    /// Print all of these
    #[arg(long)]
    pub all: bool,

    /// Maximum line length of the envelope
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Number of bytes of a body that are copied at a time.
const BUFFER_SIZE: usize = 64 << 10;

/// Maximum number of messages with the same Message-ID that are named.
const MAX_NAMED_MATCHES: usize = 10;

/// A message that was found.
struct StoredMessage {
    envelope: Envelope,
    file: ControlFile,
}

/// Prints a message on standard output: for terminals printable, elsewhere as it is.
pub(crate) fn run(options: &CatOptions, spool: &Spool) -> Result<(), Failure> {
    let message = find(spool, &options.what)?;
    let out = io::stdout().lock();
    let mut out: Box<dyn Write> = match out.is_terminal() {
        true => Box::new(PrintableWriter::new(BufWriter::new(out))),
        false => Box::new(BufWriter::new(out)),
    };
    message.print(options, spool, &mut out)?;
    Ok(out.flush()?)
}

impl StoredMessage {
    fn print(
        &self,
        options: &CatOptions,
        spool: &Spool,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let CatOptions { envelope, headers, body, all, .. } = *options;
        let is_default = !(envelope || headers || body);
        let (envelope, headers) = (envelope || all || is_default, headers || all || is_default);
        let body = body || all;
        if envelope {
            let columns = Terminal::of_stdout(options.width).columns;
            self.print_envelope(columns, out)?;
            // An empty line separates the parts, as in a message.
            out.write_all(if headers || body { b"\n" } else { b"" })?;
        }
        if headers {
            let headers = self.file.headers.first().map(|block| self.file.get(block.text));
            out.write_all(headers.unwrap_or_default())?;
            out.write_all(if body { b"\n" } else { b"" })?;
        }
        if body {
            self.print_body(spool, out)?;
        }
        Ok(())
    }

    fn print_envelope(&self, columns: Option<usize>, out: &mut impl Write) -> io::Result<()> {
        let Envelope { id, name, .. } = &self.envelope;
        let mut lines = vec![("spool id", id.to_string()), ("file", name.to_string())];
        lines.extend(self.envelope.lines(usize::MAX));
        let lines =
            lines.iter().flat_map(|(title, value)| wrap(&format!("{title:<12}{value}"), columns));
        for line in lines {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn print_body(&self, spool: &Spool, out: &mut impl Write) -> Result<(), Failure> {
        let path = spool.message_file(&self.envelope.name);
        let failed = |error| failure::unreadable(&path, &error);
        let mut body = open_regular(File::options().read(true), &path).map_err(failed)?;
        body.seek(SeekFrom::Start(self.file.body_offset.unwrap_or(0))).map_err(failed)?;
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            match body.read(&mut buffer).map_err(failed)? {
                0 => return Ok(()),
                length => out.write_all(&buffer[..length])?,
            }
        }
    }
}

/// Finds the message of this name.
///
/// The search for a Message-ID or an address reads all control files.
fn find(spool: &Spool, what: &str) -> Result<StoredMessage, Failure> {
    let (mut found, mut unreadable) = (Vec::new(), None);
    let mut look = |name: SpoolName, is_wanted: &dyn Fn(SpoolId, &ControlFile) -> bool| {
        match read(spool, &name, MAX_CONTROL_FILE_SIZE) {
            Ok((file, stat)) => {
                let id = SpoolId { number: name.number(), modified: stat.1 };
                if is_wanted(id, &file) && found.len() < MAX_NAMED_MATCHES {
                    let envelope = Envelope::new(name, &file, stat, usize::MAX);
                    found.push(StoredMessage { envelope, file });
                }
            }
            // It has just left, or is not there.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                unreadable.get_or_insert((spool.control_file(&name), error));
            }
        }
    };
    let named = SpoolName::from_notified(what.as_bytes()).filter(|_| !what.contains('@'));
    if let Some(number) = SpoolId::number_in(what) {
        let has_id = |id: SpoolId, _: &ControlFile| id.to_string() == what;
        for_each_name(spool, Some(number), |name| look(name, &has_id))?;
    } else if let Some(name) = named {
        match what.bytes().all(|byte| byte.is_ascii_digit()) {
            true => for_each_name(spool, Some(name.number()), |name| look(name, &|_, _| true))?,
            false => names_like(&name).into_iter().for_each(|name| look(name, &|_, _| true)),
        }
    } else {
        let wanted = bare_message_id(what);
        let address = without_brackets(what);
        let is_wanted = |_: SpoolId, file: &ControlFile| {
            control_file::message_id(file).is_some_and(|id| bare_message_id(&id) == wanted)
                || has_address(file, address)
        };
        for_each_name(spool, None, |name| look(name, &is_wanted))?;
    }
    let ids: Vec<String> = found.iter().map(|message| message.envelope.id.to_string()).collect();
    match (found.pop(), unreadable) {
        (Some(message), _) if found.is_empty() => Ok(message),
        (Some(_), _) => {
            let ids = ids.join(" ");
            Err(Failure::NotFound(format!("{what} is not unique; name one of {ids}")))
        }
        (None, Some((path, error))) => Err(failure::unreadable(&path, &error)),
        (None, None) => Err(Failure::no_mail(what)),
    }
}

/// Returns true if this is the address of a sender or recipient.
fn has_address(file: &ControlFile, address: &str) -> bool {
    let is_same = |of: &[u8]| same_address(&String::from_utf8_lossy(of), address);
    file.recipients.iter().any(|recipient| {
        is_same(file.get(recipient.quad.user))
            || file.sender_address(recipient).is_some_and(is_same)
    })
}

/// The name, and if it has no folder the names with those of hash levels.
fn names_like(name: &SpoolName) -> Vec<SpoolName> {
    let levels: &[HashLevel] = match name.folder() == HashFolder::TOP {
        true => &[HashLevel::Once, HashLevel::Twice],
        false => &[],
    };
    let below = levels.iter().map(|level| name.in_folder(HashFolder::of(name.number(), *level)));
    std::iter::once(name.clone()).chain(below).collect()
}
