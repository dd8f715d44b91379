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
use super::clause::ClauseDraft;
use super::keywords::KEYWORDS;
use super::parameters::PARAMETERS;
use super::select::WrittenClause;
use super::table::Keyword;
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

    /// The settings of the file, in its syntax, each with its place.
    ///
    /// A clause without settings is shown with those that it takes from the next one.
    pub fn show_set(&self) -> String {
        let mut out = String::new();
        for row in PARAMETERS {
            if let Some(line) = self.parameter_lines.get(row.name) {
                let value = row.get.and_then(|get| get(&self.parameters));
                push_setting(&mut out, "", row, value, &self.location(*line).to_string());
            }
        }
        for clause in &self.clauses {
            self.show_own(clause, &mut out);
        }
        out
    }

    fn show_parameters(&self, out: &mut String) {
        for row in PARAMETERS {
            let value = row.get.and_then(|get| get(&self.parameters));
            match self.parameter_lines.get(row.name) {
                Some(line) if value.is_some() => {
                    push_setting(out, "", row, value, &self.location(*line).to_string());
                }
                _ => push_setting(out, "#", row, value, "default"),
            }
        }
    }

    fn show_clause(&self, written: &WrittenClause, inherited: ClauseDraft, out: &mut String) {
        self.show_own(written, out);
        self.show_inherited(written, inherited, out);
    }

    /// Prints the pattern of a clause and its own settings.
    fn show_own(&self, written: &WrittenClause, out: &mut String) {
        out.push('\n');
        push_line(out, &pattern_of(written), &self.location(written.line).to_string());
        for (position, setting) in written.settings.iter().enumerate() {
            let is_overridden = written.settings[position + 1..]
                .iter()
                .any(|later| std::ptr::eq(later.keyword, setting.keyword));
            if !is_overridden {
                let source = self.location(setting.line).to_string();
                push_setting(out, "\t", setting.keyword, Some(setting.value.text.clone()), &source);
            }
        }
    }

    /// Prints the inherited settings of a clause; `draft` has those of the earlier clauses.
    fn show_inherited(&self, written: &WrittenClause, mut draft: ClauseDraft, out: &mut String) {
        written.settings.iter().for_each(|setting| setting.apply(&mut draft));
        draft.finish();
        let clause = &draft.clause;
        let is_own = |keyword: &Keyword<ClauseDraft>| {
            written.settings.iter().any(|setting| std::ptr::eq(setting.keyword, keyword))
        };
        for keyword in KEYWORDS.iter().filter(|keyword| !is_own(keyword)) {
            if let Some(get) = keyword.get {
                let line = clause.lines.get(keyword.name);
                let source = line.map(|line| self.location(*line).to_string());
                let source = source.as_deref().unwrap_or("default");
                push_setting(out, "\t#", keyword, get(&draft), source);
            }
        }
    }
}

fn pattern_of(clause: &WrittenClause) -> String {
    format!("{}/{}", clause.pattern.channel.text, clause.pattern.host.text)
}

/// Appends a line with a keyword and its value or default.
fn push_setting<T>(
    out: &mut String,
    start: &str,
    keyword: &Keyword<T>,
    value: Option<String>,
    source: &str,
) {
    let name = keyword.name;
    match value {
        None => push_line(out, &format!("{start}{name}"), &format!("default: {}", keyword.default)),
        Some(_) if keyword.is_flag() => push_line(out, &format!("{start}{name}"), source),
        Some(value) => push_line(out, &format!("{start}{name}={}", quoted(&value)), source),
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
