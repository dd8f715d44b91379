//! Finds and reads the files of an installation.

use crate::config::RouterConfig;
use crate::directory::Directory;
use crate::options::RouterOptions;
use std::io;
use std::path::{Path, PathBuf};
use zsched_config::{Diagnostic, Zenv};
use zsched_spool::{DEFAULT_POSTOFFICE, HashLevel, Spool};
use zsched_sys as sys;

/// Default `LOGDIR`.
const DEFAULT_LOGDIR: &str = "/var/log/mail";

/// The paths and settings of an installation.
pub(crate) struct Installation {
    pub(crate) zenv: Zenv,
    pub(crate) level: HashLevel,
    postoffice: PathBuf,
    /// The configuration file; `None` for the built-in rules.
    config: Option<PathBuf>,
    /// What was read at the start.
    directory: Option<Directory>,
}

impl Installation {
    /// Finds the files. An error is about the ZENV file.
    pub(crate) fn find(options: &RouterOptions) -> io::Result<Installation> {
        let zenv = match (&options.zenv, &options.postoffice) {
            (None, Some(_)) if options.config.is_some() => Zenv::default(),
            (named, _) => Zenv::find(named.as_deref())?.unwrap_or_default(),
        };
        let postoffice = options.postoffice.clone();
        let postoffice = postoffice.or_else(|| zenv.get("POSTOFFICE").map(PathBuf::from));
        let config = match &options.config {
            Some(config) => Some(config.clone()),
            None => shared_config(&zenv, "router.cf"),
        };
        Ok(Installation {
            level: HashLevel::of_settings(zenv.get("SCHEDULERDIRHASH"), options.hash),
            postoffice: std::path::absolute(
                postoffice.unwrap_or_else(|| PathBuf::from(DEFAULT_POSTOFFICE)),
            )?,
            config: config.map(std::path::absolute).transpose()?,
            zenv,
            directory: None,
        })
    }

    pub(crate) fn spool(&self) -> Spool {
        Spool::new(&self.postoffice)
    }

    /// Name of the configuration for messages.
    pub(crate) fn config_name(&self) -> String {
        match &self.config {
            Some(path) => path.display().to_string(),
            None => "the built-in configuration".into(),
        }
    }

    /// Path of the log; `None` is standard error.
    pub(crate) fn log_path(&self, options: &RouterOptions, is_daemon: bool) -> Option<PathBuf> {
        let default = || {
            is_daemon.then(|| {
                Path::new(self.zenv.get("LOGDIR").unwrap_or(DEFAULT_LOGDIR)).join("router")
            })
        };
        options.log.clone().or_else(default)
    }

    /// Reads the configuration and its tables.
    ///
    /// Returns the warnings. On failure, returns all errors and warnings.
    pub(crate) fn load(&self) -> Result<(Directory, Vec<Diagnostic>), Vec<Diagnostic>> {
        load_directory(self.config.as_deref(), &self.zenv)
    }

    pub(crate) fn set_directory(&mut self, directory: Directory) {
        self.directory = Some(directory);
    }

    /// The directory that was read at the start.
    pub(crate) fn take_directory(&mut self) -> Directory {
        self.directory.take().expect("it is set before the router starts")
    }
}

/// Reads a configuration and its tables; without a path, the built-in rules.
///
/// Returns the warnings. On failure, returns all errors and warnings.
pub fn load_directory(
    path: Option<&Path>,
    zenv: &Zenv,
) -> Result<(Directory, Vec<Diagnostic>), Vec<Diagnostic>> {
    let host_name = sys::host_name();
    let (config, mut said) = match path {
        None => (RouterConfig::built_in(&host_name), Vec::new()),
        Some(path) => {
            let text = zsched_config::read(path).map_err(|error| vec![error])?;
            let loaded = RouterConfig::parse(path, &text, &host_name, zenv)?;
            (loaded.config, loaded.warnings)
        }
    };
    match Directory::load(config) {
        Ok((directory, warnings)) => {
            said.extend(warnings);
            Ok((directory, said))
        }
        Err(errors) => {
            said.extend(errors);
            Err(said)
        }
    }
}

/// Path of a configuration file of this name in `MAILSHARE`; `None` if there is none.
///
/// A file that cannot be examined counts as present: reading it reports the error.
pub fn shared_config(zenv: &Zenv, name: &str) -> Option<PathBuf> {
    let path = zenv.mail_share().join(name);
    let is_missing = path.try_exists().is_ok_and(|there| !there);
    Some(path).filter(|_| !is_missing)
}

/// Logs what a configuration consists of.
pub(crate) fn log_counts(directory: &Directory) {
    let (aliases, virtuals) = directory.counts();
    log::info!("configuration read, {aliases} aliases, {virtuals} virtual addresses");
}
