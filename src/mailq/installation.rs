//! The variables of the ZENV file that `mailq` uses.

use crate::failure::Failure;
use std::path::Path;
use zsched_config::Zenv;
use zsched_spool::{DEFAULT_POSTOFFICE, Spool};

/// An installation of the mailer: its variables, and its spool.
pub struct Installation {
    zenv: Zenv,
    spool: Spool,
}

impl Installation {
    /// Reads the ZENV file, see [`Zenv::find`].
    pub fn read(named: Option<&Path>) -> Result<Installation, Failure> {
        // The error names the file.
        let zenv = Zenv::find(named).map_err(|error| Failure::Installation(error.to_string()))?;
        let zenv = zenv.unwrap_or_default();
        let spool = Spool::new(zenv.get("POSTOFFICE").unwrap_or(DEFAULT_POSTOFFICE));
        Ok(Installation { zenv, spool })
    }

    /// The spool: `POSTOFFICE`.
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Default host of the scheduler: `MAILSERVER`.
    pub fn mail_server(&self) -> Option<&str> {
        self.variable("MAILSERVER")
    }

    /// The port of the scheduler: `MAILQPORT`.
    pub fn mailq_port(&self) -> Option<&str> {
        self.variable("MAILQPORT")
    }

    /// The status log of the scheduler: `STATUSLOG`.
    pub fn status_log(&self) -> Option<&Path> {
        self.variable("STATUSLOG").map(Path::new)
    }

    /// The value of a variable, if it is not blank.
    fn variable(&self, name: &str) -> Option<&str> {
        self.zenv.get(name).map(str::trim).filter(|value| !value.is_empty())
    }
}
