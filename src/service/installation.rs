//! Where the files of an installation are.

use clap::{ArgAction, Args};
use std::io;
use std::path::{Path, PathBuf};
use zsched_config::Zenv;
use zsched_spool::{DEFAULT_POSTOFFICE, HashLevel, Spool};

/// Default `LOGDIR`.
const DEFAULT_LOGDIR: &str = "/var/log/mail";

/// Options of all programs that work on a spool.
#[derive(Args, Clone, Debug, Default)]
pub struct InstallationOptions {
    /// The ZENV file with the paths of the installation
    #[arg(short = 'Z', long = "zenv", value_name = "FILE")]
    pub zenv: Option<PathBuf>,

    /// The spool; by default $POSTOFFICE
    #[arg(short = 'P', long = "postoffice", value_name = "FOLDER")]
    pub postoffice: Option<PathBuf>,

    /// The spool has single-letter folders; given twice, two levels of them. SCHEDULERDIRHASH in
    /// the ZENV file overrides it
    #[arg(short = 'H', long = "hash", action = ArgAction::Count)]
    pub hash: u8,
}

impl InstallationOptions {
    /// Reads the ZENV file. The default one may be missing.
    ///
    /// It is not read if options name the spool and, as `has_other_files` says, all other files.
    pub fn read_zenv(&self, has_other_files: bool) -> io::Result<Zenv> {
        match (&self.zenv, &self.postoffice) {
            (None, Some(_)) if has_other_files => Ok(Zenv::default()),
            (named, _) => Ok(Zenv::find(named.as_deref())?.unwrap_or_default()),
        }
    }

    /// The spool, with an absolute path.
    pub fn spool(&self, zenv: &Zenv) -> io::Result<Spool> {
        let from_zenv = || PathBuf::from(zenv.get("POSTOFFICE").unwrap_or(DEFAULT_POSTOFFICE));
        let postoffice = self.postoffice.clone().unwrap_or_else(from_zenv);
        Ok(Spool::new(std::path::absolute(postoffice)?))
    }

    /// Nesting of `transport/` and `queue/`.
    pub fn level(&self, zenv: &Zenv) -> HashLevel {
        HashLevel::of_settings(zenv.get("SCHEDULERDIRHASH"), self.hash)
    }
}

/// Path of the log of a daemon that has no option for it.
pub fn default_log(zenv: &Zenv, program: &str) -> PathBuf {
    Path::new(zenv.get("LOGDIR").unwrap_or(DEFAULT_LOGDIR)).join(program)
}

/// Path of a configuration file of this name in `MAILSHARE`; `None` if there is none.
///
/// A file that cannot be examined counts as present: reading it reports the error.
pub fn shared_config(zenv: &Zenv, name: &str) -> Option<PathBuf> {
    let path = zenv.mail_share().join(name);
    let is_missing = path.try_exists().is_ok_and(|there| !there);
    Some(path).filter(|_| !is_missing)
}
