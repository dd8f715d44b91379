//! Which recipients of a control file are an agent's business.

use crate::agent::protocol::Offsets;
use crate::control_file::{ControlFile, Recipient, Tag};
use std::collections::HashSet;

/// The recipients that an agent delivers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    channel: String,
    host: Option<String>,
    one_host_per_job: bool,
}

impl Scope {
    /// All recipients of a channel, in exactly this case, for the host that the job names.
    pub fn channel(channel: impl Into<String>) -> Scope {
        Scope { channel: channel.into(), host: None, one_host_per_job: false }
    }

    /// For jobs that name no host, as those of an agent that was started for one: the host of all of
    /// them.
    pub fn with_host(self, host: Option<String>) -> Scope {
        Scope { host, ..self }
    }

    /// For jobs that name no host: keep to that of the first recipient to do, instead of working on
    /// all hosts of the channel at once.
    pub fn one_host_per_job(self) -> Scope {
        Scope { one_host_per_job: true, ..self }
    }

    /// The recipients of `file` that are to do and ours, in file order; if `only` names some, those of them. A
    /// recipient without a pid
    /// column could not be locked, and one before all senders has none: both are left alone.
    pub(crate) fn select(
        &self,
        file: &ControlFile,
        host: Option<&[u8]>,
        only: Option<Offsets<'_>>,
    ) -> Vec<Recipient> {
        let only: Option<HashSet<u32>> = only.map(|only| only.iter().collect());
        let is_meant = |recipient: &&Recipient| {
            only.as_ref().is_none_or(|only| only.contains(&recipient.offset))
        };
        self.select_among(file, file.recipients.iter().filter(is_meant).copied(), host)
    }

    /// The host that a job is about, if it names this one.
    pub(crate) fn host_of<'a>(&'a self, host: Option<&'a [u8]>) -> Option<&'a [u8]> {
        host.or(self.host.as_deref().map(str::as_bytes))
    }

    /// Those of some recipients of `file`, in file order, that are to do and ours.
    pub(crate) fn select_among(
        &self,
        file: &ControlFile,
        recipients: impl Iterator<Item = Recipient>,
        host: Option<&[u8]>,
    ) -> Vec<Recipient> {
        let mut host = self.host_of(host);
        let mut selected = Vec::new();
        for recipient in recipients {
            let lockable = recipient.tag == Tag::Pending && recipient.lock.is_some();
            let in_channel = file.get(recipient.quad.channel) == self.channel.as_bytes();
            if !lockable || !in_channel || recipient.sender.is_none() {
                continue;
            }
            let this_host = file.get(recipient.quad.host);
            if host.is_none() && self.one_host_per_job {
                host = Some(this_host);
            }
            if host.is_none_or(|host| host.eq_ignore_ascii_case(this_host)) {
                selected.push(recipient);
            }
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let file = crate::control_file::parse(FILE.into()).expect("a good file");
        let users = scope.select(&file, host.map(str::as_bytes), None);
        let users = users.iter().map(|r| String::from_utf8_lossy(file.get(r.quad.user)));
        users.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn recipients_are_chosen_by_tag_channel_and_host() {
        let smtp = Scope::channel("smtp");
        assert_eq!(selected(&smtp, Some("a")), "one@a three@a");
        assert_eq!(selected(&smtp, Some("b")), "two@b");
        assert_eq!(selected(&smtp, Some("c")), "");
        assert_eq!(selected(&Scope::channel("SMTP"), Some("a")), "loud@a");
        assert_eq!(selected(&smtp, None), "one@a two@b three@a");
    }

    #[test]
    fn a_job_without_host_may_keep_to_one() {
        let fixed = Scope::channel("smtp").with_host(Some("B".into()));
        assert_eq!(selected(&fixed, None), "two@b");
        assert_eq!(selected(&fixed, Some("a")), "one@a three@a");
        let sticky = Scope::channel("smtp").one_host_per_job();
        assert_eq!(selected(&sticky, None), "one@a three@a");
    }
}
