//! The effective configuration as text (`scheduler -t`), which is itself a configuration file.
//!
//! ```text
//! smtp/*.example.org
//!         maxring=5                       # scheduler.cf:31
//!         command="smtp -s"               # scheduler.cf:32
//!         #interval=1m                    # scheduler.cf:12
//!         #maxthr=1                       # default
//! ```
//!
//! What a clause does not say itself is commented out: read again, the text means the same, and shows
//! what each clause inherits from those that match everything.

use super::Config;
use super::keywords::{Keyword, Status, keywords};
use super::parameters::parameters;
use super::select::WrittenClause;
use super::value::{Setting, Value};

/// The column that comments about the source of a value begin in, in characters.
const SOURCE_COLUMN: usize = 48;
/// How far a TAB at the start of a line reaches, in characters.
const TAB: usize = 8;

impl Config {
    /// The effective configuration, in the syntax of the file: parameters, then the clauses, each with
    /// what holds where no other clause between `*/*` and it matches.
    pub fn show(&self) -> String {
        let mut out = String::new();
        push_line(&mut out, "# The effective configuration", &self.file.display().to_string());
        out.push_str("# What is commented out is inherited, or the default.\n\n");
        self.show_parameters(&mut out);
        let mut defaults = Vec::new();
        for (index, clause) in self.clauses.iter().enumerate() {
            self.show_clause(index, clause, &defaults, &mut out);
            if clause.pattern.matches_everything() {
                self.add_defaults(index, &mut defaults);
            }
        }
        out
    }

    /// What applies to a destination, in the syntax of the file; `None` if no clause matches it.
    pub fn show_destination(&self, channel: &[u8], host: &[u8]) -> Option<String> {
        let chain = self.chain(channel, host)?;
        let clause = self.resolve(&chain);
        let mut out = String::new();
        for index in &chain {
            let written = &self.clauses[*index as usize];
            let source = self.place(written.line).to_string();
            push_line(&mut out, &format!("# {}", pattern_of(written)), &source);
        }
        push_line(&mut out, &format!("{}/{}", clause.channel_pattern, clause.host_pattern), "");
        for keyword in keywords().iter().filter(|keyword| keyword.concerns_clauses()) {
            match (keyword.get)(&clause) {
                Some(value) => {
                    let text = format!("\t{}", shown(keyword, &value));
                    push_line(&mut out, &text, &self.source(keyword, &chain));
                }
                None => push_line(&mut out, &format!("\t#{}", keyword.name), "not set"),
            }
        }
        Some(out)
    }

    fn show_parameters(&self, out: &mut String) {
        for row in parameters().iter().filter(|row| row.status != Status::NotYet) {
            let value = (row.get)(&self.parameters);
            match (value, self.parameter_lines.get(row.name)) {
                (Some(value), Some(line)) => {
                    let text = format!("{}={}", row.name, quoted(&value));
                    push_line(out, &text, &self.place(*line).to_string());
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

    /// Adds a clause to those that give defaults, and drops those that it leaves nothing to say: they
    /// stay few, however many there are in the file.
    fn add_defaults(&self, index: usize, defaults: &mut Vec<u32>) {
        defaults.push(index as u32);
        let mut said: Vec<&'static str> = Vec::new();
        let mut says_something = Vec::new();
        for earlier in defaults.iter().rev() {
            let known = said.len();
            for setting in self.clauses[*earlier as usize].settings.iter() {
                if !said.contains(&setting.keyword.name) {
                    said.push(setting.keyword.name);
                }
            }
            if said.len() > known {
                says_something.push(*earlier);
            }
        }
        says_something.reverse();
        *defaults = says_something;
    }

    fn show_clause(
        &self,
        index: usize,
        written: &WrittenClause,
        defaults: &[u32],
        out: &mut String,
    ) {
        out.push('\n');
        push_line(out, &pattern_of(written), &self.place(written.line).to_string());
        for (position, setting) in written.settings.iter().enumerate() {
            let is_overridden = written.settings[position + 1..]
                .iter()
                .any(|later| std::ptr::eq(later.keyword, setting.keyword));
            if !is_overridden {
                let text = format!("\t{}", shown(setting.keyword, &setting.value));
                push_line(out, &text, &self.place(setting.line).to_string());
            }
        }
        let chain = [defaults, &[index as u32]].concat();
        self.show_inherited(&chain, written, out);
    }

    /// What holds for a clause without its saying so, but because of those before it in its chain.
    fn show_inherited(&self, chain: &[u32], written: &WrittenClause, out: &mut String) {
        let clause = self.resolve(chain);
        let is_own = |keyword: &Keyword| {
            written.settings.iter().any(|setting| std::ptr::eq(setting.keyword, keyword))
        };
        let is_inherited = |keyword: &&Keyword| keyword.concerns_clauses() && !is_own(keyword);
        for keyword in keywords().iter().filter(is_inherited) {
            match (keyword.get)(&clause) {
                Some(value) => {
                    let text = format!("\t#{}", shown(keyword, &value));
                    push_line(out, &text, &self.source(keyword, chain));
                }
                None => {
                    let default = format!("default: {}", keyword.default);
                    push_line(out, &format!("\t#{}", keyword.name), &default);
                }
            }
        }
    }

    /// Where the value of a keyword comes from.
    fn source(&self, keyword: &Keyword, chain: &[u32]) -> String {
        let is_it = |setting: &&Setting| std::ptr::eq(setting.keyword, keyword);
        let settings = |index: &u32| self.clauses[*index as usize].settings.iter().rfind(is_it);
        match chain.iter().rev().find_map(settings) {
            Some(setting) => self.place(setting.line).to_string(),
            None => "default".to_string(),
        }
    }
}

fn pattern_of(clause: &WrittenClause) -> String {
    format!("{}/{}", clause.pattern.channel.text, clause.pattern.host.text)
}

fn shown(keyword: &Keyword, value: &Value) -> String {
    match value {
        Value::Flag => keyword.name.to_string(),
        value => format!("{}={}", keyword.name, quoted(&value.to_string())),
    }
}

/// A value as it may stand behind the equals sign. One with a quote in it has no blanks: it has been
/// read without quotes around it.
fn quoted(value: &str) -> String {
    if value.is_empty() || value.starts_with('#') || value.contains(|c: char| c.is_whitespace()) {
        format!("\"{value}\"")
    } else {
        value.to_string()
    }
}

/// Appends a line with a comment about where it comes from.
fn push_line(out: &mut String, text: &str, source: &str) {
    let width: usize = text.chars().map(|c| if c == '\t' { TAB } else { 1 }).sum();
    let blanks = SOURCE_COLUMN.saturating_sub(width).max(1);
    out.push_str(text);
    if !source.is_empty() {
        let source: String = source.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        out.push_str(&" ".repeat(blanks));
        out.push_str("# ");
        out.push_str(&source);
    }
    out.push('\n');
}
