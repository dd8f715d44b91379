//! Prints the effective configuration (`scheduler -t`) as a configuration file.
//!
//! ```text
//! smtp/*.example.org
//!         maxring=5                       # scheduler.cf:31
//!         command="smtp -s"               # scheduler.cf:32
//!         #interval=1m                    # scheduler.cf:12
//!         #maxthr=1                       # default
//! ```
//!
//! Settings that a clause inherits are commented out.
//! So the text has the same meaning when it is read again.
//! Only what a clause inherits from those that match everything is shown.

use super::Config;
use super::clause::{Clause, ClauseDraft};
use super::keywords::KEYWORDS;
use super::parameters::PARAMETERS;
use super::select::WrittenClause;
use super::table::{GetText, Keyword};
use zsched_format::printable;

/// Column where the comment with the source of a value begins, in characters.
const SOURCE_COLUMN: usize = 48;
/// Width of a TAB_WIDTH at the start of a line, in characters.
const TAB_WIDTH: usize = 8;

impl Config {
    /// The effective configuration, in the syntax of the file.
    ///
    /// Parameters come first. Each clause follows, with the settings in force where no other clause
    /// between `*/*` and it matches.
    pub fn show(&self) -> String {
        let mut out = String::new();
        push_line(&mut out, "# The effective configuration", &self.file.display().to_string());
        out.push_str("# Settings that are commented out are inherited or defaults.\n\n");
        self.show_parameters(&mut out);
        let mut inherited = self.new_draft();
        for clause in &self.clauses {
            self.show_clause(clause, inherited.clone(), &mut out);
            if clause.pattern.matches_everything() {
                clause.settings.iter().for_each(|setting| setting.apply(&mut inherited));
            }
        }
        out
    }

    /// The effective clause of a destination, in the syntax of the file.
    ///
    /// Returns `None` if no clause matches.
    pub fn show_destination(&self, channel: &[u8], host: &[u8]) -> Option<String> {
        let chain = self.chain(channel, host)?;
        let draft = self.resolve(&chain);
        let clause = &draft.clause;
        let mut out = String::new();
        for index in &chain {
            let written = &self.clauses[*index as usize];
            let source = self.location(written.line).to_string();
            push_line(&mut out, &format!("# {}", pattern_of(written)), &source);
        }
        push_line(&mut out, &format!("{}/{}", clause.channel_pattern, clause.host_pattern), "");
        for (keyword, get) in shown_keywords() {
            match get(&draft) {
                Some(value) => {
                    let text = format!("\t{}", shown(keyword, &value));
                    push_line(&mut out, &text, &self.source(keyword, clause));
                }
                None => push_line(&mut out, &format!("\t#{}", keyword.name), "not set"),
            }
        }
        Some(out)
    }

    fn show_parameters(&self, out: &mut String) {
        for row in PARAMETERS {
            let value = row.get.and_then(|get| get(&self.parameters));
            match (value, self.parameter_lines.get(row.name)) {
                (Some(value), Some(line)) => {
                    let text = format!("{}={}", row.name, quoted(&value));
                    push_line(out, &text, &self.location(*line).to_string());
                }
                (Some(value), None) => {
                    push_line(out, &format!("#{}={}", row.name, quoted(&value)), "default");
                }
                (None, _) => {
                    push_line(out, &format!("#{}", row.name), &format!("default: {}", row.default));
                }
            }
        }
    }

    fn show_clause(&self, written: &WrittenClause, inherited: ClauseDraft, out: &mut String) {
        out.push('\n');
        push_line(out, &pattern_of(written), &self.location(written.line).to_string());
        for (position, setting) in written.settings.iter().enumerate() {
            let is_overridden = written.settings[position + 1..]
                .iter()
                .any(|later| std::ptr::eq(later.keyword, setting.keyword));
            if !is_overridden {
                let text = format!("\t{}", shown(setting.keyword, &setting.value.text));
                push_line(out, &text, &self.location(setting.line).to_string());
            }
        }
        self.show_inherited(written, inherited, out);
    }

    /// Prints the inherited settings of a clause; `draft` has those of the earlier clauses.
    fn show_inherited(&self, written: &WrittenClause, mut draft: ClauseDraft, out: &mut String) {
        written.settings.iter().for_each(|setting| setting.apply(&mut draft));
        draft.finish();
        let clause = &draft.clause;
        let is_own = |keyword: &Keyword<ClauseDraft>| {
            written.settings.iter().any(|setting| std::ptr::eq(setting.keyword, keyword))
        };
        for (keyword, get) in shown_keywords().filter(|(keyword, _)| !is_own(keyword)) {
            match get(&draft) {
                Some(value) => {
                    let text = format!("\t#{}", shown(keyword, &value));
                    push_line(out, &text, &self.source(keyword, clause));
                }
                None => {
                    let default = format!("default: {}", keyword.default);
                    push_line(out, &format!("\t#{}", keyword.name), &default);
                }
            }
        }
    }

    /// The source of the value of a keyword.
    fn source(&self, keyword: &Keyword<ClauseDraft>, clause: &Clause) -> String {
        let line = clause.lines.get(keyword.name);
        line.map_or("default".to_string(), |line| self.location(*line).to_string())
    }
}

fn pattern_of(clause: &WrittenClause) -> String {
    format!("{}/{}", clause.pattern.channel.text, clause.pattern.host.text)
}

/// The keywords that effective clauses have a value for, each with the function that returns it.
fn shown_keywords() -> impl Iterator<Item = (&'static Keyword<ClauseDraft>, GetText<ClauseDraft>)> {
    KEYWORDS.iter().filter_map(|keyword| Some((keyword, keyword.get?)))
}

fn shown(keyword: &Keyword<ClauseDraft>, value: &str) -> String {
    match keyword.is_flag() {
        true => keyword.name.to_string(),
        false => format!("{}={}", keyword.name, quoted(value)),
    }
}

/// Quotes a value for the file, if needed.
///
/// A value with a quote in it contains no blanks: it was read without quotes around it.
fn quoted(value: &str) -> String {
    if value.is_empty() || value.starts_with('#') || value.contains(|c: char| c.is_whitespace()) {
        format!("\"{value}\"")
    } else {
        value.to_string()
    }
}

/// Appends a line with a comment that names its source.
fn push_line(out: &mut String, text: &str, source: &str) {
    let width: usize = text.chars().map(|c| if c == '\t' { TAB_WIDTH } else { 1 }).sum();
    let blanks = SOURCE_COLUMN.saturating_sub(width).max(1);
    out.push_str(text);
    if !source.is_empty() {
        out.push_str(&" ".repeat(blanks));
        out.push_str("# ");
        out.push_str(&printable::line(source));
    }
    out.push('\n');
}
