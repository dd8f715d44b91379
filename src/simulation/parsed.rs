//! Control files as agents and the writer read them. They open a file for each job, so a message with
//! 100,000 recipients would be parsed 100,000 times; here large ones are parsed once, since nothing
//! changes in them but tags, and lines at the end that nobody of ours reads back.

use super::memory_file::MemoryFile;
use crate::agent::library::Scope;
use crate::agent::protocol::Offsets;
use crate::control_file::{self, ControlFile, ControlFileError, Recipient, Tag};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Files up to this size, in bytes, are parsed as often as they are read.
const SMALL: usize = 16 * 1024;
/// So many large files are kept, those that were read last.
const KEPT: usize = 16;

/// A control file, and where to find recipients in it. The tags are those it had when it was parsed.
pub struct Parsed {
    /// The file, but for its tags.
    pub control: ControlFile,
    /// Recipients by host in lower case, in file order. `None` if the file is small.
    by_host: Option<HashMap<Vec<u8>, Vec<usize>>>,
}

/// The large files that were parsed last.
#[derive(Default)]
pub struct ParsedFiles {
    /// By serial number, the one that was read last in front.
    latest: VecDeque<(u64, Rc<Parsed>)>,
}

impl ParsedFiles {
    /// What is in a file.
    pub fn get(&mut self, file: &MemoryFile) -> Result<Rc<Parsed>, ControlFileError> {
        let at = self.latest.iter().position(|(serial, _)| *serial == file.serial());
        if let Some(found) = at.and_then(|at| self.latest.remove(at)) {
            let parsed = found.1.clone();
            self.latest.push_front(found);
            return Ok(parsed);
        }
        let text = file.text().clone();
        let is_large = text.len() > SMALL;
        let control = control_file::parse(text)?;
        let by_host = is_large.then(|| by_host(&control));
        let parsed = Rc::new(Parsed { control, by_host });
        if is_large {
            self.latest.truncate(KEPT - 1);
            self.latest.push_front((file.serial(), parsed.clone()));
        }
        Ok(parsed)
    }
}

fn by_host(control: &ControlFile) -> HashMap<Vec<u8>, Vec<usize>> {
    let mut by_host: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (index, recipient) in control.recipients.iter().enumerate() {
        let host = control.get(recipient.quad.host).to_ascii_lowercase();
        by_host.entry(host).or_default().push(index);
    }
    by_host
}

impl Parsed {
    /// The recipients of a job, as [`Scope::select`] has them, with the tags that are in `file` now.
    pub fn select(
        &self,
        file: &MemoryFile,
        scope: &Scope,
        host: Option<&[u8]>,
        only: Option<Offsets<'_>>,
    ) -> Vec<Recipient> {
        let all = &self.control.recipients;
        let among: Vec<&Recipient> = match (only, &self.by_host, scope.host_of(host)) {
            (Some(only), ..) => {
                let mut offsets: Vec<u32> = only.iter().collect();
                offsets.sort_unstable();
                offsets.iter().filter_map(|offset| self.control.recipient_at(*offset)).collect()
            }
            (None, Some(by_host), Some(host)) => {
                let found = by_host.get(&host.to_ascii_lowercase()).map_or(&[][..], Vec::as_slice);
                found.iter().map(|index| &all[*index]).collect()
            }
            _ => all.iter().collect(),
        };
        let as_now = among.into_iter().map(|recipient| as_now(file, recipient));
        scope.select_among(&self.control, as_now, host)
    }
}

/// A recipient with the tag that it has now.
fn as_now(file: &MemoryFile, recipient: &Recipient) -> Recipient {
    let tag = file.text().get(recipient.offset as usize + 1).copied();
    Recipient { tag: tag.map_or(recipient.tag, Tag::from_byte), ..*recipient }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_file::mark;

    fn file(serial: u64, recipients: usize) -> MemoryFile {
        let line = |n: usize| format!("r           smtp H{}.x user{n}@h.x 0\n", n % 10);
        let lines: String = (0..recipients).map(line).collect();
        let text = format!("@ 0x00000007\ni 1\ns local - x 0\n{lines}m\n\n");
        MemoryFile::new(serial, text.into_bytes())
    }

    #[test]
    fn a_large_file_is_parsed_once_and_its_tags_are_those_of_now() {
        let mut files = ParsedFiles::default();
        let large = file(1, 1000);
        let parsed = files.get(&large).expect("a good file");
        assert!(Rc::ptr_eq(&parsed, &files.get(&large).expect("a good file")));
        let scope = Scope::channel("smtp");
        let hosts: [Option<&[u8]>; 3] = [Some(b"h3.x"), Some(b"h99.x"), None];
        for done in [3, 4, 13] {
            let offset = parsed.control.recipients[done].offset;
            mark::change_tag(&large, offset, Tag::Pending, Tag::Done, 0).expect("in memory");
            let anew = control_file::parse(large.text().clone()).expect("a good file");
            let offsets = |chosen: Vec<Recipient>| -> Vec<u32> {
                chosen.iter().map(|recipient| recipient.offset).collect()
            };
            for host in hosts {
                let theirs = offsets(scope.select(&anew, host, None));
                assert_eq!(offsets(parsed.select(&large, &scope, host, None)), theirs);
            }
        }
    }

    #[test]
    fn no_more_than_a_few_are_kept() {
        let mut files = ParsedFiles::default();
        for serial in 0..100 {
            files.get(&file(serial, 1000)).expect("a good file");
            files.get(&file(1000 + serial, 3)).expect("a good file");
        }
        assert_eq!(files.latest.len(), KEPT);
        assert!(files.latest.iter().all(|(serial, _)| (84..100).contains(serial)));
    }
}
