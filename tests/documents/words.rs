//! The rules of `CONTRIBUTING.md` that a program can check.

use std::fs;
use std::path::{Path, PathBuf};
use zsched_tests::source;

/// Maximum width of a line with a comment, in columns.
const MAX_WIDTH: usize = 100;
/// Beginnings of names of limits; these are called `MAX_…` or `MIN_…`.
const BAD_PREFIXES: [&str; 5] = ["MOST_", "LONGEST_", "LARGEST_", "FEWEST_", "SHORTEST_"];

/// The files below a folder with one of these extensions, without test data.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("tests/data") && !path.ends_with("tests/documents") {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|ext| extensions.iter().any(|one| ext == *one)) {
            found.push(path);
        }
    }
    found
}

fn all_files(folders: &[&str], extensions: &[&str]) -> Vec<PathBuf> {
    folders.iter().flat_map(|folder| files(&source().join(folder), extensions)).collect()
}

/// Applies a check to each line of some files and fails with all lines that break it.
fn check(files: &[PathBuf], rule: &str, mut breaks: impl FnMut(&str) -> bool) {
    assert!(files.len() > 10, "{rule}: found {} files only", files.len());
    let mut broken = Vec::new();
    for path in files {
        let text = fs::read_to_string(path).expect("text");
        let lines = text.lines().enumerate().filter(|(_, line)| breaks(line));
        broken.extend(lines.map(|(n, line)| format!("{}:{}: {line}", path.display(), n + 1)));
    }
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

fn says_so_many(line: &str) -> bool {
    line.to_lowercase().contains("so many")
}

fn has_bad_limit_name(line: &str) -> bool {
    BAD_PREFIXES.iter().any(|prefix| {
        line.match_indices(prefix).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
        })
    })
}

/// Returns true for a wide line of sentences in a comment. `in_sample` says if a code block is open.
fn is_wide_comment(line: &str, in_sample: &mut bool) -> bool {
    let text = line.trim_start();
    let Some(text) = ["//! ", "/// ", "// "].iter().find_map(|mark| text.strip_prefix(mark)) else {
        return false;
    };
    *in_sample ^= text.starts_with("```");
    let is_table = text.starts_with('|') || text.starts_with("  ");
    line.chars().count() > MAX_WIDTH && !is_table && !*in_sample
}

#[test]
fn nothing_says_so_many() {
    let mut all = all_files(&["src", "ta", "tests", "benches", "fuzz"], &["rs"]);
    all.extend(all_files(&["docs", "man"], &["md", "1", "5", "7", "8"]));
    check(&all, "write \"Maximum number of\" instead of \"so many\"", says_so_many);
}

#[test]
fn limits_are_named_max_or_min() {
    let all = all_files(&["src", "ta", "tests", "benches", "fuzz"], &["rs"]);
    check(&all, "name limits MAX_ or MIN_", has_bad_limit_name);
}

#[test]
fn comments_are_not_too_wide() {
    let all = all_files(&["src", "ta", "tests", "benches", "fuzz"], &["rs"]);
    let mut in_sample = false;
    check(&all, "wrap comments at 100 columns", |line| is_wide_comment(line, &mut in_sample));
}

#[test]
fn checks_find_what_they_look_for() {
    assert!(says_so_many("/// So many lines at the most."));
    assert!(has_bad_limit_name("const MOST_LINES: usize = 5;"));
    assert!(!has_bad_limit_name("const MAX_LINES: usize = ALMOST_ALL;"));
    let wide = format!("    /// {}", "word ".repeat(25));
    assert!(is_wide_comment(&wide, &mut false));
    assert!(!is_wide_comment(&wide, &mut true));
    assert!(!is_wide_comment(&wide.replace("/// ", "/// | "), &mut false));
}
