//! Selects the recipients of a control file that belong to an agent.

use zsched_format::control_file::{ControlFile, Recipient, Tag};

/// The recipients that an agent delivers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    channel: String,
    host: Option<String>,
    one_host_per_job: bool,
}

impl Scope {
    /// All recipients of a channel, case-sensitive, for the host of the job.
    pub fn channel(channel: impl Into<String>) -> Scope {
        Scope { channel: channel.into(), host: None, one_host_per_job: false }
    }

    /// Sets the host for jobs that name none.
    ///
    /// Jobs of an agent that was started for one host do not.
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
    pub fn host_of<'a>(&'a self, host: Option<&'a [u8]>) -> Option<&'a [u8]> {
        host.or(self.host.as_deref().map(str::as_bytes))
    }

    /// Selects from some recipients of `file`, in file order, the pending ones of this scope.
    ///
    /// Skips a recipient without a pid column, which could not be locked. Also skips a recipient
    /// before all senders, since it has none.
    pub fn select<'a>(
        &'a self,
        file: &'a ControlFile,
        recipients: impl Iterator<Item = &'a Recipient>,
        host: Option<&'a [u8]>,
        tag_of: impl Fn(&Recipient) -> Tag,
    ) -> Vec<Recipient> {
        let mut host = self.host_of(host);
        let mut selected = Vec::new();
        for recipient in recipients {
            let in_channel = file.get(recipient.quad.channel) == self.channel.as_bytes();
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
        let file = zsched_format::control_file::parse(FILE.into()).expect("a good file");
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
    }

    #[test]
    fn one_host_per_job_selects_first_host() {
        let fixed = Scope::channel("smtp").with_host(Some("B".into()));
        assert_eq!(selected(&fixed, None), "two@b");
        assert_eq!(selected(&fixed, Some("a")), "one@a three@a");
        let sticky = Scope::channel("smtp").one_host_per_job();
        assert_eq!(selected(&sticky, None), "one@a three@a");
    }
}
