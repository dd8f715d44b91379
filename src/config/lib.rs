//! The configuration file, `scheduler.cf`: what is written in it, and what it means for a
//! destination.
//!
//! ```text
//! text ──syntax──► words ──build──► Config ──select(channel, host)──► Rc<Clause>
//!                             │
//!                  keywords, parameters: one table each, what there is to be set
//!                  units, pattern, command, variables: the languages of the values
//! ```
//!
//! Reading is a pure function of the file's text and a [`Context`]; everything wrong with the file is
//! collected, with its place, and a file with an error gives no configuration at all. Nothing here
//! knows what the scheduler does with a value.

mod build;
mod clause;
mod command;
mod diagnostic;
mod flow;
mod keywords;
mod parameters;
mod pattern;
mod select;
mod show;
mod syntax;
mod units;
mod value;
mod variables;

#[cfg(test)]
mod tests;

pub use clause::{Clause, ClauseId, Niceness, Place};
pub use command::{Command, Expanded};
pub use diagnostic::{Diagnostic, Position, Severity, ValueError};
pub use flow::{Feedback, Flow, Rate, WindowKey};
pub use keywords::{Keyword, Status, keywords};
pub use parameters::{
    BindAddress, MailqSocket, MemoryLimits, ParameterKeyword, Parameters, TcpPort, parameters,
};
pub use pattern::{Name, Pattern};
pub use units::{Interval, parse_interval};
pub use variables::Zenv;
pub use zsched_format::priority::MailPriority;

use clause::Identity;
use diagnostic::Report;
use select::WrittenClause;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// The file `scheduler.cf.example`: a complete configuration, which works without root if the ZENV file
/// has `MAILQPORT`, a TCP port, and `MAILBOXES`, a folder.
pub const EXAMPLE: &str = include_str!("../../scheduler.cf.example");

/// The largest configuration file we read, in bytes.
const LARGEST_FILE: u64 = 1 << 20;
/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A configuration: one file, read and checked.
#[derive(Debug)]
pub struct Config {
    /// What holds for the scheduler as a whole.
    pub parameters: Parameters,
    /// The priority that the scheduler gives itself when it starts: the last `sysnice=` or
    /// `syspriority=` of the file, in whatever clause.
    pub scheduler_niceness: Option<Niceness>,
    file: Rc<Path>,
    /// The file as it was read.
    text: Rc<[u8]>,
    /// Where each parameter has been set last.
    parameter_lines: HashMap<&'static str, u32>,
    clauses: Vec<WrittenClause>,
    identity: Identity,
    /// The effective clauses that have been asked for, by the clauses they come from.
    effective: RefCell<HashMap<Box<[u32]>, Rc<Clause>>>,
}

/// A configuration, and what is strange about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What its author should look at, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// Finds the id of an account or a group by its name. `Ok(None)` is that there is none; an error, that it cannot
/// be looked up now.
pub type FindId = fn(&str) -> io::Result<Option<u32>>;

/// What reading has to know about the world.
#[derive(Clone, Debug)]
pub struct Context {
    /// The variables for `${NAME}`.
    pub zenv: Zenv,
    /// Whether the scheduler can run agents as other users.
    pub is_root: bool,
    /// The user it runs as.
    pub effective_user: u32,
    /// The group it runs as.
    pub effective_group: u32,
    /// Finds an account by name.
    pub user_id: FindId,
    /// Finds a group by name.
    pub group_id: FindId,
}

impl Context {
    /// A system without accounts, seen by somebody who is not root: for whoever reads configurations that
    /// are not about this system.
    pub fn without_rights(zenv: Zenv) -> Context {
        Context {
            zenv,
            is_root: false,
            effective_user: 1000,
            effective_group: 1000,
            user_id: |_| Ok(None),
            group_id: |_| Ok(None),
        }
    }
}

impl Config {
    /// Whether a clause has this pattern, `channel/host`.
    pub fn has_pattern(&self, pattern: &str) -> bool {
        let (channel, host) = pattern.split_once('/').unwrap_or((pattern, "*"));
        let is_it = |clause: &WrittenClause| {
            clause.pattern.channel.text == channel && clause.pattern.host.text == host
        };
        self.clauses.iter().any(is_it)
    }

    /// Reads a configuration file. On failure everything that is wrong with it, warnings too.
    pub fn load(path: &Path, context: &Context) -> Result<Loaded, Vec<Diagnostic>> {
        let text = read(path).map_err(|error| vec![error])?;
        Config::parse(path, &text, context)
    }

    /// Reads the text of a configuration file; `file_name` is for messages.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        context: &Context,
    ) -> Result<Loaded, Vec<Diagnostic>> {
        if text.len() as u64 > LARGEST_FILE {
            return Err(vec![Diagnostic::of_file(file_name, "the file is larger than 1 MiB")]);
        }
        // Some editors begin a file with a mark that nobody sees.
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let file: Rc<Path> = file_name.into();
        let mut report = Report::new(Rc::clone(&file), text);
        let entries = syntax::read(text, &mut report);
        let mut config = build::build(file, entries, context, &mut report);
        config.text = text.into();
        let is_usable = report.is_usable();
        let diagnostics = report.finish();
        if is_usable { Ok(Loaded { config, warnings: diagnostics }) } else { Err(diagnostics) }
    }
}

impl Config {
    /// A configuration without a clause, which stands in for one that is to follow.
    pub fn none() -> Rc<Config> {
        Rc::new(Config {
            parameters: Parameters::default(),
            scheduler_niceness: None,
            file: Path::new("").into(),
            text: Rc::default(),
            parameter_lines: HashMap::new(),
            clauses: Vec::new(),
            identity: Identity::default(),
            effective: RefCell::default(),
        })
    }

    /// The file it comes from, under the name it was asked for.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The text it was read from.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Reads the text of a configuration file, or a little more of it than we take.
pub fn read(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    let failed = |error| Diagnostic::of_file(path, format!("the file cannot be read: {error}"));
    contents(path).map_err(failed)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut text)?;
    Ok(text)
}
