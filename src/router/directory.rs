//! Everything that decides about an address: rules, virtual addresses, aliases and users.

use super::address::MailAddress;
use super::alias_table::{AliasFile, AliasTable, MAX_FILE_SIZE, parse_include};
use super::config::{RouterConfig, UserSource};
use super::routes::RoutedTo;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zsched_config::{Diagnostic, DiagnosticSink};
use zsched_sys::{self as sys, Accounts};

/// Bits of a mode with which others than the owner can write a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The configuration and the tables that it names.
#[derive(Debug)]
pub struct Directory {
    /// The settings.
    pub config: RouterConfig,
    pub(crate) virtuals: AliasTable,
    pub(crate) aliases: AliasTable,
    /// Names of `users file`.
    listed_users: HashSet<String>,
    accounts: Accounts,
}

/// A file that others may have written.
pub(crate) struct ReadFile {
    pub text: Vec<u8>,
    /// Its owner, if that is root or this process's user and other users cannot write it.
    pub trusted_owner: Option<u32>,
}

/// Reads a regular file of limited size.
pub(crate) fn read_file(path: &Path) -> io::Result<ReadFile> {
    // Opening a named pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let mut text = Vec::new();
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    let owner = metadata.uid();
    let is_ours = owner == 0 || owner == sys::users::effective_user();
    let is_trusted = is_ours && metadata.mode() & WRITABLE_BY_OTHERS == 0;
    Ok(ReadFile { text, trusted_owner: Some(owner).filter(|_| is_trusted) })
}

impl Directory {
    /// Reads the tables that a configuration names.
    ///
    /// Returns the warnings. On failure, returns all errors and warnings.
    pub fn load(config: RouterConfig) -> Result<(Directory, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let virtuals = load_tables(&config.virtuals, &mut diagnostics);
        let aliases = load_tables(&config.aliases, &mut diagnostics);
        let listed_users = match &config.users {
            UserSource::File(path) => load_users(path, &mut diagnostics),
            _ => HashSet::new(),
        };
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(diagnostics);
        }
        let accounts = Accounts::new(config.known_accounts.clone());
        Ok((Directory { config, virtuals, aliases, listed_users, accounts }, diagnostics))
    }

    /// All files that decisions about addresses need: the tables, and the lists that they name.
    pub fn files(&self) -> Vec<PathBuf> {
        let users = match &self.config.users {
            UserSource::File(path) => Some(path.clone()),
            _ => None,
        };
        let tables = self.config.aliases.iter().chain(&self.config.virtuals).cloned();
        let files: Vec<PathBuf> = tables.chain(users).collect();
        let included = self.aliases.included().chain(self.virtuals.included());
        let mut waiting: Vec<PathBuf> = included.map(Path::to_path_buf).collect();
        let mut lists = HashSet::new();
        // Lists may name others.
        while let Some(list) = waiting.pop() {
            if lists.insert(list.clone())
                && let Ok(ReadFile { text, .. }) = read_file(&list)
            {
                let (targets, _) = parse_include(&list, &text);
                waiting.extend(
                    targets.iter().filter_map(|target| target.included()).map(Path::to_path_buf),
                );
            }
        }
        files.into_iter().chain(lists).collect()
    }

    /// Number of aliases and of virtual addresses.
    pub fn counts(&self) -> (usize, usize) {
        (self.aliases.len(), self.virtuals.len())
    }

    /// Returns true if mail for the address ends at this host: a local or a virtual domain.
    ///
    /// An address without a domain does.
    pub fn is_final_destination(&self, address: &MailAddress) -> bool {
        let address = address.clone().qualified(self.config.routes.hostname());
        self.virtuals.has_domain(address.domain().unwrap_or_default())
            || self.config.routes.route(&address).routed_to == RoutedTo::Local
    }

    /// Returns true if a local domain has this user. An error means that it is unknown now.
    pub fn has_user(&self, name: &str) -> io::Result<bool> {
        match &self.config.users {
            UserSource::Any => Ok(true),
            UserSource::File(_) => Ok(self.listed_users.contains(name)),
            UserSource::System => Ok(self.accounts.find(&[name])?.is_some()),
        }
    }
}

fn load_tables(paths: &[PathBuf], diagnostics: &mut Vec<Diagnostic>) -> AliasTable {
    let mut table = AliasTable::default();
    for path in paths {
        match read_file(path) {
            Ok(ReadFile { text, trusted_owner }) => {
                diagnostics
                    .extend(table.add(AliasFile { path: path.clone(), trusted_owner }, &text));
            }
            Err(error) => diagnostics.push(unreadable(path, &error)),
        }
    }
    table
}

/// Reads a list of users: the first word of each line, up to a colon.
fn load_users(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> HashSet<String> {
    let mut users = HashSet::new();
    let text = match read_file(path) {
        Ok(file) => file.text,
        Err(error) => {
            diagnostics.push(unreadable(path, &error));
            return users;
        }
    };
    let mut sink = DiagnosticSink::new(path.into(), &text);
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match std::str::from_utf8(line) {
            Ok(line) => {
                let name = line.split([':', ' ', '\t', '\n', '#']).next().unwrap_or_default();
                if !name.is_empty() {
                    users.insert(name.to_string());
                }
            }
            Err(error) => sink.error(start + error.valid_up_to(), "this is not UTF-8"),
        }
        start += line.len();
    }
    diagnostics.extend(sink.finish());
    users
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::of_file(path, format!("the file cannot be read: {error}"))
}
