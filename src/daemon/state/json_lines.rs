//! State files: lines of one JSON value each.
//!
//! A file begins with a line of its name and the version of its format, and a group of lines ends
//! with their number. Both lines are an object with one number ([`number_line`]). A file is
//! replaced as a whole ([`zsched_spool::atomic_write`]), or grows by lines that are synced
//! ([`append`]). A reader decides what damage means.

use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zsched_sys::open_regular;

/// Writes a value as a line.
pub(super) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// An object of one number.
///
/// It is the first line of a file, and the end of a group.
pub(super) fn number_line(name: &str, number: u64) -> Value {
    json!({ name: number })
}

/// The number in a line made by [`number_line`].
pub(super) fn number_in(line: &[u8], name: &str) -> Option<u64> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let number = value.get(name)?.as_u64()?;
    (value == number_line(name, number)).then_some(number)
}

/// Opens a file for appending, and creates it if necessary. Only its owner may read it.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    open_regular(OpenOptions::new().append(true).create(true).mode(0o600), path)
}

/// Appends lines to a file and waits until they are on disk. What was written in part is removed.
pub(super) fn append(mut file: &File, lines: &[u8]) -> io::Result<()> {
    let size = file.metadata()?.len();
    let written = file.write_all(lines).and_then(|()| file.sync_data());
    if written.is_err() {
        file.set_len(size)?;
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_line_with_anything_else_is_no_number_line() {
        let line = number_line("end", 7).to_string();
        assert_eq!(line, r#"{"end":7}"#);
        assert_eq!(number_in(line.as_bytes(), "end"), Some(7));
        for other in [r#"{"end":7,"x":1}"#, r#"{"end":-1}"#, r#"{"stored":7}"#, "7", ""] {
            assert_eq!(number_in(other.as_bytes(), "end"), None, "{other}");
        }
    }
}
