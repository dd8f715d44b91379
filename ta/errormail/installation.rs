//! What the ZENV file and the host say about this installation.

use crate::notice::Notice;
use std::io;
use std::path::PathBuf;
use zsched_config::Zenv;
use zsched_report::TimeZone;

/// The installation that this agent works for.
pub(crate) struct Installation {
    forms: PathBuf,
    /// Its domain: `ORGDOMAIN`, else the name of the host.
    pub(crate) domain: String,
    /// The name of the host.
    pub(crate) host: String,
    /// The time zone of the host.
    pub(crate) zone: TimeZone,
}

impl Installation {
    /// Reads the ZENV file.
    pub(crate) fn find() -> io::Result<Installation> {
        let zenv = Zenv::find(None)?.unwrap_or_default();
        let host = zsched_sys::host_name();
        let domain = zenv.get("ORGDOMAIN").filter(|name| !name.is_empty()).unwrap_or(&host);
        Ok(Installation {
            forms: zenv.mail_share().join("forms"),
            domain: domain.to_string(),
            host: host.clone(),
            zone: TimeZone::system(),
        })
    }

    /// What to say about recipients whose host is `form`, to a sender who reads these languages.
    pub(crate) fn notice(&self, form: &[u8], languages: &[String]) -> Notice {
        Notice::new(&self.forms, form, languages)
    }
}
