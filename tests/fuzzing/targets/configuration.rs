//! `scheduler.cf`: the printed form of a configuration is one with the same meaning.

use std::path::Path;
use zsched_config::{AccountKind, Clause, ClauseId, Config, ConfigContext, Zenv};

/// Destinations that are looked up in both, in addition to those from words of the file.
const DESTINATIONS: [(&str, &str); 6] = [
    ("smtp", "mx.example.net"),
    ("local", "-"),
    ("hold", "a"),
    ("a", "b"),
    ("", ""),
    ("x", "[127.0.0.1]"),
];
/// Maximum length of a file, in bytes. The printed form has a line for each keyword of each clause.
const MAX_FILE_LEN: usize = 1 << 20;
/// Maximum number of words of the file that are tried as destinations.
const MAX_WORDS: usize = 20;

pub fn run(bytes: &[u8]) {
    for error in parse(bytes).err().iter().flatten() {
        assert!(!error.to_string().is_empty());
    }
    let Ok(config) = parse(bytes) else {
        return;
    };
    let shown = config.show();
    if shown.len() > MAX_FILE_LEN {
        return;
    }
    let again = match parse(shown.as_bytes()) {
        Ok(again) => again,
        Err(errors) => panic!("what is shown is no configuration:\n{shown}\n{}", errors.join("\n")),
    };
    assert_eq!(config.parameters, again.parameters);
    assert_eq!(without_sources(&shown), without_sources(&again.show()));
    for (channel, host) in destinations(bytes) {
        let (before, after) = (effective(&config, channel, host), effective(&again, channel, host));
        assert_eq!(before, after, "{channel}/{host} in\n{shown}");
        check_destination(&config, channel, host);
    }
}

fn parse(text: &[u8]) -> Result<Config, Vec<String>> {
    let context = ConfigContext {
        zenv: Zenv::from_pairs([("LOGDIR", "/var/log/my mail"), ("N", "5"), ("EMPTY", "")]),
        is_root: true,
        effective_user: 0,
        effective_group: 0,
        find_id: std::sync::Arc::new(|kind, name| match kind {
            AccountKind::User => Ok((name == "root").then_some(0)),
            AccountKind::Group => Ok((name == "daemon").then_some(1)),
        }),
    };
    match Config::parse(Path::new("cf"), text, &context) {
        Ok(loaded) => {
            assert!(loaded.warnings.iter().all(|warning| !warning.is_error()));
            Ok(loaded.config)
        }
        Err(diagnostics) => {
            assert!(diagnostics.iter().any(|diagnostic| diagnostic.is_error()));
            Err(diagnostics.iter().map(ToString::to_string).collect())
        }
    }
}

/// Returns words of the file as destinations, since its own patterns may match them.
fn destinations(bytes: &[u8]) -> Vec<(&str, &str)> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let words = text.split_ascii_whitespace().filter_map(|word| word.split_once('/'));
    DESTINATIONS.into_iter().chain(words.take(MAX_WORDS)).collect()
}

/// Returns the clause of a destination, without its source lines and its number in memory.
fn effective(config: &Config, channel: &str, host: &str) -> Option<Clause> {
    let mut clause = Clause::clone(&*config.select(channel.as_bytes(), host.as_bytes())?);
    clause.location.line = 0;
    clause.lines.clear();
    clause.combined_lines.clear();
    clause.id = ClauseId(0);
    Some(clause)
}

/// Checks that a clause can be used.
fn check_destination(config: &Config, channel: &str, host: &str) {
    let (channel, host) = (channel.as_bytes(), host.as_bytes());
    let Some(clause) = config.select(channel, host) else {
        return;
    };
    assert!(!clause.retries.is_empty() && !clause.interval.is_zero());
    if let Some(command) = &clause.command {
        assert!(!command.expand(channel, host, &Zenv::default()).words.is_empty());
    }
}

/// Returns the lines without the comments about sources, since line numbers differ.
fn without_sources(shown: &str) -> Vec<&str> {
    let text = |line| str::rsplit_once(line, "# ").map_or(line, |(text, _)| text.trim_end());
    shown.lines().map(text).collect()
}
