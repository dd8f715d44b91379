//! Builds a configuration from the entries of a file.
//!
//! All errors go to the diagnostic sink. The configuration may be used only if there are none.

use super::clause::{ClauseDraft, DefaultAccounts, Setting};
use super::diagnostic::{DiagnosticSink, ValueError, nearest, quote};
use super::keywords::{KEYWORDS, OBSOLETE_KEYWORDS};
use super::kinds::ValueInput;
use super::parameters::PARAMETERS;
use super::pattern::{Name, Pattern};
use super::select::WrittenClause;
use super::syntax::{Assignment, FileEntry, MappedText};
use super::table::{Keyword, find};
use super::value::Value;
use super::variables::expand_value;
use super::{Config, ConfigContext, useless_settings};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// Builds the configuration that the entries of a file describe.
pub(crate) fn build(
    file: Rc<Path>,
    entries: Vec<FileEntry>,
    context: &ConfigContext,
    sink: &mut DiagnosticSink<'_>,
) -> Config {
    let mut builder = Builder {
        context,
        sink,
        all_settings: Config::without_clauses(Rc::clone(&file)).new_draft(),
        config: Config::without_clauses(file),
        clauses: Vec::new(),
    };
    for entry in entries {
        if !builder.sink.is_full() {
            builder.add_entry(entry);
        }
    }
    builder.finish()
}

struct Builder<'c, 'r, 't> {
    context: &'c ConfigContext,
    sink: &'r mut DiagnosticSink<'t>,
    config: Config,
    /// All settings, of which only those of the scheduler itself count.
    all_settings: ClauseDraft,
    clauses: Vec<OpenClause>,
}

/// A clause that may still get settings. The pattern is `None` if it was refused.
struct OpenClause {
    pattern: Option<Pattern>,
    /// Offset of the pattern in the file.
    start: usize,
    settings: Vec<Setting>,
}

impl Builder<'_, '_, '_> {
    fn add_entry(&mut self, entry: FileEntry) {
        match entry {
            FileEntry::Pattern(text) => self.open_clause(&text),
            FileEntry::Parameter(assignment) => self.set_parameter(&assignment),
            FileEntry::Setting(assignment) => self.set_keyword(&assignment),
        }
    }

    fn open_clause(&mut self, text: &MappedText) {
        let pattern = self.pattern(text);
        self.clauses.push(OpenClause { pattern, start: text.start(), settings: Vec::new() });
    }

    fn pattern(&mut self, text: &MappedText) -> Option<Pattern> {
        if let Some((name, _)) =
            text.as_str().split_once('=').filter(|(name, _)| find(KEYWORDS, name).is_some())
        {
            let message =
                format!("only a pattern may begin in the first column, not {}", quote(name));
            self.sink.error(text.start(), message);
            return None;
        }
        let mut warnings = Vec::new();
        if find(KEYWORDS, text.as_str()).is_some_and(Keyword::may_lack_value) {
            let name = quote(text.as_str());
            let message = format!(
                "in the first column {name} is the pattern of a channel; the keyword needs a blank \
                 before it"
            );
            warnings.push(ValueError::new(0, message));
        }
        let pattern = Pattern::parse(text.as_str(), &mut warnings);
        self.warn(text, warnings);
        pattern.map_err(|error| self.add_error(text, error)).ok()
    }

    fn set_parameter(&mut self, assignment: &Assignment) {
        let name = &assignment.name;
        let Some(parameter) = find(PARAMETERS, name.as_str()) else {
            let known = PARAMETERS.iter().map(|parameter| parameter.name);
            let message = unknown("parameter", name.as_str(), known);
            return self.sink.error(name.start(), message);
        };
        let Some(value) = self.value(parameter, assignment) else { return };
        (value.set)(&mut self.config.parameters);
        self.config.parameter_lines.insert(parameter.name, self.sink.line_of(name.start()));
    }

    fn set_keyword(&mut self, assignment: &Assignment) {
        let name = &assignment.name;
        if self.clauses.is_empty() {
            let message = format!("the keyword {} comes before any clause", quote(name.as_str()));
            self.sink.error(name.start(), message);
        }
        let Some(keyword) = self.keyword(name) else { return };
        let Some(value) = self.value(keyword, assignment) else { return };
        (value.set)(&mut self.all_settings);
        let line = self.sink.line_of(name.start());
        if let Some(clause) = self.clauses.last_mut() {
            let same = |setting: &&Setting| std::ptr::eq(setting.keyword, keyword);
            if let Some(former) = clause.settings.iter().rfind(same) {
                let (shown, former) = (quote(keyword.name), former.line);
                let message = format!("{shown} replaces that of line {former}");
                self.sink.warning(name.start(), message);
            }
            clause.settings.push(Setting { keyword, value, line });
        }
    }

    fn keyword(&mut self, name: &MappedText) -> Option<&'static Keyword<ClauseDraft>> {
        let text = name.as_str();
        let message = match find(KEYWORDS, text) {
            Some(keyword) => return Some(keyword),
            None if text.is_empty() => "a keyword is missing before this".to_string(),
            None => {
                let obsolete =
                    OBSOLETE_KEYWORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
                let known = KEYWORDS.iter().flat_map(Keyword::names);
                match obsolete {
                    Some((name, instead)) => format!("`{name}` is no longer supported: {instead}"),
                    None => unknown("keyword", text, known),
                }
            }
        };
        self.sink.error(name.start(), message);
        None
    }

    fn value<T>(&mut self, keyword: &Keyword<T>, assignment: &Assignment) -> Option<Value<T>> {
        let name = &assignment.name;
        let text = match &assignment.value {
            _ if keyword.is_flag() => MappedText::new(name.start()),
            None if keyword.may_lack_value() => MappedText::new(name.start()),
            None => {
                let description = (keyword.value_description)();
                let message = format!("{} needs a value: {description}", quote(keyword.name));
                self.sink.error(name.start(), message);
                return None;
            }
            // A command keeps its variables until an agent is started.
            Some(text) if keyword.name == "command" => text.clone(),
            Some(text) => self.expand(text)?,
        };
        let mut warnings = Vec::new();
        let (context, warned) = (self.context, &mut warnings);
        let value = (keyword.read)(ValueInput { text: text.as_str(), context, warnings: warned });
        self.warn(&text, warnings);
        value.map_err(|error| self.add_error(&text, error)).ok()
    }

    fn expand(&mut self, value: &MappedText) -> Option<MappedText> {
        let mut warnings = Vec::new();
        let expanded = expand_value(value, &self.context.zenv, &mut warnings);
        self.warn(value, warnings);
        expanded.map_err(|error| self.add_error(value, error)).ok()
    }

    fn warn(&mut self, text: &MappedText, warnings: Vec<ValueError>) {
        for warning in warnings {
            self.sink.warning(text.offset_of(warning.at), warning.message);
        }
    }

    fn add_error(&mut self, text: &MappedText, error: ValueError) {
        self.sink.error(text.offset_of(error.at), error.message);
    }

    fn finish(mut self) -> Config {
        if self.clauses.is_empty() && self.sink.is_usable() {
            self.sink.file_error("there is no clause in this file");
        }
        self.config.clauses = self.close_clauses();
        if self.sink.is_usable() {
            self.warn_of_unreachable();
            self.warn_of_useless_settings();
            self.warn_of_missing_commands();
        }
        match DefaultAccounts::for_context(self.context) {
            Ok(accounts) => self.config.default_accounts = accounts,
            Err(error) => {
                self.sink.file_error(format!("group daemon cannot be looked up: {error}"));
            }
        }
        self.config.scheduler_niceness = self.all_settings.scheduler_niceness;
        self.config
    }

    /// Copies to empty clauses the settings of the next clause that has any.
    fn close_clauses(&mut self) -> Vec<WrittenClause> {
        let mut contents: Rc<[Setting]> = Rc::new([]);
        let mut closed = Vec::new();
        for clause in std::mem::take(&mut self.clauses).into_iter().rev() {
            if !clause.settings.is_empty() {
                contents = clause.settings.into();
            } else if contents.is_empty() && self.sink.is_usable() {
                let message = "this clause is empty, and so is all that follows it";
                self.sink.warning(clause.start, message);
            }
            if let Some(pattern) = clause.pattern {
                let line = self.sink.line_of(clause.start);
                let (start, settings) = (clause.start, Rc::clone(&contents));
                closed.push(WrittenClause { pattern, start, line, settings });
            }
        }
        closed.reverse();
        closed
    }

    /// Warns of settings that others make useless, in the clause that has one of the two.
    ///
    /// What a clause inherits is taken from those that match everything.
    fn warn_of_useless_settings(&mut self) {
        let mut inherited = self.config.new_draft();
        for (index, clause) in self.config.clauses.iter().enumerate() {
            let mut draft = inherited.clone();
            clause.settings.iter().for_each(|setting| setting.apply(&mut draft));
            if clause.pattern.matches_everything() {
                inherited = draft.clone();
            }
            // Empty clauses before this one share its settings.
            let next = self.config.clauses.get(index + 1);
            let is_shared = next.is_some_and(|next| Rc::ptr_eq(&next.settings, &clause.settings));
            if is_shared || !clause.names(&useless_settings::KEYWORDS) {
                continue;
            }
            draft.finish();
            for message in useless_settings::warnings(&draft.clause) {
                self.sink.warning(clause.start, message);
            }
        }
    }

    /// Warns of a channel whose clauses for hosts lack a command.
    ///
    /// Their mail would wait.
    ///
    /// Clauses for several channels are usually defaults, and with `queueonly` mail is meant to
    /// wait. A pattern stands for one name that it matches, so that clauses for some of its hosts
    /// do not count.
    fn warn_of_missing_commands(&mut self) {
        let clauses = &self.config.clauses;
        if !clauses.iter().any(WrittenClause::has_command) {
            // A check of the whole configuration says so.
            return;
        }
        let is_served = |channel: &str, host: &str| {
            let (channel, host) = (Name::new(channel.as_bytes()), Name::new(host.as_bytes()));
            let mut matching =
                clauses.iter().filter(|clause| clause.pattern.matches(&channel, &host));
            matching.any(|clause| clause.names(&["command", "queueonly"]))
        };
        for (index, clause) in clauses.iter().enumerate() {
            let Pattern { channel, host } = &clause.pattern;
            let (Some(channel), Some(host)) = (channel.literal(), host.sample()) else { continue };
            // Empty clauses before this one share its settings.
            let next = clauses.get(index + 1);
            let is_shared = next.is_some_and(|next| Rc::ptr_eq(&next.settings, &clause.settings));
            if !is_shared && !clause.settings.is_empty() && !is_served(&channel, &host) {
                let message = "no clause has a command for this mail, which stays queued; \
                               `queueonly` says that this is meant";
                self.sink.warning(clause.start, message);
            }
        }
    }

    /// Warns of clauses after one that has a command and a pattern covering theirs.
    ///
    /// A pattern is considered to cover another only if both are equal, or if it is `*`.
    fn warn_of_unreachable(&mut self) {
        let mut ends: HashMap<(&str, &str), u32> = HashMap::new();
        for clause in &self.config.clauses {
            let (channel, host) = (clause.pattern.channel.key(), clause.pattern.host.key());
            let covering = [(channel, host), (channel, "*"), ("*", host), ("*", "*")];
            if let Some(line) = covering.iter().find_map(|pattern| ends.get(pattern)) {
                let message = format!(
                    "this is never reached: the clause of line {line} matches all of it, and has a \
                     command"
                );
                self.sink.warning(clause.start, message);
            } else if clause.has_command() {
                ends.insert((channel, host), clause.line);
            }
        }
    }
}

fn unknown(what: &str, name: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    match nearest(name, known) {
        Some(nearest) => format!("unknown {what} {}; did you mean `{nearest}`?", quote(name)),
        None => format!("unknown {what} {}", quote(name)),
    }
}
