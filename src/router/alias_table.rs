//! Files of aliases and of virtual addresses, in sendmail's syntax.
//!
//! ```text
//! postmaster: root
//! staff: alice, bob@example.net,
//!         "|/usr/bin/vacation staff", /var/mail/archive,
//!         :include:/etc/mail/staff
//! owner-staff: alice
//! sales@example.com: alice            # virtual: an address, or @domain for all others of it
//! @example.com: bob
//! ```

use super::address::MailAddress;
use super::expand::MAX_RECIPIENTS;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use zsched_config::{Diagnostic, DiagnosticSink, ValueError, quote};
use zsched_format::address_list::addresses;

/// Maximum size of a file, in bytes.
pub(crate) const MAX_FILE_SIZE: u64 = 64 << 20;

/// What an alias stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AliasTarget {
    /// An address; `@domain` in a virtual table keeps the local part.
    Address(String),
    /// A user of this host, for whom aliases are not looked up (`\user`).
    User(String),
    /// A program and its arguments.
    Program(String),
    /// A file that mail is appended to.
    File(String),
    /// A file of addresses.
    Include(PathBuf),
}

/// An alias.
#[derive(Debug)]
pub(crate) struct AliasEntry {
    /// Index of its file.
    pub file: usize,
    /// Its line in the file.
    pub line: u32,
    pub targets: Vec<AliasTarget>,
}

/// A file of aliases.
#[derive(Debug)]
pub(crate) struct AliasFile {
    pub path: PathBuf,
    /// User who may name programs and files: the owner, if other users cannot write the file.
    pub trusted_owner: Option<u32>,
}

/// The aliases of some files. The first entry of a name counts.
#[derive(Debug, Default)]
pub(crate) struct AliasTable {
    pub files: Vec<AliasFile>,
    entries: HashMap<String, AliasEntry>,
    /// Domains of virtual addresses.
    domains: HashSet<String>,
}

impl AliasTable {
    /// The entry for a name in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&AliasEntry> {
        self.entries.get(name)
    }

    /// Returns true if the table has addresses of this domain.
    pub(crate) fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains(domain)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Files of addresses that entries name.
    pub(crate) fn included(&self) -> impl Iterator<Item = &Path> {
        self.entries.values().flat_map(|entry| &entry.targets).filter_map(AliasTarget::included)
    }

    /// Adds the entries of a file. Returns what is wrong with it.
    pub(crate) fn add(&mut self, file: AliasFile, text: &[u8]) -> Vec<Diagnostic> {
        let mut sink = DiagnosticSink::new(file.path.as_path().into(), text);
        let (index, is_trusted) = (self.files.len(), file.trusted_owner.is_some());
        self.files.push(file);
        for (start, definition) in definitions(text) {
            if sink.is_full() {
                break;
            }
            match parse_definition(start, definition) {
                Ok((name, targets)) => {
                    for (at, _) in
                        targets.iter().filter(|(_, target)| !is_trusted && target.is_privileged())
                    {
                        let message = "programs and files are for files that belong to root or the \
                                       router's user, and that other users cannot write";
                        sink.error(*at, message);
                    }
                    let targets = targets.into_iter().map(|(_, target)| target).collect();
                    let entry = AliasEntry { file: index, line: sink.line_of(start), targets };
                    self.insert(name, entry, start, &mut sink);
                }
                Err(error) => sink.error(error.at, error.message),
            }
        }
        sink.finish()
    }

    fn insert(
        &mut self,
        name: String,
        entry: AliasEntry,
        at: usize,
        sink: &mut DiagnosticSink<'_>,
    ) {
        if let Some(first) = self.entries.get(&name) {
            let file = self.files[first.file].path.display();
            let message =
                format!("{} is at {file}:{} already, which counts", quote(&name), first.line);
            return sink.warning(at, message);
        }
        if let Some((_, domain)) = name.rsplit_once('@') {
            self.domains.insert(domain.to_string());
        }
        self.entries.insert(name, entry);
    }
}

impl AliasTarget {
    /// The path of a file of addresses.
    pub(crate) fn included(&self) -> Option<&Path> {
        match self {
            AliasTarget::Include(path) => Some(path),
            _ => None,
        }
    }

    /// Returns true if only trusted files may name it.
    pub(crate) fn is_privileged(&self) -> bool {
        matches!(self, AliasTarget::Program(_) | AliasTarget::File(_) | AliasTarget::Include(_))
    }

    /// Returns true for `@domain`, which stands for the same user at another domain.
    pub(crate) fn keeps_local_part(&self) -> bool {
        matches!(self, AliasTarget::Address(text) if text.starts_with('@'))
    }
}

/// The definitions of a file with their offsets: a line, with the indented lines after it.
fn definitions(text: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found: Vec<(usize, &[u8])> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        let is_blank = line.trim_ascii().is_empty();
        match (line[0], found.last_mut()) {
            _ if is_blank || line[0] == b'#' => {}
            (b' ' | b'\t', Some((first, definition))) => *definition = &text[*first..end],
            _ => found.push((start, line)),
        }
        start = end;
    }
    found
}

type ParsedDefinition = (String, Vec<(usize, AliasTarget)>);

/// Parses `name: target, target`.
fn parse_definition(start: usize, definition: &[u8]) -> Result<ParsedDefinition, ValueError> {
    let text = std::str::from_utf8(definition)
        .map_err(|error| ValueError::new(start + error.valid_up_to(), "this is not UTF-8"))?;
    let colon = unquoted(text, ':')
        .ok_or_else(|| ValueError::new(start, "expected a name, a colon and addresses"))?;
    let name = text[..colon].trim();
    let name = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(name);
    if name.is_empty() {
        return Err(ValueError::new(start, "no name before the colon"));
    }
    if name.contains(char::is_control) || text.starts_with([' ', '\t']) {
        return Err(ValueError::new(start, "a name begins in the first column, on its own line"));
    }
    let targets = parse_targets(start + colon + 1, &text[colon + 1..], usize::MAX)?;
    if targets.is_empty() {
        return Err(ValueError::new(start + colon, "no address after the colon"));
    }
    Ok((name.to_lowercase(), targets))
}

/// Parses a list of targets, which may span lines, until there are more than `max`.
///
/// Comments are skipped.
pub(crate) fn parse_targets(
    start: usize,
    text: &str,
    max: usize,
) -> Result<Vec<(usize, AliasTarget)>, ValueError> {
    let mut targets = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let end = if line.trim_start().starts_with('#') { 0 } else { comment(line) };
        let mut rest = &line[..end];
        let mut at = offset;
        while !rest.is_empty() && targets.len() <= max {
            let length = unquoted(rest, ',').unwrap_or(rest.len());
            let item = rest[..length].trim();
            let item_at = start + at + (rest.len() - rest.trim_start().len());
            if !item.is_empty() {
                targets.extend(parse_target(item, item_at)?.into_iter().map(|one| (item_at, one)));
            }
            at += (length + 1).min(rest.len());
            rest = rest.get(length + 1..).unwrap_or_default();
        }
        offset += line.len();
    }
    Ok(targets)
}

/// Offset of a comment that a blank precedes, or of the line end.
fn comment(line: &str) -> usize {
    let mut from = 0;
    while let Some(at) = unquoted(&line[from..], '#').map(|at| at + from) {
        if line[..at].ends_with([' ', '\t']) {
            return at;
        }
        from = at + 1;
    }
    line.len()
}

/// Offset of a character outside quotes and comments in parentheses.
fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let (mut is_quoted, mut is_escaped, mut depth) = (false, false, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if c == wanted && depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Parses one item of a list.
fn parse_target(item: &str, at: usize) -> Result<Vec<AliasTarget>, ValueError> {
    let wrong = |message: String| ValueError::new(at, message);
    let quoted = item.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    // `"|program, with a comma"`, but also `"quoted local part"@domain`, which stays as it is.
    let special = quoted.unwrap_or(item);
    let special = match quoted {
        Some(text) => text.replace("\\\"", "\"").replace("\\\\", "\\"),
        None => special.to_string(),
    };
    if special.contains(char::is_control) {
        return Err(wrong("a control character in this address".into()));
    }
    if let Some(path) = special.strip_prefix(":include:") {
        let path = PathBuf::from(path.trim());
        return match path.is_absolute() {
            true => Ok(vec![AliasTarget::Include(path)]),
            false => Err(wrong("after :include: comes a path that begins with a slash".into())),
        };
    }
    if let Some(program) = special.strip_prefix('|') {
        return match program.trim() {
            "" => Err(wrong("no program after the |".into())),
            program => Ok(vec![AliasTarget::Program(format!("|{program}"))]),
        };
    }
    if special.starts_with('/') {
        return Ok(vec![AliasTarget::File(special)]);
    }
    if let Some(user) = item.strip_prefix('\\') {
        return Ok(vec![AliasTarget::User(user.into())]);
    }
    if let Some(domain) = item.strip_prefix('@') {
        return match super::address::parse_domain(domain) {
            Ok(domain) => Ok(vec![AliasTarget::Address(format!("@{domain}"))]),
            Err(error) => Err(wrong(error.reason)),
        };
    }
    let list = addresses(item.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    if list.is_empty() {
        return Err(wrong(format!("no address in {}", quote(item))));
    }
    for address in &list {
        MailAddress::parse(address).map_err(|error| wrong(error.reason))?;
    }
    Ok(list.into_iter().map(AliasTarget::Address).collect())
}

/// The addresses of an `:include:` file, and what is wrong with other lines of it.
///
/// It ends when there are more than [`MAX_RECIPIENTS`]: others than the administrator may own the
/// file.
pub(crate) fn parse_include(path: &Path, text: &[u8]) -> (Vec<AliasTarget>, Vec<Diagnostic>) {
    let mut sink = DiagnosticSink::new(path.into(), text);
    let (mut targets, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let parsed = match std::str::from_utf8(line) {
            Ok(line) => parse_targets(start, line.trim_end(), MAX_RECIPIENTS),
            Err(error) => Err(ValueError::new(start + error.valid_up_to(), "this is not UTF-8")),
        };
        match parsed {
            Ok(found) => targets.extend(found.into_iter().map(|(_, target)| target)),
            Err(error) => sink.warning(error.at, error.message),
        }
        start += line.len();
        if targets.len() > MAX_RECIPIENTS {
            break;
        }
    }
    (targets, sink.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a file. Returns the table and what is wrong with the file.
    fn table(text: &[u8], trusted_owner: Option<u32>) -> (AliasTable, Vec<String>) {
        let mut table = AliasTable::default();
        let file = AliasFile { path: "aliases".into(), trusted_owner };
        let said = table.add(file, text);
        let line = |one: &Diagnostic| one.to_string().lines().next().unwrap_or("").to_string();
        (table, said.iter().map(line).collect())
    }

    #[test]
    fn targets_are_told_apart() {
        let text = "# a comment\n\
            Staff: Alice Ames <alice@x>, bob (Bob, B.), \\root,\n\
            \t\"|/bin/cat -a, b\",   # the archive\n\
            # another comment\n  /var/mail/a, \"/var/mail/b c\", :include:/etc/list, \"q r\"@x\n\
            \"odd name\": @other.test\n";
        let (table, said) = table(text.as_bytes(), Some(0));
        assert_eq!(said, [""; 0]);
        let address = |text: &str| AliasTarget::Address(text.into());
        assert_eq!(
            table.get("staff").expect("an alias").targets,
            [
                address("alice@x"),
                address("bob"),
                AliasTarget::User("root".into()),
                AliasTarget::Program("|/bin/cat -a, b".into()),
                AliasTarget::File("/var/mail/a".into()),
                AliasTarget::File("/var/mail/b c".into()),
                AliasTarget::Include("/etc/list".into()),
                address("\"q r\"@x"),
            ]
        );
        assert_eq!(table.get("staff").map(|entry| entry.line), Some(2));
        assert_eq!(table.get("odd name").expect("an alias").targets, [address("@other.test")]);
    }

    #[test]
    fn errors_have_their_places() {
        let text = "  indented: a\nno colon\n: a\nempty:\nprog: b, |\nlist: :include:x\n\
            blank: a b\nbad: b,\n\tc@d..e\nb: c\nB: d\nfile: /x\n";
        let (_, said) = table(text.as_bytes(), None);
        expect_test::expect![[r#"
            aliases:1:1: error: a name begins in the first column, on its own line
            aliases:2:1: error: expected a name, a colon and addresses
            aliases:3:1: error: no name before the colon
            aliases:4:6: error: no address after the colon
            aliases:5:10: error: no program after the |
            aliases:6:7: error: after :include: comes a path that begins with a slash
            aliases:7:8: error: missing comma between words
            aliases:9:2: error: two dots in a row in its domain, or one at its beginning
            aliases:11:1: warning: `b` is at aliases:10 already, which counts
            aliases:12:7: error: programs and files are for files that belong to root or the router's user, and that other users cannot write
        "#]]
        .assert_eq(&(said.join("\n") + "\n"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            table(&text, Some(0));
            parse_include(Path::new("list"), &text);
        }

        #[test]
        fn arbitrary_syntax_does_not_panic(text in "[a:,#\"\\\\@|/() \t\n\u{e9}]{0,40}") {
            table(text.as_bytes(), Some(0));
            parse_include(Path::new("list"), text.as_bytes());
        }
    }
}
