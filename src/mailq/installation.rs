//! An installation: the variables of its ZENV file, and if its daemons run.

use crate::failure::Failure;
use crate::options::ConnectOptions;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use zsched_config::{MailqSocket, Zenv};
use zsched_spool::processes::Process;
use zsched_spool::{DEFAULT_POSTOFFICE, HashLevel, Spool};
use zsched_sys::open_regular;

/// Maximum length of the file that says where MAILQ is served, in bytes.
const MAX_MAILQ_FILE_LEN: u64 = 4096;

/// An installation of the mailer: its variables, its spool, and the server that is asked.
pub(crate) struct Installation {
    /// Server to ask, and login.
    pub(crate) options: ConnectOptions,
    zenv: Zenv,
    spool: Spool,
}

impl Installation {
    /// Reads the ZENV file of the installation, see [`Zenv::find`].
    pub(crate) fn read(options: &ConnectOptions) -> Result<Installation, Failure> {
        let zenv = Zenv::find(options.zenv.as_deref());
        // The error names the file.
        let zenv = zenv.map_err(|error| Failure::Installation(error.to_string()))?;
        let zenv = zenv.unwrap_or_default();
        let spool = Spool::new(zenv.get("POSTOFFICE").unwrap_or(DEFAULT_POSTOFFICE));
        Ok(Installation { options: options.clone(), zenv, spool })
    }

    /// The spool: `POSTOFFICE`.
    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Nesting of the folders of the spool: `SCHEDULERDIRHASH`.
    pub(crate) fn level(&self) -> HashLevel {
        HashLevel::of_settings(self.zenv.get("SCHEDULERDIRHASH"), 0)
    }

    /// Default host of the scheduler: `MAILSERVER`.
    pub(crate) fn mail_server(&self) -> Option<&str> {
        self.variable("MAILSERVER")
    }

    /// The port of the scheduler: `MAILQPORT`.
    pub(crate) fn mailq_port(&self) -> Option<&str> {
        self.variable("MAILQPORT")
    }

    /// Where the running scheduler serves MAILQ, if it says so.
    pub(crate) fn served_mailq(&self) -> Option<MailqSocket> {
        let mut text = String::new();
        let file = open_regular(File::options().read(true), &self.spool.mailq_file()).ok()?;
        file.take(MAX_MAILQ_FILE_LEN).read_to_string(&mut text).ok()?;
        MailqSocket::parse(text.trim()).ok()
    }

    /// The status log of the scheduler: `STATUSLOG`.
    pub(crate) fn status_log(&self) -> Option<&Path> {
        self.variable("STATUSLOG").map(Path::new)
    }

    /// The status log of the SMTP server: `SMTPSTATUSLOG`.
    pub(crate) fn smtp_status_log(&self) -> Option<&Path> {
        self.variable("SMTPSTATUSLOG").map(Path::new)
    }

    /// Returns true if the options name no other scheduler than that of this installation.
    pub(crate) fn asks_own_scheduler(&self) -> bool {
        let ConnectOptions { server, port, .. } = &self.options;
        server.is_none() && port.is_none() && self.mail_server().is_none()
    }

    /// The value of a variable, if it is not blank.
    fn variable(&self, name: &str) -> Option<&str> {
        self.zenv.get(name).map(str::trim).filter(|value| !value.is_empty())
    }
}

/// State of a daemon, from its pid file.
///
/// The file is only read. Trying its lock could keep a scheduler that is just starting from taking
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonState {
    /// There is no pid file.
    NoFile,
    /// The pid file has no pid in it, or cannot be read.
    Unknown,
    /// The process does not exist.
    Dead(u32),
    /// The process exists.
    Alive(u32),
}

/// Reads the pid file at `path`.
pub(crate) fn daemon_state(path: &Path) -> DaemonState {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return DaemonState::NoFile,
        Err(_) => return DaemonState::Unknown,
    };
    let pid = std::str::from_utf8(text.trim_ascii()).ok().and_then(|pid| pid.parse().ok());
    match pid {
        Some(pid) if Process::alive(pid).is_some() => DaemonState::Alive(pid),
        Some(pid) => DaemonState::Dead(pid),
        None => DaemonState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_state_follows_pid_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(".pid.scheduler");
        assert_eq!(daemon_state(&path), DaemonState::NoFile);
        let own = std::process::id();
        for (text, state) in [
            (format!("{own}\n"), DaemonState::Alive(own)),
            ("1".to_string(), DaemonState::Alive(1)),
            ("99999999\n".to_string(), DaemonState::Dead(99_999_999)),
            (String::new(), DaemonState::Unknown),
            ("x\n".to_string(), DaemonState::Unknown),
        ] {
            std::fs::write(&path, &text).expect("written");
            assert_eq!(daemon_state(&path), state, "{text:?}");
        }
    }
}
