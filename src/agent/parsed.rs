//! A parsed control file that several successive jobs use.
//!
//! A message for 100,000 recipients is given to agents as many jobs, and its control file has 10
//! MB. Only tags, which are read again for each job, and lines at the end, which agents do not
//! read, change in it.

use super::Scope;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use zsched_format::agent_protocol::Offsets;
use zsched_format::control_file::{ControlFile, Recipient, Tag};

/// Size up to which keeping a file does not save time, in bytes.
const SMALL: usize = 16 * 1024;

/// A control file with an index of its recipients. Its tags are those at the time of parsing.
#[derive(Debug)]
pub struct Parsed {
    /// The file, whose tags may be out of date.
    pub control: ControlFile,
    /// Recipients by host in lower case, in file order, if the index has been built.
    by_host: Option<HashMap<Box<[u8]>, Vec<u32>>>,
}

impl Parsed {
    /// Wraps a control file for one job.
    pub fn new(control: ControlFile) -> Parsed {
        Parsed { control, by_host: None }
    }

    /// Returns true if keeping it for the next job saves time.
    pub fn is_worth_keeping(&self) -> bool {
        self.control.text.len() > SMALL
    }

    /// Builds the index by host, for further jobs.
    pub fn with_index(self) -> Parsed {
        let Parsed { control, by_host } = self;
        let by_host = by_host.unwrap_or_else(|| by_host_of(&control));
        Parsed { control, by_host: Some(by_host) }
    }

    /// Selects the recipients of a job.
    ///
    /// They are those of its host, restricted to the named ones if there are any.
    ///
    /// `tag_of` returns their present tags.
    pub fn select<'a>(
        &'a self,
        scope: &'a Scope,
        host: Option<&'a [u8]>,
        only: Option<Offsets<'_>>,
        tag_of: impl Fn(&Recipient) -> Tag,
    ) -> Vec<Recipient> {
        let all = &self.control.recipients;
        let among: Vec<&Recipient> = match (only, &self.by_host, scope.host_of(host)) {
            (Some(only), ..) => {
                let mut offsets: Vec<u32> = only.iter().collect();
                offsets.sort_unstable();
                offsets.dedup();
                offsets.iter().filter_map(|offset| self.control.recipient_at(*offset)).collect()
            }
            (None, Some(by_host), Some(host)) => {
                let found = by_host.get(&host.to_ascii_lowercase()[..]);
                found.into_iter().flatten().map(|index| &all[*index as usize]).collect()
            }
            _ => all.iter().collect(),
        };
        scope.select(&self.control, among.into_iter(), host, tag_of)
    }
}

fn by_host_of(control: &ControlFile) -> HashMap<Box<[u8]>, Vec<u32>> {
    let mut by_host: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
    for (index, recipient) in (0..).zip(&control.recipients) {
        let host = control.get(recipient.quad.host).to_ascii_lowercase();
        by_host.entry(host.into()).or_default().push(index);
    }
    by_host
}

/// Reads the present tag of a recipient. If it cannot be read, the tag is one that nothing selects.
pub fn tag_now(file: &impl FileExt, recipient: &Recipient) -> Tag {
    let mut tag = [0];
    match file.read_exact_at(&mut tag, u64::from(recipient.offset) + 1) {
        Ok(()) => Tag::from_byte(tag[0]),
        Err(_) => Tag::Disabled(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_format::control_file::{self, mark};
    use zsched_spool::memory_file::MemoryFile;

    #[test]
    fn indexed_file_selects_same_recipients() {
        let line = |n: usize| format!("r           smtp H{}.x user{n}@h.x 0\n", n % 10);
        let lines: String = (0..1000).map(line).collect();
        let text = format!("@ 0x00000007\ni 1\ns local - x 0\n{lines}m\n\n");
        let file = MemoryFile::new(1, text.into_bytes());
        let parse = || control_file::parse(file.text().clone()).expect("a good file");
        let parsed = Parsed::new(parse());
        assert!(parsed.is_worth_keeping());
        let parsed = parsed.with_index();
        let scope = Scope::channel("smtp");
        let hosts: [Option<&[u8]>; 3] = [Some(b"h3.x"), Some(b"h99.x"), None];
        for done in [3, 4, 13] {
            let offset = parsed.control.recipients[done].offset;
            mark::change_tag(&file, offset, Tag::Pending, Tag::Done, 0).expect("in memory");
            let offsets = |chosen: Vec<Recipient>| -> Vec<u32> {
                chosen.iter().map(|recipient| recipient.offset).collect()
            };
            for host in hosts {
                let anew = offsets(Parsed::new(parse()).select(&scope, host, None, |r| r.tag));
                let kept = parsed.select(&scope, host, None, |r| tag_now(&file, r));
                assert_eq!(offsets(kept), anew);
            }
        }
    }
}
