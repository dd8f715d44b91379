//! Names of submissions, and the scan of their folder.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use zsched_format::printable;
use zsched_service::with_path;
use zsched_spool::Spool;

/// Maximum number of submissions whose names are in memory. Later scans find the others.
pub(super) const MAX_WAITING: usize = 100_000;
/// Maximum length of a name, in bytes.
const MAX_NAME_LEN: usize = 200;

/// The name of a submission: its folder below `router/`, if any, and its file name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubmissionName {
    folder: Option<char>,
    base: String,
}

impl SubmissionName {
    fn new(folder: Option<char>, base: &[u8]) -> Option<SubmissionName> {
        let base = std::str::from_utf8(base).ok()?;
        let is_folder = folder.is_none() && is_folder_name(base);
        let is_hidden = base.is_empty() || base.starts_with('.');
        let is_printable = printable::line(base) == base && !base.contains(['/', ' ']);
        let is_good = is_printable && base.len() <= MAX_NAME_LEN && !is_hidden && !is_folder;
        is_good.then(|| SubmissionName { folder, base: base.into() })
    }

    /// The name in a notice: `4711` or `X/4711`, after `router`.
    pub(super) fn from_notice(path: &[u8]) -> Option<SubmissionName> {
        match path {
            [letter @ b'A'..=b'Z', b'/', base @ ..] => {
                SubmissionName::new(Some(char::from(*letter)), base)
            }
            base => SubmissionName::new(None, base),
        }
    }

    pub(super) fn path(&self, spool: &Spool) -> PathBuf {
        let folder = match self.folder {
            Some(letter) => spool.router().join(letter.to_string()),
            None => spool.router(),
        };
        folder.join(&self.base)
    }

    /// The name without its folder.
    pub(super) fn base(&self) -> &str {
        &self.base
    }
}

impl std::fmt::Display for SubmissionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("router/")?;
        self.folder.iter().try_for_each(|letter| write!(f, "{letter}/"))?;
        f.write_str(&self.base)
    }
}

fn is_folder_name(base: &str) -> bool {
    matches!(base.as_bytes(), [b'A'..=b'Z'])
}

/// Lists the submissions, up to [`MAX_WAITING`] of them.
pub(super) fn scan(spool: &Spool) -> io::Result<Vec<SubmissionName>> {
    let mut found = Vec::new();
    let mut folders = vec![None];
    while let Some(folder) = folders.pop() {
        let path = match folder {
            Some(letter) => spool.router().join(char::to_string(&letter)),
            None => spool.router(),
        };
        for entry in fs::read_dir(&path).map_err(with_path(&path))? {
            let entry = entry?;
            let name = entry.file_name();
            match SubmissionName::new(folder, name.as_bytes()) {
                Some(name) if found.len() < MAX_WAITING => found.push(name),
                Some(_) => return Ok(found),
                None => {
                    let letter = name.to_str().filter(|name| is_folder_name(name));
                    if folder.is_none()
                        && let Some(letter) = letter
                        && entry.file_type()?.is_dir()
                    {
                        folders.push(letter.chars().next());
                    }
                }
            }
        }
    }
    Ok(found)
}
