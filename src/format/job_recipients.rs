//! Selects the recipients of a job.
//!
//! The scheduler names a control file and a host; the agent has a channel. The simulation uses the
//! same code for its agents.

use crate::agent_protocol::Offsets;
use crate::control_file::{ControlFile, Recipient, Tag};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;

/// Maximum size of a control file that is parsed again for each job, in bytes.
const MAX_UNCACHED_SIZE: usize = 16 * 1024;

/// The recipients that an agent delivers to.
///
/// They are those of a channel, and perhaps of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The channel; `None` for all channels.
    channel: Option<String>,
    host: Option<String>,
    one_host_per_job: bool,
}

impl Scope {
    /// Selects the recipients of a channel for the host of the job.
    ///
    /// Channels are compared with case, hosts without.
    pub fn channel(channel: impl Into<String>) -> Scope {
        Scope { channel: Some(channel.into()), ..Scope::all_channels() }
    }

    /// Selects the recipients of all channels for the host of the job.
    ///
    /// A job that names no host is for all recipients of the message.
    pub fn all_channels() -> Scope {
        Scope { channel: None, host: None, one_host_per_job: false }
    }

    /// Sets the host for jobs that name none.
    ///
    /// The scheduler names none to an agent that has `$host` in its command line.
    pub fn with_host(self, host: Option<String>) -> Scope {
        Scope { host, ..self }
    }

    /// Restricts jobs that name no host to the host of their first pending recipient.
    ///
    /// Without it, such a job is for all hosts of the channel.
    pub fn one_host_per_job(self) -> Scope {
        Scope { one_host_per_job: true, ..self }
    }

    /// The host of a job that names `host`, or the default.
    fn host_of<'a>(&'a self, host: Option<&'a [u8]>) -> Option<&'a [u8]> {
        host.or(self.host.as_deref().map(str::as_bytes))
    }

    /// Selects from some recipients of `file`, in file order, the pending ones of this scope.
    ///
    /// Skips a recipient without a pid column, which could not be locked. Also skips a recipient
    /// before all senders, since it has none.
    fn select<'a>(
        &'a self,
        file: &'a ControlFile,
        recipients: impl Iterator<Item = &'a Recipient>,
        host: Option<&'a [u8]>,
        tag_of: impl Fn(&Recipient) -> Tag,
    ) -> Vec<Recipient> {
        let mut host = self.host_of(host);
        let mut selected = Vec::new();
        for recipient in recipients {
            let this_channel = file.get(recipient.quad.channel);
            let channel = self.channel.as_deref().map(str::as_bytes);
            let in_channel = channel.is_none_or(|channel| channel == this_channel);
            let this_host = file.get(recipient.quad.host);
            let is_meant = host.is_none_or(|host| host.eq_ignore_ascii_case(this_host));
            let is_usable = recipient.lock.is_some() && recipient.sender.is_some();
            if in_channel && is_meant && is_usable && tag_of(recipient) == Tag::Pending {
                if host.is_none() && self.one_host_per_job {
                    host = Some(this_host);
                }
                selected.push(Recipient { tag: Tag::Pending, ..*recipient });
            }
        }
        selected
    }
}

/// A parsed control file that several successive jobs use.
///
/// A message for 100,000 recipients is given to agents as many jobs, and its control file has
/// 10 MB. Only tags, which are read again for each job, and lines at the end change in it. Of
/// these, only recipients that take the place of failed ones concern an agent
/// ([`has_appended_recipients`](crate::control_file::has_appended_recipients)).
#[derive(Debug)]
pub struct IndexedControlFile {
    /// The file, whose tags may be out of date.
    pub control: ControlFile,
    /// Recipients by host in lower case, in file order, if the index has been built.
    by_host: Option<HashMap<Box<[u8]>, Vec<u32>>>,
}

impl IndexedControlFile {
    /// Wraps a control file for one job.
    pub fn new(control: ControlFile) -> IndexedControlFile {
        IndexedControlFile { control, by_host: None }
    }

    /// Returns true if keeping it for the next job saves time.
    pub fn is_worth_keeping(&self) -> bool {
        self.control.text.len() > MAX_UNCACHED_SIZE
    }

    /// Builds the index by host, for further jobs.
    pub fn with_index(self) -> IndexedControlFile {
        let IndexedControlFile { control, by_host } = self;
        let by_host = by_host.unwrap_or_else(|| by_host_of(&control));
        IndexedControlFile { control, by_host: Some(by_host) }
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
        let of = |recipients: &mut dyn Iterator<Item = &'a Recipient>| {
            scope.select(&self.control, recipients, host, tag_of)
        };
        match (only, &self.by_host, scope.host_of(host)) {
            (Some(only), ..) => {
                let mut offsets: Vec<u32> = only.iter().collect();
                offsets.sort_unstable();
                offsets.dedup();
                of(&mut offsets.iter().filter_map(|offset| self.control.recipient_at(*offset)))
            }
            (None, Some(by_host), Some(host)) => {
                let found = by_host.get(&host.to_ascii_lowercase()[..]);
                of(&mut found.into_iter().flatten().map(|index| &all[*index as usize]))
            }
            _ => of(&mut all.iter()),
        }
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
    use crate::control_file::{self, mark};

    const FILE: &str = "\
@ 0x00000007
i 1
r           smtp a before@a 0
s local - x 0
r           smtp a one@a 0
r           smtp B two@b 0
r+          smtp a done@a 0
r~    12    smtp a taken@a 0
r           SMTP a loud@a 0
r           smtp A three@a 0
m

";

    fn selected(scope: &Scope, host: Option<&str>) -> String {
        let file = control_file::parse(FILE.into()).expect("a good file");
        let all = file.recipients.iter();
        let users = scope.select(&file, all, host.map(str::as_bytes), |r| r.tag);
        let users = users.iter().map(|r| String::from_utf8_lossy(file.get(r.quad.user)));
        users.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn select_filters_by_tag_channel_and_host() {
        let smtp = Scope::channel("smtp");
        assert_eq!(selected(&smtp, Some("a")), "one@a three@a");
        assert_eq!(selected(&smtp, Some("b")), "two@b");
        assert_eq!(selected(&smtp, Some("c")), "");
        assert_eq!(selected(&Scope::channel("SMTP"), Some("a")), "loud@a");
        assert_eq!(selected(&smtp, None), "one@a two@b three@a");
        assert_eq!(selected(&Scope::all_channels(), Some("a")), "one@a loud@a three@a");
        assert_eq!(selected(&Scope::all_channels(), None), "one@a two@b loud@a three@a");
    }

    #[test]
    fn one_host_per_job_selects_first_host() {
        let fixed = Scope::channel("smtp").with_host(Some("B".into()));
        assert_eq!(selected(&fixed, None), "two@b");
        assert_eq!(selected(&fixed, Some("a")), "one@a three@a");
        let sticky = Scope::channel("smtp").one_host_per_job();
        assert_eq!(selected(&sticky, None), "one@a three@a");
    }

    #[test]
    fn indexed_file_selects_same_recipients() {
        let line = |n: usize| format!("r           smtp H{}.x user{n}@h.x 0\n", n % 10);
        let lines: String = (0..1000).map(line).collect();
        let text = format!("@ 0x00000007\ni 1\ns local - x 0\n{lines}m\n\n");
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(text.as_bytes(), 0).expect("written");
        let parse = || {
            let mut text = vec![0; text.len()];
            file.read_exact_at(&mut text, 0).expect("read");
            control_file::parse(text).expect("a good file")
        };
        let parsed = IndexedControlFile::new(parse());
        assert!(parsed.is_worth_keeping());
        let parsed = parsed.with_index();
        let scope = Scope::channel("smtp");
        let hosts: [Option<&[u8]>; 3] = [Some(b"h3.x"), Some(b"h99.x"), None];
        for done in [3, 4, 13] {
            let offset = parsed.control.recipients[done].offset;
            mark::change_tag(&file, offset, Tag::Pending, Tag::Done, 0).expect("writable");
            let offsets = |chosen: Vec<Recipient>| -> Vec<u32> {
                chosen.iter().map(|recipient| recipient.offset).collect()
            };
            for host in hosts {
                let anew =
                    offsets(IndexedControlFile::new(parse()).select(&scope, host, None, |r| r.tag));
                let kept = parsed.select(&scope, host, None, |r| tag_now(&file, r));
                assert_eq!(offsets(kept), anew);
            }
        }
    }
}
