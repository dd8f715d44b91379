//! The configuration: what the file `scheduler.cf` and the ZENV file say.
//!
//! ```text
//! text ──syntax──► entries ──build──► Config ──select(channel, host)──► Rc<Clause>
//!                               │
//!                    keywords, parameters: tables of everything that can be set
//!                    kinds: the syntax of values
//! ```
//!
//! This crate decides which settings a destination has, and which mistakes make a file unusable.
//! Parsing is a pure function of the file's text and a [`ConfigContext`]. All errors and warnings
//! are collected with their positions; a file with an error yields no configuration.
//!
//! It must not know how the scheduler uses a value, nor ask the system for anything but the two
//! files. Begin with [`Config::parse`]; a new keyword is a row in `keywords.rs` and a field of
//! [`Clause`].

#![warn(unreachable_pub)]

// From text to entries, and what is wrong with them.
mod diagnostic;
mod settings_file;
mod syntax;

// What can be set: rows of two tables.
mod keywords;
mod parameters;
mod table;

// What values look like.
mod command;
mod flow;
mod kinds;
mod pattern;
mod units;
mod value;
mod variables;

// From entries to the clause of a destination.
mod build;
mod clause;
mod select;
mod show;
mod useless_settings;

#[cfg(test)]
mod tests;

pub use clause::{Clause, ClauseId, JobOrder, Niceness, SourceLocation};
pub use command::{AgentCommand, Expanded};
pub use diagnostic::{Diagnostic, DiagnosticSink, ValueError, nearest, quote};
pub use flow::{Feedback, Flow, Rate, WindowKey};
pub use parameters::{BindAddress, MailqSocket, MemoryLimits, Parameters, TcpPort};
pub use pattern::{Glob, Name, Pattern};
pub use settings_file::{Apply, Keyword, Setting, Word, read_settings};
pub use units::parse_interval;
pub use variables::Zenv;
pub use zsched_format::priority::MailPriority;

use clause::DefaultAccounts;
use select::WrittenClause;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The file `scheduler.cf.example`, a complete configuration.
///
/// It works without root if the ZENV file defines `MAILQPORT`, a TCP port, and `MAILBOXES`, a
/// folder.
pub const EXAMPLE: &str = include_str!("../../scheduler.cf.example");

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;
/// Maximum size of any configuration file that is read, in bytes.
const MAX_READ_SIZE: u64 = 16 << 20;
/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A configuration file that has been read and checked.
#[derive(Debug)]
pub struct Config {
    /// The parameters of the scheduler as a whole.
    pub parameters: Parameters,
    /// The process priority that the scheduler sets for itself at startup.
    ///
    /// It is the last `sysnice=` or `syspriority=` of the file, in any clause.
    pub scheduler_niceness: Option<Niceness>,
    file: Rc<Path>,
    /// The text of the file, without a byte order mark.
    text: Rc<[u8]>,
    /// The last line that sets each parameter.
    parameter_lines: HashMap<&'static str, u32>,
    clauses: Vec<WrittenClause>,
    default_accounts: DefaultAccounts,
    /// Cache of the effective clauses, by the indices of the written clauses in their chain.
    effective: RefCell<HashMap<Box<[u32]>, Rc<Clause>>>,
}

/// A configuration and the warnings about it.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

/// Kind of a name that the system has an id for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountKind {
    /// An account.
    User,
    /// A group.
    Group,
}

/// Finds the id of an account or a group by its name.
///
/// Returns `Ok(None)` if there is none, and an error if it cannot be looked up now.
pub type FindId = Arc<dyn Fn(AccountKind, &str) -> io::Result<Option<u32>> + Send + Sync>;

/// What parsing needs from the process and the system.
#[derive(Clone)]
pub struct ConfigContext {
    /// The variables for `${NAME}`.
    pub zenv: Zenv,
    /// True if the scheduler can run agents as other users.
    pub is_root: bool,
    /// The effective user id of the scheduler.
    pub effective_user: u32,
    /// The effective group id of the scheduler.
    pub effective_group: u32,
    /// Finds an account or a group by name.
    pub find_id: FindId,
}

impl ConfigContext {
    /// A context without root rights and without accounts.
    ///
    /// It is for reading a configuration that does not belong to this system.
    pub fn unprivileged(zenv: Zenv) -> ConfigContext {
        ConfigContext {
            zenv,
            is_root: false,
            effective_user: 1000,
            effective_group: 1000,
            find_id: Arc::new(|_, _| Ok(None)),
        }
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// On failure, returns all errors and warnings.
    pub fn load(path: &Path, context: &ConfigContext) -> Result<LoadedConfig, Vec<Diagnostic>> {
        let text = read(path).map_err(|error| vec![error])?;
        Config::parse(path, &text, context)
    }

    /// Parses the text of a configuration file.
    ///
    /// `file_name` is used in messages only.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        context: &ConfigContext,
    ) -> Result<LoadedConfig, Vec<Diagnostic>> {
        if text.len() as u64 > MAX_FILE_SIZE {
            return Err(vec![Diagnostic::of_file(file_name, "the file is larger than 1 MiB")]);
        }
        // Some editors begin a file with an invisible byte order mark.
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let file: Rc<Path> = file_name.into();
        let mut sink = DiagnosticSink::new(Rc::clone(&file), text);
        let entries = syntax::read(text, &mut sink);
        let mut config = build::build(file, entries, context, &mut sink);
        config.text = text.into();
        let is_usable = sink.is_usable();
        let diagnostics = sink.finish();
        if is_usable {
            Ok(LoadedConfig { config, warnings: diagnostics })
        } else {
            Err(diagnostics)
        }
    }

    /// A configuration without clauses, used until the real one is loaded.
    pub fn empty() -> Rc<Config> {
        Rc::new(Config::without_clauses(Path::new("").into()))
    }

    fn without_clauses(file: Rc<Path>) -> Config {
        Config {
            parameters: Parameters::default(),
            scheduler_niceness: None,
            file,
            text: Rc::default(),
            parameter_lines: HashMap::new(),
            clauses: Vec::new(),
            default_accounts: DefaultAccounts::default(),
            effective: RefCell::default(),
        }
    }

    /// The path of the file, as it was given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The text of the file.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns true if a clause has exactly this pattern, `channel/host`.
    pub fn has_pattern(&self, pattern: &str) -> bool {
        let (channel, host) = pattern.split_once('/').unwrap_or((pattern, "*"));
        let is_same_clause = |clause: &WrittenClause| {
            clause.pattern.channel.text == channel && clause.pattern.host.text == host
        };
        self.clauses.iter().any(is_same_clause)
    }
}

/// Reads the text of a configuration file.
///
/// Stops one byte after the maximum size, so that the parser can refuse the file.
pub fn read(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    let failed = |error| Diagnostic::of_file(path, format!("the file cannot be read: {error}"));
    contents(path).map_err(failed)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a named pipe would block until its other end is opened.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_READ_SIZE + 1).read_to_end(&mut text)?;
    Ok(text)
}
