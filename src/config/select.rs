//! Selection of the clauses of a destination, and their combination.
//!
//! Clauses are tried from the top.
//! Each one that matches contributes its settings, and later ones override earlier ones.
//! The first one with a command ends the matching.
//! So the settings of a destination depend on the whole *chain* of matching clauses:
//!
//! ```text
//! */*           maxring=7 expiry=1h       chain of smtp/a.test: all three, so it has its own ring
//! */a.test      expiry=2h
//! smtp/*        command=smtp              chain of smtp/b.test: the first and the third
//! ```
//!
//! The original uses only the first match, except for `*/*`; see `docs/zmailer.md`.

use super::clause::{Clause, ClauseDraft, ClauseId, Setting, SourceLocation};
use super::pattern::{Name, Pattern};
use super::{AgentCommand, Config};
use std::rc::Rc;

/// A clause of the file. An empty clause has the settings of the next one that has any.
#[derive(Debug)]
pub(crate) struct WrittenClause {
    pub pattern: Pattern,
    /// Byte offset of the pattern in the file.
    pub start: usize,
    /// Line of the pattern.
    pub line: u32,
    /// Its settings, in the order of the file.
    pub settings: Rc<[Setting]>,
}

impl WrittenClause {
    /// Returns true if it has a setting of one of these names.
    pub(crate) fn names(&self, names: &[&str]) -> bool {
        self.settings.iter().any(|setting| names.contains(&setting.keyword.name))
    }

    /// Returns true if the clause has a command, so that matching ends at it.
    pub(crate) fn has_command(&self) -> bool {
        self.names(&["command"])
    }
}

impl Config {
    /// The effective clause of a destination; `None` if no clause matches it.
    ///
    /// Both names are in lower case.
    /// Destinations with the same chain of matching clauses get the same clause, and so belong to
    /// one ring.
    /// Clauses without settings do not count.
    pub fn select(&self, channel: &[u8], host: &[u8]) -> Option<Rc<Clause>> {
        Some(self.effective(self.chain(channel, host)?))
    }

    /// The effective clause; if no clause matches, the defaults.
    ///
    /// These have no command, so mail stays queued.
    pub fn select_or_default(&self, channel: &[u8], host: &[u8]) -> Rc<Clause> {
        self.effective(self.chain(channel, host).unwrap_or_default())
    }

    /// The chains of clauses selected so far, in the order of their [`ClauseId`].
    pub fn known_chains(&self) -> Vec<Box<[u32]>> {
        let effective = self.effective.borrow();
        let mut chains: Vec<_> =
            effective.iter().map(|(chain, clause)| (clause.id, chain)).collect();
        chains.sort_unstable();
        chains.into_iter().map(|(_, chain)| chain.clone()).collect()
    }

    /// Restores the ids that effective clauses had in another reading of the same file.
    ///
    /// Must be called before any clause is selected.
    /// Returns false if the chains do not fit this file.
    pub fn restore_chains(&self, chains: Vec<Box<[u32]>>) -> bool {
        let fits = chains
            .iter()
            .all(|chain| chain.iter().all(|index| (*index as usize) < self.clauses.len()));
        if fits {
            chains.into_iter().for_each(|chain| drop(self.effective(chain.into())));
        }
        fits
    }

    fn effective(&self, chain: Vec<u32>) -> Rc<Clause> {
        if let Some(clause) = self.effective.borrow().get(&chain[..]) {
            return Rc::clone(clause);
        }
        let mut effective = self.effective.borrow_mut();
        let id = ClauseId(effective.len() as u32);
        let clause = Rc::new(Clause { id, ..self.resolve(&chain).clause });
        effective.insert(chain.into(), Rc::clone(&clause));
        clause
    }

    /// The indices of the clauses that match a destination.
    ///
    /// They end with the first clause that has a command.
    ///
    /// Of the clauses without settings only the last is included, and only if there is no other.
    pub(crate) fn chain(&self, channel: &[u8], host: &[u8]) -> Option<Vec<u32>> {
        let (channel, host) = (Name::new(channel), Name::new(host));
        let mut chain = Vec::new();
        let mut silent = None;
        for (index, clause) in self.clauses.iter().enumerate() {
            if !clause.pattern.matches(&channel, &host) {
                continue;
            }
            if clause.settings.is_empty() {
                silent = Some(index as u32);
                continue;
            }
            chain.push(index as u32);
            if clause.has_command() {
                break;
            }
        }
        if chain.is_empty() {
            chain.extend(silent);
        }
        (!chain.is_empty()).then_some(chain)
    }

    /// Combines a chain of clauses.
    pub(crate) fn resolve(&self, chain: &[u32]) -> ClauseDraft {
        let chain: Vec<&WrittenClause> =
            chain.iter().map(|index| &self.clauses[*index as usize]).collect();
        let with_command = chain.iter().rfind(|clause| clause.has_command());
        let particular = || chain.iter().rfind(|clause| !clause.pattern.matches_everything());
        let deciding = with_command.or_else(particular).or(chain.last());
        let line = deciding.map_or(0, |clause| clause.line);
        let mut draft = self.new_draft();
        draft.clause.location = self.location(line);
        draft.clause.combined_lines = chain.iter().map(|clause| clause.line).collect();
        if let Some(deciding) = deciding {
            draft.clause.channel_pattern.clone_from(&deciding.pattern.channel.text);
            draft.clause.host_pattern.clone_from(&deciding.pattern.host.text);
        }
        for clause in chain {
            clause.settings.iter().for_each(|setting| setting.apply(&mut draft));
            // The defaults for all mail, which most files have, are not meant for mail that waits
            // for requests (`queueonly`).
            draft.clause.has_attempts = match clause.names(&["queueonly"]) {
                true => clause.names(&["interval", "retries"]),
                false => {
                    let names_times = clause.names(&["interval", "retries"]);
                    draft.clause.has_attempts || (draft.clause.queue_only && names_times)
                }
            };
        }
        draft.finish();
        draft
    }

    /// All commands, with their positions.
    pub fn commands(&self) -> Vec<(SourceLocation, AgentCommand)> {
        let settings = self.clauses.iter().flat_map(|clause| clause.settings.iter());
        let commands = settings.filter(|setting| setting.keyword.name == "command");
        let command = |setting: &Setting| {
            let mut draft = self.new_draft();
            setting.apply(&mut draft);
            Some((self.location(setting.line), draft.clause.command?))
        };
        commands.filter_map(command).collect()
    }

    /// A draft with nothing but defaults.
    pub(crate) fn new_draft(&self) -> ClauseDraft {
        ClauseDraft::new(self.location(0), self.default_accounts)
    }

    pub(crate) fn location(&self, line: u32) -> SourceLocation {
        SourceLocation { file: Rc::clone(&self.file), line }
    }
}
