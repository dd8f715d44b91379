//! Submissions that the router has not taken yet.

use super::{HashFolder, HashLevel, Spool, SpoolId, SpoolName};
use std::fs;
use std::io;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Finds the submission whose message has or will have this spool id.
///
/// Any user may look for a submission whose number is known. Returns its name below `router/`.
pub fn find_submission(spool: &Spool, id: &str) -> io::Result<Option<SpoolName>> {
    let Some(number) = SpoolId::number_in(id) else { return Ok(None) };
    for level in [HashLevel::Flat, HashLevel::Once] {
        let name = SpoolName::plain(HashFolder::of(number, level), number);
        let path = spool.router().join(name.path());
        let found = sys::if_exists(fs::symlink_metadata(path))?;
        // The number may belong to another message by now.
        let is_it = |file: &fs::Metadata| {
            SpoolId { number, modified: Timestamp::modified(file) }.to_string() == id
        };
        if found.as_ref().is_some_and(is_it) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SubmissionFile;
    use std::io::Write;

    #[test]
    fn submission_is_found_by_its_spool_id() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let mut file = SubmissionFile::create(&spool).expect("a file");
        file.write_all(b"to <a@b>\n").expect("written");
        let published = SubmissionFile::publish_all(vec![file], HashLevel::Flat).remove(0);
        let published = published.expect("in router/");
        let find = |id: &str| find_submission(&spool, id).expect("looked up");
        assert_eq!(find(&published.id.to_string()), Some(published.name.clone()));
        let other = SpoolId { number: published.id.number, modified: Timestamp::EPOCH };
        assert_eq!(find(&other.to_string()), None);
        assert_eq!(find("a@b"), None);
        fs::remove_file(spool.router().join(published.name.path())).expect("removed");
        assert_eq!(find(&published.id.to_string()), None);
    }
}
