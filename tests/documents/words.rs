//! The rules of `CONTRIBUTING.md` that a program can check.

use std::fs;
use std::path::{Path, PathBuf};
use zsched_tests::source;

/// Maximum width of a line with a comment, in columns.
const MAX_WIDTH: usize = 100;
/// Maximum number of words in the first sentence of a doc comment.
const MAX_FIRST_WORDS: usize = 16;
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

/// Returns the first sentences of the doc comments in a source file, with the numbers of their lines.
fn first_sentences(text: &str) -> Vec<(usize, String)> {
    let doc = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!")).map(|text| text.trim().to_string())
    };
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut is_inside = false;
    while let Some((number, line)) = lines.next() {
        let Some(mut paragraph) = doc(line) else {
            is_inside = false;
            continue;
        };
        if std::mem::replace(&mut is_inside, true) || paragraph.is_empty() {
            continue;
        }
        while let Some(more) =
            lines.peek().and_then(|(_, line)| doc(line)).filter(|t| !t.is_empty())
        {
            paragraph += &format!(" {more}");
            lines.next();
        }
        let end = [". ", ": ", "; "].iter().filter_map(|mark| paragraph.find(mark)).min();
        paragraph.truncate(end.unwrap_or(paragraph.len()));
        found.push((number + 1, paragraph));
    }
    found
}

#[test]
fn doc_comments_begin_with_short_sentences() {
    let mut long = Vec::new();
    for path in all_files(&["src", "ta"], &["rs"]) {
        // The comments of options are their help.
        if path.ends_with("options.rs") {
            continue;
        }
        for (line, sentence) in first_sentences(&fs::read_to_string(&path).expect("text")) {
            if sentence.split_whitespace().count() > MAX_FIRST_WORDS {
                long.push(format!("{}:{line}: {sentence}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "first sentences of more than 16 words:\n{}", long.join("\n"));
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
    let text =
        "//! The\n//! head: more.\n//!\n//! More.\n\n    /// First one. Second.\n    fn x() {}";
    assert_eq!(first_sentences(text), [(1, "The head".into()), (6, "First one".into())]);
}
